"""Pictures that are programs: nothing is started for them, whatever they are called and wherever pictures are
opened."""

from __future__ import annotations

import os

import numpy as np
import pytest

from mmlake.dedup.image.fingerprints import upright
from mmlake.errors import UnreadableItem
from mmlake.evaluate.distortions import distort_image
from mmlake.preprocess.image import image_track
from mmlake.preprocess.settings import PreprocessSettings
from mmlake.report.media import thumbnail

EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 100 100\n%%EndComments\nshowpage\n%%EOF\n"


def _nested() -> bytes:
    """An IPTC record whose picture is PostScript."""

    def field(tag: tuple[int, int], value: bytes) -> bytes:
        return b"\x1c" + bytes(tag) + len(value).to_bytes(2, "big") + value

    size = (100).to_bytes(2, "big")
    return (
        field((3, 20), size)
        + field((3, 30), size)
        + field((3, 60), b"\x03\x01")
        + field((3, 65), b"\x01")
        + field((3, 120), b"\x05")
        + field((8, 10), EPS)
    )


@pytest.fixture
def started(tmp_path, monkeypatch):
    """The file in which a Ghostscript on the path would write that it was started."""
    from PIL import EpsImagePlugin

    log = tmp_path / "started.txt"
    program = tmp_path / "gs"
    program.write_text(f'#!/bin/sh\necho "$@" >> {log}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(EpsImagePlugin, "gs_binary", None)  # what Pillow found before
    return log


@pytest.mark.parametrize("data", [EPS, _nested()], ids=["postscript", "inside another"])
@pytest.mark.parametrize(
    "opened",
    [
        lambda data: image_track(data, settings=PreprocessSettings()),
        lambda data: distort_image(data, np.random.default_rng(0)),
        lambda data: upright(data),
        lambda data: [] if thumbnail(data) is None else pytest.fail("a picture was drawn"),
    ],
    ids=["track", "distortion", "hash", "thumbnail"],
)
def test_no_program_is_started_for_a_picture(started, opened, data):
    try:
        opened(data)
    except (UnreadableItem, OSError):
        pass
    assert not started.exists()


def test_a_postscript_file_that_is_called_a_picture_is_unreadable(started):
    with pytest.raises(UnreadableItem) as caught:
        image_track(EPS, settings=PreprocessSettings())
    assert caught.value.code == 3001 and not started.exists()

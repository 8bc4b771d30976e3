"""Pictures as telephones take them, which Pillow reads by a package of its own."""

from __future__ import annotations

import importlib.util
import io

import numpy as np
import pytest
from PIL import Image

from mmlake.errors import UnreadableItem
from mmlake.formats.sniff import kind_of
from mmlake.loader.decode import decoded, decoders
from mmlake.media import pictures
from mmlake.preprocess.image import image_track
from mmlake.settings import Settings

SETTINGS = Settings().preprocess


def heic() -> bytes:
    pictures.picture_formats()
    values = np.linspace(0, 255, 96 * 64 * 3).reshape(64, 96, 3).astype(np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(values).save(buffer, "HEIF")
    return buffer.getvalue()


def test_a_picture_of_a_telephone_is_decoded_from_the_file_to_the_batch():
    data = heic()
    found = image_track(data, settings=SETTINGS)
    assert (found["width_px"], found["height_px"]) == (96, 64)
    assert kind_of(data[:4096], "photo").content_type == "image/heic"
    assert decoded("heic", data, decoders("auto")).shape == (64, 96, 3)


def test_without_the_package_the_reason_names_what_to_install(monkeypatch):
    data = heic()
    others = tuple(name for name in pictures.picture_formats() if name != "HEIF")
    monkeypatch.setattr("mmlake.preprocess.image.picture_formats", lambda: others)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UnreadableItem, match=r"pip install 'mmlake\[heif\]', then mmlake retry") as raised:
        image_track(data, settings=SETTINGS)
    assert raised.value.code == 3001


@pytest.mark.parametrize(
    "head", ["0000000c4a584c200d0a870a", "ff0a"]
)  # JPEG XL in its container (ISO/IEC 18181-2), bare
def test_a_format_that_nothing_here_decodes_is_named(head):
    container = bytes.fromhex(head) + bytes(200)
    with pytest.raises(UnreadableItem, match="JPEG XL pictures have no decoder here") as raised:
        image_track(container, settings=SETTINGS)
    assert raised.value.code == 3001

"""Pictures that Pillow reads by a package of its own: HEIC of telephones, JPEG XL."""

from __future__ import annotations

import importlib.util
import io

import numpy as np
import pytest
from PIL import Image

from mmlake import pictures
from mmlake.errors import UnreadableItem
from mmlake.formats.sniff import kind_of
from mmlake.preprocess.image import image_track
from mmlake.settings import Settings

SETTINGS = Settings().preprocess
KINDS = {"HEIC": ("HEIF", "heic"), "JPEG XL": ("JXL", "jxl")}


def encoded(kind: str) -> bytes:
    pictures.picture_formats()
    values = np.linspace(0, 255, 96 * 64 * 3).reshape(64, 96, 3).astype(np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(values).save(buffer, KINDS[kind][0])
    return buffer.getvalue()


@pytest.mark.parametrize("kind", KINDS)
def test_a_picture_is_decoded_by_the_package(kind):
    data = encoded(kind)
    found = image_track(data, settings=SETTINGS)
    assert (found["width_px"], found["height_px"]) == (96, 64)
    assert kind_of(data[:4096], f"picture.{KINDS[kind][1]}").modality == "image"


@pytest.mark.parametrize("kind", KINDS)
def test_without_it_the_reason_names_what_to_install(kind, monkeypatch):
    data = encoded(kind)
    others = tuple(name for name in pictures.picture_formats() if name != KINDS[kind][0])
    monkeypatch.setattr("mmlake.preprocess.image.picture_formats", lambda: others)
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name.startswith("pillow_") else find(name))
    with pytest.raises(UnreadableItem, match=rf"{kind} pictures need .* pip install 'mmlake\[pictures\]'") as raised:
        image_track(data, settings=SETTINGS)
    assert raised.value.code == 3001

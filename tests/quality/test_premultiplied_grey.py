"""TIFF of grey values that were multiplied by their transparency (mode La of Pillow): it converts to LA alone."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image
from quality_media import measures_of, track

from mmlake.loader.decode import DECODERS
from mmlake.store import BlobStore

_EXTRA_SAMPLES = bytes.fromhex("5201 0300 01000000")  # tag 338, SHORT, one


def premultiplied() -> bytes:
    grey = np.repeat(np.arange(64, dtype=np.uint8)[None] * 2, 64, axis=0)
    sink = io.BytesIO()
    Image.fromarray(np.dstack([grey, np.full_like(grey, 128)]), "LA").save(sink, "TIFF")
    return sink.getvalue().replace(_EXTRA_SAMPLES + b"\2", _EXTRA_SAMPLES + b"\1")


@pytest.mark.filterwarnings("ignore:.*mode.*:DeprecationWarning")
def test_a_picture_of_premultiplied_grey_is_measured_and_loaded(tmp_path) -> None:
    data, store = premultiplied(), BlobStore(tmp_path)
    assert Image.open(io.BytesIO(data)).mode == "La"
    assert measures_of(track(store.put(data), "image", width_px=64, height_px=64), store)["luma_std"] > 10
    # grey over white: 2 x / 128 of 255 at half
    loaded = DECODERS["image"](data)
    np.testing.assert_allclose(loaded[0, :, 0], np.arange(64) * 2 + 127, atol=2)

"""Pictures of floats, as programs for measurements write them to TIFF and PFM: they have no white of their own."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image
from quality_media import measures_of, track

from mmlake.loader.decode import DECODERS
from mmlake.store import BlobStore

_RAMP = np.linspace(0, 1, 96, dtype=np.float32)[None].repeat(64, axis=0)


def tiff(values_HW: np.ndarray) -> bytes:
    sink = io.BytesIO()
    Image.fromarray(values_HW.astype(np.float32)).save(sink, "TIFF")
    return sink.getvalue()


@pytest.mark.parametrize(
    ("scale", "offset"),
    [(1, 0), (255, 0), (65_535, 0), (2, -1), (40, -300)],
    ids="fractions levels wide signed far".split(),
)
def test_a_picture_of_floats_is_shown_from_black_to_white(scale: float, offset: float) -> None:
    """Fractions of white were clipped to black, and a picture of 16 bits of levels to white."""
    shown = DECODERS["image"](tiff(_RAMP * scale + offset))
    np.testing.assert_allclose(shown[..., 0], _RAMP * 255, atol=0.51)


def test_a_dark_picture_of_fractions_stays_dark() -> None:
    """As the same picture of 8 bits does: fractions and levels say how bright it is."""
    for white in (1, 255):
        shown = DECODERS["image"](tiff(_RAMP * white * 0.5))
        np.testing.assert_allclose(shown[..., 0], _RAMP * 127.5, atol=0.51)


@pytest.mark.parametrize("hole", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_does_not_hide_the_picture(tmp_path, hole: float) -> None:
    """The picture was blank to its rule (NaN), or could not be measured (infinities)."""
    values, store = _RAMP.copy(), BlobStore(tmp_path)
    values[:4, :4] = hole
    digest = store.put(tiff(values))
    assert measures_of(track(digest, "image", width_px=96, height_px=64), store)["luma_std"] == pytest.approx(
        73.6, abs=1
    )
    shown = DECODERS["image"](tiff(values))
    np.testing.assert_allclose(shown[8:, :, 0], _RAMP[8:] * 255, atol=0.51)
    assert (shown[:4, :4] == (255 if hole == np.inf else 0)).all()


def test_a_picture_of_one_value_is_blank(tmp_path) -> None:
    store = BlobStore(tmp_path)
    for value in (0.5, np.nan):
        digest = store.put(tiff(np.full((64, 96), value)))
        assert measures_of(track(digest, "image", width_px=96, height_px=64), store)["luma_std"] == 0

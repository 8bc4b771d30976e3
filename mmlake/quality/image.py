"""Images: measures and rules. Measures are taken on the luma plane with its longer side at most 512 px, so that they
mean the same at any resolution."""

from __future__ import annotations

import io
import warnings
from typing import TYPE_CHECKING

import numpy as np

from mmlake.media.colour_profiles import in_srgb, is_converted
from mmlake.media.pictures import LOSSY_FORMATS, deep_levels, draft_colour, draft_grey, opaque, picture_formats
from mmlake.quality.aesthetics import UNAESTHETIC
from mmlake.quality.damage import DAMAGE_MEASUREMENT, DAMAGED
from mmlake.quality.focus import focus_blur
from mmlake.quality.grey_levels import GreyLevels
from mmlake.quality.image_fidelity import FIDELITY_MEASURES, MOST_QUALITY, Decoded, fidelity
from mmlake.quality.measurement import Measurement, Measures, Subject, own_blob
from mmlake.quality.rule import Rule, unmeasured
from mmlake.quality.webp import webp_quality

if TYPE_CHECKING:
    from PIL.Image import Image

# H height, W width
MEASURED_SIDE_PX = 512
_FULL_SIDE_PX = 1_024  # of a larger JPEG; detail finer than that costs four times as much to see
_COLOUR_PX = 8  # side of the squares whose colour is measured
_PARTS = 8  # of each side; the ladybird of a macro photograph is about as large as one


def image_measures(subject: Subject) -> Measures:
    """The measures of one picture; it is decoded again, at a reduced size where it is large."""
    picture = decoded(subject.blobs[0])
    luma_HW = _shrunk(picture.luma_HW.astype(np.float32, copy=False))
    width_px, height_px = subject.track["width_px"], subject.track["height_px"]
    return {
        "min_side_px": float(min(width_px, height_px)),
        "aspect_ratio": max(width_px, height_px) / max(1, min(width_px, height_px)),
        "luma_mean": float(luma_HW.mean()),
        "luma_std": float(luma_HW.std()),
        **_levels(luma_HW),
        "blur": focus_blur(luma_HW, parts=_PARTS),
        **fidelity(picture),
    }


def _levels(luma_HW: np.ndarray) -> Measures:
    """How the grey levels are spread: those that a twentieth lies at or below and that all but a hundredth does, and
    the Shannon entropy of the histogram in bits, 0 to 8. cleanvision calls a picture light where the first is above
    .95 of white, dark where the second is below .32."""
    levels = GreyLevels(luma_HW)
    low, high = levels.percentiles((5, 99))
    shares = levels.counts / luma_HW.size
    some = shares[shares > 0]
    return {
        "luma_p5": low,
        "luma_p99": high,
        "entropy_bits": max(0.0, float(-(some * np.log2(some)).sum())),
    }


def luma(data: bytes) -> np.ndarray:
    """The first frame of the picture as float32 luma 0..255, longer side at most 512 px; transparent parts as white,
    or black where that shows nothing."""
    from PIL import Image

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # size and damage were judged when the track was made
        with Image.open(io.BytesIO(data), formats=picture_formats()) as picture:
            draft_grey(picture, MEASURED_SIDE_PX)
            return _shrunk(_grey(picture))


def decoded(data: bytes) -> Decoded:
    """The first frame with what its file says, longer side of a JPEG at least 1,024 px where it has them."""
    from PIL import Image

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Image.open(io.BytesIO(data), formats=picture_formats()) as picture:
            mode, stored_px = picture.mode, max(picture.size)
            draft_colour(picture, _FULL_SIDE_PX)
            tables = getattr(picture, "quantization", None)
            seen = in_srgb(picture)  # once for both measures
            return Decoded(
                luma_HW=_grey(seen),
                stored_px=stored_px,
                chroma=_chroma(seen),
                mode=mode,
                table=tuple(tables[min(tables)]) if tables else None,
                stated_quality=_stated_quality(data, picture.format),
                is_converted=mode != "CMYK" and is_converted(picture),  # inks are made for a press
            )


def _stated_quality(data: bytes, picture_format: str | None) -> float | None:
    if picture_format in LOSSY_FORMATS:
        return MOST_QUALITY
    return webp_quality(data) if picture_format == "WEBP" else None


def _chroma(picture: Image) -> float:
    """Mean distance of the colours from grey, in levels, of squares: what a codec keeps of colour."""
    if picture.mode in ("L", "LA", "La", "1") or picture.mode.startswith(("I", "F")):
        return 0.0
    small = picture if picture.mode == "YCbCr" else opaque(picture).convert("RGB")
    small = small.reduce(min(_COLOUR_PX, *small.size)).convert("YCbCr")
    return float(np.abs(np.asarray(small)[..., 1:].astype(np.int16) - 128).mean())


def _shrunk(plane_HW: np.ndarray) -> np.ndarray:
    import cv2

    scale = min(1.0, MEASURED_SIDE_PX / max(plane_HW.shape))
    if scale < 1:
        size = tuple(max(1, round(side * scale)) for side in plane_HW.shape[::-1])
        plane_HW = cv2.resize(plane_HW, size, interpolation=cv2.INTER_AREA)
    return plane_HW.astype(np.float32)


def _grey(picture: Image) -> np.ndarray:
    if picture.mode.startswith(("I", "F")):  # 16 and 32 bit, which 8 bits would clip to white
        return deep_levels(picture)
    return np.asarray(opaque(picture).convert("L"))


IMAGE_MEASUREMENTS = (
    Measurement(
        name="image",
        modalities=("image",),
        measures=(
            *("min_side_px", "aspect_ratio", "luma_mean", "luma_std", "luma_p5", "luma_p99", "entropy_bits", "blur"),
            *FIDELITY_MEASURES,
        ),
        columns=("width_px", "height_px"),
        take=image_measures,
        blobs=own_blob,
        revision="17",
    ),
    DAMAGE_MEASUREMENT,
)

# 148 real photographs reach 0.52 at most; after a Gaussian blur of 4 px at 500 px width 132 of 133 are above 0.6
# (docs/quality.md)
BLUR_HIGH = 0.6

IMAGE_RULES = (
    unmeasured("image"),
    Rule(
        name="too_small",
        error_code=4201,
        severity="P1",
        measure="min_side_px",
        unit="px",
        low=32,
        what="The shorter side is smaller than an icon: nothing can be learned from it.",
        fix="Fetch the original instead of its thumbnail.",
    ),
    Rule(
        name="blank",
        error_code=4202,
        severity="P1",
        measure="luma_std",
        unit="grey levels",
        low=2,
        what="The picture has one brightness everywhere.",
        fix="Search for placeholders and failed renderings at the source.",
    ),
    Rule(
        name="blurred",
        error_code=4203,
        severity="P1",
        measure="blur",
        high=BLUR_HIGH,
        what="The picture hardly changes when it is blurred again: it was out of focus, moved, or enlarged.",
        fix="Fetch a sharper original.",
    ),
    # COYO-700M and LAION-HR drop beyond 3; 5 lets panoramas live
    Rule(
        name="extreme_aspect",
        error_code=4204,
        severity="P2",
        measure="aspect_ratio",
        high=5,
        what="One side is many times the other: a banner, a strip, a screenshot of a scroll.",
        fix="Crop it, or leave it at its smaller weight.",
    ),
    DAMAGED,
    UNAESTHETIC,
)

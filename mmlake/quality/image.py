"""Images: measures and rules. Measures are taken on the luma plane with its longer side at most 512 px, so that they
mean the same at any resolution."""

from __future__ import annotations

import io
import warnings
from typing import TYPE_CHECKING

import numpy as np

from mmlake.pictures import opaque, picture_formats
from mmlake.quality.damage import DAMAGE_MEASUREMENT, DAMAGED
from mmlake.quality.image_fidelity import FIDELITY_MEASURES, Decoded, fidelity
from mmlake.quality.measurement import Measurement, Measures, Subject, own_blob
from mmlake.quality.rule import Rule, unmeasured
from mmlake.quality.webp import webp_quality

if TYPE_CHECKING:
    from PIL.Image import Image

# H height, W width
MEASURED_SIDE_PX = 512
_FULL_SIDE_PX = 1_024  # of a larger JPEG; detail finer than that costs four times as much to see
_COLOUR_PX = 8  # side of the squares whose colour is measured
_REBLUR_PX = 9  # width of the box filter of Crete et al.
# The steepest step in a thousand over the contrast, and its levels. Out of focus by one percent of the width leaves .9
# and 18 at most, whatever is shown; what stands sharp before a soft ground has 1.2 and 46 and more
_STEEP, _STEEP_LEVELS = 1.0, 25.0
_MIN_CONTRAST = 14.0  # grey levels, of a part of a picture that is measured by itself
_PARTS = 8  # of each side; the ladybird of a macro photograph is about as large as one
_MIN_STRUCTURE = 0.1  # grey levels; mean step between neighbours below which only rounding is left


def image_measures(subject: Subject) -> Measures:
    """The measures of one picture; it is decoded again, at a reduced size where it is large."""
    picture = decoded(subject.blobs[0])
    luma_HW = _shrunk(picture.luma_HW)
    width_px, height_px = subject.track["width_px"], subject.track["height_px"]
    return {
        "min_side_px": float(min(width_px, height_px)),
        "aspect_ratio": max(width_px, height_px) / max(1, min(width_px, height_px)),
        "luma_mean": float(luma_HW.mean()),
        "luma_std": float(luma_HW.std()),
        "blur": focus_blur(luma_HW, parts=_PARTS),
        **fidelity(picture),
    }


def luma(data: bytes) -> np.ndarray:
    """The first frame of the picture as float32 luma 0..255, longer side at most 512 px; transparent parts as white,
    or black where that shows nothing."""
    from PIL import Image

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # size and damage were judged when the track was made
        with Image.open(io.BytesIO(data), formats=picture_formats()) as picture:
            picture.draft("L", (MEASURED_SIDE_PX, MEASURED_SIDE_PX))  # libjpeg shrinks while it decodes
            return _shrunk(_grey(picture))


def decoded(data: bytes) -> Decoded:
    """The first frame with what its file says, longer side of a JPEG at least 1,024 px where it has them."""
    from PIL import Image

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Image.open(io.BytesIO(data), formats=picture_formats()) as picture:
            mode, stored_px = picture.mode, max(picture.size)
            picture.draft("YCbCr", (_FULL_SIDE_PX, _FULL_SIDE_PX))
            tables = getattr(picture, "quantization", None)
            return Decoded(
                luma_HW=np.asarray(_grey(picture), dtype=np.float32),
                stored_px=stored_px,
                chroma=_chroma(picture),
                mode=mode,
                table=tuple(tables[min(tables)]) if tables else None,
                webp_quality=webp_quality(data) if picture.format == "WEBP" else None,
            )


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
    # 16 and 32 bit: stretched over what they hold, since 8 bits would clip them all to white
    if picture.mode.startswith(("I", "F")):
        values = np.asarray(picture, dtype=np.float32)
        low, high = float(values.min()), float(values.max())
        return (values - low) * (255 / (high - low)) if high > low else np.zeros_like(values)
    return np.asarray(opaque(picture).convert("L"))


def blur(luma_HW: np.ndarray) -> float | None:
    """Perceptual blur 0 (sharp) to 1 (flat); None where the picture has no structure or is too small.

    Method: Crete, Dolmiere, Ladret, Nicolas 2007: how little the picture changes when it is blurred once more. Needs no
    reference and no contrast.
    The worst of three sizes: under strong blur the rounding and the blocks of a codec appear sharp at full size, and
    vanish when it is shrunk.
    """
    import cv2

    worst = 0.0
    for divisor in (1, 2, 4):
        height, width = luma_HW.shape[0] // divisor, luma_HW.shape[1] // divisor
        if min(height, width) < 2 * _REBLUR_PX:
            break
        plane = luma_HW if divisor == 1 else cv2.resize(luma_HW, (width, height), interpolation=cv2.INTER_AREA)
        worst = max(worst, *(_blur_along(plane, axis) for axis in (0, 1)))
    return worst or None


def focus_blur(luma_HW: np.ndarray, *, parts: int) -> float | None:
    """The blur of what is in focus, 0 to 1; None as for `blur`.

    Steep steps show that something is in focus: what stands before a soft ground was taken so on purpose, and the
    sharpest of parts x parts pieces counts. Without such steps all of the picture does.
    """
    whole = blur(luma_HW)
    if whole is None or _steepest(luma_HW) < max(_STEEP_LEVELS, _STEEP * float(luma_HW.std())):
        return whole
    height, width = luma_HW.shape[0] // parts, luma_HW.shape[1] // parts
    places = [(y * height, x * width) for y in range(parts) for x in range(parts)]
    pieces = (luma_HW[y : y + height, x : x + width] for y, x in places)
    sharp = (value for piece in pieces if piece.std() >= _MIN_CONTRAST and (value := blur(piece)) is not None)
    return min([whole, *sharp])


def _steepest(plane_HW: np.ndarray) -> float:
    """The larger of the steps across and down that a thousandth of the pixels exceed, in grey levels."""
    steps = (_steps(plane_HW, axis) for axis in (0, 1))
    return max(float(np.percentile(found, 99.9)) if found.size else 0.0 for found in steps)


def _blur_along(luma_HW: np.ndarray, axis: int) -> float:
    """Blur along one axis; 0 where there is no structure along it."""
    import cv2

    steps = _steps(luma_HW, axis)
    total = float(steps.sum(dtype=np.float64))
    if total < _MIN_STRUCTURE * steps.size:
        return 0.0
    again = _steps(cv2.blur(luma_HW, (1, _REBLUR_PX) if axis == 0 else (_REBLUR_PX, 1)), axis)
    np.maximum(cv2.subtract(steps, again), 0, out=steps)
    return 1 - float(steps.sum(dtype=np.float64)) / total


def _steps(plane_HW: np.ndarray, axis: int) -> np.ndarray:
    """Absolute differences of neighbours along the axis; the values of np.abs(np.diff()) in half of its time."""
    import cv2

    if axis == 0:
        return cv2.absdiff(plane_HW[1:], plane_HW[:-1])
    return cv2.absdiff(plane_HW[:, 1:], plane_HW[:, :-1])


IMAGE_MEASUREMENTS = (
    Measurement(
        name="image",
        modalities=("image",),
        measures=("min_side_px", "aspect_ratio", "luma_mean", "luma_std", "blur", *FIDELITY_MEASURES),
        columns=("width_px", "height_px"),
        take=image_measures,
        blobs=own_blob,
        revision="5",
    ),
    DAMAGE_MEASUREMENT,
)

# 148 real photographs reach 0.54 at most; after a Gaussian blur of 4 px at 500 px width 132 of 133 are above 0.6
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
)

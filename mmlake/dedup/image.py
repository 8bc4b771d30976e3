"""Near duplicates of pictures: prints of one picture, and the tier's matcher of many.

Enters: the bytes of a picture. Leaves: prints "phash" (DCT hash of the whole picture, then of what lies inside uniform
borders and inside caption bars, where it has any), "luma" (a thumbnail) and "layout" (those borders, and the size).
Colour plays no part: a grey copy is a near duplicate. Candidates come from hashes (`image_keys`), verdicts from the
thumbnails (`image_alignment`).
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup import perceptual
from mmlake.errors import UnreadableItem
from mmlake.pictures import picture_formats

if TYPE_CHECKING:
    from PIL.Image import Image

METHOD, MIRRORED, ROTATED, CROPPED = "phash", "phash-mirrored", "phash-rotated", "phash-cropped"
METHODS = (METHOD, "luma", "layout")
PAIR_METHODS = (METHOD, MIRRORED, ROTATED, CROPPED)
SIDE, SMALL_SIDE = 64, 32  # px of the thumbnail; the small one holds all that a picture of few pixels has
_SMALL_PX = 48  # shorter side of a picture that has the small one
_DRAFT_PX = 128  # libjpeg scales while it decodes: a 12-megapixel photo costs an eighth
_MAX_PIXELS = 256_000_000
_BORDER_LEVELS, _BORDER_SHARE = (
    12,
    0.97,
)  # grey levels around the ground that is bordered on, share of a border's pixels
_BAR_LEVELS, _BAR_SHARE = 14, 0.5  # the same of a bar: the other half may be letters
_BAR_STEP, _BAR_STEP_SHARE = 10, 0.5  # grey levels between a bar and the picture, share of the pixels along its edge
_LONGEST_BAR, _SHORTEST_BAR = 0.4, 0.03  # of the side
_LEAST_CONTENT = 0.4  # of the side; what is bordered more than that is a picture of few things on a ground

Box = tuple[float, float, float, float]  # top, bottom, left, right; fractions of the sides
WHOLE: Box = (0.0, 1.0, 0.0, 1.0)


def fingerprint(data: bytes) -> dict[str, np.ndarray]:
    """Method -> hashes of the picture as a viewer shows it, EXIF orientation applied. Raises UnreadableItem."""
    import cv2

    luma, size_px = upright_luma(data)
    plane = np.asarray(luma)
    side = SMALL_SIDE if min(size_px) < _SMALL_PX else SIDE
    content = _content(plane)
    boxes = [content, _bars(plane)]
    regions = list(dict.fromkeys([WHOLE, *boxes]))
    planes = np.stack([_resized(_cut(plane, box), perceptual.SIDE) for box in regions])
    hashes, _ = perceptual.dct_hashes(planes)
    layout = np.array([round(255 * edge) for box in boxes for edge in box], dtype=np.uint8)
    thumbnail = cv2.resize(plane, (side, side), interpolation=cv2.INTER_AREA)
    return {
        METHOD: hashes,
        "luma": perceptual.pack_bytes(thumbnail),
        "layout": np.append(perceptual.pack_bytes(layout), np.uint64(min(size_px))),
    }


def upright_luma(data: bytes) -> tuple[Image, tuple[int, int]]:
    """(the first frame in grey, transparent parts on white, at least 128 px where it has them; its size in px)."""
    from PIL import Image, ImageOps

    with Image.open(io.BytesIO(data), formats=picture_formats()) as picture:
        size_px = picture.size
        if picture.width * picture.height > _MAX_PIXELS:
            raise UnreadableItem(3004, f"pixels={picture.width * picture.height} not in [1, {_MAX_PIXELS}]")
        picture.draft("L", (_DRAFT_PX, _DRAFT_PX))
        upright = ImageOps.exif_transpose(picture)
        if "A" in upright.mode or "transparency" in upright.info:
            flat = Image.new("RGBA", upright.size, "white")
            flat.alpha_composite(upright.convert("RGBA"))
            upright = flat
        if upright.mode.startswith("I"):  # 16 bit: convert("L") clips instead of scaling
            values = (np.asarray(upright).astype(np.float64) / 257).clip(0, 255)
            return Image.fromarray(values.astype(np.uint8)), size_px
        return upright.convert("L"), size_px


def _resized(plane_HW: NDArray[np.uint8], side: int) -> NDArray[np.float64]:
    import cv2

    return cv2.resize(plane_HW, (side, side), interpolation=cv2.INTER_AREA).astype(np.float64)


def _cut(plane_HW: NDArray[np.uint8], box: Box) -> NDArray[np.uint8]:
    height, width = plane_HW.shape
    top, bottom, left, right = box
    low, high = int(round(top * height)), int(round(bottom * height))
    first, last = int(round(left * width)), int(round(right * width))
    return plane_HW[low : max(high, low + 1), first : max(last, first + 1)]


def _content(plane_HW: NDArray[np.uint8]) -> Box:
    """What lies inside borders of one level: letterbox, pillarbox, frame."""
    top, bottom = _between(_border(plane_HW), _border(plane_HW[::-1]))
    sides = _cut(plane_HW, (top, bottom, 0.0, 1.0)).T
    left, right = _between(_border(sides), _border(sides[::-1]))
    if (left, right) != (0.0, 1.0) and (top, bottom) == (0.0, 1.0):
        inner = _cut(plane_HW, (0.0, 1.0, left, right))
        top, bottom = _between(_border(inner), _border(inner[::-1]))
    return top, bottom, left, right


def _between(before: float, behind: float) -> tuple[float, float]:
    return (0.0, 1.0) if 1 - behind - before < _LEAST_CONTENT else (before, 1 - behind)


def _border(rows_HW: NDArray[np.uint8]) -> float:
    """Fraction of the height that the border at the top takes."""
    ground = int(np.median(rows_HW[0]))
    # most pictures have none: the first row says so
    if (np.abs(rows_HW[0].astype(np.int16) - ground) <= _BORDER_LEVELS).mean() < _BORDER_SHARE:
        return 0.0
    shares = (np.abs(rows_HW.astype(np.int16) - ground) <= _BORDER_LEVELS).mean(axis=1)
    others = np.flatnonzero(shares < _BORDER_SHARE)
    return float(others[0] / len(rows_HW)) if len(others) else 1.0


def _bars(plane_HW: NDArray[np.uint8]) -> Box:
    """What lies between bars that hold a caption: letters on a ground, and an edge along the whole side."""
    above, below = _bar(plane_HW), _bar(plane_HW[::-1])
    top, bottom = _between(above, below)
    sides = _cut(plane_HW, (top, bottom, 0.0, 1.0)).T
    left, right = _between(_bar(sides), _bar(sides[::-1]))
    return top, bottom, left, right


def _bar(rows_HW: NDArray[np.uint8]) -> float:
    """Fraction of the height that the caption bar at the top takes."""
    num = len(rows_HW)
    ground = int(np.median(rows_HW[0]))
    rows = rows_HW[: max(1, int(num * _LONGEST_BAR))].astype(np.int16)
    if (np.abs(rows[0] - ground) <= _BAR_LEVELS).mean() < _BAR_SHARE:
        return 0.0
    others = np.flatnonzero((np.abs(rows - ground) <= _BAR_LEVELS).mean(axis=1) < _BAR_SHARE)
    length = int(others[0]) if len(others) else len(rows)
    if length < num * _SHORTEST_BAR or length + 1 >= num:
        return 0.0
    steps = (np.abs(np.diff(rows_HW[: length + 2].astype(np.int16), axis=0)) > _BAR_STEP).mean(axis=1)
    edge = int(steps.argmax())
    if steps[edge] < _BAR_STEP_SHARE or edge + 1 < num * _SHORTEST_BAR:
        return 0.0
    return float((edge + 1) / num)

"""Whether a picture may be a drawing, and the colours of one.

Enters: a picture, decoded. Leaves: whether it has few tones or shows nothing in a part of it, and tints (two small
planes of chroma). Photographs need none: two with one detail have one colour.
Legend: H height, W width, S side of a thumbnail, T side of the tints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL.Image import Image

NEIGHBOURHOOD_PX = 9  # of the thumbnail, in which detail is what differs from the mean
SHOWS_LEVELS = 2.5  # grey levels by which a neighbourhood that shows something varies
TINT_SIDE = 16
REDUCED_PX = 4 * TINT_SIDE  # a picture is reduced by whole numbers to no less than that before it is converted
_LEAST_FLAT, _LEAST_GROUND = 0.1, 0.3  # of the neighbourhoods: of what may be a drawing, and of what is one
# tones: grey levels that one stands for, how many there are but for the ground, and the share of the other
# pixels that they cover. Of 200 drawings half have .86 and more, of 140 photographs seven .68 and more
_TONE_LEVELS, _NUM_TONES, _FEW_TONES, _VERY_FEW_TONES = 5, 6, 0.6, 0.7
_LEAST_INK = 0.02  # of the pixels; less is lines
# share of the pixels that are not the ground with equal neighbours: signs have .25 and more, and of 140 photographs one
# that has very few tones as well
_PLANES = 0.25
_ICON_PX = (48, 96)  # have too few pixels for planes; smaller ones are photographs as often
# ink on a ground, as letters are: share of the ground, px from it that edges reach, and the share of the ink that is so
# near or plain. Of 228 photographs none has both, of letters of 24 to 200 px all have
_INK_GROUND, _EDGE_PX, _EXPLAINED = 0.3, 2, 0.9
# strokes that stand apart: a letter has up to three, a word some more, a chart or a map dozens; and how far off the
# ground they are, for a codec leaves specks
_MOST_STROKES, _STROKE_LEVELS = 10, 40
# of the strongest ink: what is of one tone with it, and what so many of the strokes have in or next to them
_THAT_TONE, _ONE_TONE, _MOSTLY_ONE = 0.9, 0.75, 0.85


def flat_fraction(thumbnail_SS: NDArray[np.float32]) -> float:
    """The share of a thumbnail's neighbourhoods that show nothing, 0..1."""
    import cv2

    size = (NEIGHBOURHOOD_PX, NEIGHBOURHOOD_PX)
    variance = cv2.blur(thumbnail_SS**2, size) - cv2.blur(thumbnail_SS, size) ** 2
    return float((variance < SHOWS_LEVELS**2).mean())


def tones(counts: NDArray[np.float64]) -> float:
    """The share of what is not the ground that a few tones cover, 0..1; 1 where next to nothing is. counts: of a
    plane, as `counts_of` has them."""
    left = counts.copy()
    num = left.sum()
    _take(left)
    ink = left.sum()
    if ink < _LEAST_INK * num:
        return 1.0
    return float(sum(_take(left) for _ in range(_NUM_TONES)) / ink)


def counts_of(plane_HW: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Pixels of each grey level, of shape (256,) (a fifth of what numpy takes)."""
    import cv2

    return cv2.calcHist([plane_HW], [0], None, [256], [0, 256]).ravel().astype(np.float64)


def _take(counts: NDArray[np.float64]) -> float:
    """Remove the most frequent tone from the counts; gives how many pixels have it."""
    at = int(np.convolve(counts, np.ones(_TONE_LEVELS), "same").argmax())
    tone = counts[max(0, at - _TONE_LEVELS // 2) : at + _TONE_LEVELS // 2 + 1]
    found = float(tone.sum())
    tone[:] = 0
    return found


def is_sign(plane_HW: NDArray[np.uint8], toned: float, side_px: int) -> bool:
    """Whether a picture is drawn in planes of very few tones, as signs, arrows and letters are: turned or mirrored,
    they say something else. toned: what `tones` says of it. side_px: its shorter side."""

    if toned < _VERY_FEW_TONES:
        return False
    if _ICON_PX[0] <= side_px < _ICON_PX[1]:
        return True
    ink, plain = _off_ground(plane_HW) > _TONE_LEVELS // 2, _plain(plane_HW)
    return bool(ink.mean() < _LEAST_INK or plain[ink].mean() >= _PLANES)


def ink_of(plane_HW: NDArray[np.uint8], counts: NDArray[np.float64]) -> int:
    """0, or 1 where a picture is strokes and planes on a ground of one level, of any size: what is not the ground is
    plain, or so near to it that it may be an edge; thin strokes are nothing but edges, of many tones. 2 where these
    are few and of one tone, as letters, arrows and icons are. counts: of the plane."""
    import cv2

    if not _INK_GROUND * plane_HW.size <= _take(counts.copy()) < plane_HW.size:
        return 0
    off = _off_ground(plane_HW)
    ink = off > _TONE_LEVELS // 2
    reach = np.ones((2 * _EDGE_PX + 1,) * 2, np.uint8)
    edges = cv2.dilate((~ink).astype(np.uint8), reach).astype(np.bool_)
    if _are_few_of_one_tone(off, ink, edges):
        return 2
    return int((edges | _plain(plane_HW))[ink].mean() >= _EXPLAINED)


def _are_few_of_one_tone(off: NDArray[np.uint8], ink: NDArray[np.bool_], edges: NDArray[np.bool_]) -> bool:
    """Whether ink is a few strokes of one tone. off: levels off the ground; edges: what is near to it."""
    import cv2

    strokes = off > _STROKE_LEVELS
    if not strokes.any():
        return False
    tops = cv2.dilate(off, np.ones((3, 3), np.uint8))[strokes]
    tone = np.percentile(tops, 95)
    if (edges | (off >= _THAT_TONE * tone))[ink].mean() < _EXPLAINED or (tops >= _ONE_TONE * tone).mean() < _MOSTLY_ONE:
        return False
    return cv2.connectedComponents(strokes.astype(np.uint8), connectivity=8)[0] - 1 <= _MOST_STROKES


def _off_ground(plane_HW: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Grey levels by which each pixel is off the most frequent tone, (H, W)."""
    import cv2

    ground = int(np.convolve(counts_of(plane_HW), np.ones(_TONE_LEVELS), "same").argmax())
    return np.asarray(cv2.absdiff(plane_HW, np.full_like(plane_HW, ground)), np.uint8)


def _plain(plane_HW: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """What has equal neighbours, (H, W)."""
    import cv2

    square = np.ones((3, 3), np.uint8)
    plain: NDArray[np.bool_] = cv2.dilate(plane_HW, square) - cv2.erode(plane_HW, square) <= 1
    return plain


def is_drawing(flat: float, toned: float) -> bool:
    """Whether a picture has few tones or much of a ground, as 11 of 140 photographs have. flat, toned: what
    `flat_fraction` and `tones` say of it."""
    return toned >= _FEW_TONES or flat >= _LEAST_GROUND


def may_be_drawn(flat: float, toned: float) -> bool:
    """Whether the colours of a picture may say more than its detail."""
    return toned >= _FEW_TONES or flat >= _LEAST_FLAT


def tints(picture: Image) -> NDArray[np.uint8]:
    """Chroma of the picture, Cb then Cr as JPEG has them, of shape (2, T, T)."""
    import cv2

    factor = max(1, min(picture.size) // REDUCED_PX)
    coloured = picture.convert("RGB")
    small = (coloured.reduce(factor) if factor > 1 else coloured).convert("YCbCr")
    chroma_HW2 = np.ascontiguousarray(np.asarray(small)[..., 1:])
    found = cv2.resize(chroma_HW2, (TINT_SIDE, TINT_SIDE), interpolation=cv2.INTER_AREA)
    return np.moveaxis(found, -1, 0).astype(np.uint8)

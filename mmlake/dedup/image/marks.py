"""Where two aligned thumbnails differ because something was laid over one of them: a logo, a banner, a watermark.

Legend: spots are the places where they differ too much for copies, seen those that are compared.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.image.fingerprints import SIDE
from mmlake.dedup.image.windows import Floats

Mask = NDArray[np.bool_]
_MARK_PX = 14  # rows of the thumbnail above and below in which a mark may be: what stands left or right is an object
_MOST_MARKED = 0.15  # of the area
# of a watermark: share of its places that all are lighter, how far they go to white, and its height in the thumbnail
_ONE_SIGN, _MOST_OPAQUE, _LINE_PX = 0.9, 0.3, 8
# of one that stands as letters do, several side by side: a thing in the scene is one
_LETTERS_OPAQUE, _NUM_LETTERS, _LETTERS_PX = 0.5, 3, 16
MARKABLE_PX = 96  # shorter side of the smallest picture that bears a mark


def marked_places(spots: Mask, seen: Mask, side_px: int) -> Mask | None:
    """The places that a mark covers, if all spots lie above and below and are few; else None."""
    import cv2

    if side_px < MARKABLE_PX or spots[_MARK_PX : SIDE - _MARK_PX].any():
        return None
    marked = cv2.dilate(spots.astype(np.uint8), np.ones((5, 5), np.uint8)).astype(bool) & seen
    return marked if marked.sum() <= _MOST_MARKED * seen.sum() else None


def veiled_places(spots: Mask, seen: Mask, view: Floats, template: Floats) -> Mask | None:
    """The places that a watermark covers, if all spots are few and may be one light or dark layer that lets the picture
    through, over either of the two; else None. A thing that moved is darker here on the one, there on the other."""
    import cv2

    veiled = cv2.dilate(spots.astype(np.uint8), np.ones((3, 3), np.uint8)).astype(bool) & seen
    height_px = int(np.ptp(np.flatnonzero(spots.any(axis=1))))
    if veiled.sum() > _MOST_MARKED * seen.sum() or height_px > _LINE_PX:
        return None
    most_opaque = _LETTERS_OPAQUE if _are_letters(spots) else _MOST_OPAQUE
    for one, other in ((template, view), (view, template)):  # what lies below the layer, what shows it
        for sign, room in ((1, 255 - one[spots]), (-1, one[spots])):
            step = sign * (other - one)[spots]
            if (step > 0).mean() >= _ONE_SIGN and np.median(step / np.maximum(room, 16)) <= most_opaque:
                return veiled
    return None


def _are_letters(spots: Mask) -> bool:
    """Whether the spots stand apart from each other over a good part of the width."""
    import cv2

    num_labels, _ = cv2.connectedComponents(spots.astype(np.uint8), connectivity=8)
    width_px = int(np.ptp(np.flatnonzero(spots.any(axis=0))))
    return num_labels > _NUM_LETTERS and width_px >= _LETTERS_PX

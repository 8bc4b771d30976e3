"""Pieces of a picture with its finest detail, by which copies are compared."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

DETAIL_PX = 512  # longer side that a picture is brought to before four pieces are cut out of it
PIECE_PX, _PIECES_AT = 32, (0.33, 0.67)  # side of a piece, and where their middles are


def pieces(plane_HW: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Four pieces of the picture one above the other, from the same places of each copy, whatever its size."""
    import cv2

    scale = 2 * DETAIL_PX / max(plane_HW.shape)
    if scale < 1:
        size = [max(1, round(side * scale)) for side in plane_HW.shape[::-1]]
        plane_HW = cv2.resize(plane_HW, size, interpolation=cv2.INTER_AREA).astype(np.uint8)
        scale = 1.0
    height, width = plane_HW.shape
    found = []
    for down in _PIECES_AT:
        for across in _PIECES_AT:
            # at twice the size, so that copies of every size are softened alike when the piece is halved
            left, top = (at * side - 0.5 - (PIECE_PX - 0.5) / scale for at, side in ((across, width), (down, height)))
            move = np.array([[1 / scale, 0, left], [0, 1 / scale, top]])
            flags = cv2.INTER_CUBIC | cv2.WARP_INVERSE_MAP
            large = cv2.warpAffine(plane_HW, move, (2 * PIECE_PX,) * 2, flags=flags, borderMode=cv2.BORDER_REPLICATE)
            found.append(cv2.resize(large, (PIECE_PX, PIECE_PX), interpolation=cv2.INTER_AREA))
    return np.concatenate(found)

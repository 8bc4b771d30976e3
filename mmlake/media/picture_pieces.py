"""Pieces of a picture with its finest detail, by which copies are compared."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

DETAIL_PX = 512  # longer side that a picture is brought to before four pieces are cut out of it
PIECE_PX, _PIECES_AT = 32, (0.33, 0.67)  # side of a piece, and where their middles are
_ALL = (0, 1, 2, 3)  # row by row
_REACH_PX = PIECE_PX + 4  # from the middle of a piece at twice its size: half of it, and what cubic steps read


def pieces(plane_HW: NDArray[np.uint8], numbers: tuple[int, ...] = _ALL) -> NDArray[np.uint8]:
    """Pieces of the picture one above the other, shape (32 x their number, 32), from the same places of each copy,
    whatever its size. numbers: which of the four, row by row; of a large picture no more is shrunk than they show."""
    import cv2

    height, width = plane_HW.shape
    scale = 2 * DETAIL_PX / max(height, width)
    if is_large := scale < 1:
        height, width = (max(1, round(side * scale)) for side in (height, width))
        scale = 1.0
    # of the picture as it is shrunk, what is read is filled in: moves to places of a part are rounded differently
    shown = np.empty((height, width), np.uint8) if is_large else plane_HW
    found = []
    for number in numbers:
        down, across = (_PIECES_AT[at] for at in divmod(number, len(_PIECES_AT)))
        if is_large:
            of_y, to_y = _part(plane_HW.shape[0], height, down)
            of_x, to_x = _part(plane_HW.shape[1], width, across)
            part = shown[to_y, to_x]
            part[:] = cv2.resize(plane_HW[of_y, of_x], part.shape[::-1], interpolation=cv2.INTER_AREA)
        # at twice the size, so that copies of every size are softened alike when the piece is halved
        left, top = (at * side - 0.5 - (PIECE_PX - 0.5) / scale for at, side in ((across, width), (down, height)))
        move = np.array([[1 / scale, 0, left], [0, 1 / scale, top]])
        flags = cv2.INTER_CUBIC | cv2.WARP_INVERSE_MAP
        large = cv2.warpAffine(shown, move, (2 * PIECE_PX,) * 2, flags=flags, borderMode=cv2.BORDER_REPLICATE)
        found.append(cv2.resize(large, (PIECE_PX, PIECE_PX), interpolation=cv2.INTER_AREA))
    return np.concatenate(found)


def _part(num_in: int, num_out: int, at: float) -> tuple[slice, slice]:
    """(what to shrink, the pixels that it becomes) of one axis, for a piece about that share of it. A part begins and
    ends where a pixel of both does, so that its pixels are those of the whole that is shrunk."""
    divisor = math.gcd(num_in, num_out)
    into, out_of = num_out // divisor, num_in // divisor
    first = max(0, math.floor((at * num_out - _REACH_PX) / into))
    last = min(divisor, math.ceil((at * num_out + _REACH_PX) / into))
    return slice(first * out_of, last * out_of), slice(first * into, last * into)

"""Pixels of a keyframe that are kept with a film, at full size: blocks in which something is to be seen, and how
coarsely the codec quantized them. Of two films they say which was made of the other (`mmlake.dedup.video.recoding`).

Enters: the luma of a keyframe. Leaves: bytes of one size, and from them the blocks again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

BLOCK_PX = 8
NUM_BLOCKS = 96
_MOST_PLACES = 1_024  # that a picture is asked at: of a large one every k-th block of each direction
_LEAST_SEEN, _SEEN_LEVELS = (
    24,
    2.0,
)  # blocks that deviate by so much from their means; a picture with fewer says nothing
_HEAD = np.dtype([("width_px", "<u2"), ("height_px", "<u2"), ("step", "<f4")])
_PLACES_BYTES, _PIXELS_BYTES = 2 * NUM_BLOCKS, NUM_BLOCKS * BLOCK_PX**2
NUM_BYTES = _HEAD.itemsize + _PLACES_BYTES + _PIXELS_BYTES  # a multiple of 8


class Blocks(NamedTuple):
    """What is kept of a keyframe."""

    size_px: tuple[int, int]
    step: float  # between two values of a coefficient, in grey levels of an orthonormal transform; NaN where unknown
    places_B: NDArray[np.uint16]  # ascending; pictures of one size have the same places
    pixels_BHW: NDArray[np.uint8]


def packed_blocks(luma_HW: NDArray[np.uint8], step: float | None) -> bytes | None:
    """The blocks with the most contrast, of NUM_BYTES; None where too little is to be seen, or the picture is small."""
    height, width = luma_HW.shape
    down, across = height // BLOCK_PX, width // BLOCK_PX
    every = max(1, int(np.ceil(np.sqrt(down * across / _MOST_PLACES))))
    tiled = luma_HW[: down * BLOCK_PX, : across * BLOCK_PX].reshape(down, BLOCK_PX, across, BLOCK_PX)
    blocks_BHW = tiled[every // 2 :: every, :, every // 2 :: every].swapaxes(1, 2).reshape(-1, BLOCK_PX, BLOCK_PX)
    spread_B = blocks_BHW.std(axis=(1, 2), dtype=np.float32)
    if len(spread_B) < NUM_BLOCKS or np.count_nonzero(spread_B >= _SEEN_LEVELS) < _LEAST_SEEN:
        return None
    if max(width, height) > np.iinfo("<u2").max:
        return None
    places_B = np.sort(np.argsort(-spread_B, kind="stable")[:NUM_BLOCKS])
    head = np.array([(width, height, np.nan if step is None else step)], _HEAD)
    return head.tobytes() + places_B.astype("<u2").tobytes() + blocks_BHW[places_B].tobytes()


def unpacked_blocks(data: bytes) -> Blocks:
    """What `packed_blocks` packed. Raises ValueError where the size is another."""
    if len(data) != NUM_BYTES:
        raise ValueError(f"num_bytes={len(data)} of a keyframe's blocks is not {NUM_BYTES}")
    width, height, step = np.frombuffer(data, _HEAD, 1)[0].item()
    places_B = np.frombuffer(data, "<u2", NUM_BLOCKS, _HEAD.itemsize)
    pixels = np.frombuffer(data, np.uint8, offset=_HEAD.itemsize + _PLACES_BYTES)
    return Blocks((width, height), step, places_B, pixels.reshape(-1, BLOCK_PX, BLOCK_PX))

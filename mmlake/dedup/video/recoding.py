"""Which of two films was made of the other by coding it anew: what the quantizer of a keyframe would have taken away.

A keyframe is predicted from no other frame, so what its codec took away is known: about what rounding the coefficients
of the source to its steps takes away. Where a film differs from a keyframe by much less than that, although its own
pixels would lose that much, it is not what the keyframe was made of: it was made of the keyframe, however finely it is
encoded. (Of JPEGs: Lukáš and Fridrich 2003; of one film alone, which this does not ask: Vázquez-Padín et al. 2012,
"Detection of video double encoding with GOP size estimation".)
Enters: prints of keyframes (`mmlake.media.keyframe_blocks`). Leaves: of two films whether one was made of the other.
Legend: B blocks, H and W pixels of a block.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmlake.media.keyframe_blocks import BLOCK_PX, NUM_BYTES, Blocks, unpacked_blocks

_LEAST_BLOCKS = 24  # of both, at one place, that lose something
_ROUNDED_UP = 1 / 3  # of a step: from there on encoders of keyframes round up, below they drop a coefficient to zero
_LEAST_LOSS, _LEAST_LOSS_STEPS = 1.0, 0.015  # squared grey levels, and squared steps: less is lost in rounding
# Squared differences over squared losses, which three fifths of the blocks stay below
_SHARE, _MOST = 0.6, 0.55
_TIMES = 1.8  # more in the other direction: of two films with the same steps either could be the copy


class Keyframe(NamedTuple):
    """What the print holds of one keyframe."""

    blocks: Blocks
    levels_BHW: NDArray[np.float32]  # from the mean of each block: a player's RGB shifts them
    coefficients_BHW: NDArray[np.float32]


def keyframes_of(words: NDArray[np.uint64]) -> list[Keyframe]:
    """What the print holds."""
    import cv2

    data, found = words.tobytes(), []
    for at in range(0, len(data), NUM_BYTES):
        blocks = unpacked_blocks(data[at : at + NUM_BYTES])
        levels = blocks.pixels_BHW.astype(np.float32)
        levels -= levels.mean(axis=(1, 2), keepdims=True)
        found.append(Keyframe(blocks, levels, np.stack([cv2.dct(block) for block in levels])))
    return found


def made_of(copy: list[Keyframe], original: list[Keyframe]) -> bool:
    """Whether a keyframe of the original shows what one of the copy does, and the copy lies on its steps."""
    return any(_are_made(one, other)[0] for one in copy for other in original)


def are_recoded(a: list[Keyframe], b: list[Keyframe]) -> bool:
    """Whether one of the two was made of the other."""
    return any(any(_are_made(one, other)) for one in a for other in b)


def _are_made(a: Keyframe, b: Keyframe) -> tuple[bool, bool]:
    """(whether the first keyframe was made of the second, the second of the first)."""
    if a.blocks.size_px != b.blocks.size_px:
        return False, False
    _, at, its = np.intersect1d(a.blocks.places_B, b.blocks.places_B, assume_unique=True, return_indices=True)
    if len(at) < _LEAST_BLOCKS:
        return False, False
    apart_B = ((a.levels_BHW[at] - b.levels_BHW[its]) ** 2).mean(axis=(1, 2))
    of_a = _share(apart_B, a.coefficients_BHW[at], b.blocks.step)
    of_b = _share(apart_B, b.coefficients_BHW[its], a.blocks.step)
    return of_a <= min(_MOST, of_b / _TIMES), of_b <= min(_MOST, of_a / _TIMES)


def _share(apart_B: NDArray[np.float32], coefficients_BHW: NDArray[np.float32], step: float) -> float:
    """What blocks are apart, of what they would lose to the step; infinite where nobody knows."""
    if math.isnan(step) or step <= 0:
        return math.inf
    size_BHW = np.abs(coefficients_BHW)
    rounded_BHW = np.floor(size_BHW / step + _ROUNDED_UP) * step
    loss_B = ((size_BHW - rounded_BHW) ** 2).sum(axis=(1, 2)) / BLOCK_PX**2
    is_asked_B = loss_B > max(_LEAST_LOSS, _LEAST_LOSS_STEPS * step**2)
    if np.count_nonzero(is_asked_B) < _LEAST_BLOCKS:
        return math.inf
    return float(np.quantile(apart_B[is_asked_B] / loss_B[is_asked_B], _SHARE))

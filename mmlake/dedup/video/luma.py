"""8x8 luma of film frames: of windows, of mirror images, at moments between frames; and what moves in it.

Legend: N frames, 64 cells of 8x8 luma.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.video.hashes import WINDOWS

_NOISE = 1.0  # luma levels that codecs and sensors add to an eighth by an eighth of the picture


def counterpart(window: int, is_mirrored: bool) -> int:
    """The same window, seen in a mirror where asked for."""
    return {5: 6, 6: 5, 7: 8, 8: 7}.get(window, window) if is_mirrored else window


def quieted(moving: NDArray[np.float64]) -> NDArray[np.float64]:
    """Movement without what codecs and sensors add."""
    quieted: NDArray[np.float64] = np.sign(moving) * np.maximum(np.abs(moving) - _NOISE, 0.0)
    return quieted


def between_frames(luma_N64: NDArray[np.uint8], places: NDArray[np.float64]) -> NDArray[np.float64]:
    """Luma at moments between frames."""
    places = np.clip(places, 0, len(luma_N64) - 1).astype(np.float64)
    before = np.floor(places).astype(np.int64)
    share = (places - before)[:, None]
    after = np.minimum(before + 1, len(luma_N64) - 1)
    between: NDArray[np.float64] = luma_N64[before] * (1 - share) + luma_N64[after] * share
    return between


@lru_cache(maxsize=32)
def resampled(window: int, is_mirrored: bool) -> NDArray[np.float64]:
    """What makes of the 8x8 luma of a picture that of a window of it, of shape (64, 64)."""
    rect = WINDOWS[window]
    down, across = _between(rect.top, rect.bottom), _between(rect.left, rect.right)
    weights: NDArray[np.float64] = np.kron(down, across[::-1] if is_mirrored else across).astype(np.float64)
    return weights


@lru_cache(maxsize=1)
def smoothed() -> NDArray[np.float64]:
    """What blurs 8x8 luma, of shape (64, 64): what is compared with interpolated luma must be as blurred."""
    line: NDArray[np.float64] = np.eye(8) / 2 + (np.eye(8, k=1) + np.eye(8, k=-1)) / 4
    line[0, 0] = line[-1, -1] = 0.75
    kernel: NDArray[np.float64] = np.kron(line, line).astype(np.float64)
    return kernel


def _between(low: float, high: float) -> NDArray[np.float64]:
    """Linear interpolation of eight cells at the middles of the eight cells of a part, of shape (8, 8)."""
    places = np.clip(8 * (low + (high - low) * (np.arange(8) + 0.5) / 8) - 0.5, 0, 7)
    weights: NDArray[np.float64] = np.maximum(0.0, 1 - np.abs(places[:, None] - np.arange(8)))
    return weights


def movement(luma_N64: NDArray[np.float64]) -> NDArray[np.float64]:
    """What differs from the clip's mean frame, brightness changes of the whole frame taken out."""
    values = luma_N64 - luma_N64.mean(axis=1, keepdims=True)
    movement: NDArray[np.float64] = values - values.mean(axis=0)
    return movement

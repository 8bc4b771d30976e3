"""Whether a picture was enlarged: interpolation leaves a period in what neighbouring pixels differ by.

A pixel between two of the original is smoother than one upon them, so that the second differences of an enlarged
picture rise and fall with the original's pixels, in all rows at once (Gallagher 2005, "Detection of linear and cubic
interpolation in JPEG compressed images"). Where the original was coded in blocks, their edges do the same.
Legend: H height, W width, X pixels along a side, F frequencies.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_LINES = 512  # of the plane that are read in each direction
_LEAST_PX = 96  # shorter sides have too few periods
_CALM = 17  # px that the level of differences is taken over
_NEAR = 41  # frequencies that the level of a spectrum is taken over
_LEAST_PEAK = 5.0  # times that level, in both directions; of 2 to 3 in pictures that were not enlarged
_LEAST_CYCLES = 0.05  # per pixel: what is slower is what the picture shows
_OWN = 2.6  # frequencies on each side that the period of the codec's own blocks fills
Profiles = tuple[NDArray[np.float64], NDArray[np.float64]]  # along the width and along the height


def profiles(luma_HW: NDArray[np.integer] | NDArray[np.floating]) -> Profiles:
    """How large second differences are at each place along a row, and along a column, in shares of their mean."""
    if luma_HW.dtype == np.uint8:
        return _profile_of_bytes(luma_HW, axis=1), _profile_of_bytes(luma_HW, axis=0)
    return _profile(luma_HW), _profile(luma_HW.T)


def resampled_at(pictures: Sequence[Profiles], *, block_px: int = 8, scale: float = 1.0) -> float | None:
    """Cycles per pixel, up to .5, of the period that stands out in both directions; None where none does. Where blocks
    of block_px have their periods nothing is seen. pictures: those of one film, of one size. scale: how many pixels of
    the file one of the planes is."""
    across_NX, down_NX = ([one[at] for one in pictures] for at in range(2))
    if not pictures or min(len(across_NX[0]), len(down_NX[0])) < _LEAST_PX:
        return None
    short_F, long_F = sorted((_spectrum(np.mean(side, axis=0), block_px) for side in (across_NX, down_NX)), key=len)
    at = np.round(np.arange(len(long_F)) * ((len(short_F) - 1) / (len(long_F) - 1))).astype(np.int64)
    padded_F = np.concatenate(([0.0], short_F, [0.0]))
    near_F = np.maximum(np.maximum(padded_F[at], padded_F[at + 1]), padded_F[at + 2])  # one place apart is as good
    both_F = np.sqrt(long_F * near_F)
    best = int(np.argmax(both_F))
    return best / (len(long_F) - 1) / 2 / scale if both_F[best] >= _LEAST_PEAK else None


def _profile(luma_HW: NDArray[np.integer] | NDArray[np.floating]) -> NDArray[np.float64]:
    lines = luma_HW[:: max(1, -(-len(luma_HW) // _LINES))].astype(np.int16)
    bends = np.abs(2 * lines[:, 1:-1] - lines[:, :-2] - lines[:, 2:])
    profile = bends[:, bends.shape[1] % 2 :].mean(axis=0, dtype=np.float64)  # an even number: the last frequency is .5
    shares: NDArray[np.float64] = profile / (profile.mean() + 1e-6) if profile.size else profile
    return shares


def _profile_of_bytes(luma_HW: NDArray[np.integer] | NDArray[np.floating], *, axis: int) -> NDArray[np.float64]:
    """What `_profile` gives along the axis, in a quarter of its time: sums of whole numbers below 2^24 are equal in any
    order and type."""
    import cv2

    length, num_lines = luma_HW.shape[axis], luma_HW.shape[1 - axis]
    if length < 3 or not num_lines:
        return np.zeros(0)
    step = -(-num_lines // _LINES)
    lines = np.ascontiguousarray(luma_HW[::step] if axis else luma_HW[:, ::step])
    bends = np.abs(cv2.Sobel(lines, cv2.CV_16S, 2 * axis, 2 - 2 * axis, ksize=1))
    inner = slice(1 + length % 2, length - 1)  # as there; a border is made up
    if inner.start >= inner.stop:
        return np.zeros(0)
    bends = bends[:, inner] if axis else bends[inner]
    sums = cv2.reduce(bends, 1 - axis, cv2.REDUCE_SUM, dtype=cv2.CV_32F).ravel()
    profile = sums.astype(np.float64) / bends.shape[1 - axis]
    shares: NDArray[np.float64] = profile / (profile.mean() + 1e-6)
    return shares


def _spectrum(profile_X: NDArray[np.float64], block_px: int) -> NDArray[np.float64]:
    """How far each frequency from 0 to .5 per pixel stands above those near it."""
    num = len(profile_X)
    calm = _windows(profile_X, _CALM).mean(axis=1)
    waves = (profile_X - calm) / (calm + 0.1)
    amplitude = np.abs(np.fft.rfft(waves * np.hanning(num)))
    near = min(_NEAR, len(amplitude) // 4 | 1)
    level = np.partition(_windows(amplitude, near), near // 2, axis=1)[:, near // 2]  # the median
    cycles = np.arange(len(amplitude)) / num
    from_blocks = np.abs(cycles * block_px - np.round(cycles * block_px)) * num / block_px
    is_asked = (cycles >= _LEAST_CYCLES) & (from_blocks > _OWN)
    return np.where(is_asked, amplitude / (level + 1e-9), 0.0)


def _windows(values_X: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """The values around each, of shape (values, size); size is odd. To import scipy takes longer than some hundred
    pictures."""
    return np.lib.stride_tricks.sliding_window_view(np.pad(values_X, size // 2, mode="edge"), size)

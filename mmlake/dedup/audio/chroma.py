"""Chromaprint in numpy: what music and speech sound like in each eighth of a second, for recordings from 3 s.

The low 32 bits of each word are those of Chromaprint's algorithm 2, which fpcalc and FFmpeg's muxer give, bit for bit
on samples at 11,025 Hz; the high ones say which of them are firm (mmlake.dedup.audio.align). Own code after the
published description: no program has to be there, no process is started, and only the values before quantization say
which bits are firm. Source: Lalinsky 2011 (How does Chromaprint work?), constants of Chromaprint 1.5, algorithm 2.
Legend: T frames of 372 ms every 124 ms, C=12 notes, K=16 classifiers of two bits.
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.audio.samples import finite

RATE_HZ = 11_025
_FRAME, _HOP = 4_096, 4_096 // 3
STEP_S = _HOP / RATE_HZ
_SMOOTH = np.array([0.25, 0.75, 1.0, 0.75, 0.25])
_LOWEST_HZ, _HIGHEST_HZ, _OCTAVE_HZ = 28, 3_520, 27.5
_SILENT_NORM = 0.01
_MAX_WIDTH = 16
SPAN_S = (_FRAME + (_MAX_WIDTH + len(_SMOOTH) - 2) * _HOP) / RATE_HZ  # that one word covers
# (kind of filter, lowest note, height, width, three thresholds)
_CLASSIFIERS = (
    (0, 4, 3, 15, 1.98215, 2.35817, 2.63523),
    (4, 4, 6, 15, -1.03809, -0.651211, -0.282167),
    (1, 0, 4, 16, -0.298702, 0.119262, 0.558497),
    (3, 8, 2, 12, -0.105439, 0.0153946, 0.135898),
    (3, 4, 4, 8, -0.142891, 0.0258736, 0.200632),
    (4, 0, 3, 5, -0.826319, -0.590612, -0.368214),
    (1, 2, 2, 9, -0.557409, -0.233035, 0.0534525),
    (2, 7, 3, 4, -0.0646826, 0.00620476, 0.0784847),
    (2, 6, 2, 16, -0.192387, -0.029699, 0.215855),
    (2, 1, 3, 2, -0.0397818, -0.00568076, 0.0292026),
    (5, 10, 1, 15, -0.53823, -0.369934, -0.190235),
    (3, 6, 2, 10, -0.124877, 0.0296483, 0.139239),
    (2, 1, 1, 14, -0.101475, 0.0225617, 0.231971),
    (3, 5, 6, 4, -0.0799915, -0.00729616, 0.063262),
    (1, 9, 2, 12, -0.272556, 0.019424, 0.302559),
    (3, 4, 2, 14, -0.164292, -0.0321188, 0.0846339),
)
_GRAY = np.array([0, 1, 3, 2], np.uint64)
_FIRM = 0.2  # of the distance between the outer thresholds; nearer to a threshold 10 dB noise turns a bit
_AUDIBLE = 1e-3  # of the loudest words' energy: -30 dB, below it noise decides the signs
_SILENT_ENERGY = 1e-3  # of a frame, at full scale 1: 16-bit rounding noise stays below it
_BLOCK_FRAMES = 512


def words(samples: NDArray[np.float32], rate_hz: int) -> NDArray[np.uint64]:
    """The words of mono samples in [-1, 1]; none for less than 2.7 s."""
    if len(samples) < SPAN_S * rate_hz:
        return np.empty(0, np.uint64)
    if rate_hz != RATE_HZ:
        import soxr

        samples = soxr.resample(finite(samples), rate_hz, RATE_HZ)
    notes_TC = _notes(np.clip(np.rint(samples * 32_767), -32_768, 32_767).astype(np.float32))
    num = len(notes_TC) - len(_SMOOTH) - _MAX_WIDTH + 2
    if num <= 0:
        return np.empty(0, np.uint64)
    values_TK = _filtered(_normalized(notes_TC), num)
    thresholds_K3 = np.array([row[4:] for row in _CLASSIFIERS])
    levels_TK = (values_TK[:, :, None] >= thresholds_K3).sum(axis=2)
    far_TK3 = np.abs(values_TK[:, :, None] - thresholds_K3) > _FIRM * (thresholds_K3[:, 2:] - thresholds_K3[:, :1])
    # in the Gray code the middle threshold turns the high bit, the outer two the low one
    firm_TK = 2 * far_TK3[:, :, 1] + (far_TK3[:, :, 0] & far_TK3[:, :, 2])
    found = _packed(_GRAY[levels_TK])
    audible_part = np.convolve(notes_TC.sum(axis=1), np.ones(_MAX_WIDTH + len(_SMOOTH) - 1), "valid")[:num]
    audible = audible_part > max(_AUDIBLE * float(np.percentile(audible_part, 95)), _SILENT_ENERGY)
    return found | np.where(audible, _packed(firm_TK.astype(np.uint64)) << np.uint64(32), np.uint64(0))


def _packed(codes_TK: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Two bits of each classifier, the first one highest."""
    shifts = np.arange(2 * (len(_CLASSIFIERS) - 1), -1, -2).astype(np.uint64)
    packed: NDArray[np.uint64] = np.bitwise_or.reduce(codes_TK << shifts, axis=1)
    return packed


@functools.lru_cache(maxsize=1)
def _bins() -> tuple[int, int, NDArray[np.float32]]:
    """(first bin, bin after the last, which of the notes each bin between them belongs to)."""
    low, high = (round(_FRAME * hertz / RATE_HZ) for hertz in (_LOWEST_HZ, _HIGHEST_HZ))
    octaves = np.log(np.arange(low, high) * RATE_HZ / _FRAME / _OCTAVE_HZ) / np.log(2.0)
    notes = (12 * (octaves - np.floor(octaves))).astype(np.int64)
    return low, high, (notes[:, None] == np.arange(12)).astype(np.float32)


def _notes(samples: NDArray[np.float32]) -> NDArray[np.float64]:
    """Energy of the twelve notes in each frame."""
    from scipy.fft import rfft  # several rows at a time: three times as fast as numpy's

    low, high, belongs = _bins()
    window = 0.54 - 0.46 * np.cos(2 * np.pi * np.arange(_FRAME) / (_FRAME - 1))
    scaled = (window / 32_767).astype(np.float32)
    frames = np.lib.stride_tricks.sliding_window_view(samples, _FRAME)[::_HOP]
    found = [np.empty((0, 12))]
    for at in range(0, len(frames), _BLOCK_FRAMES):
        spectrum = rfft(frames[at : at + _BLOCK_FRAMES] * scaled, axis=1, overwrite_x=True)[:, low:high]
        found.append(((spectrum.real**2 + spectrum.imag**2) @ belongs).astype(np.float64))
    return np.concatenate(found)


def _normalized(notes_TC: NDArray[np.float64]) -> NDArray[np.float64]:
    """Smoothed over five frames, each of length 1; zeros for silence."""
    num = len(notes_TC) - len(_SMOOTH) + 1
    smooth = np.sum([weight * notes_TC[at : at + num] for at, weight in enumerate(_SMOOTH)], axis=0)
    norms = np.sqrt((smooth**2).sum(axis=1, keepdims=True))
    found: NDArray[np.float64] = np.divide(smooth, norms, out=np.zeros_like(smooth), where=norms >= _SILENT_NORM)
    return found


def _filtered(image_TC: NDArray[np.float64], num: int) -> NDArray[np.float64]:
    """The log ratio of two areas of the image for each classifier, from its integral."""
    integral = np.zeros((len(image_TC) + 1, 13))
    integral[1:, 1:] = image_TC.cumsum(axis=0).cumsum(axis=1)

    def area(left: int, low: int, right: int, high: int) -> NDArray[np.float64]:
        ends, begins = integral[right : right + num], integral[left : left + num]
        found: NDArray[np.float64] = ends[:, high] - begins[:, high] - ends[:, low] + begins[:, low]
        return found

    values = np.empty((num, len(_CLASSIFIERS)))
    for at, (kind, low, height, width, *_) in enumerate(_CLASSIFIERS):
        high, middle, half = low + height, low + height // 2, width // 2
        whole = area(0, low, width, high)
        if kind == 0:
            first = whole
        elif kind == 1:
            first = area(0, middle, width, high)
        elif kind == 2:
            first = area(half, low, width, high)
        elif kind == 3:
            first = area(0, middle, half, high) + area(half, low, width, middle)
        elif kind == 4:
            first = area(0, low + height // 3, width, low + 2 * (height // 3))
        else:
            first = area(width // 3, low, 2 * (width // 3), high)
        rest = 0.0 if kind == 0 else whole - first
        values[:, at] = np.log1p(first) - np.log1p(rest)
    return values

"""The features that the acoustic model of `phone_model` was trained on: mel cepstra with two orders of differences.

Enters: mono 16 kHz sound. Leaves: three streams of 13 numbers, 100 times a second. The steps and their constants are
those of CMU Sphinx's front end, its suppression of noise included (after Doblinger 1995 and Kim and Stern's PNCC).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from mmlake.numba_compiler import made

# T frames, B bands, K cepstra, F streams
RATE_HZ, FRAMES_PER_S = 16_000, 100
_WINDOW_SAMPLES, _HOP_SAMPLES, _FFT_SIZE = 410, 160, 512
_EMPHASIS = np.float32(0.97)
_LOW_HZ, _HIGH_HZ, _NUM_BANDS, _NUM_CEPSTRA, _LIFTER = 130.0, 6_800.0, 25, 13, 22
_LEAST = np.float32(1e-4)  # of a band's power, at samples of 16 bits
_CHUNK_FRAMES = 256


def features(samples: np.ndarray) -> np.ndarray:
    """Cepstra, their slope over 40 ms and the slope's change, float32 (3, T, 13); T is 1 + (num_samples - 410) // 160,
    and frame k begins at k / 100 s. samples: full scale 32768."""
    num_frames = max(0, 1 + (len(samples) - _WINDOW_SAMPLES) // _HOP_SAMPLES)
    if not num_frames:
        return np.zeros((3, 0, _NUM_CEPSTRA), np.float32)
    power_TB = _band_powers(np.asarray(samples, np.float32), num_frames)
    noise_suppression()(power_TB)
    cepstra_TK = np.log(power_TB.astype(np.float32) + _LEAST) @ _cosines()
    cepstra_TK -= cepstra_TK.mean(axis=0)
    around = np.pad(cepstra_TK, ((3, 3), (0, 0)), mode="edge")
    slope = around[4:] - around[:-4]  # two frames ahead less two frames ago
    return np.stack([cepstra_TK, slope[1:-1], slope[2:] - slope[:-2]])


def _band_powers(samples: np.ndarray, num_frames: int) -> np.ndarray:
    """Of each frame and band, float64 (T, B)."""
    from scipy.fft import rfft

    emphasized = samples.copy()
    emphasized[1:] -= _EMPHASIS * samples[:-1]
    frames = np.lib.stride_tricks.sliding_window_view(emphasized, _WINDOW_SAMPLES)[::_HOP_SAMPLES]
    window = np.hamming(_WINDOW_SAMPLES).astype(np.float32)
    found = np.empty((num_frames, _NUM_BANDS), np.float64)
    for start in range(0, num_frames, _CHUNK_FRAMES):
        spectra = rfft(frames[start : start + _CHUNK_FRAMES] * window, _FFT_SIZE)
        power = np.square(spectra.real)
        power += np.square(spectra.imag)
        found[start : start + len(power)] = power @ _triangles()
    return found


@functools.cache
def _triangles() -> np.ndarray:
    """Bands of equal area between rounded edges on the mel scale, float32 (257, B)."""
    low, high = (2595 * np.log10(1 + hz / 700) for hz in (_LOW_HZ, _HIGH_HZ))
    edges_hz = 700 * (10 ** (np.linspace(low, high, _NUM_BANDS + 2) / 2595) - 1)
    step_hz = RATE_HZ / _FFT_SIZE
    edges_hz = np.floor(edges_hz / step_hz + 0.5) * step_hz
    bins_hz = np.arange(_FFT_SIZE // 2 + 1)[:, None] * step_hz
    left, middle, right = edges_hz[:-2], edges_hz[1:-1], edges_hz[2:]
    slopes = np.minimum((bins_hz - left) / (middle - left), (right - bins_hz) / (right - middle))
    return np.ascontiguousarray(np.maximum(slopes, 0) * 2 / (right - left), dtype=np.float32)


@functools.cache
def _cosines() -> np.ndarray:
    """A unitary cosine transform whose higher cepstra are raised, float32 (B, K)."""
    order = np.arange(_NUM_CEPSTRA)
    waves = np.cos(np.pi / _NUM_BANDS * np.outer(np.arange(_NUM_BANDS) + 0.5, order)) * np.sqrt(2 / _NUM_BANDS)
    waves[:, 0] /= np.sqrt(2)
    return np.asarray(waves * (1 + _LIFTER / 2 * np.sin(np.pi * order / _LIFTER)), np.float32)


@functools.lru_cache(maxsize=1)
def noise_suppression() -> Callable[[np.ndarray], None]:
    """`_suppress_noise`, compiled once per machine."""
    import numba

    compiled: Callable[[np.ndarray], None] = made(numba, numba.void(numba.float64[:, ::1]), _suppress_noise)
    return compiled


def _suppress_noise(power: Any) -> None:
    """Scale each band in each frame by how much of it is above its noise, smoothed over neighbouring bands."""
    num_frames, num_bands = power.shape
    smooth = power[0].copy()
    noise, floor, peak, gain = power[0] / 20, power[0] / 20, np.zeros(num_bands), np.empty(num_bands)
    for t in range(num_frames):
        for band in range(num_bands):
            smooth[band] = 0.7 * smooth[band] + 0.3 * power[t, band]
            share = 0.995 if smooth[band] >= noise[band] else 0.5  # the noise rises slowly and falls at once
            noise[band] = share * noise[band] + (1 - share) * smooth[band]
            signal = max(smooth[band] - noise[band], 1.0)
            share = 0.995 if signal >= floor[band] else 0.5
            floor[band] = share * floor[band] + (1 - share) * signal
            loudest = 0.85 * peak[band]
            peak[band] = max(loudest, signal)
            if signal < 0.85 * loudest:  # behind something loud
                signal = 0.2 * loudest
            signal = max(signal, floor[band])
            gain[band] = min(max(signal / smooth[band], 0.05), 20.0) if smooth[band] > 0 else 20.0
        for band in range(num_bands):
            first, last = max(0, band - 4), min(num_bands - 1, band + 4)
            total = 0.0
            for other in range(first, last + 1):
                total += gain[other]
            power[t, band] *= total / (last + 1 - first)

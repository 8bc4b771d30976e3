"""The mel energies that the speaker encoder was trained on, as librosa's `melspectrogram` gives them: 25 ms windows,
10 ms apart, 40 bands of Slaney's scale, power, no logarithm."""

from __future__ import annotations

from functools import cache

import numpy as np

RATE_HZ = 16_000
NUM_BANDS = 40
HOP_SAMPLES = 160
_WINDOW_SAMPLES = 400
_CHUNK_FRAMES = 6_000  # a minute: the spectrum of an hour would take 600 MB
# Slaney's scale (Auditory Toolbox, 1998): linear below 1 kHz, 27 bands per factor 6.4 above
_LINEAR_HZ, _BREAK_HZ, _LOG_STEP = 200.0 / 3, 1_000.0, np.log(6.4) / 27.0


def mel_energies(samples: np.ndarray) -> np.ndarray:
    """Energies, float32 of shape (num_frames, 40); frame k is centred on sample 160 k. samples: float32 mono 16 kHz."""
    num_frames = 1 + len(samples) // HOP_SAMPLES
    padded = np.pad(np.asarray(samples, np.float32), _WINDOW_SAMPLES // 2)
    # the periodic Hann window
    window = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(_WINDOW_SAMPLES) / _WINDOW_SAMPLES)).astype(np.float32)
    frames = np.lib.stride_tricks.sliding_window_view(padded, _WINDOW_SAMPLES)[::HOP_SAMPLES]
    found = np.empty((num_frames, NUM_BANDS), np.float32)
    for start in range(0, num_frames, _CHUNK_FRAMES):
        spectrum = np.fft.rfft(frames[start : start + _CHUNK_FRAMES] * window)
        power = spectrum.real.astype(np.float32) ** 2 + spectrum.imag.astype(np.float32) ** 2
        found[start : start + _CHUNK_FRAMES] = power @ _filters().T
    return found


@cache
def _filters() -> np.ndarray:
    """Triangles of equal area, float32 of shape (40, 201)."""
    edges_hz = _hz(np.linspace(_mel(0.0), _mel(RATE_HZ / 2), NUM_BANDS + 2))
    bins_hz = np.fft.rfftfreq(_WINDOW_SAMPLES, 1 / RATE_HZ)
    rise = (bins_hz - edges_hz[:-2, None]) / (edges_hz[1:-1] - edges_hz[:-2])[:, None]
    fall = (edges_hz[2:, None] - bins_hz) / (edges_hz[2:] - edges_hz[1:-1])[:, None]
    area = 2.0 / (edges_hz[2:] - edges_hz[:-2])
    triangles: np.ndarray = np.maximum(0.0, np.minimum(rise, fall)) * area[:, None]
    return triangles.astype(np.float32)


def _mel(hz: float) -> float:
    return hz / _LINEAR_HZ if hz < _BREAK_HZ else _BREAK_HZ / _LINEAR_HZ + np.log(hz / _BREAK_HZ) / _LOG_STEP


def _hz(mel: np.ndarray) -> np.ndarray:
    break_mel = _BREAK_HZ / _LINEAR_HZ
    return np.where(mel < break_mel, mel * _LINEAR_HZ, _BREAK_HZ * np.exp(_LOG_STEP * (mel - break_mel)))

"""Mel spectra of mono 16 kHz sound: windows of 25 ms or another length, 10 ms apart, bands of Slaney's scale.

Enters: samples. Leaves: energies as librosa's `melspectrogram` has them, or the log-mel spectrogram that Whisper and
models after it are trained on (Radford et al. 2022).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np

# T frames, B bands
RATE_HZ = 16_000
HOP_SAMPLES = 160
NUM_BANDS = 40
_WINDOW_SAMPLES = 400
_CHUNK_FRAMES = 256  # whose windows and spectra stay in the processor's cache
# Slaney's scale (Auditory Toolbox, 1998): linear below 1 kHz, 27 bands per factor 6.4 above
_LINEAR_HZ, _BREAK_HZ, _LOG_STEP = 200.0 / 3, 1_000.0, np.log(6.4) / 27.0
_LEAST, _RANGE = 1e-10, 8.0  # of an energy; decades that are kept below the loudest


def mel_energies(
    samples: np.ndarray, num_bands: int = NUM_BANDS, *, window_samples: int = _WINDOW_SAMPLES
) -> np.ndarray:
    """Energies, float32 of shape (1 + num_samples // 160, num_bands); frame k is centred on sample 160 k, and what lies
    outside of the sound is silence. samples: float32 mono 16 kHz."""
    padded = np.pad(np.asarray(samples, np.float32), window_samples // 2)
    found = np.empty((1 + (len(padded) - window_samples) // HOP_SAMPLES, num_bands), np.float32)
    for start, energy_TB in _energies(padded, len(found), num_bands, window_samples):
        found[start : start + len(energy_TB)] = energy_TB
    return found


def log_mel(samples: np.ndarray, num_bands: int = 80) -> np.ndarray:
    """The log-mel spectrogram of Whisper, float32 of shape (num_bands, num_samples // 160): decades of energy, at most
    8 below the loudest, plus 4, over 4. The sound is reflected at its ends; it is not padded to 30 s.

    samples: float32 mono 16 kHz. Empty where there are fewer than half a window, which cannot be reflected.
    """
    half = _WINDOW_SAMPLES // 2
    if len(samples) <= half:
        return np.zeros((num_bands, 0), np.float32)
    padded = np.pad(np.asarray(samples, np.float32), half, mode="reflect")
    found = np.empty((num_bands, len(samples) // HOP_SAMPLES), np.float32)
    for start, energy_TB in _energies(padded, found.shape[1], num_bands):
        np.maximum(energy_TB, np.float32(_LEAST), out=energy_TB)
        found[:, start : start + len(energy_TB)] = np.log10(energy_TB, out=energy_TB).T
    np.maximum(found, found.max(initial=np.log10(_LEAST)) - np.float32(_RANGE), out=found)
    found += np.float32(4.0)
    found *= np.float32(0.25)
    return found


def _energies(
    padded: np.ndarray, num_frames: int, num_bands: int, window_samples: int = _WINDOW_SAMPLES
) -> Iterator[tuple[int, np.ndarray]]:
    """(number of its first frame, energies) of some frames at a time: an hour's spectra would take 600 MB."""
    from scipy.fft import rfft  # several rows at a time: four times as fast as numpy's

    # the periodic Hann window
    window = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window_samples) / window_samples)).astype(np.float32)
    frames = np.lib.stride_tricks.sliding_window_view(padded, window_samples)[::HOP_SAMPLES][:num_frames]
    filters = np.ascontiguousarray(_filters(num_bands, window_samples).T)
    for start in range(0, num_frames, _CHUNK_FRAMES):
        spectrum = rfft(frames[start : start + _CHUNK_FRAMES] * window, overwrite_x=True)
        power = np.square(spectrum.real)
        power += np.square(spectrum.imag)
        yield start, power @ filters


@cache
def _filters(num_bands: int, window_samples: int) -> np.ndarray:
    """Triangles of equal area, float32 of shape (num_bands, window_samples // 2 + 1)."""
    edges_hz = _hz(np.linspace(_mel(0.0), _mel(RATE_HZ / 2), num_bands + 2))
    bins_hz = np.fft.rfftfreq(window_samples, 1 / RATE_HZ)
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

"""How far what is said stands above the noise, of mono 16 kHz sound with the spans in which somebody speaks.

Where there are pauses the noise is what remains in them; elsewhere it is estimated from what is spoken over it. Legend:
T analysis frames, B bands, K frequency bins of a band.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

Speech = Sequence[Mapping[str, float]]  # start_s, end_s, in order
_RATE_HZ = 16_000
_FFT, _HOP, _BAND_BINS = 512, 256, 16  # 32 ms, bands of 500 Hz
_HOP_S = _HOP / _RATE_HZ
_SMOOTH_FRAMES = 5
_FLOOR_PERCENTILE = 15
_BAND_PERCENTILE = 30
_FIRST_BIN = 3  # 94 Hz: rumble below speech would count as noise or as signal by chance
# of a frame at -60 dBFS by Parseval: half of the bins, and a Hann window keeps 3/8 of the power
_SILENT_POWER = 10 ** (-60 / 10) * _FFT * _FFT / 2 * 3 / 8
_MIN_AUDIBLE_S = 1.0  # a single syllable has no pause, so its noise floor is not distinct from its signal
_MIN_SNR_DB, _MAX_SNR_DB = -20.0, 100.0
# noise estimate over noise power on white noise (10 seeds of 20 s, spread 0.001): what both percentiles take away
# together
_FLOOR_BIAS = 0.331
_BEFORE_S, _BEHIND_S = 0.1, 0.15  # of a pause: breath, and what a room makes of the last word
_NEAR_S = 2.0  # of speech: a jingle between two speakers is no noise of either
_MIN_PAUSES_S = 0.5  # all together
_MIN_SAID_S = 1.0  # all together: half a second of speech in a tune is an error of the detector
# noise within speech that is so much louder than that of the pauses, and loud: those were muted. A clean voice has
# 20 dB and more by that measure
_GATED_DB, _GATED_RATIO_DB = 6.0, 15.0
_MIN_SPEECH_S = 4.0  # from which on its levels are a distribution
# 10 % to 90 % of the levels of frames within speech, and the ratio that babble of 3 and of 8 voices then has on average
# (mmlake bench av --part vad, other seeds): read speech alone has 35 dB and more
_RANGE_DB = (9.5, 13.0, 16.0, 20.0, 27.5, 36.0)
_RATIO_DB = (-5.0, 0.0, 5.0, 10.0, 20.0, 40.0)


def snr_db(samples: np.ndarray, speech: Speech | None = None) -> float | None:
    """Signal-to-noise ratio in dB, -20 to 100; None where less than a second is audible, that is above -60 dBFS: what a
    converter adds to silence is no noisy recording.

    samples: float32 mono at 16 kHz. speech: as a voice detector has it; None where none ran. With pauses, the power
    within speech over that in the pauses near it. Without any, as in a crowd whose babble is speech as well, at
    most what the range of its levels allows: babble fills what a single voice leaves empty. Without speech the noise is
    what stays in every band (`_by_floor`).
    """
    if len(samples) < _MIN_AUDIBLE_S * _RATE_HZ:
        return None
    power_T, floor_TB = _spectra(samples)
    audible_T = power_T > 1e-9 * _FFT  # gaps that were filled with silence say nothing about the noise
    if (power_T > _SILENT_POWER).sum() * _HOP < 0.9 * _MIN_AUDIBLE_S * _RATE_HZ:
        return None
    by_floor_db = _by_floor(power_T[audible_T], floor_TB[audible_T])
    if not speech:
        return by_floor_db
    is_speech_T, is_pause_T = _masks(len(power_T), speech)
    is_speech_T, is_pause_T = is_speech_T & audible_T, is_pause_T & audible_T
    if is_speech_T.sum() * _HOP_S < _MIN_SAID_S:
        return by_floor_db
    if is_pause_T.sum() * _HOP_S >= _MIN_PAUSES_S:
        ratio_db = _ratio_db(float(power_T[is_speech_T].mean()), float(power_T[is_pause_T].mean()))
        within_db = _by_floor(power_T[is_speech_T], floor_TB[is_speech_T])
        return within_db if within_db < min(ratio_db - _GATED_DB, _GATED_RATIO_DB) else ratio_db
    if is_speech_T.sum() * _HOP_S < _MIN_SPEECH_S:
        return by_floor_db
    low_db, high_db = 10 * np.log10(np.percentile(power_T[is_speech_T], [10, 90]))
    if high_db - low_db >= _RANGE_DB[-1]:
        return by_floor_db
    return min(by_floor_db, float(np.interp(high_db - low_db, _RANGE_DB, _RATIO_DB)))


def _spectra(samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(power of each frame above 94 Hz, the part of it in each band that has no peaks)."""
    powers: list[np.ndarray] = []
    floors: list[np.ndarray] = []
    window = np.hanning(_FFT).astype(np.float32)
    num_frames = (len(samples) - _FFT) // _HOP + 1
    for start in range(0, num_frames, 4096):  # a minute at a time
        stop = min(num_frames, start + 4096)
        part = np.lib.stride_tricks.sliding_window_view(samples[start * _HOP : (stop - 1) * _HOP + _FFT], _FFT)[::_HOP]
        spectrum_TF = np.abs(np.fft.rfft(part * window, axis=1)[:, _FIRST_BIN:]) ** 2
        bands_TBK = spectrum_TF[:, : spectrum_TF.shape[1] // _BAND_BINS * _BAND_BINS].reshape(len(part), -1, _BAND_BINS)
        powers.append(bands_TBK.sum(axis=(1, 2)))
        floors.append(np.percentile(bands_TBK, _BAND_PERCENTILE, axis=2) * bands_TBK.shape[2])
    return np.concatenate(powers), np.concatenate(floors)


def _by_floor(power_T: np.ndarray, floor_TB: np.ndarray) -> float:
    """By what stays in every band (15th percentile over time, after Martin 2001) and has no peaks within it (30th
    percentile over 500 Hz, so that tones and harmonics count as signal); both are scaled by what white noise gives."""
    smooth_TB = np.cumsum(np.vstack([np.zeros_like(floor_TB[:1]), floor_TB]), axis=0)
    smooth_TB = (smooth_TB[_SMOOTH_FRAMES:] - smooth_TB[:-_SMOOTH_FRAMES]) / _SMOOTH_FRAMES
    noise = float(np.percentile(smooth_TB, _FLOOR_PERCENTILE, axis=0).sum()) / _FLOOR_BIAS
    return _ratio_db(float(power_T.mean()), noise)


def _ratio_db(power: float, noise: float) -> float:
    """What the power has above the noise that is part of it."""
    if noise <= 0:
        return _MAX_SNR_DB
    signal = max(power - noise, 1e-12 * noise)
    return float(np.clip(10 * np.log10(signal / noise), _MIN_SNR_DB, _MAX_SNR_DB))


def _masks(num_frames: int, speech: Speech) -> tuple[np.ndarray, np.ndarray]:
    """(frames within speech, frames of the pauses near it and clear of it)."""
    is_speech_T, is_near_T, is_clear_T = np.zeros((3, num_frames), bool)
    is_clear_T[:] = True
    for one in speech:
        start, end = one["start_s"] / _HOP_S, one["end_s"] / _HOP_S
        is_speech_T[max(0, round(start)) : max(0, round(end))] = True
        is_near_T[max(0, round(start - _NEAR_S / _HOP_S)) : round(end + _NEAR_S / _HOP_S)] = True
        is_clear_T[max(0, round(start - _BEFORE_S / _HOP_S) - 1) : round(end + _BEHIND_S / _HOP_S)] = False
    return is_speech_T, is_near_T & is_clear_T

"""Pauses of a recording, from the levels of its sound. The sound is streamed; what is held is one number per 10 ms.

Silence is what lies near the recording's own noise and far below its own loud parts: a fixed level takes a quiet talk
for silence and a noisy room for sound.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mmlake.errors import UnreadableItem
from mmlake.preprocess.settings import SOUND_RATE_HZ, UnitSettings

# H hops
HOP_US = 10_000
_HOP_SAMPLES = SOUND_RATE_HZ * HOP_US // 1_000_000
_BLOCK_HOPS = 6_000
_LOWEST_DB = -100.0  # below the last bit of 16
_DIGITAL_SILENCE_DB = -92.0  # the last bit of 16 now and then: muted sound says nothing of the room
_SMOOTH_HOPS = 3  # one period of the lowest voice is longer than a hop
_FLOOR_PERCENTILE, _LOUD_PERCENTILE = 1, 95  # a hasty reader pauses for a fiftieth of the time
_ACTIVE_DB = 6.0  # above the noise: what the loud level is taken from, so that an hour of silence does not hide a word
_NOISE_RANGE = 0.3  # of the way from the noise to the loud parts: how far the noise of a room with people in it swings
_MIN_CLEAR_DB = 15.0  # from where silence begins to the loud parts; rain and traffic swing by less
_MIN_CONTRAST_DB = 10.0  # between noise and loud parts; steady noise, and tones, have no pauses
_SILENT_DBFS = -70.0  # a recording that is never louder is silence all along


@dataclass(frozen=True, slots=True)
class Levels:
    """How loud a recording is, hop by hop, and what of it is silence."""

    level_H: np.ndarray  # float32 dBFS, smoothed
    is_silent_H: np.ndarray  # bool
    loudness_H: np.ndarray  # float32, 0 where silence begins to 1 at the loud parts
    end_us: int  # of the item; the sound may be shorter
    is_clear: bool = True  # whether silence is far enough below the loud parts to be left out

    def runs_us(self) -> np.ndarray:
        """(start, end) of each silence in microseconds, int64, shape (num_silences, 2); what the sound is too short
        for is one."""
        return self._runs_us(self.is_silent_H)

    def clear_runs_us(self) -> np.ndarray:
        """Those of `runs_us` that hold nothing that anybody would miss: in lasting noise, only where it is muted."""
        return self.runs_us() if self.is_clear else self._runs_us(self.level_H <= _DIGITAL_SILENCE_DB)

    def _runs_us(self, is_silent_H: np.ndarray) -> np.ndarray:
        sound_us = len(is_silent_H) * HOP_US
        edges = np.flatnonzero(np.diff(np.concatenate([[False], is_silent_H, [False]]).astype(np.int8)))
        runs_us = edges.reshape(-1, 2).astype(np.int64) * HOP_US
        if sound_us < self.end_us:
            if len(runs_us) and runs_us[-1, 1] == sound_us:
                runs_us[-1, 1] = self.end_us
            else:
                runs_us = np.concatenate([runs_us, [[sound_us, self.end_us]]])
        return runs_us


def read_levels(path: Path, end_us: int, *, settings: UnitSettings) -> Levels:
    """The levels of the mono 16 kHz sound up to this time.

    Raises UnreadableItem 3301 where it is other sound, and what soundfile raises where it does not decode.
    """
    import soundfile

    num_hops = -(-end_us // HOP_US)
    powers, at = [np.zeros(0)], 0
    with soundfile.SoundFile(path) as sound:
        if sound.samplerate != SOUND_RATE_HZ or sound.channels != 1:
            raise UnreadableItem(
                3301, f"sample_rate_hz={sound.samplerate}, num_channels={sound.channels}, expected {SOUND_RATE_HZ}, 1"
            )
        for block in sound.blocks(blocksize=_HOP_SAMPLES * _BLOCK_HOPS, dtype="float32"):
            block = np.pad(block, (0, -len(block) % _HOP_SAMPLES)).reshape(-1, _HOP_SAMPLES)
            powers.append(block.var(axis=1))  # without the offset of a cheap converter
            at += len(block)
            if at >= num_hops:
                break
    return levels_of(np.concatenate(powers)[:num_hops], end_us, settings=settings)


def levels_of(power_H: np.ndarray, end_us: int, *, settings: UnitSettings) -> Levels:
    """The levels of a recording whose hops have this mean power."""
    if not len(power_H):
        nothing = np.zeros(0, np.float32)
        return Levels(nothing, nothing.astype(bool), nothing, end_us)
    kernel = np.full(_SMOOTH_HOPS, 1 / _SMOOTH_HOPS)
    smooth_H = np.convolve(np.pad(power_H, _SMOOTH_HOPS // 2, "edge"), kernel, "valid")
    level_H = (10 * np.log10(np.maximum(smooth_H, 10 ** (_LOWEST_DB / 10)))).astype(np.float32)
    audible = level_H[level_H > _DIGITAL_SILENCE_DB]
    floor = float(np.percentile(audible, _FLOOR_PERCENTILE)) if len(audible) else _LOWEST_DB
    active = level_H[level_H > floor + _ACTIVE_DB]
    loud = float(np.percentile(active, _LOUD_PERCENTILE)) if len(active) else floor
    if loud < _SILENT_DBFS:
        return Levels(level_H, np.ones(len(level_H), bool), np.zeros(len(level_H), np.float32), end_us)
    above = max(settings.silence_above_noise_db, _NOISE_RANGE * (loud - floor))
    bound = max(floor + above, loud - settings.silence_below_loud_db)
    bound = min(bound, max((floor + loud) / 2, loud - settings.silence_below_loud_db))
    loudness_H = np.clip((level_H - bound) / max(loud - bound, 1.0), 0.0, 1.0)
    is_silent_H = level_H <= _DIGITAL_SILENCE_DB
    if loud - floor >= _MIN_CONTRAST_DB:
        is_silent_H |= level_H < bound
    is_clear = loud - bound >= _MIN_CLEAR_DB
    return Levels(level_H, is_silent_H, loudness_H.astype(np.float32), end_us, is_clear)

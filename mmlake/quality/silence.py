"""How much of a sound is silent: frames of 20 ms in which no channel is above -60 dBFS.

Enters: blocks of the source's own channels, and how long the sound lasts. The mono track is no measure of it: the mean
of 5.1 has 15.6 dB less than a voice in the centre alone, and that of two channels of opposite sign nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

_SILENT_DBFS = -60.0
_FRAME_S = 0.02


@dataclass(slots=True)
class Silence:
    """What is known of the blocks so far."""

    loud_s: float = 0.0
    rate_hz: int = 0
    rest: NDArray[np.float32] = field(default_factory=lambda: np.zeros((0, 0), np.float32))  # of the next frame

    def add(self, block: NDArray[np.float32], rate_hz: int) -> None:
        """Take the next block, shape (num_samples, num_channels). One with other channels begins a frame."""
        if rate_hz != self.rate_hz or self.rest.shape[1] != block.shape[1]:
            self.rate_hz, self.rest = rate_hz, block[:0]
        samples = np.concatenate([self.rest, block]) if len(self.rest) else block
        size = max(1, round(_FRAME_S * rate_hz))
        num = len(samples) // size
        self.rest = samples[num * size :]
        frames = samples[: num * size].reshape(num, size, block.shape[1])
        # without their offset: what a channel that nothing is plugged into lies at is no sound
        power = np.einsum("nsc,nsc->nc", frames, frames) / size - frames.mean(axis=1) ** 2
        is_loud = (power >= 10 ** (_SILENT_DBFS / 10)).any(axis=1)
        self.loud_s += int(is_loud.sum()) * size / rate_hz

    def fraction(self, length_s: float) -> float | None:
        """Share of a sound of that length that is silent, with what lies between the blocks and behind them, 0 to 1;
        None below one frame."""
        num_frames = int(length_s / _FRAME_S + 1e-6)
        return min(1.0, max(0.0, 1.0 - self.loud_s / (num_frames * _FRAME_S))) if num_frames else None


def silent_fraction(samples: NDArray[np.float32], rate_hz: int) -> float | None:
    """The same of one channel, float32, shape (num_samples,)."""
    found = Silence()
    found.add(samples[:, None], rate_hz)
    return found.fraction(len(samples) / rate_hz)

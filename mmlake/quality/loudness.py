"""Integrated loudness (ITU-R BS.1770-4), streamed: a number per 100 ms is held."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mmlake.quality.signal_kernels import filtered

# N hops, C channels
_HOP_S, _BLOCK_HOPS = 0.1, 4  # blocks of 400 ms that overlap by three quarters
_OFFSET_DB, _ABSOLUTE_LUFS, _RELATIVE_LU = -0.691, -70.0, -10.0
_MIN_RATE_HZ = 7_000  # the shelf of the K-weighting begins at 1.7 kHz
_SHELF_HZ, _SHELF_DB, _SHELF_Q, _SHELF_EXPONENT = 1681.974450955533, 3.999843853973347, 0.7071752369554196, 0.4996667742
_PASS_HZ, _PASS_Q = 38.13547087602444, 0.5003270373238773
# Weights of the usual layouts of so many channels, in the order of WAV: 1.41 at the sides (of 5 channels those behind
# stand there), none for low frequency effects (BS.1770-4, tables 3 and 4). What 3 and 4 channels are is not certain.
_WEIGHTS = {
    5: (1.0, 1.0, 1.0, 1.41, 1.41),
    6: (1.0, 1.0, 1.0, 0.0, 1.41, 1.41),  # 5.1
    7: (1.0, 1.0, 1.0, 0.0, 1.0, 1.41, 1.41),  # 6.1: the one behind, then the sides
    8: (1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.41, 1.41),  # 7.1
}


@dataclass(slots=True)
class Loudness:
    """What is known of the blocks so far."""

    rate_hz: int = 0
    hops: list[NDArray[np.float64]] = field(default_factory=list)  # weighted energy of each 100 ms
    rest: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)))  # weighted samples of the next one
    states: list[NDArray[np.float64]] = field(default_factory=list)  # of both filters

    def add(self, block: NDArray[np.float32], rate_hz: int) -> None:
        """Take the next block, shape (num_samples, num_channels). One with other channels begins anew."""
        if rate_hz < _MIN_RATE_HZ or not len(block):
            return
        num_channels = block.shape[1]
        if rate_hz != self.rate_hz or self.rest.shape[1] != num_channels:
            self.rate_hz, self.rest = rate_hz, np.zeros((0, num_channels))
            self.states = [np.zeros((2, 2, num_channels))]
        weighted, self.states[0] = filtered(_filters(rate_hz), block, self.states[0])
        weighted = np.concatenate([self.rest, weighted])
        size = round(_HOP_S * rate_hz)
        num_hops = len(weighted) // size
        self.rest = weighted[num_hops * size :]
        power_NC = np.square(weighted[: num_hops * size]).reshape(num_hops, size, num_channels).mean(axis=1)
        self.hops.append(power_NC @ np.array(_WEIGHTS.get(num_channels, (1.0,) * num_channels)))

    def found(self) -> float | None:
        """LUFS of all blocks, at least -70; None below 0.4 s, at rates below 7 kHz, and where all is quieter."""
        hops = np.concatenate(self.hops) if self.hops else np.zeros(0)
        if len(hops) < _BLOCK_HOPS:
            return None
        power = np.convolve(hops, np.full(_BLOCK_HOPS, 1 / _BLOCK_HOPS), "valid")
        kept = power[power > _power(_ABSOLUTE_LUFS)]
        if not len(kept):
            return None
        kept = kept[kept > _power(_lufs(float(kept.mean())) + _RELATIVE_LU)]
        return _lufs(float(kept.mean()))


def _power(lufs: float) -> float:
    return float(10 ** ((lufs - _OFFSET_DB) / 10))


def _lufs(power: float) -> float:
    return float(_OFFSET_DB + 10 * np.log10(power))


def _filters(rate_hz: int) -> NDArray[np.float64]:
    """The K-weighting as two second-order sections: the standard gives them at 48 kHz; these have its analogue shape at
    any rate (Mansbridge, Finn and Reiss 2012)."""
    shelf, high = np.tan(np.pi * _SHELF_HZ / rate_hz), 10 ** (_SHELF_DB / 20)
    middle, scale = high**_SHELF_EXPONENT, 1 + shelf / _SHELF_Q + shelf**2
    first = [
        (high + middle * shelf / _SHELF_Q + shelf**2) / scale,
        2 * (shelf**2 - high) / scale,
        (high - middle * shelf / _SHELF_Q + shelf**2) / scale,
        1.0,
        2 * (shelf**2 - 1) / scale,
        (1 - shelf / _SHELF_Q + shelf**2) / scale,
    ]
    edge = np.tan(np.pi * _PASS_HZ / rate_hz)
    scale = 1 + edge / _PASS_Q + edge**2
    second = [1.0, -2.0, 1.0, 1.0, 2 * (edge**2 - 1) / scale, (1 - edge / _PASS_Q + edge**2) / scale]
    return np.array([first, second])

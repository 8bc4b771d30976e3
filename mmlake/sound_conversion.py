"""Sound of several streams, one behind the other, brought to one rate and number of channels.

Enters: blocks of each stream with their places. Leaves: blocks with their places in all of it, as one recording has
them. What decodes the streams is not its business.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

# (rate in Hz, number of its first sample in the recording, float32 of shape (num_samples, num_channels))
Block = tuple[int, int, np.ndarray]


def converted(streams: Iterable[Iterable[Block]], *, rate_hz: int, num_channels: int) -> Iterator[Block]:
    """The blocks of all streams at that rate; each stream begins where the one before ends. A stream of fewer channels
    is their mean in each of them, as its mono track has it."""
    before_s = 0.0
    for stream in streams:
        end_s, place = 0.0, _Place(rate_hz)
        for own_hz, position, block in stream:
            wide = block
            if block.shape[1] != num_channels:
                wide = np.repeat(block.mean(axis=1, keepdims=True), num_channels, axis=1)
            if place.ends_at(own_hz, position):
                yield from place.rest()
                place.begin(own_hz, position, before_s)
            yield from place.add(wide)
            end_s = max(end_s, (position + len(block)) / own_hz)
        yield from place.rest()
        before_s += end_s


class _Place:
    """Where sound without a gap in it goes on, at its own rate and at that of the recording."""

    def __init__(self, rate_hz: int) -> None:
        self._rate_hz = rate_hz
        self._own_hz, self._own_end = 0, -1
        self._start = self._num_own = self._num_given = self._num_channels = 0
        self._resampler = None

    def ends_at(self, own_hz: int, position: int) -> bool:
        """Whether a block of that rate, at that place, does not follow the one before."""
        return (own_hz, position) != (self._own_hz, self._own_end)

    def begin(self, own_hz: int, position: int, before_s: float) -> None:
        """The next block is there, behind so much of other streams."""
        self._own_hz, self._own_end = own_hz, position
        self._start = round((before_s + position / own_hz) * self._rate_hz)
        self._num_own = self._num_given = 0

    def add(self, block: np.ndarray) -> Iterator[Block]:
        """What is known of the recording with these samples, which follow those before."""
        import soxr

        if not self._num_own and self._own_hz != self._rate_hz:
            self._num_channels = block.shape[1]
            self._resampler = soxr.ResampleStream(
                self._own_hz, self._rate_hz, block.shape[1], dtype="float32", quality="HQ"
            )
        self._num_own += len(block)
        self._own_end += len(block)
        samples = block if self._resampler is None else self._resampler.resample_chunk(np.ascontiguousarray(block))
        yield from self._given(samples)

    def rest(self) -> Iterator[Block]:
        """What the filter held back, exact in length."""
        if self._resampler is None:
            return
        silence = np.zeros((0, self._num_channels), np.float32)
        samples = self._resampler.resample_chunk(silence, last=True)
        self._resampler = None
        left = round(self._num_own * self._rate_hz / self._own_hz) - self._num_given
        yield from self._given(samples[: max(0, left)])

    def _given(self, samples: np.ndarray) -> Iterator[Block]:
        if len(samples):
            yield self._rate_hz, self._start + self._num_given, samples
            self._num_given += len(samples)

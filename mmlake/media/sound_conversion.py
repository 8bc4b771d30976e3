"""Sound of several streams, one behind the other, brought to one rate and number of channels.

Enters: blocks of each stream with their places. Leaves: blocks with their places in all of it, as one recording has
them. What decodes the streams is not its business.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from mmlake.errors import UnreadableItem

# (rate in Hz, number of its first sample in the recording, float32 of shape (num_samples, num_channels))
Block = tuple[int, int, np.ndarray]
# Mean power of a mix that is louder than this (-40 dBFS) is sound. Below it, channels that were mixed have cancelled
# each other where less is left than a two hundred and fiftieth of what one of them alone leaves: 24 dB
_SOUND_POWER, _LEFT = 1e-4, 0.004
_LOUDER = 2.0  # power of a channel that is taken instead of the first one


def channel_instead(mix: np.ndarray, channels: Sequence[np.ndarray]) -> int | None:
    """Which channel stands for the mix, where the mix has lost what they hold, as where a cable with crossed wires
    turned one of two over; None where the mix has it. mix: the mean of the channels, full scale 1."""
    if len(channels) < 2 or not is_quiet(mix):
        return None
    left = _power(mix)
    powers = [_power(channel) for channel in channels]
    if not left < _LEFT * max(powers) / len(channels) ** 2:
        return None
    loudest = int(np.argmax(powers))
    return loudest if powers[loudest] > _LOUDER * powers[0] else 0


def is_quiet(mix: np.ndarray) -> bool:
    """Whether a mix may have lost something."""
    return len(mix) > 0 and _power(mix) < _SOUND_POWER


def _power(samples: np.ndarray) -> float:
    return float(np.dot(samples, samples)) / len(samples)


def mixed(block: np.ndarray) -> np.ndarray:
    """The channels of a block as one: their mean, or `channel_instead`. block: float32 of shape (num_samples,
    num_channels), full scale 1."""
    num_channels = block.shape[1]
    if num_channels == 1:
        return block[:, 0]
    # a product with a vector: numpy's mean over an axis costs as much as the decoder
    mix: np.ndarray = block @ np.full(num_channels, 1 / num_channels, np.float32)
    chosen = channel_instead(mix, list(block.T))
    return mix if chosen is None else np.ascontiguousarray(block[:, chosen])


def converted(streams: Iterable[Iterable[Block]], *, rate_hz: int, num_channels: int) -> Iterator[Block]:
    """The blocks of all streams at that rate; each stream begins where the one before ends. A stream of fewer channels
    is `mixed` in each of them, as its mono track has it."""
    before_s = 0.0
    for stream in streams:
        end_s, place = 0.0, _Place(rate_hz)
        for own_hz, position, block in stream:
            wide = block
            if block.shape[1] != num_channels:
                wide = np.repeat(mixed(block)[:, None], num_channels, axis=1)
            if place.ends_at(own_hz, position):
                yield from place.rest()
                place.begin(own_hz, position, before_s)
            yield from place.add(wide)
            end_s = max(end_s, (position + len(block)) / own_hz)
        yield from place.rest()
        before_s += end_s


def gathered(blocks: Iterable[Block], num_samples: int) -> Iterator[Block]:
    """The same sound in blocks of so many samples or more, but where it has a gap, or changes its rate or its channels.
    Frames of MP3 have 1,152: what is done once for each block took longer than what is done with its samples."""
    parts, rate_hz, first, end = list[np.ndarray](), 0, 0, 0
    try:
        for own_hz, position, block in blocks:
            if parts and (own_hz != rate_hz or position != end or block.shape[1] != parts[0].shape[1]):
                yield rate_hz, first, _joined(parts)
                parts = []
            if not parts:
                rate_hz, first, end = own_hz, position, position
            parts.append(block)
            end += len(block)
            if end - first >= num_samples:
                yield rate_hz, first, _joined(parts)
                parts = []
    except UnreadableItem:
        if parts:  # what came before the damage
            yield rate_hz, first, _joined(parts)
        raise
    if parts:
        yield rate_hz, first, _joined(parts)


def _joined(parts: Sequence[np.ndarray]) -> np.ndarray:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


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

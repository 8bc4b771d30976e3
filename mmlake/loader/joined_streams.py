"""Several versions, of one lake or of many, as one stream: how many positions of an epoch each has, and whose turn it
is. An epoch has c_g positions of each stream, permuted together; they are the next c_g of the stream's own endless
sequence, which passes through its epochs one after the other. Nothing is stored in proportion to the samples.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from mmlake.errors import SettingsError
from mmlake.loader.passes import SampleStream, whole_number
from mmlake.loader.permutation import Permutation, passes_at
from mmlake.loader.stream import ShardStream

_NAME = "__stream__"
_MAX_POSITIONS = 1 << 60  # of an epoch: positions are computed as int64, and those of a pass begin anywhere in it


class JoinedStreams(SampleStream):
    """The samples of several streams in one order, each with the name of its stream as `__stream__`.

    What a sample is (decoders, modality, weights, mixture, whether shuffled, what damage does) is that of its stream;
    seed, epoch, ranks, batch size and `tail` are given here. Numbers of samples are those of the streams one after the
    other, in the order of the names that were given.
    """

    def __init__(
        self,
        streams: Mapping[str, ShardStream],
        *,
        weights: Mapping[str, float] | None = None,
        num_positions: int | None = None,
        seed: int = 0,
        epoch: int = 0,
        rank: int = 0,
        world_size: int = 1,
        batch_size: int = 1,
        tail: str = "keep",
    ) -> None:
        """weights: share of each stream in the positions of an epoch, 0 or more, in proportion to their sum; None gives
        each as many as its own epoch has. num_positions: of an epoch over all ranks; None is the sum over the streams.
        Raises SettingsError for an argument that is not usable."""
        self.streams = _checked(streams, rank, world_size)
        sizes = {name: stream.num_positions for name, stream in self.streams.items()}
        total = sum(sizes.values()) if num_positions is None else whole_number("num_positions", num_positions)
        self.counts: dict[str, int] = _counts(sizes, weights, total)  # name -> positions of an epoch
        self._names = list(self.streams)
        self._count_of = np.array([self.counts[name] for name in self._names], dtype=np.int64)
        self._ends = np.cumsum(self._count_of)
        self._sizes = np.array([sizes[name] for name in self._names], dtype=np.int64)
        self._first_numbers = [0]
        for stream in self.streams.values():
            self._first_numbers.append(self._first_numbers[-1] + stream.num_samples)
        self.num_samples, self.num_positions = self._first_numbers[-1], int(self._ends[-1])
        self._begin(seed=seed, epoch=epoch, rank=rank, world_size=world_size, batch_size=batch_size, tail=tail)

    def numbers_at(self, positions: np.ndarray, *, seed: int, epoch: int) -> np.ndarray:
        """The sample numbers at these positions of an epoch, int64; positions are int64 in 0..num_positions-1."""
        joined = Permutation(self.num_positions, seed=f"{seed} joined", epoch=epoch).at(positions)
        stream_of = np.searchsorted(self._ends, joined, side="right")
        numbers = np.empty(len(positions), dtype=np.int64)
        for place in np.unique(stream_of).tolist():
            count, size = int(self._count_of[place]), int(self._sizes[place])
            of_stream = np.flatnonzero(stream_of == place)
            ordinals = joined[of_stream] - (self._ends[place] - count)
            for once, found, at in passes_at(ordinals, epoch=epoch, count=count, size=size):
                own = self.streams[self._names[place]].numbers_at(at, seed=seed, epoch=once)
                numbers[of_stream[found]] = self._first_numbers[place] + own
        return numbers

    def sample(self, number: int) -> dict[str, Any]:
        """The sample of that number, as its stream gives it, with `__stream__`. Raises ShardCorrupt."""
        name, within = self._within(number)
        return {**self.streams[name].sample(within), _NAME: name}

    def sample_or_skip(self, number: int) -> dict[str, Any] | None:
        """As `sample`; None where its stream leaves it out as damaged."""
        name, within = self._within(number)
        sample = self.streams[name].sample_or_skip(within)
        return None if sample is None else {**sample, _NAME: name}

    @property
    def skipped(self) -> dict[str, str]:
        """What was left out as damaged: stream, shard and number -> what is wrong with it."""
        return {f"{name}/{what}": why for name, one in self.streams.items() for what, why in one.skipped.items()}

    def facts(self) -> Iterator[dict[str, Any]]:
        """What the JSON member of every sample says, in the order of the numbers. Raises ShardCorrupt."""
        for stream in self.streams.values():
            yield from stream.facts()

    def identity(self) -> dict[str, Any]:
        """What a state must agree on with the stream that loads it."""
        return {"streams": [[name, self.counts[name], one.identity()] for name, one in self.streams.items()]}

    def close(self) -> None:
        """Close every shard; the next sample opens its shard again."""
        for stream in self.streams.values():
            stream.close()

    def _within(self, number: int) -> tuple[str, int]:
        if not 0 <= number < self.num_samples:
            raise IndexError(f"sample {number} of {self.num_samples}")
        place = bisect_right(self._first_numbers, number) - 1
        return self._names[place], number - self._first_numbers[place]


def _checked(streams: Any, rank: int, world_size: int) -> dict[str, ShardStream]:
    """The streams by name. Raises SettingsError for what is none, and for one that has ranks or a position of its own,
    which would count for nothing here: without ranks, each rank would train on all samples."""
    if not isinstance(streams, Mapping) or not streams:
        raise SettingsError(f"streams is {streams!r}, expected a mapping of one or more by name")
    for name, stream in streams.items():
        if not isinstance(stream, SampleStream):
            raise SettingsError(f"the stream {name!r} is {stream!r}, expected a ShardStream")
        if (stream.rank, stream.world_size) not in ((0, 1), (rank, world_size)):
            raise SettingsError(
                f"the stream {name!r} is for rank {stream.rank} of {stream.world_size}, and all together are for rank "
                f"{rank} of {world_size}; give rank and world_size where the streams are joined"
            )
        if stream.is_resumed:
            raise SettingsError(f"the stream {name!r} has a state loaded; load the state of all streams together")
    return dict(streams)


def _counts(sizes: Mapping[str, int], weights: Mapping[str, float] | None, total: int) -> dict[str, int]:
    """Positions of each stream in an epoch, each within one of its share: the largest remainders are rounded up."""
    if weights is not None and (not isinstance(weights, Mapping) or set(weights) != set(sizes)):
        of = sorted(weights) if isinstance(weights, Mapping) else weights
        raise SettingsError(f"weights are of {of}, expected one of each stream, {sorted(sizes)}")
    try:  # exact: a sum of floats may miss the total, or be infinite
        masses = [Fraction(sizes[name] if weights is None else weights[name]) for name in sizes]
    except (TypeError, ValueError, OverflowError):  # NaN, infinity and what is no number
        masses = []
    if not masses or min(masses) < 0 or not 0 <= total <= _MAX_POSITIONS or (total and not sum(masses)):
        raise SettingsError(
            f"weights {None if weights is None else dict(weights)} and num_positions {total}: expected finite numbers "
            f"from 0 on, one above 0, streams that are not empty, and at most {_MAX_POSITIONS} positions"
        )
    if empty := [name for name, mass in zip(sizes, masses, strict=True) if mass > 0 and not sizes[name]]:
        raise SettingsError(f"the stream {empty[0]!r} has no samples to give; leave it out, or give it the weight 0")
    exact = [mass * total / (sum(masses) or 1) for mass in masses]
    counts = [math.floor(one) for one in exact]
    by_remainder = sorted(range(len(counts)), key=lambda place: counts[place] - exact[place])
    for place in by_remainder[: total - sum(counts)]:
        counts[place] += 1
    return dict(zip(sizes, counts, strict=True))

"""Passes through samples in a global order: who takes which position, and how to go on after a stop.

One global order per epoch, position 0..N-1, where N is the number of samples, or of what a mixture gives out. Rank r of
W takes the positions start + j*W + r. Worker w of K takes its rank's j in blocks of `batch_size`, block b going to
worker b mod K, which is the order in which a DataLoader asks its workers for batches. Therefore, when every rank has
taken n samples, exactly the positions start..start + n*W - 1 are used up, and any other world size can go on from
there.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mmlake.errors import SettingsError

_CHUNK = 1024  # positions computed at a time
_STATE = "mmlake.loader/1"


@dataclass(slots=True)
class _Pass:
    """One way through the samples: where it began, which nothing changes any more, and how far it came."""

    seed: int
    epoch: int
    start: int  # the first global position
    taken: int = 0  # ordinals of its rank, or of its worker, that it has passed
    has_begun: bool = False  # whether somebody iterates over it


class SampleStream(ABC):
    """Samples by number and in the order of an epoch, iterable from the resumed position."""

    num_samples: int
    num_positions: int  # of an epoch

    @abstractmethod
    def sample_or_skip(self, number: int) -> dict[str, Any] | None:
        """The sample of that number in index order; None where it is damaged and left out."""

    @abstractmethod
    def numbers_at(self, positions: np.ndarray, *, seed: int, epoch: int) -> np.ndarray:
        """The sample numbers at these positions of an epoch, int64; positions are int64 in 0..num_positions-1."""

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """What a state must agree on with the stream that loads it."""

    @abstractmethod
    def facts(self) -> Iterator[dict[str, Any]]:
        """What the JSON member of every sample says, in index order; reads no medium. Raises ShardCorrupt."""

    def _begin(self, *, seed: int, epoch: int, rank: int, world_size: int, batch_size: int, tail: str) -> None:
        """Set what a pass depends on. Raises SettingsError for a number that is not usable."""
        check_choices(tail=tail)
        rank, world_size = whole_number("rank", rank), whole_number("world_size", world_size)
        epoch, batch_size = whole_number("epoch", epoch), whole_number("batch_size", batch_size)
        if not 0 <= rank < world_size or batch_size < 1:
            raise SettingsError(
                f"rank {rank} of world_size {world_size} with batch_size {batch_size}: expected 0 <= rank < "
                "world_size and batch_size >= 1"
            )
        self.seed, self.epoch, self.rank, self.world_size = whole_number("seed", seed), epoch, rank, world_size
        self.batch_size, self.tail = batch_size, tail
        self._start = 0  # the first global position that is not used up
        self._passed = 0  # what a worker had passed when its state was saved; the next pass begins behind it
        self._pass = self._new_pass()

    @property
    def is_resumed(self) -> bool:
        """Whether the next pass begins behind the first position of its epoch."""
        return self._start > 0

    def __len__(self) -> int:
        """Samples that this rank still gives out in this epoch."""
        return self._num_left(self._start)

    def _num_left(self, start: int) -> int:
        """Samples of this rank from that position on."""
        return self.share_of_rank(self.num_positions - start)

    def share_of_rank(self, left: int) -> int:
        """How many this rank takes of so many samples, or batches, that all ranks still share."""
        if self.tail == "drop":
            return left // self.world_size
        shared = left if self.tail == "pad" else left - self.rank
        return max(0, -(-shared // self.world_size))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        if self._pass.has_begun and self._pass.taken >= self._num_left(self._pass.start):
            self._start = 0  # who takes the last sample, and asks for no more, has read to the end as well
        samples = self.iterate()
        return self._to_the_end(samples, self._pass)

    def _to_the_end(self, samples: Iterator[dict[str, Any]], begun: _Pass) -> Iterator[dict[str, Any]]:
        yield from samples
        if self._pass is begun:
            self._start = 0  # a loaded position is used up: the next pass is a whole epoch

    def iterate(self, *, worker: int = 0, num_workers: int = 1) -> Iterator[dict[str, Any]]:
        """The samples of one worker of this rank, from the resumed position to the end of the epoch. `state_dict`
        counts the pass that began last; `set_epoch` and `load_state_dict` are for the next one, and change none that
        has begun."""
        begun = self._pass = self._new_pass()
        begun.has_begun, self._passed = True, 0
        return self._samples(begun, worker, num_workers)

    def _pass_over(self, num_samples: int) -> None:
        """Let the next pass, which is a worker's, begin behind so many of its own samples."""
        self._passed = num_samples
        self._pass = self._new_pass()

    def _new_pass(self) -> _Pass:
        return _Pass(self.seed, self.epoch, self._start, self._passed)

    def _samples(self, begun: _Pass, worker: int, num_workers: int) -> Iterator[dict[str, Any]]:
        for number in self._numbers(begun, worker, num_workers):
            sample = self.sample_or_skip(number)
            begun.taken += 1  # not before: where the sample raises, a state goes on with it
            if sample is not None:
                yield sample

    def set_epoch(self, epoch: int) -> None:
        """Let the next pass be that epoch, from its first position; from the loaded one where a state of that epoch was
        loaded, so that a loop which names each epoch goes on where it was."""
        epoch = whole_number("epoch", epoch)
        if epoch != self.epoch:
            self.epoch, self._start, self._passed = epoch, 0, 0
        self._pass = self._new_pass()

    def state_dict(self, num_samples: int | None = None) -> dict[str, Any]:
        """Where to go on, the same on every rank that has taken equally many samples.

        num_samples: how many samples this rank's training loop has received since the start or the last
        `load_state_dict`; needed with DataLoader workers, which run ahead of the loop. Without it, the count of this
        process is used.
        """
        taken = self._pass.taken if num_samples is None else whole_number("num_samples", num_samples)
        if taken < 0:
            raise SettingsError(f"num_samples is {taken}, expected 0 or more")
        position = min(self._pass.start + taken * self.world_size, self.num_positions)
        return {"schema": _STATE, "seed": self.seed, "epoch": self.epoch, "position": position} | self.identity()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from the state; rank, world size, workers and batch size may be others than before. Raises
        SettingsError for other data."""
        if not isinstance(state, Mapping) or state.get("schema") != _STATE:
            schema = state.get("schema") if isinstance(state, Mapping) else type(state).__name__
            raise SettingsError(f"the loader state is of schema {schema!r}, expected {_STATE}")
        differing = {
            name: (state.get(name), value) for name, value in self.identity().items() if state.get(name) != value
        }
        if differing:
            raise SettingsError(
                "the loader state belongs to other data: "
                + "; ".join(f"{name} was {then!r}, is {now!r}" for name, (then, now) in differing.items())
            )
        seed, epoch, position = (
            whole_number(f"{name} of the loader state", state.get(name)) for name in ("seed", "epoch", "position")
        )
        if not 0 <= position <= self.num_positions:
            raise SettingsError(f"the loader state is at position {position} of {self.num_positions} samples")
        self.seed, self.epoch, self._start, self._passed = seed, epoch, position, 0
        self._pass = self._new_pass()

    def _numbers(self, begun: _Pass, worker: int, num_workers: int) -> Iterator[int]:
        """The sample numbers of one worker in order, from the first that the pass has not passed."""
        count, block = self._num_left(begun.start), self.batch_size
        for first in range(begun.taken, count, _CHUNK):  # no worker has more ordinals than its rank
            local = np.arange(first, min(first + _CHUNK, count), dtype=np.int64)
            ordinals = ((local // block) * num_workers + worker) * block + local % block
            ordinals = ordinals[ordinals < count]
            if not len(ordinals):
                return
            positions = (begun.start + ordinals * self.world_size + self.rank) % self.num_positions
            yield from self.numbers_at(positions, seed=begun.seed, epoch=begun.epoch).tolist()


def whole_number(name: str, value: Any) -> int:
    """The number as an int, numpy's too: the order depends on how a seed is written, and a state is JSON. Raises
    SettingsError."""
    try:
        return operator.index(value)
    except TypeError:
        raise SettingsError(f"{name} is {value!r}, expected a whole number") from None


def check_choices(**choices: str) -> None:
    """Raises SettingsError for a word that is none of those there are."""
    known = {"on_corrupt": ("error", "skip"), "tail": ("keep", "drop", "pad")}
    for name, value in choices.items():
        if value not in known[name]:
            raise SettingsError(f"{name} is {value!r}, expected one of {known[name]}")

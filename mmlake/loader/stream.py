"""The stream of samples, without torch: which sample stands at which position, who takes it, and how to go on after a
stop.

One global order per epoch, position 0..N-1, where N is the number of samples, or of what a mixture gives out. Rank r of
W takes the positions start + j*W + r. Worker w of K takes its rank's j in blocks of `batch_size`, block b going to
worker b mod K, which is the order in which a DataLoader asks its workers for batches. Therefore, when every rank has
taken n samples, exactly the positions start..start + n*W - 1 are used up, and any other world size can go on from
there.
"""

from __future__ import annotations

import logging
import operator
import resource
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mmlake import checked_json
from mmlake.errors import SettingsError, ShardCorrupt, UnreadableItem
from mmlake.film_decoders import DecodeSettings
from mmlake.loader.decode import decoded, decoders
from mmlake.loader.entries import entries, file_state
from mmlake.loader.mixed_order import read_mixture
from mmlake.loader.parquet_shard import ParquetShard, RowGroups
from mmlake.loader.permutation import Permutation
from mmlake.loader.shard import KNOWN, OpenShard, SampleCorrupt, checked_mode, open_shard
from mmlake.loader.shard_index import Layout

_CHUNK = 1024  # positions computed at a time
_MIN_OPEN, _MAX_OPEN = 128, 4096  # open shards; each holds a file descriptor, and two once it is opened again
_MAX_OPEN_SAMPLES = 1 << 20  # of shards that are open for the first time, whose indexes are in memory: 160 MB
_STATE = "mmlake.loader/1"
_log = logging.getLogger(__name__)


def max_open() -> int:
    """How many shards may be open: a quarter of the files that this process may open, within bounds."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MAX_OPEN if soft == resource.RLIM_INFINITY else max(_MIN_OPEN, min(_MAX_OPEN, soft // 4))


@dataclass(slots=True)
class _Pass:
    """One way through the samples: where it began, which nothing changes any more, and how far it came."""

    seed: int
    epoch: int
    start: int  # the first global position
    taken: int = 0  # ordinals of its rank, or of its worker, that it has passed
    has_begun: bool = False  # whether somebody iterates over it


class ShardStream:
    """The samples of a set of shards: iterable from the resumed position, and by number through `sample`.

    A sample is a dict: `__key__` (64 hexadecimal characters), `__weight__` (float, 0..1), and each member by its
    ending, as bytes or as the decoder gives it (docs/loader.md has shapes and types). Raises SettingsError for an
    argument that is not usable, ShardCorrupt for a damaged index, shard or sample.
    """

    def __init__(
        self,
        index: str | Path,
        *,
        seed: int | None = None,
        epoch: int = 0,
        shuffle: bool = True,
        rank: int = 0,
        world_size: int = 1,
        decode: str | Mapping[str, str] = "bytes",
        films: DecodeSettings | None = None,
        modality: str | None = None,
        weights: bool = True,
        verify: str = "full",
        on_corrupt: str = "error",
        batch_size: int = 1,
        tail: str = "keep",
        mixture: bool = True,
    ) -> None:
        """index: a folder of shards, or its index.json. seed: that of the version's recipe where None. decode: see
        `decode.decoders`; films: how its "clip" decodes. weights: put `__weight__` into each sample.

        verify: "fast", "members" or "full" (see `shard.OpenShard`), done before a shard's first sample is given out.
        on_corrupt: "error", or "skip", which leaves out damaged shards and samples and lists them in `skipped`.
        batch_size: the DataLoader's, needed for exact resumption with workers. tail: "keep" gives every sample out, so
        ranks may differ by one; "drop" leaves out the last N mod W; "pad" gives the first of the epoch out once more
        until all ranks have equally many. mixture: give samples out as often as the weights,
        temperature and epochs of the version's recipe say, where it has some; else, and without shuffling, each once.
        """
        _check_choices(on_corrupt=on_corrupt, tail=tail)
        rank, world_size = whole_number("rank", rank), whole_number("world_size", world_size)
        epoch, batch_size = whole_number("epoch", epoch), whole_number("batch_size", batch_size)
        if not 0 <= rank < world_size or batch_size < 1:
            raise SettingsError(
                f"rank {rank} of world_size {world_size} with batch_size {batch_size}: expected 0 <= rank < "
                "world_size and batch_size >= 1"
            )
        self._directory, self.manifest_id, shards = entries(index)
        if modality is not None and modality not in {shard.modality for shard in shards}:
            held = ", ".join(sorted({shard.modality for shard in shards})) or "nothing"
            raise SettingsError(f"modality is {modality!r}, which {self._directory} does not hold; it holds {held}")
        sizes = [(shard.modality, shard.num_samples) for shard in shards]
        self._mixed = read_mixture(self._directory, sizes, modality) if mixture and shuffle else None
        self._shards = [shard for shard in shards if modality in (None, shard.modality)]
        self._ends = np.cumsum([shard.num_samples for shard in self._shards], dtype=np.int64).tolist()
        self.num_samples: int = self._ends[-1] if self._ends else 0
        self.num_positions: int = self._mixed.num_positions if self._mixed is not None else self.num_samples
        of_recipe = self._mixed.seed if self._mixed is not None else 0
        self.seed: int = of_recipe if seed is None else whole_number("seed", seed)
        self.epoch, self.shuffle, self.rank, self.world_size = epoch, shuffle, rank, world_size
        self.modality, self.batch_size, self.tail, self.on_corrupt = modality, batch_size, tail, on_corrupt
        self._decoders, self._weights, self._verify = decoders(decode, films), weights, checked_mode(verify)
        self.skipped: dict[str, str] = {}  # shard, or shard/key -> what is wrong with it
        self._open: OrderedDict[int, OpenShard | ParquetShard] = OrderedDict()
        self._opening = threading.Lock()  # while the open shards change
        self._groups, self._max_open, self._num_open_samples = RowGroups(), max_open(), 0
        self._layouts = dict[int, Layout]()  # of the indexes of tars that were open, which were checked then
        self._verified: dict[int, tuple[int, int] | None] = {}  # files that were hashed, and as they were then
        self._start = 0  # the first global position that is not used up
        self._passed = 0  # what a worker had passed when its state was saved; the next pass begins behind it
        self._pass = self._new_pass()

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

    def sample(self, number: int) -> dict[str, Any]:
        """The sample of that number in index order: `__key__`, `__weight__`, and its members by ending. Raises
        ShardCorrupt."""
        if not 0 <= number < self.num_samples:
            raise IndexError(f"sample {number} of {self.num_samples}")
        place = bisect_right(self._ends, number)
        shard = self._shard(place)
        within = number - (self._ends[place - 1] if place else 0)
        sample: dict[str, Any] = {"__key__": shard.key(within)}
        if self._weights:
            sample["__weight__"] = shard.weight(within)
        for ending, data in shard.members(within).items():
            sample[ending] = decoded(ending, data, self._decoders) if self._decoders else data
        return sample

    def weights(self) -> np.ndarray:
        """The weight of every sample in index order, float32 of shape (num_samples,); opens every shard."""
        return np.concatenate(
            [np.zeros(0, np.float32), *(self._shard(place).weights for place in range(len(self._shards)))]
        )

    def keys(self) -> list[str]:
        """The name of every sample in index order; opens every shard."""
        return [key for place in range(len(self._shards)) for key in self._shard(place).keys]

    def facts(self) -> Iterator[dict[str, Any]]:
        """What the JSON member of every sample says, in index order; reads no medium. Raises ShardCorrupt."""
        for place, entry in enumerate(self._shards):
            shard = self._shard(place)
            for number in range(entry.num_samples):
                yield checked_json.loads(shard.member(number, "json"))

    def modalities(self) -> list[str]:
        """The modality of every sample in index order."""
        return [shard.modality for shard in self._shards for _ in range(shard.num_samples)]

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

    def _close_oldest(self) -> None:
        """Let shards go until those that are open keep their bounds; each closes with its last reader. Many small
        shards may be open at once, since a shuffled epoch goes from one to another with every sample."""
        while len(self._open) > self._max_open or (len(self._open) > 1 and self._num_open_samples > _MAX_OPEN_SAMPLES):
            oldest = self._open.popitem(last=False)[1]
            self._num_open_samples -= oldest.num_indexed

    def close(self) -> None:
        """Close every shard; the next sample opens its shard again."""
        self._num_open_samples = 0
        while self._open:
            self._open.popitem()[1].close()

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__ | {"_open": OrderedDict(), "_num_open_samples": 0}  # files do not travel to workers
        del state["_opening"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._opening = threading.Lock()

    def identity(self) -> dict[str, Any]:
        """What a state must agree on with the stream that loads it."""
        return {
            "manifest": self.manifest_id,
            "num_samples": self.num_samples,
            "modality": self.modality,
            "shuffle": self.shuffle,
            "mixture": self._mixed.digest if self._mixed is not None else None,
        }

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

    def numbers_at(self, positions: np.ndarray, *, seed: int, epoch: int) -> np.ndarray:
        """The sample numbers at these positions of an epoch, int64; positions are int64 in 0..num_positions-1."""
        if self._mixed is not None:
            return self._mixed.at(positions, seed=seed, epoch=epoch)
        if not self.shuffle:
            return positions
        return Permutation(self.num_samples, seed=seed, epoch=epoch).at(positions)

    def sample_or_skip(self, number: int) -> dict[str, Any] | None:
        """As `sample`; None where it is damaged and `on_corrupt` is "skip", which lists it in `skipped`."""
        place = bisect_right(self._ends, number)
        name = self._shards[place].name
        if name in self.skipped:
            return None
        try:
            return self.sample(number)
        except SampleCorrupt as error:
            self._skip(f"{name}/{number}", str(error), error)
        except ShardCorrupt as error:
            self._skip(name, str(error), error)
        except UnreadableItem as error:
            self._skip(
                f"{name}/{number}",
                error.reason,
                ShardCorrupt(
                    f"sample {number} of {name} does not decode: {error.reason}; decode it as bytes, or skip it"
                ),
            )
        return None

    def _skip(self, what: str, reason: str, error: ShardCorrupt) -> None:
        if self.on_corrupt == "error":
            raise error
        self.skipped[what] = reason
        _log.warning("skipped %s: %s", what, reason)

    def _shard(self, place: int) -> OpenShard | ParquetShard:
        if (shard := self._open.get(place)) is None:
            return self._newly_open(place)
        with suppress(KeyError):  # another thread let it go meanwhile
            self._open.move_to_end(place)
        return shard

    def _newly_open(self, place: int) -> OpenShard | ParquetShard:
        """The shard, checked, among those that are open; of several threads the first one's."""
        state = file_state(self._directory, self._shards[place])
        known = self._verify == "full" and self._verified.get(place, ()) == state
        verify = KNOWN if known else self._verify
        opened = open_shard(
            self._directory, self._shards[place], verify=verify, groups=self._groups, layout=self._layouts.get(place)
        )
        with self._opening:
            shard = self._open.setdefault(place, opened)
            if shard is opened:
                self._verified[place] = state
                if shard.layout is not None:
                    self._layouts[place] = shard.layout
                self._num_open_samples += shard.num_indexed
                self._close_oldest()
        return shard


def whole_number(name: str, value: Any) -> int:
    """The number as an int, numpy's too: the order depends on how a seed is written, and a state is JSON. Raises
    SettingsError."""
    try:
        return operator.index(value)
    except TypeError:
        raise SettingsError(f"{name} is {value!r}, expected a whole number") from None


def _check_choices(**choices: str) -> None:
    known = {"on_corrupt": ("error", "skip"), "tail": ("keep", "drop", "pad")}
    for name, value in choices.items():
        if value not in known[name]:
            raise SettingsError(f"{name} is {value!r}, expected one of {known[name]}")

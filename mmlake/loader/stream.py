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
import resource
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mmlake.errors import SettingsError, ShardCorrupt, UnreadableItem
from mmlake.film_decoders import DecodeSettings
from mmlake.loader.decode import decoded, decoders
from mmlake.loader.entries import entries, file_state
from mmlake.loader.mixed_order import read_mixture
from mmlake.loader.parquet_shard import ParquetShard, RowGroups
from mmlake.loader.permutation import Permutation
from mmlake.loader.shard import KNOWN, OpenShard, SampleCorrupt, checked_mode, open_shard

_CHUNK = 1024  # positions computed at a time
_MIN_OPEN, _MAX_OPEN = 128, 4096  # open shards; each holds a file descriptor
_MAX_OPEN_SAMPLES = 128 * 100_000  # of open shards, whose indexes are in memory: 128 of the largest
_STATE = "mmlake.loader/1"
_log = logging.getLogger(__name__)


def max_open() -> int:
    """How many shards may be open: a quarter of the files that this process may open, within bounds."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MAX_OPEN if soft == resource.RLIM_INFINITY else max(_MIN_OPEN, min(_MAX_OPEN, soft // 4))


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
        ranks may differ by one; "drop" leaves out the last N mod W. mixture: give samples out as often as the weights,
        temperature and epochs of the version's recipe say, where it has some; else, and without shuffling, each once.
        """
        for name, value, known in (
            ("on_corrupt", on_corrupt, ("error", "skip")),
            ("tail", tail, ("keep", "drop")),
        ):
            if value not in known:
                raise SettingsError(f"{name} is {value!r}, expected one of {known}")
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
        self.seed: int = seed if seed is not None else self._mixed.seed if self._mixed is not None else 0
        self.epoch, self.shuffle, self.rank, self.world_size = epoch, shuffle, rank, world_size
        self.modality, self.batch_size, self.tail, self.on_corrupt = modality, batch_size, tail, on_corrupt
        self._decoders, self._weights, self._verify = decoders(decode, films), weights, checked_mode(verify)
        self.skipped: dict[str, str] = {}  # shard, or shard/key -> what is wrong with it
        self._open: OrderedDict[int, OpenShard | ParquetShard] = OrderedDict()
        self._groups, self._max_open, self._num_open_samples = RowGroups(), max_open(), 0
        # shards that need no second full check when they are opened again, as their files were
        self._verified: dict[int, tuple[int, int] | None] = {}
        # the first global position that is not used up; positions that this process has passed since then
        self._start, self._taken = 0, 0

    def __len__(self) -> int:
        """Samples that this rank still gives out in this epoch."""
        left = self.num_positions - self._start
        return left // self.world_size if self.tail == "drop" else max(0, -(-(left - self.rank) // self.world_size))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self.iterate()

    def iterate(self, *, worker: int = 0, num_workers: int = 1) -> Iterator[dict[str, Any]]:
        """The samples of one worker of this rank, from the resumed position to the end of the epoch."""
        self._taken = 0
        for number in self._numbers(worker, num_workers):
            self._taken += 1
            if (sample := self._sample_or_skip(number)) is not None:
                yield sample

    def sample(self, number: int) -> dict[str, Any]:
        """The sample of that number in index order: `__key__`, `__weight__`, and its members by ending. Raises
        ShardCorrupt."""
        if not 0 <= number < self.num_samples:
            raise IndexError(f"sample {number} of {self.num_samples}")
        place = bisect_right(self._ends, number)
        shard = self._shard(place)
        within = number - (self._ends[place - 1] if place else 0)
        sample: dict[str, Any] = {"__key__": shard.keys[within]}
        if self._weights:
            sample["__weight__"] = float(shard.weights[within])
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

    def modalities(self) -> list[str]:
        """The modality of every sample in index order."""
        return [shard.modality for shard in self._shards for _ in range(shard.num_samples)]

    def set_epoch(self, epoch: int) -> None:
        """Begin that epoch at its first position."""
        self.epoch, self._start, self._taken = epoch, 0, 0

    def state_dict(self, num_samples: int | None = None) -> dict[str, Any]:
        """Where to go on, the same on every rank that has taken equally many samples.

        num_samples: how many samples this rank's training loop has received since the start or the last
        `load_state_dict`; needed with DataLoader workers, which run ahead of the loop. Without it, the count of this
        process is used.
        """
        taken = self._taken if num_samples is None else num_samples
        position = min(self._start + taken * self.world_size, self.num_positions)
        return {"schema": _STATE, "seed": self.seed, "epoch": self.epoch, "position": position} | self._identity()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from the state; rank, world size, workers and batch size may be others than before. Raises
        SettingsError for other data."""
        if state.get("schema") != _STATE:
            raise SettingsError(f"the loader state is of schema {state.get('schema')!r}, expected {_STATE}")
        differing = {
            name: (state.get(name), value) for name, value in self._identity().items() if state.get(name) != value
        }
        if differing:
            raise SettingsError(
                "the loader state belongs to other data: "
                + "; ".join(f"{name} was {then!r}, is {now!r}" for name, (then, now) in differing.items())
            )
        if not 0 <= int(state["position"]) <= self.num_positions:
            raise SettingsError(f"the loader state is at position {state['position']} of {self.num_positions} samples")
        self.seed, self.epoch, self._start, self._taken = (
            int(state["seed"]),
            int(state["epoch"]),
            int(state["position"]),
            0,
        )

    def _close_oldest(self) -> None:
        """Close shards until those that are open keep their bounds. Many small shards may be open at once, since a
        shuffled epoch goes from one to another with every sample."""
        while len(self._open) > self._max_open or (len(self._open) > 1 and self._num_open_samples > _MAX_OPEN_SAMPLES):
            oldest = self._open.popitem(last=False)[1]
            self._num_open_samples -= oldest.entry.num_samples
            oldest.close()

    def close(self) -> None:
        """Close every shard; the next sample opens its shard again."""
        self._num_open_samples = 0
        while self._open:
            self._open.popitem()[1].close()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {
            "_open": OrderedDict(),
            "_num_open_samples": 0,
        }  # files do not travel to spawned workers

    def _identity(self) -> dict[str, Any]:
        return {
            "manifest": self.manifest_id,
            "num_samples": self.num_samples,
            "modality": self.modality,
            "shuffle": self.shuffle,
            "mixture": self._mixed.digest if self._mixed is not None else None,
        }

    def _numbers(self, worker: int, num_workers: int) -> Iterator[int]:
        """The sample numbers of one worker, in order."""
        count, block = len(self), self.batch_size
        for first in range(0, count, _CHUNK):  # no worker has more ordinals than its rank
            local = np.arange(first, min(first + _CHUNK, count), dtype=np.int64)
            ordinals = ((local // block) * num_workers + worker) * block + local % block
            ordinals = ordinals[ordinals < count]
            if not len(ordinals):
                return
            positions = self._start + ordinals * self.world_size + self.rank
            yield from self._at(positions).tolist()

    def _at(self, positions: np.ndarray) -> np.ndarray:
        """The sample numbers at these positions of the epoch."""
        if self._mixed is not None:
            return self._mixed.at(positions, seed=self.seed, epoch=self.epoch)
        if not self.shuffle:
            return positions
        return Permutation(self.num_samples, seed=self.seed, epoch=self.epoch).at(positions)

    def _sample_or_skip(self, number: int) -> dict[str, Any] | None:
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
            state = file_state(self._directory, self._shards[place])
            known = self._verify == "full" and self._verified.get(place, ()) == state
            shard = self._open[place] = open_shard(
                self._directory,
                self._shards[place],
                verify=KNOWN if known else self._verify,
                groups=self._groups,
            )
            self._verified[place] = state
            self._num_open_samples += shard.entry.num_samples
            self._close_oldest()
        self._open.move_to_end(place)
        return shard

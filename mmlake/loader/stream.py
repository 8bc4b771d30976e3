"""The stream of the samples of shards, without torch: which sample stands at which position, and what is read of it."""

from __future__ import annotations

import logging
import resource
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
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
from mmlake.loader.passes import SampleStream, check_choices
from mmlake.loader.permutation import Permutation
from mmlake.loader.shard import KNOWN, OpenShard, SampleCorrupt, checked_mode, open_shard
from mmlake.loader.shard_index import Layout

_MIN_OPEN, _MAX_OPEN = 128, 4096  # open shards; each holds a file descriptor, and two once it is opened again
_MAX_OPEN_SAMPLES = 1 << 20  # of shards that are open for the first time, whose indexes are in memory: 160 MB
_log = logging.getLogger(__name__)


def max_open() -> int:
    """How many shards may be open: a quarter of the files that this process may open, within bounds."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MAX_OPEN if soft == resource.RLIM_INFINITY else max(_MIN_OPEN, min(_MAX_OPEN, soft // 4))


class ShardStream(SampleStream):
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
        check_choices(on_corrupt=on_corrupt)
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
        self.shuffle, self.modality, self.on_corrupt = shuffle, modality, on_corrupt
        self._decoders, self._weights, self._verify = decoders(decode, films), weights, checked_mode(verify)
        self.skipped: dict[str, str] = {}  # shard, or shard/key -> what is wrong with it
        self._open: OrderedDict[int, OpenShard | ParquetShard] = OrderedDict()
        self._opening = threading.Lock()  # while the open shards change
        self._groups, self._max_open, self._num_open_samples = RowGroups(), max_open(), 0
        self._layouts = dict[int, Layout]()  # of the indexes of tars that were open, which were checked then
        self._verified: dict[int, tuple[int, int] | None] = {}  # files that were hashed, and as they were then
        self._begin(
            seed=of_recipe if seed is None else seed,
            epoch=epoch,
            rank=rank,
            world_size=world_size,
            batch_size=batch_size,
            tail=tail,
        )

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
        """What the JSON member of every sample says, in index order; reads no medium. Raises ShardCorrupt; where
        `on_corrupt` is "skip", an empty dict stands for what is damaged, which `skipped` lists."""
        for number in range(self.num_samples):
            yield self._or_skip(number, self._facts_of) or {}

    def _facts_of(self, number: int) -> dict[str, Any]:
        place = bisect_right(self._ends, number)
        within = number - (self._ends[place - 1] if place else 0)
        found: dict[str, Any] = checked_json.loads(self._shard(place).member(within, "json"))
        return found

    def modalities(self) -> list[str]:
        """The modality of every sample in index order."""
        return [shard.modality for shard in self._shards for _ in range(shard.num_samples)]

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

    def numbers_at(self, positions: np.ndarray, *, seed: int, epoch: int) -> np.ndarray:
        """The sample numbers at these positions of an epoch, int64; positions are int64 in 0..num_positions-1."""
        if self._mixed is not None:
            return self._mixed.at(positions, seed=seed, epoch=epoch)
        if not self.shuffle:
            return positions
        return Permutation(self.num_samples, seed=seed, epoch=epoch).at(positions)

    def sample_or_skip(self, number: int) -> dict[str, Any] | None:
        """As `sample`; None where it is damaged and `on_corrupt` is "skip", which lists it in `skipped`."""
        return self._or_skip(number, self.sample)

    def _or_skip(self, number: int, read: Callable[[int], dict[str, Any]]) -> dict[str, Any] | None:
        place = bisect_right(self._ends, number)
        name = self._shards[place].name
        if name in self.skipped:
            return None
        try:
            return read(number)
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

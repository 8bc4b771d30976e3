"""The order of samples where groups come more or less often than once: computed for any position, as the shuffle is.

    index.json       its key `mixture` has weights, temperature and epochs, and the size of every group by modality
    mixture.order    the number of every sample in index order, by group, then modality, then number; read as needed
An epoch has c_g positions of each group (`Mixture.counts`). They are the next c_g of the group's endless sequence,
which passes through its n_g samples in another order each time: over epochs no sample comes more than once more often
than another of its group. Memory is the group sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mmlake import checked_json
from mmlake.errors import ShardCorrupt
from mmlake.loader.entries import entries
from mmlake.loader.permutation import Permutation, passes_at
from mmlake.loader.read_file import ReadFile
from mmlake.recipes import Mixture
from mmlake.records import canonical_json, digest_of
from mmlake.store import write_atomically

INDEX, ORDER, KEY = "index.json", "mixture.order", "mixture"


class MixedOrder:
    """Which sample stands at which position, where groups are mixed."""

    def __init__(
        self, directory: Path, body: Mapping[str, Any], sizes: Sequence[tuple[str, int]], modality: str | None
    ) -> None:
        """body: the key `mixture` of the index. sizes: modality and number of samples of every shard of the index.
        modality: of the samples that are given out, all where None."""
        self.digest: str = digest_of(canonical_json(dict(body)).encode())
        self.seed: int = int(body["seed"])
        self._path, self._width, self._num_samples = directory / ORDER, int(body["width"]), sum(n for _, n in sizes)
        firsts: dict[str, int] = {}  # group -> where its samples begin in the file
        counts: dict[str, int] = {}
        place = 0
        for block in body["groups"]:
            if modality in (None, block["modality"]) and block["num_samples"]:
                firsts.setdefault(block["group"], place)
                counts[block["group"]] = counts.get(block["group"], 0) + block["num_samples"]
            place += block["num_samples"]
        if place != self._num_samples:
            raise ShardCorrupt(f"{directory / INDEX}: its mixture has {place} samples; write the shards again")
        positions = Mixture.from_dict(body["by"]).counts(counts)
        self._groups = [name for name in counts if positions[name]]
        self._firsts = np.array([firsts[name] for name in self._groups], dtype=np.int64)
        self._sizes = np.array([counts[name] for name in self._groups], dtype=np.int64)
        self._counts = np.array([positions[name] for name in self._groups], dtype=np.int64)
        self._ends = np.cumsum(self._counts)
        self.num_positions: int = int(self._ends[-1]) if len(self._ends) else 0
        self._check(str(body["sha256"]))
        ends = np.cumsum([count for _, count in sizes], dtype=np.int64)
        kept = [count if modality in (None, kind) else 0 for kind, count in sizes]
        # what the number of a sample is less among those of one modality
        self._ends_of_shards, self._less = ends, ends - np.cumsum(kept, dtype=np.int64)
        self._file: ReadFile | None = None

    def at(self, positions: np.ndarray, *, seed: int, epoch: int) -> np.ndarray:
        """The sample numbers at these positions of the epoch, int64; positions are int64 in 0..num_positions-1."""
        mixed = Permutation(self.num_positions, seed=seed, epoch=epoch).at(positions)
        group = np.searchsorted(self._ends, mixed, side="right")
        ordinals = np.empty(len(positions), dtype=np.int64)
        for number in np.unique(group).tolist():
            count, size = int(self._counts[number]), int(self._sizes[number])
            of_group = np.flatnonzero(group == number)
            within = mixed[of_group] - (self._ends[number] - count)
            for once, found, at in passes_at(within, epoch=epoch, count=count, size=size):
                order = Permutation(size, seed=f"{seed} {self._groups[number]}", epoch=once)
                ordinals[of_group[found]] = order.at(at)
        numbers = self._numbers(self._firsts[group] + ordinals)
        of_modality: np.ndarray = numbers - self._less[np.searchsorted(self._ends_of_shards, numbers, side="right")]
        return of_modality

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_file": None}  # files do not travel to spawned workers

    def _numbers(self, places: np.ndarray) -> np.ndarray:
        """What stands at these places of the file, int64."""
        if self._file is None:
            self._file = ReadFile(self._path)
        width = self._width
        data = b"".join(self._file.read(place * width, width) for place in places.tolist())
        if self._file.state() != self._state:
            raise ShardCorrupt(f"{self._path} changed while it was read; fetch it, or write the shards again")
        return np.frombuffer(data, f"<u{width}").astype(np.int64)

    def _check(self, sha256: str) -> None:
        try:
            file = ReadFile(self._path) if self._num_samples else None
        except FileNotFoundError as error:
            raise ShardCorrupt(
                f"{ORDER} is missing from {self._path.parent}; fetch it, or write the shards again"
            ) from error
        self._state = (0, 0) if file is None else file.state()
        if (digest_of(b"") if file is None else file.sha256()) != sha256:
            raise ShardCorrupt(f"{self._path} does not hash to {sha256[:12]}; fetch it, or write the shards again")


def read_mixture(directory: Path, sizes: Sequence[tuple[str, int]], modality: str | None) -> MixedOrder | None:
    """The order that the index of these shards asks for; None where it asks for none. Raises ShardCorrupt."""
    try:
        body = checked_json.loads((directory / INDEX).read_bytes()).get(KEY)
        return None if body is None else MixedOrder(directory, body, sizes, modality)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ShardCorrupt(f"{directory / INDEX}: its mixture is damaged; write the shards again") from error


def mixture_problems(directory: Path) -> list[str]:
    """What is wrong with the mixture of a finished folder of shards, in sentences; empty where all is well, or there is
    none."""
    try:
        _, _, shards = entries(directory)
        read_mixture(directory, [(shard.modality, shard.num_samples) for shard in shards], None)
    except ShardCorrupt as error:
        return [str(error)]
    return []


def write_mixture(
    directory: Path,
    mixture: Mixture | None,
    *,
    seed: int,
    keys: Sequence[str],
    modalities: Sequence[str],
    groups: Mapping[str, str],
) -> None:
    """Put the mixture into a finished folder of shards, or take it away where there is none: first the order, then the
    index, which alone makes it hold.

    keys, modalities: of every sample in index order. groups: name of a sample -> its group.
    """
    index = directory / INDEX
    body = checked_json.loads(index.read_bytes())
    body.pop(KEY, None)
    if mixture is not None:
        named = [
            (groups[key], modality, number) for number, (key, modality) in enumerate(zip(keys, modalities, strict=True))
        ]
        named.sort()
        width = 4 if len(keys) < 2**32 else 8
        data = np.array([number for _, _, number in named], dtype=f"<u{width}").tobytes()
        counted: dict[tuple[str, str], int] = {}
        for group, modality, _ in named:
            counted[group, modality] = counted.get((group, modality), 0) + 1
        write_atomically(directory / ORDER, data)
        body[KEY] = {
            "by": mixture.to_dict(),
            "groups": [
                {"group": group, "modality": modality, "num_samples": count}
                for (group, modality), count in counted.items()
            ],
            "seed": seed,
            "sha256": digest_of(data),
            "width": width,
        }
    text = checked_json.dumps(body)
    if index.read_bytes() != text:
        write_atomically(index, text)
    if mixture is None:
        (directory / ORDER).unlink(missing_ok=True)

"""Samples of many source shards, each once, and their parts, by number: texts stay where they are until they are
asked for.

    P parts of all distinct samples, in order of their samples; S distinct samples, sorted by name
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake.engine.digest_index import piece
from mmlake.records import LEADING_ROLES

_UNITED = ("sample_ids", "sources", "licences")  # lists of a sample in several shards that add up


class Samples:
    """The distinct samples of a table: the same one in several source shards adds up."""

    def __init__(self, table: pa.Table, row_S: np.ndarray, changed: dict[str, pa.Array], names: pa.Array) -> None:
        self._table, self._row_S, self._changed, self.names = table, row_S, changed, names
        shards = pc.rank(piece(table["shard"]), tiebreaker="dense").to_numpy() if len(row_S) else row_S
        self._shard_S = shards[row_S]

    @classmethod
    def of(cls, table: pa.Table) -> Samples:
        """The samples of the table; of one that is there several times, the row of the first shard by name counts."""
        sources = _listed(piece(table["source"]))
        table = table.append_column("sources", sources)
        order = pc.sort_indices(table, sort_keys=[("sample", "ascending"), ("shard", "ascending")])
        names = piece(table["sample"]).take(order)
        rows = order.to_numpy().astype(np.int64)
        fresh = np.ones(len(rows), bool)
        if len(rows) > 1:
            fresh[1:] = pc.not_equal(names.slice(1), names.slice(0, len(names) - 1)).to_numpy(zero_copy_only=False)
        if fresh.all():
            return cls(table, rows, {}, names)
        starts = np.flatnonzero(fresh)
        counts = np.diff(np.append(starts, len(rows)))
        repeated = np.flatnonzero(counts > 1)
        changed = {}
        group = np.cumsum(fresh) - 1
        mine = counts[group] > 1
        number = np.cumsum(counts > 1) - 1
        for name in _UNITED:
            column = piece(table[name])
            united = _united(column.take(pa.array(rows[mine])), number[group[mine]], len(repeated))
            changed[name] = _replaced(column.take(pa.array(rows[starts])), repeated, united)
        occurrences = table["num_occurrences"].to_numpy()[rows]
        changed["num_occurrences"] = pa.array(np.add.reduceat(occurrences, starts), pa.int32())
        return cls(table, rows[starts], changed, names.take(pa.array(starts)))

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._row_S)

    def take(self, name: str, numbers_S: np.ndarray) -> pa.Array:
        """The column of these samples."""
        if name == "sample":
            return self.names.take(pa.array(numbers_S))
        if name in self._changed:
            return self._changed[name].take(pa.array(numbers_S))
        return piece(self._table[name]).take(pa.array(self._row_S[numbers_S]))

    def by_shard(self, numbers_S: np.ndarray) -> np.ndarray:
        """The numbers, which are given sorted, in order of shard and name."""
        ordered: np.ndarray = numbers_S[np.argsort(self._shard_S[numbers_S], kind="stable")]
        return ordered

    def priorities(self, priority: Callable[[str], int]) -> np.ndarray:
        """The smallest priority of the sources of each sample."""
        lists = self.take("sources", np.arange(self.count))
        encoded = lists.flatten().dictionary_encode()
        values = np.array([priority(name) for name in encoded.dictionary.to_pylist()], np.int64)
        found = np.full(self.count, np.iinfo(np.int64).max)
        np.minimum.at(found, pc.list_parent_indices(lists).to_numpy(), values[encoded.indices.to_numpy()])
        return found

    def parts(self) -> Parts:
        """The parts of all samples."""
        lists = piece(self._table["parts"])
        sizes = pc.list_value_length(lists).to_numpy().astype(np.int64)
        starts = np.cumsum(sizes) - sizes
        counts = sizes[self._row_S]
        at_P = np.repeat(starts[self._row_S] - (np.cumsum(counts) - counts), counts) + np.arange(int(counts.sum()))
        flat = lists.flatten()
        columns = dict(zip((field.name for field in flat.type), flat.flatten(), strict=True))
        return Parts(columns, at_P, np.repeat(np.arange(self.count), counts))


class Parts:
    """The parts of all samples as columns."""

    def __init__(self, flat: dict[str, pa.Array], at_P: np.ndarray, owner_P: np.ndarray) -> None:
        self.flat, self.at_P, self.owner_P = flat, at_P, owner_P
        encoded = flat["role"].dictionary_encode()
        self._roles = encoded.dictionary.to_pylist()
        self._role_P = encoded.indices.to_numpy(zero_copy_only=False)[at_P]
        self.leads_P = np.isin(self._role_P, [at for at, role in enumerate(self._roles) if role in LEADING_ROLES])

    def take(self, name: str, numbers_P: np.ndarray) -> pa.Array:
        """The column of these parts."""
        return self.flat[name].take(pa.array(self.at_P[numbers_P]))

    def is_role(self, role: str) -> np.ndarray:
        """Whether each part has the role."""
        found: np.ndarray = self._role_P == (self._roles.index(role) if role in self._roles else -1)
        return found

    def role_codes(self, cause: Callable[[str], str | None], texts: list[str]) -> np.ndarray:
        """The number of the cause that each part has by its role, among the texts, to which it is added; -1 without."""
        codes = np.full(len(self._roles) + 1, -1, np.int32)
        for at, role in enumerate(self._roles):
            if (text := cause(role)) is not None:
                codes[at] = len(texts)
                texts.append(text)
        found: np.ndarray = codes[self._role_P]
        return found


def first_of(owner_P: np.ndarray, chosen_P: np.ndarray, count: int) -> np.ndarray:
    """The first of these parts (given ascending) of each owner; -1 where it has none."""
    first = np.full(count, -1)
    first[owner_P[chosen_P][::-1]] = chosen_P[::-1]  # the smallest is written last
    return first


def taken(chosen_P: np.ndarray, counts_S: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(parts, counts): of these parts, of which each sample has `counts_S`, those of the samples `rows`, in that
    order."""
    starts = np.cumsum(counts_S) - counts_S
    counts = counts_S[rows]
    at = np.repeat(starts[rows] - (np.cumsum(counts) - counts), counts) + np.arange(int(counts.sum()))
    return chosen_P[at], counts


def _listed(values: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(np.arange(len(values) + 1), pa.int32()), values)


def _united(lists: pa.Array, group: np.ndarray, num_groups: int) -> pa.Array:
    """The distinct values of the lists of each group, sorted."""
    encoded = lists.flatten().dictionary_encode()
    values = encoded.dictionary
    order = pc.sort_indices(values).to_numpy()
    rank = np.empty(len(values), np.int64)
    rank[order] = np.arange(len(values))
    base = max(1, len(values))
    owner = group[pc.list_parent_indices(lists).to_numpy()]
    pairs = np.unique(owner * base + rank[encoded.indices.to_numpy(zero_copy_only=False)])
    counts = np.bincount(pairs // base, minlength=num_groups)
    offsets = pa.array(np.concatenate(([0], np.cumsum(counts))), pa.int32())
    return pa.ListArray.from_arrays(offsets, values.take(pa.array(order[pairs % base])))


def _replaced(lists: pa.Array, at: np.ndarray, others: pa.Array) -> pa.Array:
    """The lists, with others at these places."""
    places = np.arange(len(lists))
    places[at] = len(lists) + np.arange(len(at))
    return pa.concat_arrays([lists, others.cast(lists.type)]).take(pa.array(places))

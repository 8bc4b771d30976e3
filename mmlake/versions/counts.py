"""What a version counts: items, samples, licences, sources, what is out and why. A few segments at a time, so that a
version need never be in memory at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake.engine.digest_index import piece
from mmlake.records import LEADING_ROLES
from mmlake.versions.outs import REPEATED
from mmlake.versions.segments import MAX_SAMPLES

Sums = dict[str, dict[str, int]]


class Tally:
    """Counts of the samples and exclusions that were added to it."""

    def __init__(self) -> None:
        self._items: list[pa.Table] = []
        self._waiting: list[pa.Table] = []  # samples that are not counted yet
        self._num_waiting = 0  # rows of them
        self._sums: dict[str, Sums] = {"samples": {}, "licences": {}, "sources": {}, "excluded": {}, "masked": {}}
        self._kept, self._masked = Counter[str](), Counter[str]()

    def add_samples(self, samples: pa.Table) -> None:
        """Count these rows of VERSION_SAMPLES: with others, as many at once as a large segment has, since a lake of
        many small shards has thousands of segments of a few rows each."""
        self._waiting.append(samples)
        self._num_waiting += samples.num_rows
        if self._num_waiting >= MAX_SAMPLES:
            self._count_samples()

    def _count_samples(self) -> None:
        if not self._waiting:
            return
        samples = pa.concat_tables(self._waiting)
        self._waiting, self._num_waiting = [], 0
        lists = piece(samples["parts"])
        flat, owner = pc.list_flatten(lists), pc.list_parent_indices(lists)
        parts = pa.table({name: pc.struct_field(flat, name) for name in ("digest", "modality", "size_bytes")})
        self._items.append(_distinct(parts))
        sizes = np.zeros(samples.num_rows, np.int64)
        np.add.at(sizes, owner.to_numpy(), pc.fill_null(parts["size_bytes"], 0).to_numpy())
        size_bytes = {"num_samples": None, "size_bytes": pa.array(sizes)}
        num_parts = pc.list_value_length(lists)
        self._add("samples", _sums(samples["modality"], {"num_samples": None, "num_parts": num_parts}))
        self._add("licences", _sums(samples["licences"], size_bytes))
        self._add("sources", _sums(samples["sources"], size_bytes))
        self._kept += _said(pc.struct_field(flat, "role"))

    def add_excluded(self, excluded: pa.Table) -> None:
        """Count these rows of EXCLUDED; they hold all rows of their samples."""
        whole = excluded.filter(excluded["is_whole"])
        whole = whole.append_column("rank", pc.index_in(whole["role"], value_set=pa.array(LEADING_ROLES)))
        whole = whole.sort_by([("sample", "ascending"), ("rank", "ascending")])  # what leads comes first, nulls last
        out = whole.group_by("sample", use_threads=False).aggregate([("cause", "first"), ("modality", "first")])
        masked = excluded.filter(pc.invert(excluded["is_whole"]))
        self._add("excluded", _causes(out["modality_first"], out["cause_first"]))
        self._add("masked", _causes(masked["modality"], masked["cause"]))
        # what another part of the sample says is not lost
        self._masked += _said(masked.filter(pc.not_equal(masked["cause"], REPEATED))["role"])

    def counts(self) -> dict[str, Sums]:
        """The counts of a version by their names, sorted."""
        self._count_samples()
        found = {what: _sorted(sums) for what, sums in self._sums.items()}
        totals: Sums = {}
        if self._items:
            items = _distinct(pa.concat_tables(self._items))
            totals = _sums(items["modality"], {"num_items": None, "size_bytes": items["size_bytes"]})
        pairs = {
            role: {"num_pairs": self._kept[role] + self._masked[role], "num_kept": self._kept[role]}
            for role in sorted(self._kept.keys() | self._masked.keys())
        }
        return {"totals": _sorted(totals), **found, "pairs": pairs}

    def _add(self, what: str, sums: Sums) -> None:
        for name, values in sums.items():
            mine = self._sums[what].setdefault(name, {})
            for key, value in values.items():
                mine[key] = mine.get(key, 0) + value


def _distinct(parts: pa.Table) -> pa.Table:
    """Modality, digest and size of each digest, once."""
    grouped = parts.group_by(["modality", "digest"], use_threads=False).aggregate([("size_bytes", "min")])
    return grouped.rename_columns({"size_bytes_min": "size_bytes"}).select(["modality", "digest", "size_bytes"])


def _sorted(sums: Sums) -> Sums:
    return {name: dict(sorted(values.items())) for name, values in sorted(sums.items())}


def _said(roles: pa.Array | pa.ChunkedArray) -> Counter[str]:
    """How many parts say something of a lead, per role."""
    counts = {count["values"]: count["counts"] for count in pc.value_counts(roles).to_pylist()}
    return Counter({role: number for role, number in counts.items() if role not in LEADING_ROLES})


def _sums(names: pa.ChunkedArray, values: Mapping[str, Any]) -> Sums:
    """Per name the sums of the values; None counts rows. A list of names counts its row under each of them."""
    names = piece(names)
    columns = {key: pa.array(np.ones(len(names), np.int64)) if one is None else one for key, one in values.items()}
    if pa.types.is_list(names.type):
        rows = pc.list_parent_indices(names)
        columns, names = {key: one.take(rows) for key, one in columns.items()}, pc.list_flatten(names)
    grouped = pa.table({"name": names, **columns}).group_by("name").aggregate([(key, "sum") for key in columns])
    return {row["name"]: {key: int(row[f"{key}_sum"]) for key in columns} for row in grouped.to_pylist()}


def _causes(modalities: pa.ChunkedArray, causes: pa.ChunkedArray) -> Sums:
    table = pa.table({"modality": modalities, "cause": causes})
    counts: Sums = {}
    for row in table.group_by(["modality", "cause"]).aggregate([([], "count_all")]).to_pylist():
        counts.setdefault(row["modality"], {})[row["cause"]] = row["count_all"]
    return counts

"""What the units of each shard are, counted once: statuses, rules, gaps, and how much of each source is usable.

Enters: the items, verdicts and units of a shard. Leaves: its counts, kept on disk with the data versions of these three
tables, so that of a lake that grew only the shards that are new are read. The file is no input of anything and may be
deleted; where it is missing, damaged or of other tables, the shards are counted again.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mmlake import __version__, checked_json
from mmlake.cuts import Uncut
from mmlake.error_codes import CODES
from mmlake.lake import Lake
from mmlake.preprocess import GAP, WHOLE
from mmlake.records import Digest, canonical_json, digest_of
from mmlake.source_summary import OfSource
from mmlake.store import write_atomically
from mmlake.tables import Slot

_FORMAT = 1
_TABLES = ("items", "verdicts", "units")  # that a shard is counted from
_NUMBERS = ("num_items", "num_gaps", "num_bare", "num_waiting")  # of UnitCounts
_DIGEST = pa.binary(32)
_KEPT = pa.schema([("shard", pa.string()), ("of", pa.string()), ("counts", pa.string()), ("units", pa.list_(_DIGEST))])


@dataclass(kw_only=True, slots=True)
class UnitCounts:
    """What the units of one shard, or of several, are, counted by occurrence of their items."""

    by_status: Counter[str] = field(default_factory=Counter)
    by_rule: Counter[str] = field(default_factory=Counter)  # the gravest one
    by_source: dict[str, OfSource] = field(default_factory=dict)
    num_items: int = 0
    num_gaps: int = 0
    num_bare: int = 0  # rows without bytes: nobody's duplicates
    num_waiting: int = 0  # rows without a verdict

    def add(self, verdict: dict[str, Any] | None, source: str) -> None:
        """Count one occurrence of a unit. verdict: None where it was not judged yet."""
        if verdict is None:
            self.num_waiting += 1
            return
        self.by_source.setdefault(source, OfSource()).add(verdict)
        self.by_status[verdict["status"]] += 1
        if verdict["rule"]:
            self.by_rule[verdict["rule"]] += 1

    def update(self, other: UnitCounts) -> None:
        """Count all that the other one has."""
        self.by_status.update(other.by_status)
        self.by_rule.update(other.by_rule)
        for source, one in other.by_source.items():
            self.by_source.setdefault(source, OfSource()).update(one)
        for name in _NUMBERS:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @classmethod
    def parse(cls, text: str) -> UnitCounts:
        """What `text` was written from. Raises ValueError, KeyError, TypeError where it was not."""
        found = json.loads(text)
        return cls(
            by_status=Counter(found["by_status"]),
            by_rule=Counter(found["by_rule"]),
            by_source={name: OfSource.parse(fields) for name, fields in found["by_source"].items()},
            **{name: int(found[name]) for name in _NUMBERS},
        )

    def text(self) -> str:
        """The counts as JSON, in the order in which they were counted: it decides between equal ones."""
        return json.dumps(
            {
                "by_status": self.by_status,
                "by_rule": self.by_rule,
                "by_source": {name: one.fields() for name, one in self.by_source.items()},
                **{name: getattr(self, name) for name in _NUMBERS},
            },
            separators=(",", ":"),
        )


@dataclass(frozen=True, slots=True)
class _Shard:
    """A shard that was counted."""

    of: str  # what it was counted from, as one digest
    counts: UnitCounts
    units: pa.Array  # digests of its units, each once


def counts_of_shard(lake: Lake, modality: str, shard: str) -> UnitCounts:
    """The counts of one shard, from its tables."""
    return _counted(lake, modality, shard, lake.cuts.uncut.held(modality))[0]


def counts_of(lake: Lake, modality: str, *, keep: bool = False) -> tuple[UnitCounts, int]:
    """(the counts of all shards of the modality, number of distinct units). Read are the tables of shards whose counts
    are not kept.

    keep: write what was counted, for the next time.
    """
    uncut, path = lake.cuts.uncut.held(modality), _path(lake, modality)
    bare = digest_of(canonical_json({digest: one.error_code for digest, one in uncut.items()}).encode())
    kept, found = _kept(path), dict[str, _Shard]()
    for shard in lake.tables.shards("items", modality):
        # before the tables are read: what is made meanwhile is counted again next time
        of, one = _made_from(lake, modality, shard, bare), kept.get(shard)
        found[shard] = _Shard(of, *_counted(lake, modality, shard, uncut)) if one is None or one.of != of else one
    if keep and (found.keys() != kept.keys() or any(found[shard] is not kept[shard] for shard in found)):
        _keep(path, found)
    total = UnitCounts()
    for one in found.values():
        total.update(one.counts)
    return total, pc.count_distinct(pa.chunked_array([one.units for one in found.values()], _DIGEST)).as_py()


def _made_from(lake: Lake, modality: str, shard: str, bare: str) -> str:
    stamps = (lake.tables.stamp(Slot(name, modality, shard)) for name in _TABLES)
    return digest_of("\n".join([bare, *("" if one is None else one.data_version for one in stamps)]).encode())


def _counted(lake: Lake, modality: str, shard: str, uncut: Mapping[Digest, Uncut]) -> tuple[UnitCounts, pa.Array]:
    """uncut: what has a verdict and cannot be cut all the same."""
    counts, units = UnitCounts(), set[Digest]()
    names = ["digest", "source", "error_code"]
    items = lake.tables.read(Slot("items", modality, shard), columns=names, keep=False)
    slot = Slot("verdicts", modality, shard)
    rows = (
        lake.tables.read(slot, columns=["digest", "status", "rule", "weight"], keep=False).to_pylist()
        if lake.tables.stamp(slot) is not None
        else []
    )
    verdicts = {row["digest"]: row for row in rows}
    verdicts |= {digest: _bare(uncut[digest].error_code) for digest in uncut.keys() & verdicts.keys()}
    spans = _spans(lake, modality, shard)
    for digest, source, code in zip(*(items.column(name).to_pylist() for name in names), strict=True):
        counts.num_items += 1
        if digest is None:
            counts.num_bare += 1
            counts.add(_bare(code), source)
            continue
        for unit, kind in spans.get(digest, ((digest, WHOLE),)):
            if kind == GAP:
                counts.num_gaps += 1
            else:
                units.add(unit)
                counts.add(verdicts.get(unit), source)
    return counts, pa.array([bytes.fromhex(unit) for unit in sorted(units)], _DIGEST)


def _bare(code: int | None) -> dict[str, Any]:
    """The verdict on what has no bytes for a version, whose cause is called as its code."""
    rule = CODES[code].name if code in CODES else "no_bytes"
    return {"status": "unreadable", "weight": 0.0, "rule": rule}


def _spans(lake: Lake, modality: str, shard: str) -> dict[Digest, list[tuple[Digest, str]]]:
    """Cut item -> name and kind of its spans and gaps."""
    slot, spans = Slot("units", modality, shard), dict[Digest, list[tuple[Digest, str]]]()
    if lake.tables.stamp(slot) is not None:
        units = lake.tables.read(slot, columns=["digest", "parent_digest", "kind"], keep=False)
        for row in units.filter(pc.not_equal(units.column("kind"), WHOLE)).to_pylist():
            spans.setdefault(row["parent_digest"], []).append((row["digest"], row["kind"]))
    return spans


def _path(lake: Lake, modality: str) -> Path:
    return lake.root / "kept" / modality / "counts.rows"


def _keep(path: Path, shards: Mapping[str, _Shard]) -> None:
    columns = {
        "shard": list(shards),
        "of": [one.of for one in shards.values()],
        "counts": [one.counts.text() for one in shards.values()],
    }
    ends = np.cumsum([0, *(len(one.units) for one in shards.values())], dtype=np.int32)
    units = pa.ListArray.from_arrays(pa.array(ends), pa.concat_arrays([one.units for one in shards.values()]))
    sink = io.BytesIO()
    pq.write_table(pa.table({**columns, "units": units}, schema=_KEPT), sink, compression="zstd")
    data = sink.getvalue()
    header = {"format": _FORMAT, "release": __version__, "sha256": digest_of(data)}
    write_atomically(path, [checked_json.dumps(header) + b"\n", data])


def _kept(path: Path) -> dict[str, _Shard]:
    """The shards whose counts are kept; none where the file is missing or is not what this release wrote."""
    try:
        line, _, data = path.read_bytes().partition(b"\n")
        if checked_json.loads(line) != {"format": _FORMAT, "release": __version__, "sha256": digest_of(data)}:
            return {}
        table = pq.read_table(pa.BufferReader(data))
        shards, made_from, counts = (table[name].to_pylist() for name in ("shard", "of", "counts"))
        units = table["units"].combine_chunks()
        return {
            shard: _Shard(made_from[at], UnitCounts.parse(counts[at]), units[at].values)
            for at, shard in enumerate(shards)
        }
    except (OSError, ValueError, KeyError, TypeError):
        return {}

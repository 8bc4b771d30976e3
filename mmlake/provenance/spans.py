"""The units of an item: the spans and gaps that a film or a recording was cut to, and the item of a span."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mmlake.records import Digest
from mmlake.tables import Slot, Tables

_COLUMNS = ["digest", "parent_digest", "position", "kind", "gap", "start", "end"]
_VERDICT = ["digest", "status", "rule", "reason"]


def spans_named(tables: Tables, prefix: str) -> dict[Digest, tuple[str, dict[str, Any]]]:
    """The spans and gaps whose name begins with the prefix: digest -> (kind, where it lies)."""
    found: dict[Digest, tuple[str, dict[str, Any]]] = {}
    for _, part in _spans(tables):
        for row in part.filter(pc.starts_with(part.column("digest"), prefix)).to_pylist():
            where = {"digest": row["parent_digest"], "position": row["position"], **_times(row)}
            found[row["digest"]] = row["kind"], where | ({"gap": row["gap"]} if row["gap"] else {})
    return found


def units_of(tables: Tables, item: Digest) -> list[dict[str, Any]]:
    """The spans and gaps of the item in order, each with its verdict's status; empty where it is whole or unknown.

    digest, kind, gap, start_s, end_s, status (null for gaps and where nothing was judged yet), rule and reason."""
    rows: dict[int, dict[str, Any]] = {}
    for slot, part in _spans(tables):
        mine = part.filter(pc.equal(part.column("parent_digest"), item)).to_pylist()
        verdicts = _verdicts(tables, slot, [row["digest"] for row in mine]) if mine else {}
        for row in mine:
            verdict = verdicts.get(row["digest"], {})
            rows.setdefault(
                row["position"],
                {name: row[name] for name in ("digest", "kind", "gap")}
                | _times(row)
                | {name: verdict.get(name) for name in ("status", "rule", "reason")},
            )
    return [rows[position] for position in sorted(rows)]


def _spans(tables: Tables) -> Iterator[tuple[Slot, pa.Table]]:
    for modality in tables.modalities("units"):
        for shard, part in tables.scan("units", modality, columns=_COLUMNS):
            spans = part.filter(pc.not_equal(part.column("kind"), "whole"))
            if spans.num_rows:
                yield Slot("units", modality, shard), spans


def _times(row: dict[str, Any]) -> dict[str, float]:
    return {"start_s": row["start"] / 1e6, "end_s": row["end"] / 1e6}


def _verdicts(tables: Tables, units: Slot, digests: list[Digest]) -> dict[Digest, dict[str, Any]]:
    slot = Slot("verdicts", units.modality, units.shard)
    if tables.stamp(slot) is None:
        return {}
    part = tables.read(slot, columns=_VERDICT)
    mine = part.filter(pc.is_in(part.column("digest"), value_set=pa.array(digests, pa.string())))
    return {row["digest"]: row for row in mine.to_pylist()}

"""What units of one item must be: a whole, or spans and gaps that add up to it, each named by what it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mmlake.errors import ContractBroken
from mmlake.preprocess.tiling.splitting import NO_PICTURE, SILENCE, STATIC, TOO_SHORT
from mmlake.preprocess.tiling.unit_tracks import GAP, WHOLE
from mmlake.records import Digest, canonical_json, digest_of

TIME_AXIS = "us"
_GAPS = (SILENCE, STATIC, NO_PICTURE, TOO_SHORT)
_NAMED_BY = ("kind", "start", "end", "axis", "producer")


def unit_digest(parent: Digest, *, kind: str, start: int, end: int, axis: str, producer: str) -> Digest:
    """The name of a span or gap."""
    fields = {"axis": axis, "end": end, "kind": kind, "parent": parent, "producer": producer, "start": start}
    return digest_of(canonical_json(fields).encode())


def named(row: Mapping[str, Any]) -> Digest:
    """The name of the span or gap that the row of UNITS says."""
    return unit_digest(row["parent_digest"], **{name: row[name] for name in _NAMED_BY})


def check_tiling(border: str, tracks: pa.Table, found: pa.Table) -> None:
    """Raises ContractBroken where units and gaps of an item do not add up to it, or a name is not that of its unit.

    tracks: digest and duration_s.
    """
    if pc.count_distinct(found["digest"]).as_py() != found.num_rows:
        raise ContractBroken(f"{border}: {found.num_rows} units and gaps have fewer names; correct the stage")
    is_whole = pc.equal(found["kind"], WHOLE)
    wholes = found.filter(is_whole)
    if not pc.all(pc.equal(wholes["digest"], wholes["parent_digest"])).as_py() and wholes.num_rows:
        raise ContractBroken(f"{border}: a whole unit is not named by its item; correct the stage")
    spans = found.filter(pc.invert(is_whole)).sort_by([("parent_digest", "ascending"), ("position", "ascending")])
    if not spans.num_rows:
        return
    parents = set(spans["parent_digest"].to_pylist())
    if both := sorted(parents.intersection(wholes["parent_digest"].to_pylist())):
        raise ContractBroken(f"{border}: {both[0]} is whole and cut at once; correct the stage")
    lengths = dict(zip(tracks["digest"].to_pylist(), tracks["duration_s"].to_pylist(), strict=True))
    rows: list[dict[str, Any]] = []
    for row in [*spans.to_pylist(), None]:
        if rows and (row is None or row["parent_digest"] != rows[0]["parent_digest"]):
            _check_item(border, rows, lengths.get(rows[0]["parent_digest"]))
            rows = []
        if row is not None:
            rows.append(row)


def _check_item(border: str, rows: Sequence[Mapping[str, Any]], duration_s: float | None) -> None:
    """Raises ContractBroken where these do not tile their item."""
    parent, end, frame = rows[0]["parent_digest"], 0, rows[0]["start_frame"]
    for position, row in enumerate(rows):
        is_gap = row["kind"] == GAP
        if row["gap"] not in (_GAPS if is_gap else (None,)) or row["position"] != position or row["axis"] != TIME_AXIS:
            raise ContractBroken(
                f"{border}: {row['kind']} {row['position']} of {parent} has the gap {row['gap']!r} and the axis "
                f"{row['axis']!r}, expected number {position}; correct the stage"
            )
        if row["start"] != end or row["end"] <= end or row["digest"] != named(row):
            raise ContractBroken(
                f"{border}: {row['kind']} {row['position']} of {parent} spans {row['start']} to {row['end']} us as "
                f"{row['digest'][:12]}, expected one from {end} us on; correct the stage"
            )
        if row["start_frame"] != frame or (frame is not None and row["end_frame"] < frame + (row["gap"] != NO_PICTURE)):
            raise ContractBroken(
                f"{border}: {row['kind']} {row['position']} of {parent} shows frames {row['start_frame']} to "
                f"{row['end_frame']}, expected some from {frame} on; correct the stage"
            )
        end, frame = row["end"], row["end_frame"]
    if duration_s is None or end != (length := round(duration_s * 1e6)):
        raise ContractBroken(
            f"{border}: units and gaps of {parent} end at {end} us, the item at "
            f"{'no known time' if duration_s is None else f'{length} us'}; correct the stage"
        )
    if all(row["kind"] == GAP for row in rows):
        raise ContractBroken(f"{border}: {parent} is nothing but gaps, expected one whole unit; correct the stage")

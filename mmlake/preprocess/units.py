"""The units of a partition: whole items, and the spans and gaps that long recordings and films are cut to.

Enters: tracks, alignments and the store. Leaves: the UNITS table. Spans and gaps of one item tile it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mmlake import schemas
from mmlake.border import IN_PROCESS, Runner
from mmlake.errors import ContractBroken
from mmlake.preprocess.settings import UnitSettings
from mmlake.preprocess.unit_tracks import GAP, WHOLE
from mmlake.progress import Advance, silent
from mmlake.records import Digest, canonical_json, digest_of
from mmlake.store import Blobs

TIME_AXIS = "us"
_OF_TRACKS = ("role", "status", "error_code", "error")


@dataclass(frozen=True, slots=True)
class Piece:
    """A span or a gap of an item, on its axis."""

    start: int
    end: int
    gap: str | None = None
    start_frame: int | None = None
    end_frame: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Splitter:
    """How long items of one modality are cut."""

    kind: str  # of its spans
    producer: str  # name@revision
    split: Callable[[Mapping[str, Any], UnitSettings], Sequence[Piece]]


def units(
    tracks: pa.Table,
    *,
    splitter: Splitter | None,
    alignments: pa.Table | None = None,
    store: Blobs,
    settings: UnitSettings | None = None,
    runner: Runner = IN_PROCESS,
    advance: Advance = silent,
) -> pa.Table:
    """The UNITS table of the tracks. splitter: the modality's; None where all items are whole. alignments: those of the
    tracks; None where nothing is spoken."""
    settings = settings or UnitSettings()
    is_long = pc.fill_null(pc.greater(tracks["duration_s"], settings.whole_up_to_s), False)
    rows, whole = [], _whole(tracks if splitter is None else tracks.filter(pc.invert(is_long)))
    if splitter is not None:
        rows = [row for track in tracks.filter(is_long).to_pylist() for row in _rows(track, splitter, settings)]
    advance(tracks.num_rows)
    return schemas.conform(schemas.UNITS, pa.concat_tables([whole, schemas.from_rows(schemas.UNITS, rows)]))


def unit_digest(parent: Digest, *, kind: str, start: int, end: int, axis: str, producer: str) -> Digest:
    """The name of a span."""
    fields = {"axis": axis, "end": end, "kind": kind, "parent": parent, "producer": producer, "start": start}
    return digest_of(canonical_json(fields).encode())


def check_tiling(border: str, tracks: pa.Table, found: pa.Table) -> None:
    """Raises ContractBroken where units and gaps of an item do not add up to it, or a name is not that of its span.

    tracks: digest and duration_s.
    """
    lengths = dict(zip(*(tracks[name].to_pylist() for name in ("digest", "duration_s")), strict=True))
    if pc.count_distinct(found["digest"]).as_py() != found.num_rows:
        raise ContractBroken(f"{border}: {found.num_rows} units and gaps have fewer names; correct the stage")
    spans = found.filter(pc.not_equal(found["kind"], WHOLE)).sort_by(
        [("parent_digest", "ascending"), ("position", "ascending")]
    )
    ends: dict[str, int] = {}
    for row in spans.to_pylist():
        before, name = ends.get(row["parent_digest"], 0), unit_digest(row["parent_digest"], **_identity(row))
        if row["start"] != before or row["end"] <= before or row["digest"] != name:
            raise ContractBroken(
                f"{border}: {row['kind']} {row['position']} of {row['parent_digest']} spans {row['start']} to "
                f"{row['end']} us as {row['digest'][:12]}, expected one from {before} us on; correct the stage"
            )
        ends[row["parent_digest"]] = row["end"]
    for parent, end in ends.items():
        if end != (length := round(lengths[parent] * 1e6)):
            raise ContractBroken(f"{border}: units and gaps of {parent} end at {end} us, the item at {length} us")


def _identity(row: Mapping[str, Any]) -> dict[str, Any]:
    """What a span is named by, besides its item."""
    return {name: row[name] for name in ("kind", "start", "end", "axis", "producer")}


def _whole(tracks: pa.Table) -> pa.Table:
    """Each item as one unit."""
    length = pc.round(pc.multiply(tracks["duration_s"], 1e6)).cast(pa.int64())
    timed = pc.is_valid(length)
    columns = {
        "digest": tracks["digest"],
        "parent_digest": tracks["digest"],
        "position": pa.repeat(pa.scalar(0, pa.int32()), tracks.num_rows),
        "kind": pa.repeat(WHOLE, tracks.num_rows),
        "axis": pc.if_else(timed, TIME_AXIS, pa.scalar(None, pa.string())),
        "start": pc.if_else(timed, pa.scalar(0, pa.int64()), None),
        "end": length,
        "producer": pa.repeat(WHOLE, tracks.num_rows),
        **{name: tracks[name] for name in _OF_TRACKS},
    }
    nulls = {field.name: pa.nulls(tracks.num_rows, field.type) for field in schemas.UNITS.arrow}
    return pa.table(nulls | columns).cast(schemas.UNITS.arrow)


def _rows(track: Mapping[str, Any], splitter: Splitter, settings: UnitSettings) -> list[dict[str, Any]]:
    rows = []
    for position, piece in enumerate(splitter.split(track, settings)):
        row: dict[str, Any] = {
            "kind": splitter.kind if piece.gap is None else GAP,
            "start": piece.start,
            "end": piece.end,
            "axis": TIME_AXIS,
            "producer": splitter.producer,
        }
        row |= {name: track[name] for name in _OF_TRACKS}
        row |= {
            "digest": unit_digest(track["digest"], **_identity(row)),
            "parent_digest": track["digest"],
            "position": position,
            "gap": piece.gap,
            "start_frame": piece.start_frame,
            "end_frame": piece.end_frame,
        }
        rows.append(row)
    return rows


def _evenly(track: Mapping[str, Any], settings: UnitSettings) -> list[Piece]:
    length = round(track["duration_s"] * 1e6)
    count = -(-length // round(settings.max_span_s * 1e6))
    borders = [length * at // count for at in range(count + 1)]
    return [Piece(start, end) for start, end in zip(borders, borders[1:], strict=False)]


FILM_SPLITTER = Splitter(kind="clip", producer="even@1", split=_evenly)
RECORDING_SPLITTER = Splitter(kind="segment", producer="even@1", split=_evenly)

"""Tracks of units: what decoding says of each whole item, and of each span what it says of that stretch, on the span's
own clock. No media are read.

The sound of a span is still the whole sound track of its item, and its bytes are those of the item: whoever reads them
takes no more than the span.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake.track_schemas import TRACKS

GAP, WHOLE = "gap", "whole"
_SLACK_S = 1e-6  # borders are whole microseconds; of 24 frames per second two of three are shown between two
_OF_UNITS = ("status", "error_code", "error")  # a span may fail where its item decoded
UNIT_TRACKS = pa.schema(
    [
        *TRACKS.arrow,
        pa.field("parent_digest", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("span_start_s", pa.float64()),  # in the item; null where the unit is whole
        pa.field("span_end_s", pa.float64()),
        pa.field("start_frame", pa.int32()),
        pa.field("end_frame", pa.int32()),
    ]
)


def unit_tracks(tracks: pa.Table, units: pa.Table) -> pa.Table:
    """A row per unit that is no gap, schema UNIT_TRACKS, those of one item together and in order. `digest` names the
    unit; duration, shots, keyframes, signals, cues and the transcript that they make are those of the span, counted
    from its beginning, and size_bytes is its share of the item's."""
    units = units.filter(pc.not_equal(units["kind"], GAP)).combine_chunks()
    rows = tracks.take(pc.index_in(units["parent_digest"], value_set=tracks["digest"].combine_chunks()))
    for name in ("digest", *_OF_UNITS):
        rows = rows.set_column(rows.column_names.index(name), name, units[name])
    is_span = pc.and_(pc.not_equal(units["kind"], WHOLE), pc.equal(units["status"], "ok"))
    added = {
        "parent_digest": units["parent_digest"],
        "kind": units["kind"],
        "span_start_s": pc.if_else(is_span, _seconds(units["start"]), None),
        "span_end_s": pc.if_else(is_span, _seconds(units["end"]), None),
        "start_frame": units["start_frame"],
        "end_frame": units["end_frame"],
    }
    for name, values in added.items():
        rows = rows.append_column(name, values)
    spans = np.flatnonzero(is_span.to_numpy())
    return (_with_spans(rows, spans) if len(spans) else rows).cast(UNIT_TRACKS)


def _seconds(microseconds: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.divide(microseconds.cast(pa.float64()), 1e6)


def _with_spans(rows: pa.Table, spans: np.ndarray) -> pa.Table:
    """The rows, those of these numbers cut to their spans."""
    cut: dict[str, list[Any]] = {name: [] for name in _CUT}
    mine = rows.select([*_CUT, "span_start_s", "span_end_s", "start_frame", "end_frame"]).take(pa.array(spans))
    for row in _scalars(mine):
        for name, value in _of_span(row).items():
            cut[name].append(value)
    places = pa.array(_places(rows.num_rows, spans))
    for name, values in cut.items():
        kind = TRACKS.arrow.field(name).type
        column = pa.concat_arrays([rows[name].combine_chunks().cast(kind), pa.array(values, kind)])
        rows = rows.set_column(rows.column_names.index(name), name, column.take(places))
    return rows


def _places(num_rows: int, spans: np.ndarray) -> np.ndarray:
    """Where the value of each row is: its own place, or behind all rows for the spans, in order."""
    places = np.arange(num_rows)
    places[spans] = num_rows + np.arange(len(spans))
    return places


def _scalars(table: pa.Table) -> Any:
    columns = [column.combine_chunks() for column in table.columns]
    for at in range(table.num_rows):
        yield {name: column[at] for name, column in zip(table.column_names, columns, strict=True)}


_CUT = (
    "size_bytes", "duration_s", "num_frames", "shots", "keyframes", "signals", "cues", "transcript",
)  # fmt: skip


def _of_span(row: Mapping[str, pa.Scalar]) -> dict[str, Any]:
    """The columns of _CUT within the span."""
    start_s, end_s = row["span_start_s"].as_py(), row["span_end_s"].as_py()
    length_s, whole_s = end_s - start_s, row["duration_s"].as_py()
    shots = row["shots"].as_py()
    first = next((at for at, shot in enumerate(shots) if shot["end_s"] > start_s + _SLACK_S), 0)
    cues = _cues(row["cues"].as_py(), start_s, end_s, whole_s=whole_s)
    frames = [row[name].as_py() for name in ("start_frame", "end_frame")]
    return {
        "size_bytes": round(row["size_bytes"].as_py() * min(1.0, length_s / whole_s)) if whole_s else 0,
        "duration_s": length_s,
        "num_frames": None if None in frames else frames[1] - frames[0],
        "shots": _shots(shots, start_s, end_s),
        "keyframes": [
            frame | {"time_s": max(frame["time_s"] - start_s, 0.0), "shot": max(0, frame["shot"] - first)}
            for frame in row["keyframes"].as_py()
            if start_s - _SLACK_S <= frame["time_s"] < end_s - _SLACK_S
        ],
        "signals": _signals(row["signals"].values, start_s, end_s),
        "cues": cues,
        "transcript": " ".join(cue["text"] for cue in cues) or None,
    }


def _shots(shots: Sequence[Mapping[str, Any]], start_s: float, end_s: float) -> list[dict[str, Any]]:
    inside = [dict(shot) for shot in shots if shot["start_s"] < end_s - _SLACK_S and shot["end_s"] > start_s + _SLACK_S]
    for at, shot in enumerate(inside):
        if at == 0:
            shot["transition"] = "start"
        shot["start_s"] = max(shot["start_s"], start_s) - start_s
        shot["end_s"] = min(shot["end_s"], end_s) - start_s
    return inside


def _signals(signals: pa.StructArray, start_s: float, end_s: float) -> list[dict[str, float]]:
    """The analysed frames of the span; a film of hours has many, so only those become Python objects."""
    times = pc.struct_field(signals, "time_s").to_numpy(zero_copy_only=False).astype(np.float64)
    # times are float32 seconds: those of the first frame may round to just before the span
    first, last = np.searchsorted(times, [start_s - 1e-3, end_s - 1e-3])
    inside: list[dict[str, float]] = signals.slice(first, last - first).to_pylist()
    for at, signal in enumerate(inside):
        signal["time_s"] = max(0.0, signal["time_s"] - start_s)
        if at == 0:
            signal["change"] = 0.0  # there is no frame before
    return inside


def _cues(cues: Sequence[Mapping[str, Any]], start_s: float, end_s: float, *, whole_s: float) -> list[dict[str, Any]]:
    """The cues whose middle lies in the span: each is in one span only. Of a cue that runs over the end of the item
    counts what is inside; one that lies behind the end is in none."""
    return [
        dict(cue) | {"start_s": max(cue["start_s"] - start_s, 0.0), "end_s": min(cue["end_s"], end_s) - start_s}
        for cue in cues
        if start_s <= (cue["start_s"] + min(cue["end_s"], whole_s)) / 2 < end_s and cue["start_s"] < whole_s
    ]

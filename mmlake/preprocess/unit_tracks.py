"""Tracks of units: what decoding says of each whole item, and of each span what it says of that stretch, on the span's
own clock. No media are read.

The sound of a span is still the whole sound track of its item, and its bytes are those of the item: whoever reads them
takes no more than the span.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
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


def spans_of(units: pa.Table) -> pa.Table:
    """The units that are neither whole items nor gaps."""
    return units.filter(pc.invert(pc.is_in(units["kind"], value_set=pa.array([WHOLE, GAP]))))


def unit_tracks(tracks: pa.Table, units: pa.Table) -> pa.Table:
    """A row per unit that is no gap, schema UNIT_TRACKS, those of one item together and in order. `digest` names the
    unit; duration, shots, keyframes, signals, cues and the transcript that they make are those of the span, counted
    from its beginning, and size_bytes is its share of the item's."""
    units = units.filter(pc.not_equal(units["kind"], GAP)).combine_chunks()
    at = pc.index_in(units["parent_digest"].combine_chunks(), value_set=tracks["digest"].combine_chunks())
    is_span = pc.and_(pc.not_equal(units["kind"], WHOLE), pc.equal(units["status"], "ok")).combine_chunks()
    # of an item with a thousand spans, a thousand copies of its signals would not fit into memory
    whole_at = pc.if_else(is_span, pa.scalar(None, at.type), at)
    rows = pa.table({name: tracks[name].take(whole_at if name in _CUT else at) for name in tracks.column_names})
    for name in ("digest", *_OF_UNITS):
        rows = rows.set_column(rows.column_names.index(name), name, units[name])
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
    spans = np.flatnonzero(is_span.to_numpy(zero_copy_only=False))
    if len(spans):
        rows = _with_spans(rows, spans, tracks=tracks, items=at.take(pa.array(spans)).to_pylist())
    return rows.cast(UNIT_TRACKS)


def _seconds(microseconds: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.divide(microseconds.cast(pa.float64()), 1e6)


def _with_spans(rows: pa.Table, spans: np.ndarray, *, tracks: pa.Table, items: Sequence[int]) -> pa.Table:
    """The rows with the columns of _CUT of those that are spans. spans: their numbers; items: row of tracks of each,
    equal ones next to each other."""
    cut: dict[str, list[Any]] = {name: [] for name in _CUT}
    bounds = rows.select(["span_start_s", "span_end_s", "start_frame", "end_frame"]).take(pa.array(spans)).to_pylist()
    for at, group in groupby(zip(items, bounds, strict=True), key=lambda one: one[0]):
        item = _Item.of(tracks, at)
        for _, span in group:
            for name, value in _of_span(item, span).items():
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


_CUT = (
    "size_bytes", "duration_s", "num_frames", "shots", "keyframes", "signals", "cues", "transcript",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Item:
    """What the track of an item says, read once for all of its spans."""

    size_bytes: int
    duration_s: float
    shots: list[dict[str, Any]]
    keyframes: list[dict[str, Any]]
    cues: list[dict[str, Any]]
    signals: pa.StructArray
    times_s: np.ndarray  # of the signals, float64

    @classmethod
    def of(cls, tracks: pa.Table, at: int) -> _Item:
        signals = tracks["signals"][at].values
        times_s = pc.struct_field(signals, "time_s").to_numpy(zero_copy_only=False).astype(np.float64)
        names = ("size_bytes", "duration_s", "shots", "keyframes", "cues")
        return cls(**{name: tracks[name][at].as_py() for name in names}, signals=signals, times_s=times_s)


def _of_span(item: _Item, span: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of _CUT within the span."""
    start_s, end_s, whole_s = span["span_start_s"], span["span_end_s"], item.duration_s
    length_s = end_s - start_s
    first = next((at for at, shot in enumerate(item.shots) if shot["end_s"] > start_s + _SLACK_S), 0)
    cues = _cues(item.cues, start_s, end_s, whole_s=whole_s)
    frames = [span["start_frame"], span["end_frame"]]
    return {
        "size_bytes": round(item.size_bytes * min(1.0, length_s / whole_s)) if whole_s else 0,
        "duration_s": length_s,
        "num_frames": None if None in frames else frames[1] - frames[0],
        "shots": _shots(item.shots, start_s, end_s),
        "keyframes": [
            frame | {"time_s": max(frame["time_s"] - start_s, 0.0), "shot": max(0, frame["shot"] - first)}
            for frame in item.keyframes
            if start_s - _SLACK_S <= frame["time_s"] < end_s - _SLACK_S
        ],
        "signals": _signals(item, start_s, end_s),
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


def _signals(item: _Item, start_s: float, end_s: float) -> list[dict[str, float]]:
    """The analysed frames of the span; a film of hours has many, so only those become Python objects."""
    # times are float32 seconds: those of the first frame may round to just before the span
    first, last = np.searchsorted(item.times_s, [start_s - 1e-3, end_s - 1e-3])
    inside: list[dict[str, float]] = item.signals.slice(first, last - first).to_pylist()
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

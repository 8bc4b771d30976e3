"""Tracks of units: what decoding says of each whole item, and of each span what it says of that stretch, on the span's
own clock. No media are read.

The sound of a span is still the whole sound track of its item, and its bytes are those of the item: whoever reads them
takes no more than the span.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake.preprocess.tiling.cue_times import lags_by, with_cue_times
from mmlake.preprocess.tiling.cut_cues import cuts_by_item, with_cut_cues
from mmlake.schemas.tracks import TRACKS

GAP, WHOLE = "gap", "whole"
STRAY_CUES = "num_stray_cues"
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
        # cues that say something nowhere: of no length, backwards, outside of the item or in a gap. Each counts for the
        # unit that begins last before it
        pa.field(STRAY_CUES, pa.int32(), nullable=False),
    ]
)


def spans_of(units: pa.Table) -> pa.Table:
    """The units that are neither whole items nor gaps."""
    return units.filter(pc.invert(pc.is_in(units["kind"], value_set=pa.array([WHOLE, GAP]))))


def unit_tracks(tracks: pa.Table, units: pa.Table) -> pa.Table:
    """A row per unit that is no gap, schema UNIT_TRACKS, those of one item together and in order. `digest` names the
    unit; duration, damages, shots, keyframes, signals, cues and the transcript that they make are those of the span,
    counted from its beginning, as is `speech`, and size_bytes is its share of the item's. Cues lie on their speech,
    where they drift, and those that a border cuts are cut at their words."""
    units = units.filter(pc.not_equal(units["kind"], GAP)).combine_chunks()
    tracks = with_cue_times(tracks, lags_by("parent_digest", units))
    tracks = with_cut_cues(tracks, cuts_by_item(units))
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
        STRAY_CUES: _strays(tracks).take(at),
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
    cut: dict[str, list[Any]] = {name: [] for name in (*_CUT, STRAY_CUES)}
    bounds = rows.select(["span_start_s", "span_end_s", "start_frame", "end_frame"]).take(pa.array(spans)).to_pylist()
    for at, group in groupby(zip(items, bounds, strict=True), key=lambda one: one[0]):
        item, of_item = _Item.of(tracks, at), [span for _, span in group]
        cues, strays = _shared_out(item.cues, of_item, whole_s=item.duration_s)
        for span, own, num_strays in zip(of_item, cues, strays, strict=True):
            for name, value in (_of_span(item, span, own) | {STRAY_CUES: num_strays}).items():
                cut[name].append(value)
    places = pa.array(_places(rows.num_rows, spans))
    for name, values in cut.items():
        kind = UNIT_TRACKS.field(name).type
        column = pa.concat_arrays([rows[name].combine_chunks().cast(kind), pa.array(values, kind)])
        rows = rows.set_column(rows.column_names.index(name), name, column.take(places))
    return rows


def _places(num_rows: int, spans: np.ndarray) -> np.ndarray:
    """Where the value of each row is: its own place, or behind all rows for the spans, in order."""
    places = np.arange(num_rows)
    places[spans] = num_rows + np.arange(len(spans))
    return places


_SIGNALS: pa.ListType = UNIT_TRACKS.field("signals").type
_OF_FRAMES = ("frame_times_s", "frame_motion", "frame_light")
_CUT = (
    "size_bytes", "duration_s", "num_frames", "damages", "shots", "keyframes", "signals", "cues", "transcript",
    "speech", *_OF_FRAMES,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Item:
    """What the track of an item says, read once for all of its spans."""

    size_bytes: int
    duration_s: float
    damages: list[dict[str, Any]]
    shots: list[dict[str, Any]]
    keyframes: list[dict[str, Any]]
    cues: list[dict[str, Any]]
    speech: list[dict[str, float]] | None
    signals: pa.StructArray
    times_s: np.ndarray  # of the signals, float64
    frames: tuple[np.ndarray, ...] | None  # columns of _OF_FRAMES

    @classmethod
    def of(cls, tracks: pa.Table, at: int) -> _Item:
        signals = tracks["signals"][at].values
        times_s = pc.struct_field(signals, "time_s").to_numpy(zero_copy_only=False).astype(np.float64)
        names = ("size_bytes", "duration_s", "damages", "shots", "keyframes", "cues", "speech")
        lists = [tracks[name][at].values for name in _OF_FRAMES]
        frames = None if lists[0] is None else tuple(values.to_numpy(zero_copy_only=False) for values in lists)
        columns = {name: tracks[name][at].as_py() for name in names}
        return cls(**columns, signals=signals, times_s=times_s, frames=frames)


def _of_span(item: _Item, span: Mapping[str, Any], own: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The columns of _CUT within the span. own: its cues, on the clock of the item."""
    start_s, end_s, whole_s = span["span_start_s"], span["span_end_s"], item.duration_s
    length_s = end_s - start_s
    first = next((at for at, shot in enumerate(item.shots) if shot["end_s"] > start_s + _SLACK_S), 0)
    cues = [
        {**cue, "start_s": max(cue["start_s"] - start_s, 0.0), "end_s": min(cue["end_s"], end_s) - start_s}
        for cue in own
    ]
    frames = [span["start_frame"], span["end_frame"]]
    return {
        "size_bytes": round(item.size_bytes * min(1.0, length_s / whole_s)) if whole_s else 0,
        "duration_s": length_s,
        "num_frames": None if None in frames else frames[1] - frames[0],
        "damages": [
            damage if damage["at_s"] is None else damage | {"at_s": damage["at_s"] - start_s}
            for damage in item.damages
            # of one without a time nobody knows where it counts; the first span has them all
            if start_s - _SLACK_S <= (damage["at_s"] or 0.0) < end_s - _SLACK_S
        ],
        "shots": _shots(item.shots, start_s, end_s),
        "keyframes": [
            frame | {"time_s": max(frame["time_s"] - start_s, 0.0), "shot": max(0, frame["shot"] - first)}
            for frame in item.keyframes
            if start_s - _SLACK_S <= frame["time_s"] < end_s - _SLACK_S
        ],
        "signals": _signals(item, start_s, end_s),
        "cues": cues,
        "transcript": " ".join(cue["text"] for cue in cues) or None,
        "speech": _speech(item.speech, start_s, end_s),
        **_frames(item, start_s, end_s),
    }


def _shots(shots: Sequence[Mapping[str, Any]], start_s: float, end_s: float) -> list[dict[str, Any]]:
    inside = [dict(shot) for shot in shots if shot["start_s"] < end_s - _SLACK_S and shot["end_s"] > start_s + _SLACK_S]
    for at, shot in enumerate(inside):
        if at == 0:
            shot["transition"] = "start"
        shot["start_s"] = max(shot["start_s"], start_s) - start_s
        shot["end_s"] = min(shot["end_s"], end_s) - start_s
    return inside


def _speech(
    speech: Sequence[Mapping[str, float]] | None, start_s: float, end_s: float
) -> list[dict[str, float]] | None:
    """What is spoken within the span; None where no detector ran."""
    if speech is None:
        return None
    return [
        {"start_s": max(one["start_s"], start_s) - start_s, "end_s": min(one["end_s"], end_s) - start_s}
        for one in speech
        if one["start_s"] < end_s - _SLACK_S and one["end_s"] > start_s + _SLACK_S
    ]


def _signals(item: _Item, start_s: float, end_s: float) -> pa.ListScalar:
    """The analysed frames of the span, as a value of the column: of a film of hours they are too many for Python
    objects."""
    # times are float32 seconds: those of the first frame may round to just before the span
    first, last = np.searchsorted(item.times_s, [start_s - 1e-3, end_s - 1e-3])
    inside = item.signals.slice(first, last - first)
    change = pc.struct_field(inside, "change").to_numpy(zero_copy_only=False).copy()
    change[:1] = 0.0  # there is no frame before
    moved = {"time_s": np.maximum(item.times_s[first:last] - start_s, 0.0).astype(np.float32), "change": change}
    fields = list(_SIGNALS.value_type)
    columns = [
        pa.array(moved[field.name]) if field.name in moved else pc.struct_field(inside, field.name) for field in fields
    ]
    rows = pa.StructArray.from_arrays(columns, fields=fields)
    return pa.ListArray.from_arrays(pa.array([0, len(rows)], pa.int32()), rows, type=_SIGNALS)[0]


def _frames(item: _Item, start_s: float, end_s: float) -> dict[str, np.ndarray | None]:
    """The columns of _OF_FRAMES of the span; what changes with its first frame is none of it."""
    if item.frames is None:
        return dict.fromkeys(_OF_FRAMES)
    # a film whose clock runs backwards is searched as if it did not
    first, last = np.searchsorted(np.maximum.accumulate(item.frames[0]), [start_s - _SLACK_S, end_s - _SLACK_S])
    times_s, moved, brighter = (values[first:last].copy() for values in item.frames)
    moved[:1], brighter[:1] = 0.0, 0.0
    return dict(zip(_OF_FRAMES, (np.maximum(times_s - start_s, 0.0), moved, brighter), strict=True))


def _strays(tracks: pa.Table) -> pa.Array:
    """How many cues of each item have no length, run backwards or lie outside of it; int32."""
    lists = tracks["cues"].combine_chunks()
    owners, cues = pc.list_parent_indices(lists), pc.list_flatten(lists)
    start_s, end_s = (pc.struct_field(cues, name) for name in ("start_s", "end_s"))
    whole_s = pc.fill_null(tracks["duration_s"].combine_chunks().take(owners), np.inf)
    outside = pc.or_(pc.less_equal(end_s, 0.0), pc.greater_equal(start_s, whole_s))
    stray = pc.or_(pc.less_equal(end_s, start_s), outside).to_numpy(zero_copy_only=False)
    counts = np.bincount(owners.to_numpy(zero_copy_only=False)[stray], minlength=tracks.num_rows)
    return pa.array(counts, pa.int32())


def _shared_out(
    cues: Sequence[Mapping[str, Any]], spans: Sequence[Mapping[str, Any]], *, whole_s: float
) -> tuple[list[list[Mapping[str, Any]]], list[int]]:
    """(its cues, its stray cues) of each span of an item, which are in order. A cue is of the span that its middle lies
    in; of one that runs over the end of the item counts what is inside."""
    starts_s = [span["span_start_s"] for span in spans]
    own: list[list[Mapping[str, Any]]] = [[] for _ in spans]
    strays = [0] * len(spans)
    for cue in cues:
        start_s, end_s = cue["start_s"], cue["end_s"]
        middle_s = (start_s + min(end_s, whole_s)) / 2
        at = bisect_right(starts_s, middle_s) - 1
        if start_s < end_s and start_s < whole_s and at >= 0 and middle_s < spans[at]["span_end_s"]:
            own[at].append(cue)
        else:
            strays[max(0, bisect_right(starts_s, start_s) - 1)] += 1
    return own, strays

"""Cues of tracks at the times of their speech, where the alignments found that they drift."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

LAGS = "cue_lags"  # the column of ALIGNMENTS and UNITS
Lags = Sequence[Mapping[str, float]]  # time_s, late_s


def lags_by(digest: str, table: pa.Table | None) -> dict[str, Lags]:
    """Item -> how late its cues are, of those whose cues drift. digest: the column of the table that names items."""
    if table is None or table[LAGS].null_count == table.num_rows:
        return {}
    late = table.filter(pc.is_valid(table[LAGS]))
    return dict(zip(late[digest].to_pylist(), late[LAGS].to_pylist(), strict=True))


def with_cue_times(tracks: pa.Table, lags: Mapping[str, Lags]) -> pa.Table:
    """The tracks, whose cues lie on their speech; those of a part that the sound lacks have no length."""
    is_late = pc.is_in(tracks["digest"], value_set=pa.array(lags, pa.string()))
    if not pc.any(is_late).as_py():
        return tracks
    late = tracks.filter(is_late).select(["digest", "cues"])
    moved = []
    for digest, cues in zip(late["digest"].to_pylist(), late["cues"].to_pylist(), strict=True):
        times_s, late_s = (np.array([knot[name] for knot in lags[digest]]) for name in ("time_s", "late_s"))
        edges_s = np.array([[cue["start_s"], cue["end_s"]] for cue in cues]).reshape(-1, 2)
        found = np.maximum(0.0, edges_s - np.interp(edges_s, times_s, late_s)).tolist()
        moved.append([cue | {"start_s": one[0], "end_s": one[1]} for cue, one in zip(cues, found, strict=True)])
    column = pc.replace_with_mask(
        pa.array(np.arange(tracks.num_rows)),
        is_late.combine_chunks(),
        pa.array(tracks.num_rows + np.arange(late.num_rows)),
    )
    kind = tracks.schema.field("cues").type
    both = pa.concat_arrays([tracks["cues"].combine_chunks(), pa.array(moved, kind)])
    return tracks.set_column(tracks.column_names.index("cues"), tracks.schema.field("cues"), both.take(column))

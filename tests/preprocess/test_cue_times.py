"""Cues that drift: their clips have the words that are said in them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from test_drift import DURATION_S, cues_of, detected, spoken
from test_unit_tracks import FILM, cue, tracks, units, whole
from test_units import DIGEST, sentences, track, words
from test_units import units as cut_to_units

from mmlake import schemas
from mmlake.preprocess import unit_tracks
from mmlake.preprocess.transcripts.drift import drift_of
from mmlake.publish.unit_facts import facts_of_shard
from mmlake.store import BlobStore

JUMP = [{"time_s": 0.0, "late_s": 0.0}, {"time_s": 10.0, "late_s": 0.0}, {"time_s": 24.0, "late_s": 14.0}]
LATE = [cue("Foxes", 1, 3), cue("of", 12, 14), cue("others", 16, 18), cue("eat", 25, 28), cue("mice.", 60, 63)]


def with_lags(table: pa.Table, lags: list[dict[str, float]] | None) -> pa.Table:
    field = table.schema.field("cue_lags")
    return table.set_column(table.column_names.index("cue_lags"), field, pa.array([lags] * table.num_rows, field.type))


def test_clips_have_the_cues_that_are_said_in_them_and_none_of_a_part_that_the_film_lacks() -> None:
    """Clips had what stands at their time in the subtitles, and so the words of another clip."""
    first, second = unit_tracks(tracks(cues=LATE), with_lags(units(0, 20, 60), JUMP)).to_pylist()
    assert first["cues"] == [cue("Foxes", 1, 3), cue("eat", 11, 14)]
    assert second["cues"] == [cue("mice.", 26, 29)]
    assert [first["transcript"], second["transcript"]] == ["Foxes eat", "mice."]
    assert first["num_stray_cues"] + second["num_stray_cues"] == 2  # none is lost silently


def test_a_film_that_is_whole_has_its_cues_moved_too_and_others_have_theirs() -> None:
    (row,) = unit_tracks(tracks(cues=LATE), with_lags(whole(FILM), JUMP)).to_pylist()
    assert [one["start_s"] for one in row["cues"]] == [1, 10, 10, 11, 46]
    (row,) = unit_tracks(tracks(cues=LATE), whole(FILM)).to_pylist()
    assert row["cues"] == LATE


def test_units_are_cut_at_words_that_were_moved_and_say_how_late_their_cues_are(tmp_path) -> None:
    """Words of cues that drift were used by nothing: they are flagged, as those of a wrong transcript."""
    store = BlobStore(tmp_path)
    sound = np.random.default_rng(1).uniform(-0.1, 0.1, 90 * 16_000).astype(np.float32)
    said = sentences(200)
    given = track(store, sound, transcript="x")
    moved = with_lags(words(*said, status="flagged", code=3204), JUMP)
    rows = cut_to_units(given, store, alignments=moved)
    assert [(row["start"], row["end"]) for row in rows] == [
        (row["start"], row["end"]) for row in cut_to_units(given, store, alignments=words(*said))
    ]
    assert all(row["cue_lags"] == JUMP for row in rows)
    doubted = with_lags(words(*said, status="flagged", code=3202), None)
    assert all(row["cue_lags"] is None for row in cut_to_units(given, store, alignments=doubted))


@pytest.mark.parametrize(("status", "code", "num_words"), [("ok", None, 2), ("flagged", 3204, 2), ("flagged", 3202, 0)])
def test_a_version_has_the_words_of_cues_that_were_moved(status: str, code: int | None, num_words: int) -> None:
    tables = {
        "units": schemas.from_rows(schemas.UNITS, [*whole(DIGEST, axis="us", start=0, end=9_000_000).to_pylist()]),
        "tracks": tracks(digest=DIGEST, duration_s=9.0, cues=[]),
        "alignments": words(("foxes", 1, 2), ("eat", 2, 3), status=status, code=code),
    }
    stored = SimpleNamespace(
        read=lambda slot, columns=None: tables[slot.table].select(columns or tables[slot.table].column_names),
        stamp=lambda slot: tables.get(slot.table),
    )
    (facts,) = facts_of_shard(SimpleNamespace(tables=stored), "video", "0").to_pylist()
    assert len(facts["words"]) == num_words


@pytest.mark.parametrize("late_s", [lambda t: 8.4 * t / DURATION_S, lambda t: 40.0 if t > 800 else 0.0])
def test_few_knots_say_what_all_lags_do(late_s) -> None:
    spans = spoken(60)
    cues = cues_of(spans, late_s)
    drift = drift_of(cues, detected(spans, 60), DURATION_S)
    assert drift is not None and len(drift.knots) < len(drift.times_s) / 2
    times_s, lags_s = np.array(drift.knots).T
    at_s = np.array([one.start_s for one in cues])
    off_s = np.interp(at_s, times_s, lags_s) - np.interp(at_s, drift.times_s, drift.late_s)
    assert np.abs(off_s).max() <= 0.06

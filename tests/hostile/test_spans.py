"""Spans and cues that are none: outside of their item, of no length, backwards. Each is a row or a field, none moves a
border or takes another with it."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from mmlake import schemas
from mmlake.lake import Lake
from mmlake.pipeline import refresh, run_tables
from mmlake.preprocess.settings import PreprocessSettings
from mmlake.preprocess.text import text_track
from mmlake.preprocess.tiling.unit_tracks import unit_tracks
from mmlake.preprocess.transcripts.subtitles import parse_cues
from tests import make
from tests.sources.source_builders import jsonl, land, parquet, rows_of

BAD_SPANS = [
    ("of no length", "a" * 64, 5.0, 5.0),
    ("backwards", "b" * 64, 9.0, 3.0),
    ("before its item", "c" * 64, -4.0, 2.0),
    ("behind any item", "d" * 64, 1e12, 2e12),
    ("of nothing", "no digest", 0.0, 1.0),
]


@pytest.mark.parametrize("name", ["rows.parquet", "rows.jsonl"])
def test_spans_that_a_manifest_claims_are_fields_and_move_nothing(tmp_path, name):
    """A source's word for a parent and a span is kept as it was written; it makes no item a part of another."""
    records = [
        {"text": f"A passage {what}.", "parent_digest": parent, "span_start_s": start_s, "span_end_s": end_s}
        for what, parent, start_s, end_s in BAD_SPANS
    ]
    data = (
        parquet({key: [record[key] for record in records] for key in records[0]})
        if name.endswith(".parquet")
        else b"".join(jsonl(record) for record in records)
    )
    rows = rows_of(land(tmp_path / "in", {name: data}))
    assert [(row["status"], row["text_content"]) for row in rows] == [("ok", record["text"]) for record in records]
    assert {row[key] for row in rows for key in ("parent_digest", "span_start_s", "span_end_s")} == {None}
    claimed = [{key: value for key, value in record.items() if key != "text"} for record in records]
    assert [json.loads(row["metadata_json"]) for row in rows] == claimed


def cue(text: str, start_s: float, end_s: float) -> dict[str, object]:
    return {"text": text, "start_s": start_s, "end_s": end_s, "score": None}


def cut(
    cues: list[dict[str, object]], *, borders_s: tuple[float, ...], kind: str = "segment", gaps: tuple[int, ...] = ()
) -> list[dict[str, object]]:
    """The tracks of the units of one recording with these cues, cut there."""
    parent = "f" * 64
    track = {"digest": parent, "modality": "audio", "role": "media", "status": "ok", "size_bytes": 1000}
    track |= {"duration_s": borders_s[-1], "shots": [], "keyframes": [], "signals": [], "cues": cues}
    track |= {"transcript": " ".join(str(one["text"]) for one in cues), "transcript_source": "source"}
    units = [
        {"digest": str(at) * 64, "parent_digest": parent, "position": at, "axis": "us"}
        | {"kind": "gap" if at in gaps else kind}
        | {"start": round(start_s * 1e6), "end": round(end_s * 1e6), "producer": "p", "role": "media", "status": "ok"}
        for at, (start_s, end_s) in enumerate(zip(borders_s, borders_s[1:], strict=False))
    ]
    tables: list[pa.Table] = [schemas.from_rows(schemas.TRACKS, [track]), schemas.from_rows(schemas.UNITS, units)]
    return unit_tracks(*tables).to_pylist()


def test_a_cue_that_runs_over_the_end_belongs_to_the_last_unit():
    """Its middle is at the end of the item or behind it, where no unit is: it was in none."""
    for end_s in (40.5, 42.0, 1e6):
        first, last = cut([cue("One.", 2.0, 4.0), cue("Two.", 39.0, end_s)], borders_s=(0.0, 20.0, 40.0))
        assert (first["transcript"], last["transcript"]) == ("One.", "Two.")
        assert [(one["start_s"], one["end_s"]) for one in last["cues"]] == [(19.0, 20.0)]


def test_a_cue_behind_the_end_belongs_to_no_unit_and_takes_no_other_with_it():
    cues = [cue("One.", 2.0, 4.0), cue("Two.", 30.0, 33.0), cue("Outside.", 40.0, 43.0), cue("Far.", 900.0, 903.0)]
    assert [row["transcript"] for row in cut(cues, borders_s=(0.0, 20.0, 40.0))] == ["One.", "Two."]


def test_every_cue_inside_is_in_one_unit_wherever_the_borders_are():
    cues = [cue(f"Line {at}.", at * 2.0, at * 2.0 + 1.9) for at in range(20)]
    for border_s in (7.0, 8.0, 8.95, 9.9, 20.0):
        rows = cut(cues, borders_s=(0.0, border_s, 40.0))
        assert " ".join(str(row["transcript"]) for row in rows) == " ".join(str(one["text"]) for one in cues)
        assert all(0 <= one["start_s"] < one["end_s"] <= row["duration_s"] for row in rows for one in row["cues"])


@pytest.mark.parametrize(("start", "end"), [("00:00:05,000", "00:00:05,000"), ("00:00:09,000", "00:00:03,000")])
def test_a_cue_of_no_length_takes_no_other_with_it(start, end):
    text = (
        "1\n00:00:01,000 --> 00:00:02,000\nOne.\n\n"
        f"2\n{start} --> {end}\nNever shown.\n\n"
        "3\n00:00:10,000 --> 00:00:11,000\nThree.\n"
    )
    assert [one.text for one in parse_cues(text) if one.is_shown] == ["One.", "Three."]
    assert len(parse_cues(text)) == 3  # nothing is lost in reading
    assert text_track(text.encode(), "application/x-subrip", settings=PreprocessSettings())["text"] == "One.\nThree."


STRAY = [("Still.", 25.0, 25.0), ("Back.", 9.0, 3.0), ("Outside.", 40.0, 43.0), ("Far.", 900.0, 903.0)]


def test_cues_that_say_nothing_anywhere_are_counted_by_the_unit_before_them() -> None:
    cues = [cue("One.", 2.0, 4.0), *(cue(*one) for one in STRAY), cue("Two.", 30.0, 33.0)]
    rows = cut(cues, borders_s=(0.0, 20.0, 40.0))
    assert [(row["transcript"], row["num_stray_cues"]) for row in rows] == [("One.", 1), ("Two.", 3)]
    (whole,) = cut(cues, borders_s=(0.0, 40.0), kind="whole")
    assert (len(whole["cues"]), whole["num_stray_cues"]) == (6, 4)


def test_a_cue_in_a_gap_is_counted() -> None:
    rows = cut([cue("One.", 2.0, 4.0), cue("Lost.", 22.0, 24.0)], borders_s=(0.0, 20.0, 30.0, 40.0), gaps=(1,))
    assert [(row["transcript"], row["num_stray_cues"]) for row in rows] == [("One.", 1), (None, 0)]


def test_a_recording_whose_subtitles_have_stray_lines_says_so(tmp_path) -> None:
    """From the landing zone to the verdict."""
    lines = [("Hello there.", 0.2, 0.9), ("Never.", 0.5, 0.5), ("Behind.", 50.0, 52.0)]
    files = {"a.wav": make.sound(1, seconds=2.0), "a.srt": srt(lines).encode(), "b.wav": make.sound(2, seconds=2.0)}
    lake = Lake(tmp_path / "lake", landing=land(tmp_path / "in", files))
    refresh(lake)
    run_tables(lake, modalities=["audio"])
    found = {row["digest"]: row for row in lake.tables.concat("verdicts", "audio").to_pylist()}
    tracks = {row["digest"]: row for row in lake.tables.concat("tracks", "audio").to_pylist()}
    findings = {
        digest: [one for one in row["findings"] if one["rule"] == "stray_cues"] for digest, row in found.items()
    }
    (stray,) = [digest for digest, some in findings.items() if some]
    assert [(one["error_code"], one["reason"]) for one in findings[stray]] == [
        (4003, "num_stray_cues=2 not in (-inf, 1)")
    ]
    assert [one["text"] for one in tracks[stray]["cues"]] == ["Hello there.", "Never.", "Behind."]
    assert tracks[stray]["transcript"] == "Hello there. Behind."


def srt(lines: list[tuple[str, float, float]]) -> str:
    return "\n".join(
        f"{at}\n00:00:{start_s:06.3f} --> 00:00:{end_s:06.3f}\n{text}\n"
        for at, (text, start_s, end_s) in enumerate(lines, 1)
    )

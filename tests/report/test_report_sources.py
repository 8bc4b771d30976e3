"""What share of each source is usable, on the page of the verdicts and in the report; speech and turns under a clip."""

from __future__ import annotations

from types import SimpleNamespace

import dagster as dg
import pyarrow as pa
import pytest

from mmlake import pipeline
from mmlake.lake import Lake
from mmlake.report import ReportData, ReportSettings, RuleCount, SourceRow
from mmlake.report.render import render_report
from mmlake.report.timeline import timeline
from mmlake.source_summary import SourceSummary, usable_lines
from mmlake.steps import ROW_STEPS, run_step
from mmlake.summary import summarize
from mmlake.version_report.tracks import _spans, _speech
from mmlake_assets import page
from tests import make


def test_the_page_of_verdicts_says_what_share_of_each_source_is_usable_and_why_not_more(tmp_path) -> None:
    texts = {"news/a.jsonl": [make.prose(1), make.prose(2), "Too short."], "web/b.jsonl": [make.prose(3)]}
    make.land(tmp_path / "in", {name: make.jsonl(lines) for name, lines in texts.items()})
    lake = Lake(tmp_path / "lake", landing=tmp_path / "in")
    pipeline.refresh(lake)
    pipeline.run_tables(lake)
    found = {}
    for shard in lake.tables.shards("verdicts", "text"):
        metadata = page.usable_metadata(run_step(ROW_STEPS["verdicts"], lake, "text", shard), lake)
        table = metadata["usable_by_source"]
        assert isinstance(table, dg.TableMetadataValue)
        found |= {record.data["source"]: (metadata["usable_fraction"], record.data) for record in table.records}
    assert found["news"][0] == pytest.approx(2 / 3) and found["web"][0] == 1.0
    assert found["news"][1]["not usable for"] == "text_too_short 1" and found["news"][1]["units"] == 3
    other = run_step(ROW_STEPS["units"], lake, "text", lake.tables.shards("units", "text")[0])
    assert page.usable_metadata(other, lake) == {}


def test_the_report_has_a_line_and_a_bar_for_each_source_and_names_the_review_of_a_rule() -> None:
    row = SourceRow(source="<b>web", modality="video", num_units=40, usable_fraction=0.25, weighted_fraction=0.2,
                    causes={"black": 30}, lowered={"static": 4})  # fmt: skip
    rules = [RuleCount(rule=name, modality="video", severity="P1", count=3, has_review=name == "black")
             for name in ("black", "media_truncated")]  # fmt: skip
    html, _ = render_report(ReportData(sources=[row], rules=rules), settings=ReportSettings())
    assert "&lt;b&gt;web (video)" in html and "25.0% of 40, weighted 20.0%" in html
    assert "black 30" in html and "static 4" in html
    assert html.count("<code>mmlake review ") == 1 and "mmlake review black --modality video" in html


def test_of_many_sources_the_report_opens_the_chart_alone() -> None:
    rows = [SourceRow(source=f"web{at}", modality="text", num_units=at + 1, usable_fraction=0.5, weighted_fraction=0.5)
            for at in range(21)]  # fmt: skip
    many, few = (render_report(ReportData(sources=some), settings=ReportSettings())[0] for some in (rows, rows[:20]))
    assert "<summary><span>All 21 sources</span></summary>" in many and many.count("<td>web") == 21
    assert "sources</span></summary>" not in few and few.count("<td>web") == 20


def test_of_many_sources_the_terminal_shows_the_largest_and_one_line_for_the_others() -> None:
    sources = [
        SourceSummary(
            source=f"web{at:02}", num_units=at + 1, num_usable=1, usable_fraction=1 / (at + 1),
            weighted_fraction=0.5 / (at + 1), causes={}, lowered={},
        )
        for at in range(23)
    ]  # fmt: skip
    lines = usable_lines([("text", one) for one in sources])
    assert [line[0] for line in lines] == [*(f"web{at:02}" for at in range(3, 23)), "3 others"]
    assert lines[-1][2:5] == [6, "50.0%", "25.0%"]
    assert len(usable_lines([("text", one) for one in sources[:20]])) == 20


def test_what_has_no_bytes_is_counted_under_the_name_of_its_code(tmp_path) -> None:
    make.land(
        tmp_path / "in", {"a.jsonl": make.jsonl([make.prose(1)]) + b"no record\n", "b.json": b'{"image": "x.png"}'}
    )
    lake = Lake(tmp_path / "lake", landing=tmp_path / "in")
    pipeline.refresh(lake)
    pipeline.run_tables(lake)
    causes = [one.causes for row in summarize(lake).modalities for one in row.sources]
    assert "record_malformed" in set().union(*causes) and not any("shard" in one for one in causes)


def test_speech_of_a_clip_comes_from_the_tracks_of_its_film_on_the_clips_own_clock() -> None:
    spans = [{"start_s": 1.0, "end_s": 4.0}, {"start_s": 11.0, "end_s": 12.0}, {"start_s": 14.0, "end_s": 30.0}]
    rows = pa.table({"digest": ["a", "b"], "speech": [spans, None]})
    lake = SimpleNamespace(tables=SimpleNamespace(scan_parts=lambda *_, **__: [rows]))
    clip = {"span": {"parent": "a", "start_s": 10.0, "end_s": 20.0}}
    assert _speech(lake, clip) == [{"start_s": 1.0, "end_s": 2.0}, {"start_s": 4.0, "end_s": 10.0}]
    whole = {"parts": [{"role": "transcript", "digest": "x"}, {"role": "media", "digest": "a"}]}
    assert _speech(lake, whole) == spans
    assert _speech(lake, {"span": {"parent": "b", "start_s": 0.0, "end_s": 9.0}}) == []


def test_speakers_have_a_row_of_their_own_with_a_colour_each() -> None:
    turns = [{"speaker": name, "start_s": at, "end_s": at + 1.0, "confidence": 0.9}
             for name, at in (("S1", 0.0), ("S2", 1.0), ("S1", 2.0))]  # fmt: skip
    shown = _spans({"turns": turns})["speakers"]
    assert [one["text"] for one in shown] == ["S1", "S2", "S1"]
    drawn = str(timeline(4.0, title="t", keyframes=[], shots=[], peaks=[0.5] * 8, words=[],
                         spans={"speech": [{"start_s": 0.5, "end_s": 2.5}], "speakers": shown}))  # fmt: skip
    assert drawn.count("band-ok") == 1 and "speech, 0.50 to 2.50 s" in drawn
    assert (drawn.count('height="5" class="f-c0"'), drawn.count('height="5" class="f-c1"')) == (2, 1)

"""The lake in numbers while a run is going on, or after it was stopped."""

from __future__ import annotations

import pytest

from mmlake import pipeline
from mmlake.publish import unfinished_steps
from mmlake.steps import ROW_STEPS, run_step
from mmlake.summary import summarize, version_summary
from mmlake.versions.refs import Refs


def test_rows_that_are_not_judged_yet_are_waiting(site) -> None:
    lake = site.lake()
    pipeline.refresh(lake)
    run_step(ROW_STEPS["items"], lake, "text", "text/a.jsonl")
    found = summarize(lake).modalities[0]
    assert (found.num_rows, found.num_waiting, set(found.statuses.values())) == (3, 3, {0})


def test_a_shard_that_has_grown_counts_its_new_rows_as_waiting(site) -> None:
    site.tables()
    site.land("text/a.jsonl", ["One text that was not there before.", "Too short."])
    lake = site.lake()
    pipeline.refresh(lake)
    run_step(ROW_STEPS["items"], lake, "text", "text/a.jsonl")
    found = summarize(lake).modalities[0]
    assert (found.num_rows, found.num_waiting) == (2, 1)


def test_the_column_of_waiting_rows_is_drawn_only_where_there_are_some(site) -> None:
    site.tables()
    assert "waiting" not in [column.header for column in summarize(site.lake()).tables()[0].columns]


def test_a_version_is_summed_up_without_reading_the_tags_of_all_others(site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each version read every tag: a run with nothing new took a minute and more where there were a thousand."""
    name, lake = site.publish(), site.lake()
    for at in range(30):
        lake.versions.tag(f"t{at}", name)
    asked: list[str] = []
    read = Refs._read
    monkeypatch.setattr(Refs, "_read", lambda refs, kind, ref: asked.append(ref) or read(refs, kind, ref))
    assert unfinished_steps(lake, name) == [] and asked == []
    assert version_summary(lake, name)["num_samples"]
    assert set(asked) == {name}

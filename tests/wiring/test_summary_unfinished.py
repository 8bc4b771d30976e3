"""The lake in numbers while a run is going on, or after it was stopped."""

from __future__ import annotations

from mmlake import pipeline
from mmlake.steps import ROW_STEPS, run_step
from mmlake.summary import summarize


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

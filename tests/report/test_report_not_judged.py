"""Rows that no verdict covers, in the report: they are counted as that, and not as quarantined."""

from __future__ import annotations

from dataclasses import replace

from mmlake.catalog import NOT_JUDGED
from mmlake.report import FlowStep, ModalityRows, ReportData, write_report
from mmlake.report.flow import flow
from mmlake.summary import summarize
from mmlake.version_report import gather
from mmlake.version_report.catalog_rows import CatalogRows


def test_rows_without_a_verdict_are_no_quarantined_ones(done, monkeypatch):
    """Of a shard that left the landing zone before it was judged, the flow said that they were quarantined."""
    lake, whole = done.lake, summarize(done.lake)
    of_modality = CatalogRows.of_modality

    def unjudged(self, modality):
        rows = of_modality(self, modality)
        if modality != "text":
            return rows
        named = [NOT_JUDGED if status == "quarantined" else None for status in rows["status"].to_pylist()]
        return rows.set_column(rows.column_names.index("rule"), "rule", [named])

    monkeypatch.setattr(CatalogRows, "of_modality", unjudged)
    parts = [replace(one, num_waiting=3) if one.modality == "text" else one for one in whole.modalities]
    data = gather(lake, done.versions["curated"], planted={}, summary=replace(whole, modalities=parts))
    lost = next(step.lost for step in data.flows["text"] if step.name == "verdicts")
    assert lost["quarantined"] == 0 < lost["not judged"]
    assert {row.modality: row.num_waiting for row in data.rows}["text"] == 3
    assert any(note.startswith("3 rows were not judged") for note in data.notes)


def test_the_column_is_there_only_where_it_counts_something(tmp_path):
    row = ModalityRows(modality="text", num_rows=5, ok=2, num_waiting=3)
    for num, is_there in ((3, True), (0, False)):
        data = ReportData(title="report", rows=[replace(row, num_waiting=num)])
        page = write_report(data, tmp_path / f"{num}.html").path.read_text()
        assert ("not judged" in page) == is_there


def test_what_was_not_judged_has_another_colour_than_what_was_quarantined():
    steps = [FlowStep(name="verdicts", num_rows=9, lost={"not judged": 4}), FlowStep(name="version", num_rows=5)]
    drawn = flow(steps, title="text")
    assert "4 not judged" in drawn and "quarantined" not in drawn

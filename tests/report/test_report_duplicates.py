"""Which pairs the report draws from a table of pairs, and that versions and reports name the recall of the search."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console
from typer.testing import CliRunner

from mmlake import dedup, schemas
from mmlake.bench import clustered, of_lake
from mmlake.cli.app import app
from mmlake.cli.versions import draw_recall
from mmlake.errors import SettingsError
from mmlake.summary import summarize
from mmlake.version_report import gather, write_version_report
from mmlake.version_report.duplicates import _next_to_bound

RUNNER = CliRunner()


def rows(scores: list[float], relation: str, *, first: int = 0) -> list[dict]:
    return [
        {"left": f"l{first + place:03d}", "right": f"r{first + place:03d}", "tier": "near", "method": "m",
         "relation": relation, "score": score, "bound": 0.7}
        for place, score in enumerate(scores)
    ]  # fmt: skip


def table(*parts: list[dict]) -> pa.Table:
    return schemas.from_rows(schemas.PAIRS, [row for part in parts for row in part])


def test_drawn_pairs_are_those_next_to_the_bound_from_both_sides():
    above, below = np.linspace(0.7, 1.0, 60), np.linspace(0.0, 0.69, 60)
    made = table(rows(above.tolist(), "same"), rows(below.tolist(), "apart", first=60))
    drawn = _next_to_bound(made, np.random.default_rng(1))
    assert [row["relation"] for row in drawn] == ["same"] * 3 + ["apart"] * 3
    assert all(row["score"] <= above[11] for row in drawn[:3]) and all(row["score"] >= below[-12] for row in drawn[3:])
    assert drawn[0]["score"] <= drawn[1]["score"] <= drawn[2]["score"] and drawn[3]["score"] >= drawn[5]["score"]
    assert drawn == _next_to_bound(made, np.random.default_rng(1))
    other = [_next_to_bound(made, np.random.default_rng(seed)) for seed in range(2, 6)]
    assert any(one != drawn for one in other)


def test_what_overlaps_is_above_the_bound_and_a_side_may_be_empty():
    drawn = _next_to_bound(table(rows([0.8], "overlaps")), np.random.default_rng(1))
    assert [row["relation"] for row in drawn] == ["overlaps"]


def test_a_version_keeps_the_estimated_recall_and_shows_it(done):
    lake = done.lake
    name = done.versions["curated"]
    kept = lake.versions.read(name).made_with["recall"]
    assert set(kept) == {"near_duplicates", "semantic_duplicates"}
    for of_step in kept.values():
        assert set(of_step) == set(lake.parts.modalities)
        assert all(0 <= one["found"] <= one["units"] and one["low"] <= one["high"] for one in of_step.values())
    shown = RUNNER.invoke(app, ["show", name, "--lake", str(lake.root)]).stdout
    assert "Estimated recall" in shown and all(step in shown for step in kept)
    assert (
        json.loads(RUNNER.invoke(app, ["show", name, "--lake", str(lake.root), "--json"]).stdout)["made_with"]["recall"]
        == kept
    )
    assert "estimated recall of the search" in write_version_report(lake, name).read_text()


def test_a_search_in_cells_is_shown_with_what_other_numbers_of_cells_would_have_found():
    counts = {"recall_units": 40, "recall_found": 39}
    counts |= {"recall_cells_1_found": 30, "recall_cells_1_compared": 800, "recall_cells_16_found": 40}
    counts |= {"recall_cells_16_compared": 12_000}
    out = Console(width=120, record=True, file=io.StringIO())
    draw_recall(out, {"semantic_duplicates": {"image": dedup.recall_of(counts)}})
    shown = " ".join(out.export_text().split())
    assert "image 1 0.750 (0.598 to 0.858) 20 image" in shown and "image 16 1.000 (0.912 to 1.000) 300" in shown


def test_a_search_by_keys_is_shown_with_what_fewer_keys_would_have_found():
    counts = {"recall_units": 40, "recall_found": 40, "recall_keys_1_found": 20, "recall_keys_1_compared": 60}
    counts |= {"recall_keys_16_found": 40, "recall_keys_16_compared": 140}
    out = Console(width=120, record=True, file=io.StringIO())
    draw_recall(out, {"near_duplicates": {"text": dedup.recall_of(counts)}})
    shown = " ".join(out.export_text().split())
    assert "text 0.0625 0.500 (0.352 to 0.648) 1.5 text" in shown and "text 1 1.000 (0.912 to 1.000) 3.5" in shown


def test_pairs_and_clusters_of_a_lake_come_with_what_there_is_to_see(done):
    lake = done.lake
    data = gather(lake, done.versions["curated"], planted={}, summary=summarize(lake))
    assert data.pairs == gather(lake, done.versions["curated"], planted={}, summary=summarize(lake)).pairs
    assert {pair.is_above for pair in data.pairs} >= {True}
    assert all((pair.relation != "apart") == pair.is_above for pair in data.pairs)
    assert all(pair.left.image for pair in data.pairs if pair.modality == "image")
    near = [one for one in data.clusters if one.tier == "near"]
    assert near and all(one.radius is not None for one in near)
    assert all(one.members[1].why.startswith(("the other stays: ", "goes: lies in")) for one in near)


def test_a_modality_without_a_row_is_left_out(done):
    lake = done.lake
    whole = summarize(lake)
    parts = [replace(one, num_shards=0, num_rows=0) if one.modality == "image" else one for one in whole.modalities]
    data = gather(lake, done.versions["curated"], planted={}, summary=replace(whole, modalities=parts))
    there = {one.modality for one in whole.modalities if one.num_rows} - {"image"}
    assert {row.modality for row in data.rows} == {row.modality for row in data.tiers} == there
    assert not [note for note in data.notes if note.startswith("image:")]
    drawn = {str(cell) for cell in replace(whole, modalities=parts).tables()[0].columns[0].cells}
    assert "image" not in drawn and there < drawn


def test_the_benchmark_runs_on_generated_vectors_and_on_those_of_a_lake(done, tmp_path, monkeypatch):
    given = ["bench", "ann", "--quick", "--sizes", "64,128", "--dimensions", "8", "--queries", "20"]
    ran = RUNNER.invoke(app, [*given, "--json", "--out", str(tmp_path / "a")])
    assert ran.exit_code == 0, (ran.output, ran.exception)
    made = json.loads(ran.stdout)
    assert made["vectors"] == "generated" and (tmp_path / "a" / "ann.svg").exists()
    monkeypatch.setattr("mmlake.bench.of_lake", lambda lake, modality: (clustered(128, 8, bound=0.8, seed=1), 0.8, "e"))
    found = RUNNER.invoke(app, [*given, "--lake", str(done.lake.root), "--out", str(tmp_path / "b")]).stdout
    assert "auto would take flat" in found and "TB of float32" in found and "text of" in found


def test_vectors_of_a_lake_are_its_distinct_ones_with_the_bound_of_their_encoder(done, monkeypatch):
    with pytest.raises(SettingsError, match="an index needs 64"):
        of_lake(done.lake, "image")
    monkeypatch.setattr("mmlake.bench.vectors.FEWEST", 1)
    vectors, bound, encoder = of_lake(done.lake, "image")
    assert encoder == done.lake.encoder_of("image") and bound == done.lake.parts.semantic_bounds[encoder]
    made = done.lake.tables.concat("embeddings", "image", columns=["digest", "status"])
    assert len(vectors) == len({row["digest"] for row in made.to_pylist() if row["status"] == "ok"})


def test_sizes_that_are_no_numbers_or_too_small_are_refused():
    for text in ("many", "10,100"):
        refused = RUNNER.invoke(app, ["bench", "ann", "--sizes", text])
        assert f"--sizes is '{text}'" in str(refused.exception)

"""Indexes are measured against exact search, and what follows from the figures is arithmetic that a reader can redo."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from mmlake import bench, dedup, schemas
from mmlake.dedup.greedy import Edge
from mmlake.dedup.matching import NONE
from mmlake.dedup.recall import estimates
from mmlake.dedup.stars.star_edges import Stars
from mmlake.dedup.vectors import gpu, proposals, scann, tier
from mmlake.dedup.vectors.index_choice import CELLS_RECALL, PQ_RECALL, choose_index
from mmlake.dedup.vectors.matcher import VectorMatcher, never_apart, recall
from mmlake.errors import SettingsError

SETTINGS = dedup.DedupSettings()
PLAN = bench.Plan(k=5, num_queries=200, nprobes=(1, 4), ef_searches=(16,))


@pytest.fixture(scope="module")
def rows() -> dict[tuple[str, str], bench.Row]:
    vectors = bench.clustered(1_200, 24, bound=0.9, seed=3)
    found = bench.measure(vectors, bound=0.9, plan=PLAN, settings=SETTINGS)
    return {(row.index, row.parameter): row for row in found}


def test_every_index_has_a_row_and_exact_ones_find_everything(rows):
    assert [index for index, _ in rows] == [
        "flat join", "cells", "flat", "ivf-flat", "ivf-flat", "ivf-pq", "ivf-pq", "hnsw",
        *(["scann", "scann"] if scann.is_installed() else []),
    ]  # fmt: skip
    assert rows["flat", "exact"].recall_at_k == rows["flat", "exact"].recall_at_bound == 1.0
    assert rows["flat join", "exact"].recall_at_bound == 1.0
    assert all(row.queries_per_cpu_s > 0 and row.bytes_per_vector > 0 for row in rows.values())


def test_more_lists_find_more_and_codes_are_smaller_than_vectors(rows):
    assert 0.2 < rows["ivf-flat", "nprobe=1"].recall_at_k < rows["ivf-flat", "nprobe=4"].recall_at_k <= 1.0
    assert rows["flat", "exact"].bytes_per_vector == pytest.approx(4 * 24, abs=1)
    assert rows["ivf-pq", "nprobe=1 refine=4"].bytes_per_vector < 4 * 24 / 1.5
    assert rows["ivf-pq", "nprobe=1 refine=4"].exact_bytes_per_vector == 4 * 24
    assert rows["hnsw", "efSearch=16"].bytes_per_vector > 4 * 24 + 4 * 32


def test_scann_finds_more_in_more_leaves_by_codes_and_the_same_each_time(rows):
    pytest.importorskip("scann")
    few, more = (rows["scann", f"nprobe={count} refine=4"] for count in (1, 4))
    assert few.recall_at_k < more.recall_at_k <= 1.0
    assert more.bytes_per_vector < 4 * 24 / 1.5 and more.exact_bytes_per_vector == 4 * 24
    vectors = bench.clustered(400, 24, bound=0.9, seed=3)
    (_, one), (_, other) = (scann.ScannIndex(vectors, leaves=40).search(vectors[:9], 30) for _ in range(2))
    assert (one == other).all() and (one[:, 0] == np.arange(9)).all()
    assert (one == -1).any(), "one leaf holds fewer than thirty"


def test_generated_vectors_have_pairs_on_both_sides_of_the_bound():
    vectors = bench.clustered(800, 32, bound=0.9, seed=1)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    best = (vectors @ vectors.T - 2 * np.eye(800)).max(axis=1)
    assert (best >= 0.9).mean() > 0.1 and ((best > 0.8) & (best < 0.9)).mean() > 0.1
    assert np.array_equal(vectors, bench.clustered(800, 32, bound=0.9, seed=1))


def test_a_power_law_is_found_again_and_meets_the_budget_where_it_should():
    sizes = [1_000, 2_000, 4_000]
    exact, cells = (
        bench.fitted(sizes, [2e-8 * n**2 for n in sizes]),
        bench.fitted(sizes, [1e-6 * n**1.5 for n in sizes]),
    )
    assert exact.exponent == pytest.approx(2) and exact.r_squared == 1.0
    assert exact.size_at(3_600) == pytest.approx((3_600 / 2e-8) ** 0.5)
    assert bench.break_even(exact, cells) == pytest.approx((1e-6 / 2e-8) ** 2)
    assert bench.break_even(cells, exact) is None
    parallel = replace(exact, scale=1e-6, exponent=exact.exponent - 1e-5)  # meet beyond any size, and any float
    assert bench.break_even(exact, parallel) is None
    assert replace(exact, exponent=1e-4).size_at(3_600) is None and replace(exact, exponent=-0.1).size_at(3_600) is None
    assert bench.fitted([1_000], [1.0]) is None
    anchored = bench.fitted(sizes, [5.0, 5.0, 6.0], exponent=2.0)
    assert anchored.seconds(8_000) == pytest.approx(24)


def test_a_run_writes_json_csv_and_a_plot_and_projects_to_a_billion(tmp_path):
    found = bench.run(
        lambda num, dimension: bench.clustered(num, dimension, bound=0.9, seed=2),
        sizes=(200, 400),
        dimensions=(16,),
        bound=0.9,
        budget_cpu_s=60,
        plan=replace(PLAN, nprobes=(4,)),
        settings=SETTINGS,
    )
    files = bench.write(found, tmp_path)
    assert json.loads((tmp_path / "ann.json").read_text())["rows"] == found["rows"]
    with (tmp_path / "ann.csv").open() as source:
        assert [row["index"] for row in csv.DictReader(source)] == [row["index"] for row in found["rows"]]
    assert (tmp_path / "ann.svg").read_bytes().count(b"<svg") == 1 and set(files) == {"json", "csv", "svg"}
    projection = found["projection"]
    assert projection["float32_bytes"] == 2_048_000_000_000 and projection["code_bytes"] == 40_000_000_000
    assert projection["joins"]["flat join"]["exponent"] == 2.0 and projection["joins"]["cells"]["exponent"] >= 1.5
    assert found["growth"][0]["brute_force_meets_budget_at"] > 400


@pytest.mark.parametrize(
    ("num", "given", "expected"),
    [
        (4_999, {}, "flat"),
        (5_000, {}, "cells"),
        (5_000, {"index_recall": CELLS_RECALL}, "cells"),
        (5_000, {"index_recall": CELLS_RECALL + 0.0001}, "flat"),
        (5_000, {"index_memory_bytes": 4 * 96 * 5_000}, "cells"),
        (5_000, {"index_memory_bytes": 4 * 96 * 5_000 - 1}, "ivf-pq"),
        (5_000, {"index_memory_bytes": 4 * 96 * 5_000 - 1, "index_recall": PQ_RECALL + 0.001}, "cells"),
        (5_000, {"index_memory_bytes": (48 + 8) * 5_000}, "ivf-pq"),
        (5_000, {"index_memory_bytes": (48 + 8) * 5_000 - 1}, "cells"),
    ],
)
def test_the_index_follows_from_number_dimension_memory_and_recall(num, given, expected):
    chosen = choose_index(num, 96, settings=replace(SETTINGS, **given))
    assert chosen.index == expected and chosen.why
    needed = chosen.code_bytes if expected == "ivf-pq" else chosen.vector_bytes
    assert chosen.fits == (needed <= given.get("index_memory_bytes", SETTINGS.index_memory_bytes))


def test_the_interval_of_a_share_is_that_of_wilson():
    """Values of Newcombe 1998, table I: 81 of 263, 15 of 148, 0 of 20, 1 of 29."""
    for found, units, low, high in ((81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0, 0.1611),
                                    (1, 29, 0.0061, 0.1718)):  # fmt: skip
        assert estimates.wilson(found, units) == pytest.approx((low, high), abs=6e-5)
    assert estimates.wilson(20, 20) == pytest.approx((1 - 0.1611, 1), abs=6e-5)
    assert estimates.wilson(0, 0) == (0.0, 1.0)


def test_a_duplicate_that_the_search_missed_lowers_the_recall():
    vectors = np.eye(6, dtype=np.float32)[[0, 0, 1, 1, 2, 3]]
    gone = np.array([False, True, False, False, False, False])  # the pair at 2 and 3 was missed
    counts = recall(vectors, gone, bound=0.9, apart=never_apart, seed=1, sample=6)
    assert counts == (3, 1)
    kept_apart = recall(vectors, gone, bound=0.9, apart=lambda a, b: np.ones(len(a), bool), seed=1, sample=6)
    assert kept_apart == (1, 1)


def test_semantic_pairs_carry_the_recall_of_their_search(monkeypatch):
    vectors = bench.clustered(400, 16, bound=0.9, seed=5)
    made = [
        {"digest": f"{place:064x}", "encoder": "e", "revision": "1", "dimension": 16, "vector": row, "status": "ok"}
        for place, row in enumerate(vectors.tolist())
    ]
    table = schemas.from_rows(schemas.EMBEDDINGS, made)
    counts = dedup.recall_counts(dedup.semantic_pairs(table, {"e": 0.9}, settings=SETTINGS))
    assert counts["recall_units"] == counts["recall_found"] > 20
    assert dedup.recall_of(counts)["low"] > 0.8
    monkeypatch.setattr(proposals, "proposed", lambda *given: iter(()))
    blind = dedup.semantic_pairs(table, {"e": 0.9}, settings=replace(SETTINGS, index="hnsw"))
    assert dedup.recall_of(dedup.recall_counts(blind))["recall"] == 0.0
    assert dedup.recall_of({}) is None
    assert dedup.recall_counts(pa.table({"left": []})) == {}


def test_a_search_in_cells_ships_its_curve_of_recall_and_cost():
    """Against a search by hand in the cells that the matcher made."""
    vectors = bench.clustered(900, 16, bound=0.9, seed=5)
    made = [
        {"digest": f"{place:064x}", "encoder": "e", "revision": "1", "dimension": 16, "vector": row, "status": "ok"}
        for place, row in enumerate(vectors.tolist())
    ]
    table, chosen = schemas.from_rows(schemas.EMBEDDINGS, made), replace(SETTINGS, index="cells")
    said = dedup.recall_of(dedup.recall_counts(dedup.semantic_pairs(table, {"e": 0.9}, settings=chosen)))
    curve = said["curve"]
    assert [one["cells"] for one in curve] == [1, 2, 4, 8, 16]
    assert 0.5 < curve[0]["recall"] < curve[-1]["recall"] <= 1.0
    assert 900 / 60 < 3 * curve[0]["compared"] < curve[-1]["compared"] < 900
    assert all(one["low"] <= one["recall"] <= one["high"] for one in curve)
    exact = dedup.semantic_pairs(table, {"e": 0.9}, settings=SETTINGS)
    assert "curve" not in dedup.recall_of(dedup.recall_counts(exact))

    centroids = proposals.centroids(vectors, 60, chosen)
    matcher = VectorMatcher(vectors, np.arange(900), bound=0.9, settings=chosen)
    pairs = np.argwhere(np.triu(vectors @ vectors.T >= 0.9, 1))[:50]
    ranked, home = np.argsort(-(vectors @ centroids.T), axis=1), (vectors @ centroids.T).argmax(axis=1)
    for count, (found, _) in matcher.cells.curve(pairs[:, 1], pairs[:, 0]).items():
        assert found == sum(home[left] in ranked[right, :count] for left, right in pairs)


def test_a_pair_that_is_kept_as_a_miss_drops_nobody(monkeypatch):
    """The closest pairs below the bound are kept for people; they are no duplicates that were found."""
    vectors = np.array([[1, 0], [0.8, 0.6], [0, 1]], np.float32)
    made = [
        {"digest": f"{place:064x}", "encoder": "e", "revision": "1", "dimension": 2, "vector": row, "status": "ok"}
        for place, row in enumerate(vectors.tolist())
    ]
    missed = Stars()
    missed.add(0, 1, Edge(NONE, 0.8, 0, None), NONE)
    monkeypatch.setattr(tier, "stars", lambda *given, **more: missed)
    pairs = dedup.semantic_pairs(schemas.from_rows(schemas.EMBEDDINGS, made), {"e": 0.9}, settings=SETTINGS)
    assert dedup.recall_counts(pairs) == {"recall_units": 0, "recall_found": 0}


def test_without_a_device_a_clone_is_refused_in_words():
    faiss = pytest.importorskip("faiss")
    if gpu.num_devices():
        pytest.skip("there is a device")
    with pytest.raises(SettingsError, match="FAISS sees 0 GPUs"):
        gpu.on_gpu(faiss.IndexFlatIP(8), memory_bytes=1 << 30)


@pytest.mark.gpu
def test_a_clone_on_a_device_finds_what_the_index_finds_within_its_memory():
    faiss = pytest.importorskip("faiss")
    if not gpu.num_devices():
        pytest.skip("FAISS sees no GPU")
    vectors = bench.clustered(2_000, 64, bound=0.9, seed=1)
    index = faiss.IndexFlatIP(64)
    index.add(vectors)
    clone = gpu.on_gpu(index, memory_bytes=1 << 30)
    assert np.array_equal(clone.search(vectors[:50], 5)[1], index.search(vectors[:50], 5)[1])
    with pytest.raises(SettingsError, match="exceed"):
        gpu.on_gpu(index, memory_bytes=100_000)

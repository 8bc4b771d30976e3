"""Scores of probes against a version."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mmlake.errors import SettingsError
from mmlake.evaluate import Probe, score_probes, summarize
from mmlake.evaluate import scores as scores_module
from mmlake.records import digest_of

DIGESTS = [digest_of(b"%d" % number) for number in range(6)]


def on_a_line(similarities: list[float]) -> np.ndarray:
    """2-d unit vectors whose product with (1, 0) is as given."""
    return np.array([[value, math.sqrt(1 - value * value)] for value in similarities], dtype=np.float32)


def score(
    similarities: list[float],
    relevant: list[int],
    *,
    clusters: dict[int, int] | None = None,
    negatives: tuple[int, ...] = (),
    ks: tuple[int, ...] = (1, 3),
) -> dict:
    probe = Probe(
        id="p",
        kind="text",
        modality="text",
        relevant=tuple(DIGESTS[i] for i in relevant),
        query="q",
        hard_negatives=tuple(DIGESTS[i] for i in negatives),
    )
    owners = {DIGESTS[member]: DIGESTS[survivor] for member, survivor in (clusters or {}).items()}
    return score_probes(
        [probe], {"p": np.array([1.0, 0.0])}, DIGESTS[: len(similarities)], on_a_line(similarities), owners, ks=ks
    ).to_pylist()[0]


def test_first_place_scores_one_everywhere():
    row = score([0.9, 0.5, 0.1], [0])
    assert (row["rank"], row["reciprocal_rank"], row["recall_at_1"], row["ndcg_at_3"]) == (1, 1.0, 1.0, 1.0)


def test_third_place_scores_by_the_published_formulas():
    row = score([0.9, 0.8, 0.7, 0.1], [2])
    assert (row["rank"], row["recall_at_1"], row["recall_at_3"]) == (3, 0.0, 1.0)
    assert row["reciprocal_rank"] == pytest.approx(1 / 3)
    assert row["ndcg_at_3"] == pytest.approx(1 / math.log2(4))


def test_rank_is_counted_beyond_the_cut_off():
    assert score([0.9, 0.8, 0.7, 0.6, 0.5], [4])["rank"] == 5


def test_a_version_without_the_answer_scores_nothing():
    row = score([0.9, 0.8], [5], negatives=(1,))
    assert (
        row["rank"],
        row["reciprocal_rank"],
        row["recall_at_3"],
        row["ndcg_at_3"],
        row["num_hard_negatives_above"],
    ) == (None, 0.0, 0.0, 0.0, 1)


def test_any_member_of_a_duplicate_cluster_is_the_answer():
    assert score([0.1, 0.9], [0], clusters={1: 0, 0: 0})["recall_at_1"] == 1.0


def test_a_second_member_of_the_cluster_takes_a_place_without_gain():
    row = score([0.9, 0.8, 0.7], [0, 2], clusters={0: 0, 1: 0}, ks=(2, 3))
    assert (row["num_relevant"], row["recall_at_2"], row["recall_at_3"]) == (2, 0.5, 1.0)
    assert row["ndcg_at_3"] == pytest.approx((1 + 1 / math.log2(4)) / (1 + 1 / math.log2(3)))


def test_only_hard_negatives_above_the_answer_count():
    assert score([0.9, 0.8, 0.7, 0.1], [2], negatives=(0, 3))["num_hard_negatives_above"] == 1


def test_equal_similarities_go_by_digest():
    row = score([0.5] * 6, [3], ks=(6,))
    assert row["top"] == sorted(DIGESTS)
    assert row["rank"] == sorted(DIGESTS).index(DIGESTS[3]) + 1


def test_blocks_and_corpus_order_do_not_change_the_scores(monkeypatch):
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((40, 8)).astype(np.float32)
    digests = [digest_of(b"v%d" % i) for i in range(40)]
    probes = [Probe(id=f"{i:02d}", kind="text", modality="text", relevant=(digests[i],), query="q") for i in range(20)]
    queries = {probe.id: vectors[i] + 0.5 * rng.standard_normal(8) for i, probe in enumerate(probes)}
    whole = score_probes(probes, queries, digests, vectors, {})
    monkeypatch.setattr(scores_module, "_BLOCK_SCORES", 120)
    assert score_probes(probes[::-1], queries, digests[::-1], vectors[::-1], {}).equals(whole)


def test_scores_equal_a_full_sort():
    rng = np.random.default_rng(1)
    vectors = rng.standard_normal((30, 4))
    digests = [digest_of(b"w%d" % i) for i in range(30)]
    query = rng.standard_normal(4)
    row = score_probes(
        [Probe(id="p", kind="text", modality="text", relevant=(digests[7],), query="q")],
        {"p": query},
        digests,
        vectors,
        {},
    ).to_pylist()[0]
    by_hand = [digests[i] for i in np.argsort(-(vectors @ query))]
    assert row["top"] == by_hand[:10]
    assert row["rank"] == by_hand.index(digests[7]) + 1


def test_an_empty_version_scores_nothing():
    assert score([], [0])["top"] == []


@pytest.mark.parametrize("vector", [np.array([1.0]), np.array([np.nan, 0.0]), None])
def test_a_query_vector_that_does_not_fit_is_refused(vector):
    probe = Probe(id="p", kind="text", modality="text", relevant=(DIGESTS[0],), query="q")
    with pytest.raises(SettingsError, match="probe 'p'"):
        score_probes([probe], {} if vector is None else {"p": vector}, DIGESTS[:1], on_a_line([0.5]), {})


def test_the_summary_is_the_mean_per_modality_and_over_all():
    probes = [
        Probe(id=name, kind="text", modality=modality, relevant=(DIGESTS[i],), query="q")
        for name, modality, i in (("a", "text", 0), ("b", "text", 1), ("c", "image", 0))
    ]
    scores = score_probes(
        probes, {name: np.array([1.0, 0.0]) for name in "abc"}, DIGESTS[:2], on_a_line([0.9, 0.1]), {}
    )
    means = {(row["modality"], row["kind"]): row["recall_at_1"] for row in summarize(scores).to_pylist()}
    assert means == {("text", "text"): 0.5, ("image", "text"): 1.0, ("all", "all"): pytest.approx(2 / 3, abs=1e-6)}

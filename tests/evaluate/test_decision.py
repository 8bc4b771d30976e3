"""Keep, reject, or inconclusive: the statistics and their calibration."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pyarrow as pa
import pytest

from mmlake.errors import SettingsError
from mmlake.evaluate import compare
from mmlake.evaluate.decision import Decision, bootstrap_interval, holm, min_detectable_difference, sign_flip_p


def scores(values: np.ndarray | list[float], modalities: list[str] | None = None) -> pa.Table:
    return pa.table(
        {
            "probe_id": [f"{i:04d}" for i in range(len(values))],
            "modality": modalities or ["text"] * len(values),
            "ndcg_at_10": pa.array(values, pa.float64()),
        }
    )


def decide(old: pa.Table, new: pa.Table, *, margin: float = 0.0, seed: int = 1, num_resamples: int = 2000) -> Decision:
    return compare(old, new, metric="ndcg_at_10", alpha=0.05, margin=margin, seed=seed, num_resamples=num_resamples)


def test_a_clear_gain_is_kept_and_a_clear_loss_rejected():
    low, high = scores([0.4] * 20), scores([0.6] * 20)
    assert (decide(low, high).outcome, decide(high, low).outcome) == ("keep", "reject")


def test_equal_scores_cannot_be_distinguished():
    decision = decide(scores([0.5] * 20), scores([0.5] * 20))
    assert (decision.outcome, decision.p_value, decision.mean_difference) == ("inconclusive", 1.0, 0.0)
    assert "add probes" in decision.explanation


def test_a_gain_in_one_modality_does_not_outweigh_a_loss_in_another():
    modalities = ["text"] * 40 + ["image"] * 20
    decision = decide(scores([0.2] * 40 + [0.9] * 20, modalities), scores([0.9] * 40 + [0.2] * 20, modalities))
    assert decision.outcome == "reject"
    assert {row.modality: row.verdict for row in decision.rows}["image"] == "worse"


@pytest.mark.parametrize(
    ("loss", "outcome", "verdict"), [(0.009, "inconclusive", "slightly worse"), (0.011, "reject", "worse")]
)
def test_the_margin_parts_losses_that_count_from_losses_that_do_not(loss, outcome, verdict):
    decision = decide(scores([0.5] * 30), scores([0.5 - loss] * 30), margin=0.01)
    assert (decision.outcome, decision.rows[0].verdict) == (outcome, verdict)


@pytest.mark.parametrize(("changed", "outcome"), [(5, "inconclusive"), (6, "keep")])
def test_six_equal_changes_are_the_fewest_that_the_test_can_see(changed, outcome):
    new = [1.0] * changed + [0.0] * (30 - changed)
    assert decide(scores([0.0] * 30), scores(new)).outcome == outcome


def test_the_exact_sign_flip_p_value_equals_enumeration():
    differences = np.array([0.3, -0.1, 0.2, 0.4, 0.05])
    sums = [
        abs(sum(sign * value for sign, value in zip(signs, differences, strict=True)))
        for signs in itertools.product((-1, 1), repeat=5)
    ]
    expected = np.mean([value >= differences.sum() - 1e-12 for value in sums])
    assert sign_flip_p(differences, rng=np.random.default_rng(0), num_resamples=1000) == expected


def test_the_sampled_p_value_is_near_the_exact_one():
    differences = np.array([0.3, -0.1, 0.2, 0.4, 0.05, 0.1, -0.2, 0.3, 0.1, -0.05])
    exact = sign_flip_p(differences, rng=np.random.default_rng(0), num_resamples=1024)
    assert sign_flip_p(differences, rng=np.random.default_rng(0), num_resamples=1000) == pytest.approx(exact, abs=0.03)


def test_holm_equals_the_published_step_down():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])


def test_the_bootstrap_interval_agrees_with_the_normal_one():
    differences = np.random.default_rng(0).normal(0.1, 1.0, 400)
    low, high = bootstrap_interval(differences, rng=np.random.default_rng(1), alpha=0.05, num_resamples=4000)
    half = 1.96 * differences.std(ddof=1) / 20
    assert (low, high) == pytest.approx((differences.mean() - half, differences.mean() + half), abs=0.02)


def test_the_detectable_difference_follows_the_usual_formula():
    differences = np.array([-1.0, 1.0] * 50)
    assert min_detectable_difference(differences, alpha=0.05) == pytest.approx(
        (1.959964 + 0.841621) * differences.std(ddof=1) / 10, abs=1e-5
    )
    assert min_detectable_difference(np.zeros(30), alpha=0.05) == pytest.approx(6 / 30)


def test_versions_of_equal_quality_are_distinguished_no_more_often_than_alpha():
    rng, wrong, num_runs = np.random.default_rng(0), 0, 200
    modalities = ["text"] * 30 + ["image"] * 30
    for run in range(num_runs):
        difficulty = rng.random(60)
        old, new = (np.where(rng.random(60) < difficulty, 1 / rng.integers(1, 6, 60), 0.0) for _ in range(2))
        wrong += (
            decide(scores(old, modalities), scores(new, modalities), seed=run, num_resamples=500).outcome
            != "inconclusive"
        )
    assert wrong / num_runs <= 0.05 + 3 * (0.05 * 0.95 / num_runs) ** 0.5  # three standard errors of a rate of alpha


def test_a_planted_gain_of_the_detectable_size_is_found_about_as_often_as_promised():
    rng, found, num_runs = np.random.default_rng(0), 0, 100
    effect = (1.959964 + 0.841621) * 0.3 / 60**0.5  # what 60 probes with a spread of 0.3 see four times in five
    for run in range(num_runs):
        old = rng.random(60)
        found += (
            decide(scores(old), scores(old + rng.normal(effect, 0.3, 60)), seed=run, num_resamples=1000).outcome
            == "keep"
        )
    assert 0.68 <= found / num_runs <= 0.92


def test_the_same_seed_gives_the_same_decision_in_json():
    old, new = scores(np.random.default_rng(0).random(50)), scores(np.random.default_rng(1).random(50))
    assert json.dumps(decide(old, new, seed=3).to_dict()) == json.dumps(decide(old, new, seed=3).to_dict())


def test_rows_of_the_tables_may_come_in_any_order():
    old, new = scores(np.linspace(0, 1, 20)), scores(np.linspace(0.1, 1, 20))
    assert decide(old, new.take(list(range(19, -1, -1)))) == decide(old, new)


def test_scores_of_different_probes_are_never_compared():
    with pytest.raises(SettingsError, match="same frozen probe set"):
        decide(scores([0.1, 0.2]), scores([0.1]))


def test_an_unknown_metric_names_the_known_ones():
    with pytest.raises(SettingsError, match="ndcg_at_10"):
        compare(scores([0.1]), scores([0.1]), metric="accuracy", alpha=0.05, margin=0.0, seed=1)


def test_no_probes_are_inconclusive():
    assert decide(scores([]), scores([])).outcome == "inconclusive"

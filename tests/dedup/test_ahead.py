"""Comparisons that workers make ahead of a join change nothing but the time it takes."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pytest

from mmlake import dedup
from mmlake.border import Failure, InProcess
from mmlake.dedup import KeptJoins
from mmlake.dedup.stars import ahead
from mmlake.workers import WorkerPool
from tests.dedup.test_kept_joins import CRITERIA, MADE, SETTINGS, fingerprints, nodes


class Elsewhere:
    """Two workers, as far as a join can see."""

    workers = 2

    def __init__(self, *, fails: bool = False) -> None:
        self.num_compared, self._fails = 0, fails

    def map(self, kernel, items, **how):
        sent = (pickle.loads(pickle.dumps(item)) for item in items)
        for at, found in enumerate(InProcess().map(pickle.loads(pickle.dumps(kernel)), sent, **how)):
            self.num_compared += len(found.score)
            yield Failure(3101, "the worker crashed") if self._fails and at % 2 else found


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    for name, value in {"_AT_ONCE": 5, "_TOGETHER": 3, "_LEAST": 1}.items():
        monkeypatch.setattr(ahead, name, value)


def corpus(modality):
    made = MADE[modality]()
    names = [f"{at * 7919 % 1000:03d}" for at in range(len(made))]
    return fingerprints(modality, dict(zip(names, made, strict=True))), nodes(names, np.random.default_rng(2))


def joined(modality, **how):
    table, places = corpus(modality)
    return dedup.near_pairs(table, dedup.tiers_of(modality), settings=SETTINGS, criteria=CRITERIA, nodes=places, **how)


@pytest.mark.parametrize("is_kept", [True, False])
@pytest.mark.parametrize("modality", MADE)
def test_a_join_with_workers_is_the_join_without(tmp_path, modality, is_kept):
    runner = Elsewhere()
    found = joined(modality, runner=runner, kept=KeptJoins(tmp_path, "one") if is_kept else None)
    assert found.equals(joined(modality))
    assert found.num_rows
    assert runner.num_compared >= 10


def test_what_a_worker_fails_at_is_compared_here():
    assert joined("image", runner=Elsewhere(fails=True)).equals(joined("image"))


def test_what_an_earlier_join_compared_is_not_sent_again(tmp_path):
    joined("image", runner=Elsewhere(), kept=KeptJoins(tmp_path, "one"))
    again = Elsewhere()
    joined("image", runner=again, kept=KeptJoins(tmp_path, "one"))
    assert again.num_compared == 0


def test_with_one_worker_nothing_is_sent():
    one = Elsewhere()
    one.workers = 1
    joined("image", runner=one)
    assert one.num_compared == 0


def test_a_matcher_that_cannot_be_sent_compares_here():
    (tier,) = dedup.tiers_of("image")
    own = dataclasses.replace(tier, matcher=lambda prints, settings: tier.matcher(prints, settings))
    table, places = corpus("image")
    runner = Elsewhere()
    found = dedup.near_pairs(table, [own], settings=SETTINGS, criteria=CRITERIA, nodes=places, runner=runner)
    assert found.equals(joined("image"))
    assert runner.num_compared == 0


def test_processes_compare_as_this_one_does():
    with WorkerPool(workers=2) as pool:
        found = joined("image", runner=pool)
        assert pool.stats().num_started >= 1
    assert found.equals(joined("image"))

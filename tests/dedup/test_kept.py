"""A join that goes on from the one before gives what a whole join gives, whatever came, went or changed."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmlake.dedup import postings
from mmlake.dedup.criteria import CLOSENESS, Criterion
from mmlake.dedup.kept import repair
from mmlake.dedup.kept.join import Units, kept_stars
from mmlake.dedup.loops import text_kernels
from mmlake.dedup.matching import NONE, SAME, Found, OfItems
from mmlake.dedup.prints import Ragged, digests_of
from mmlake.dedup.stars import leaders
from mmlake.dedup.stars.leaders import Walk, stars
from mmlake.dedup.stars.survivors import Standing
from tests.dedup.numba_there import needs_numba
from tests.dedup.test_leaders import Line, Parts, SharedOut
from tests.thorough import drawn

CRITERIA = (Criterion(name="quality", column="quality", says="better", tolerance=0.0), CLOSENESS)


class Crowd(Line):
    """Numbers that share a key with everybody, one with their stretch, and are the same within 3."""

    def __init__(self, values):
        self.values, self.compared = np.array(values, np.int64), 0
        self.keys = Ragged.of([np.array([value // 16, 10**6], np.uint64) for value in values])

    def compare(self, one, others):
        self.compared += len(others)
        apart = np.abs(self.values[others] - self.values[one])
        return Found(np.where(apart <= 3, SAME, NONE).astype(np.int8), 1 / (1 + apart), np.zeros(len(others), np.int8))


class Twice(Line):
    """Candidates share two keys."""

    min_shared = 2


class Detailed(Line):
    """What is closest in an election is not what has the highest score."""

    def compare(self, one, others):
        found = super().compare(one, others)
        return found._replace(detail=(self.values[others] * self.values[one] % 7) / 7)


class MirroredParts(Parts):
    """It makes no difference which of two is asked, so each pair is asked once."""

    is_mirrored = True

    def __init__(self, stretches):
        super().__init__(stretches)
        self.asked = set()

    def compare(self, one, others):
        pairs = {(min(one, other), max(one, other)) for other in others.tolist()}
        self.compared += len(pairs & self.asked)
        self.asked |= pairs
        return super().compare(one, others)


def parts_of(values, kind=Parts):
    return kind([(value, value + 3 + value % 40) for value in values])


MATCHERS = {
    "line": Line,
    "crowd": Crowd,
    "twice": Twice,
    "detailed": Detailed,
    "parts": parts_of,
    "mirrored": functools.partial(parts_of, kind=MirroredParts),
    "shared": SharedOut,
}


@dataclasses.dataclass(frozen=True)
class Unit:
    value: int
    priority: int
    quality: float
    item: int


def arranged(corpus, kind):
    """(matcher, standing, units) of digest -> Unit."""
    digests = sorted(corpus)
    rows = [corpus[digest] for digest in digests]
    values = [one.value for one in rows]
    who = Standing(
        np.arange(len(rows)),
        np.array([one.priority for one in rows], np.int64),
        np.array([one.quality != 3 for one in rows], np.bool_),
        CRITERIA,
        np.array([[one.quality, np.nan] for one in rows], np.float64).reshape(len(rows), 2),
    )
    equal = digests_of({"value": Ragged.of([np.array([value], np.uint64) for value in values])})
    items = pa.array([str(one.item) for one in rows], pa.string())
    return MATCHERS[kind](values), who, Units(pa.array(digests, pa.string()), equal, items)


def as_sets(led):
    columns = (led.follows, led.held, led.overlaps, led.misses)
    return [sorted(map(str, edges.each())) for edges in columns], sorted(led.released), led.head_of.tolist()


def check(corpus, kind, prior):
    matcher, who, units = arranged(corpus, kind)
    found, _, keep = kept_stars(matcher, who, units=units, prior=prior)
    kept = keep()
    whole, who, units = arranged(corpus, kind)
    judge = OfItems(whole, np.array([int(item) for item in units.items.to_pylist()], np.int64))
    walk = Walk(judge, who)
    walk.lead_all(units.equal)
    assert as_sets(kept.led) == as_sets(walk.led())
    assert found == stars(judge, who, equal=units.equal)
    return matcher, kept


UNIT = st.builds(
    Unit, st.integers(0, 90), st.integers(0, 1), st.sampled_from([1.0, 2.0, 3.0]), st.sampled_from([*range(8)])
)
CORPUS = st.dictionaries(st.integers(0, 60).map("{:02d}".format), UNIT, max_size=40)


@st.composite
def histories(draw):
    """Sets of units, one after the other: what came, went, was replaced, or stands otherwise than before."""
    corpus, sets = {}, []
    for _ in range(draw(st.integers(2, 4))):
        gone = draw(st.sets(st.sampled_from(sorted(corpus)), max_size=6)) if corpus else set()
        better = draw(st.sets(st.sampled_from(sorted(corpus)), max_size=3)) if corpus else set()
        corpus = {
            digest: dataclasses.replace(one, quality=2.5) if digest in better else one
            for digest, one in corpus.items()
            if digest not in gone
        }
        corpus |= draw(CORPUS)
        sets.append(corpus)
    return sets


@pytest.mark.parametrize("kind", MATCHERS)
@settings(max_examples=drawn(25, 60), deadline=None)
@given(history=histories())
def test_any_arrivals_removals_and_changes_give_the_whole_join(kind, history):
    prior = None
    for corpus in history:
        _, prior = check(corpus, kind, prior)


@pytest.mark.parametrize("work", [-(10**12), pytest.param(10**12, marks=needs_numba)], ids=["numpy", "compiled"])
@pytest.mark.parametrize("kind", MATCHERS)
@settings(max_examples=drawn(12, 30), deadline=None)
@given(history=histories())
def test_lists_that_are_full_give_the_whole_join_too(kind, work, history):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_kernels, "_work", [work])
        for module in (postings, repair):
            patch.setattr(module, "MOST_PER_KEY", 3)
        for module in (leaders, repair):
            patch.setattr(module, "MOST_LEADERS", 2)
        prior = None
        for corpus in history:
            _, prior = check(corpus, kind, prior)


def test_no_pair_is_asked_twice_where_it_makes_no_difference_who_is_asked():
    corpus = {f"{at:02d}": Unit(at * 7 % 90, 0, float(at % 3), at) for at in range(30)}
    matcher, prior = check(corpus, "mirrored", None)
    assert matcher.asked
    assert not matcher.compared
    matcher, _ = check({digest: one for digest, one in corpus.items() if digest != "03"}, "mirrored", prior)
    assert not matcher.compared


def test_other_criteria_elect_anew():
    corpus = {f"{at:02d}": Unit(at % 4, 0, float(at % 3), at) for at in range(12)}
    matcher, who, units = arranged(corpus, "line")
    first, _, kept = kept_stars(matcher, who, units=units, prior=None)
    other = dataclasses.replace(who, criteria=(dataclasses.replace(CRITERIA[0], best="low"), CLOSENESS))
    found, *_ = kept_stars(matcher, other, units=units, prior=kept())
    assert found == stars(matcher, other, equal=units.equal) != first


NUM_HOT = drawn(400, 800)


@pytest.mark.parametrize("kind", ["line", "crowd"])
def test_one_more_unit_costs_a_few_comparisons_however_hot_its_keys_are(kind):
    rng = np.random.default_rng(0)
    corpus = {
        f"{at:04d}": Unit(int(value), 0, float(rng.integers(1, 3)), at)
        for at, value in enumerate(rng.integers(0, 4_000, NUM_HOT))
    }
    first, prior = check(corpus, kind, None)
    costs = []
    for at in range(8):
        corpus[f"{int(rng.integers(0, NUM_HOT)):04d}-{at}"] = Unit(int(rng.integers(0, 4_000)), 0, 1.0, NUM_HOT + at)
        matcher, prior = check(corpus, kind, prior)
        costs.append(matcher.compared)
    assert sorted(costs)[4] <= 64, "a place among the first 64 of a key that everybody has is seldom"
    assert sum(costs) < first.compared

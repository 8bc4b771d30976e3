"""Stars: linear joins in which every unit that goes was verified against the one that stays for it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmlake.dedup.criteria import CLOSENESS, Criterion
from mmlake.dedup.loops import text_kernels
from mmlake.dedup.matching import HOLDS, INSIDE, NONE, OVERLAPS, SAME, Found, OfItems, nothing
from mmlake.dedup.postings import Postings
from mmlake.dedup.prints import Ragged, digests_of, of_lists
from mmlake.dedup.stars.leaders import Walk, stars
from mmlake.dedup.stars.shares import have_a_choice
from mmlake.dedup.stars.standings import by_digest
from mmlake.dedup.stars.survivors import Standing
from tests.dedup.numba_there import needs_numba

BOUND = 0.9


class Line:
    """Numbers that are the same where they are at most 10 apart; candidates share a stretch of 16."""

    min_shared = 1
    neighbours = None

    def __init__(self, values):
        self.values = np.array(values, np.int64)
        self.compared = 0
        # each number stands in its own stretch and in the next two
        self.keys = Ragged.of([np.array([value // 16 + side for side in (0, 1, 2)], np.uint64) for value in values])

    def compare(self, one, others):
        self.compared += len(others)
        score = np.maximum(0.0, 1 - np.abs(self.values[others] - self.values[one]) / 100)
        return Found(np.where(score >= BOUND, SAME, NONE).astype(np.int8), score, np.zeros(len(others), np.int8))


class SharedOut(Line):
    """The same, of which members go for the survivor that most are the same as."""

    shares_out = True


def standing(num, *, priority=None, quality=None):
    criterion = Criterion(name="quality", column="quality", says="better", tolerance=0.0)
    return Standing(
        np.arange(num),
        np.array(priority if priority is not None else [0] * num, np.int64),
        np.ones(num, np.bool_),
        (criterion, CLOSENESS),
        np.array([[np.nan if one is None else one, np.nan] for one in (quality or [None] * num)], np.float64).reshape(
            num, 2
        ),
    )


def joined(matcher, who, equal=None):
    found = stars(matcher, who, equal=np.zeros((len(who), 2), np.uint64) if equal is None else equal)
    rows = zip(found.left, found.right, found.relation, strict=True)
    return [(left, right) for left, right, relation in rows if relation != NONE], found


@pytest.mark.parametrize("kind", [Line, SharedOut])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_nobody_goes_for_a_unit_that_is_further_than_the_bound_and_any_order_gives_the_same(kind, data):
    values = data.draw(st.lists(st.integers(0, 300), min_size=1, max_size=40))
    priority = [data.draw(st.integers(0, 1)) for _ in values]
    quality = [data.draw(st.sampled_from([None, 1.0, 2.0])) for _ in values]
    pairs, _ = joined(kind(values), standing(len(values), priority=priority, quality=quality))
    gone = [right for _, right in pairs]
    assert len(gone) == len(set(gone))
    for left, right in pairs:
        assert left not in gone, "what stays for another stays itself"
        assert abs(values[left] - values[right]) <= 10
        assert priority[left] <= priority[right]
    order = data.draw(st.permutations(range(len(values))))
    who = standing(len(values), priority=priority, quality=quality).take(np.array(order))
    again, _ = joined(kind([values[at] for at in order]), who)
    assert sorted((order[left], order[right]) for left, right in again) == sorted(pairs)


FAMILY = [31, 20, *range(22, 30), 16, 17, 18]  # a marked copy that ranks first, the original, copies of both, of one


def test_a_family_with_a_copy_that_is_none_of_the_original_is_no_two_stars():
    quality = [2.0, 1.5] + [1.0] * (len(FAMILY) - 2)
    apart, _ = joined(Line(FAMILY), standing(len(FAMILY), quality=quality))
    assert {left for left, _ in apart} == {0, 1}
    pairs, _ = joined(SharedOut(FAMILY), standing(len(FAMILY), quality=quality))
    assert sorted(pairs) == [(1, at) for at in range(2, len(FAMILY))]


def test_no_member_is_shared_out_to_a_source_that_comes_after_its_own():
    quality = [2.0, 1.5] + [1.0] * (len(FAMILY) - 2)
    priority = [0, 1] + [0] * 8 + [1] * 3
    pairs, _ = joined(SharedOut(FAMILY), standing(len(FAMILY), quality=quality, priority=priority))
    assert {right for left, right in pairs if left == 0} == set(range(2, 10))


def test_who_has_equal_prints_is_shared_out_together():
    values = [*FAMILY, 25, 25, 25]
    quality = [2.0, 1.5] + [1.0] * (len(values) - 2)
    equal = digests_of({"value": Ragged.of([np.array([value], np.uint64) for value in values])})
    matcher = SharedOut(values)
    pairs, _ = joined(matcher, standing(len(values), quality=quality), equal)
    assert sorted(pairs) == [(1, at) for at in range(2, len(values))]


@needs_numba
def test_who_is_tied_to_one_survivor_alone_asks_nobody_else(monkeypatch):
    """With compiled code, which finds out who is tied to whom, and without it the pairs are the same."""
    values = [*FAMILY, *(100 * at + step for at in range(1, 60) for step in (0, 1, 2))]
    quality = [2.0, 1.5] + [1.0] * (len(values) - 2)
    found = []
    for work in (-(10**12), 10**12):
        monkeypatch.setattr(text_kernels, "_work", [work])
        found.append(sorted(joined(SharedOut(values), standing(len(values), quality=quality))[0]))
    assert found[0] == found[1]
    postings, leads = Postings(SharedOut(values).keys), np.isin(values, (31, 20, *range(100, 6_000, 100)))
    assert np.flatnonzero(have_a_choice(postings, leads, is_all=True)).tolist() == list(range(len(FAMILY)))
    assert have_a_choice(postings, leads, is_all=False).all()


def test_two_that_stay_are_not_the_same():
    values = np.random.default_rng(0).integers(0, 2_000, 400).tolist()
    pairs, _ = joined(Line(values), standing(400))
    stay = sorted(values[at] for at in set(range(400)) - {right for _, right in pairs})
    close = sum(b - a <= 10 for a, b in zip(stay, stay[1:], strict=False))
    assert close <= 2, "only what a new survivor releases may be missed, and seldom"


def test_a_chain_does_not_become_one_cluster():
    values = list(range(0, 500, 8))
    pairs, _ = joined(Line(values), standing(len(values)))
    assert len(values) - len(pairs) >= len(values) / 3


def test_a_cluster_elects_the_better_member_and_releases_what_is_too_far_from_it():
    # 10 leads by its digest, 0 and 20 follow it; 20 is the better copy, and 0 is 20 away from it
    pairs, _ = joined(Line([10, 0, 20, 12]), standing(4, quality=[1.0, 1.0, 1.0, 1.0]))
    assert {right for _, right in pairs} == {1, 2, 3} and {left for left, _ in pairs} == {0}
    elected, _ = joined(Line([10, 0, 20, 12]), standing(4, quality=[1.0, 1.0, 2.0, 1.0]))
    assert sorted(elected) == [(2, 0), (2, 3)]


def test_closeness_to_the_rest_decides_where_nothing_else_does():
    pairs, _ = joined(Line([3, 0, 5, 9]), standing(4))
    assert {left for left, _ in pairs} == {0}, "3 and 5 are as close to the rest, the smaller digest stays"
    pairs, _ = joined(Line([0, 9, 4, 5, 5]), standing(5))
    assert {left for left, _ in pairs} == {3}


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([7] * 2_000, id="identical"),
        pytest.param([7, *range(17)] * 120, id="within the bound of one"),
        pytest.param([16 * (at % 3) * 1_000 + at * 11 % 16 for at in range(2_000)], id="three dense heaps"),
    ],
)
def test_what_is_all_alike_costs_a_few_comparisons_each(values):
    for matcher in (Line(values), SharedOut(values)):
        joined(matcher, standing(len(values)))
        assert matcher.compared <= 60 * len(values)


def test_equal_prints_are_compared_with_one_of_them_alone():
    matcher = Line([5] * 500)
    equal = digests_of({"value": Ragged.of([np.array([5], np.uint64)] * 500)})
    pairs, found = joined(matcher, standing(500), equal)
    assert sorted(pairs) == [(0, at) for at in range(1, 500)]
    assert set(found.score) == {1.0}
    assert matcher.compared <= 40 * 12 + 12 * 32 + 500  # the first as a head; then the election


class Parts(Line):
    """Stretches (start, end) of one tape: one lies inside another, or they share a part."""

    def __init__(self, stretches):
        self.stretches, self.compared = stretches, 0
        self.keys = Ragged.of([np.array([1], np.uint64)] * len(stretches))

    def compare(self, one, others):
        start, end = self.stretches[one]
        relation, spans = [], []
        for low, high in (self.stretches[at] for at in others.tolist()):
            shared = (max(start, low), min(end, high))
            spans.append((shared[0] - start, shared[1] - start, shared[0] - low, shared[1] - low))
            if (low, high) == (start, end):
                relation.append(SAME)
            elif low <= start and end <= high:
                relation.append(INSIDE)
            elif start <= low and high <= end:
                relation.append(HOLDS)
            else:
                relation.append(OVERLAPS if shared[0] < shared[1] else NONE)
        num = len(others)
        return Found(np.array(relation, np.int8), np.ones(num), np.zeros(num, np.int8), np.array(spans, np.float32))


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_an_excerpt_goes_for_what_holds_it_in_whatever_order_they_stand(order):
    stretches = [(0, 100), (20, 30)]
    pairs, found = joined(Parts([stretches[at] for at in order]), standing(2))
    assert pairs == [(order.index(0), order.index(1))]
    assert list(found.relation) == [INSIDE]
    assert list(found.spans_s) == [(20.0, 30.0, 0.0, 10.0)]


def test_an_excerpt_of_a_source_that_comes_first_stays_and_so_does_the_whole():
    pairs, _ = joined(Parts([(0, 100), (20, 30)]), standing(2, priority=[1, 0]))
    assert pairs == []


def test_a_copy_of_an_excerpt_goes_for_what_holds_it_too():
    pairs, _ = joined(Parts([(20, 30), (20, 30), (0, 100)]), standing(3))
    assert sorted(pairs) == [(2, 0), (2, 1)]


def test_what_shares_a_part_is_reported_and_stays():
    pairs, found = joined(Parts([(0, 50), (40, 90)]), standing(2))
    assert pairs == [(0, 1)]
    assert list(found.relation) == [OVERLAPS]
    assert list(found.spans_s) == [(40.0, 50.0, 0.0, 10.0)]


def test_a_part_that_all_share_is_reported_by_four_rows_a_unit_at_most():
    pairs, found = joined(Parts([(100 * at, 100 * at + 150) for at in range(3)]), standing(3))
    assert pairs == [(0, 1), (1, 2)]
    crowd = Parts([(0, 101 + at) for at in range(40)])
    crowd.compare = lambda one, others: nothing(len(others))._replace(
        relation=np.full(len(others), OVERLAPS, np.int8), score=1 / (1 + np.abs(others - one))
    )
    pairs, _ = joined(crowd, standing(40))
    rows = {right: sorted(left for left, other in pairs if other == right) for right in range(1, 40)}
    assert rows[20] == [12, 13, 14, 15], "the most alike of its sixteen leaders"
    assert max(map(len, rows.values())) == 4


def test_the_closest_of_what_is_not_the_same_are_kept_for_people():
    values = [0, 11, 40, 53, 100]
    _, found = joined(Line(values), standing(5))
    missed = [
        (left, right) for left, right, kind in zip(found.left, found.right, found.relation, strict=True) if not kind
    ]
    assert missed == [(0, 1), (2, 3), (1, 2)], "the closest first"
    crowd = [16 * at for at in range(200)]
    _, found = joined(Line(crowd), standing(200))
    assert found.relation.count(NONE) == 32


def test_a_key_that_one_unit_alone_has_lists_nobody_and_a_hot_one_is_capped():
    postings = Postings(Ragged.of([np.array([1, 100 + at], np.uint64) for at in range(200)]))
    for at in range(200):
        postings.add(at)
    units, shared = postings.sharing(199)
    assert units.tolist() == list(range(64))
    assert set(shared.tolist()) == {1}


def test_rows_of_lists_are_read_across_chunks_and_slices():
    column = pa.chunked_array(
        [pa.array([[1, 2], []], pa.list_(pa.uint64())), pa.array([[9], [3]], pa.list_(pa.uint64()))[1:]]
    )
    rows = of_lists(column)
    assert [rows[at].tolist() for at in range(len(rows))] == [[1, 2], [], [3]]
    assert [row.tolist() for row in (rows.take(np.array([2, 0]))[at] for at in range(2))] == [[3], [1, 2]]


def test_equal_prints_have_equal_digests_and_others_do_not():
    rows = Ragged.of([np.array(one, np.uint64) for one in ([1, 2], [1, 2], [2, 1], [1], [])])
    found = [tuple(row) for row in digests_of({"a": rows, "b": Ragged.empty(5)})]
    assert found[0] == found[1] and len(set(found)) == 4
    assert found[4] == (0, 0)


def test_by_digest_the_smallest_one_is_first():
    assert by_digest(["c", "a", "b"]).order().tolist() == [1, 2, 0]


class Weak(Line):
    """All the same, at a score of .6 unless they are equal."""

    def compare(self, one, others):
        score = np.where(self.values[others] == self.values[one], 1.0, 0.6)
        return Found(np.full(len(others), SAME, np.int8), score, np.zeros(len(others), np.int8))


def test_spans_of_one_item_are_the_same_only_where_they_are_nearly_equal():
    found = OfItems(Weak([0, 0, 9, 9]), np.array([7, 7, 7, 8])).compare(0, np.array([1, 2, 3]))
    assert found.relation.tolist() == [SAME, NONE, SAME]


def walked_by_reference(matcher, order, equal):
    """What the first half of a join comes to, of units in this order and nothing else."""
    num = len(order)
    who = Standing(np.argsort(order), np.zeros(num, np.int64), np.ones(num, np.bool_), (), np.empty((num, 0)))
    walk = Walk(matcher, who)
    walk.lead_all(equal)
    return walk.led()


class Compiled:
    """A matcher that goes through its units by itself."""

    def __init__(self, matcher):
        self.matcher, self.items = matcher, None
        self.keys, self.min_shared, self.neighbours = matcher.keys, matcher.min_shared, matcher.neighbours

    def compare(self, one, others):
        return self.matcher.compare(one, others)

    def walked(self, order, *, equal, postings, items=None):
        self.items = items
        led = walked_by_reference(self.matcher, order, equal)
        gone = np.concatenate((led.follows.right, led.released))
        postings.add_all(order[~np.isin(order, gone)])
        return led


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_matcher_that_walks_by_itself_gives_the_same_stars(data):
    kind = data.draw(st.sampled_from([Line, Parts]))
    values = data.draw(st.lists(st.integers(0, 120), min_size=1, max_size=40))
    matcher = kind(values if kind is Line else [(value, value + 5 + value % 40) for value in values])
    who = standing(len(values), priority=[data.draw(st.integers(0, 1)) for _ in values])
    equal = digests_of({"value": Ragged.of([np.array([value], np.uint64) for value in values])})
    assert stars(Compiled(matcher), who, equal=equal) == stars(matcher, who, equal=equal)


def test_what_walks_by_itself_is_given_the_items_of_spans():
    matcher, items = Compiled(Line([0, 3])), np.array([1, 1])
    stars(OfItems(matcher, items), standing(2), equal=np.zeros((2, 2), np.uint64))
    assert matcher.items is items
    stars(OfItems(Line([0, 3]), items), standing(2), equal=np.zeros((2, 2), np.uint64))

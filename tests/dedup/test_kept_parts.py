"""A join of texts that goes on from the one before gives the edges of a whole join, whatever came, went or changed."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmlake.dedup import CLOSENESS, Criterion, DedupSettings
from mmlake.dedup.kept import parts as kept_parts
from mmlake.dedup.kept.join import Units
from mmlake.dedup.kept.parts import part_stars
from mmlake.dedup.loops import text_kernels
from mmlake.dedup.matching import SAME
from mmlake.dedup.prints import Ragged, digests_of
from mmlake.dedup.stars.leaders import stars
from mmlake.dedup.stars.standings import by_digest
from mmlake.dedup.stars.survivors import Standing
from mmlake.dedup.text import fingerprints
from mmlake.dedup.text.matcher import TextMatcher, sampled
from mmlake.dedup.text.pairs import Pairs, are_by_counts
from tests.dedup.test_text_walk import corpus, edited
from tests.dedup.text_edits import filled, page, replaced
from tests.thorough import drawn

SETTINGS = DedupSettings()
CRITERIA = (Criterion(name="quality", column="quality", says="better", tolerance=0.0), CLOSENESS)
SIZE = 70
WAYS = [-(10**12), 10**12]  # by numpy alone, by compiled code


@dataclasses.dataclass(frozen=True)
class Unit:
    """Which text it is, and how it stands."""

    text: int
    priority: int
    quality: float
    item: int


@functools.cache
def prints():
    """Of articles, edited copies of copies, pages of three templates of which as many come and go as make a template,
    one text many times, very short and empty ones."""
    rng = np.random.default_rng(7)
    texts, _ = corpus(rng, 40)
    for slots in (2, 4, 7):
        same = np.random.default_rng(slots)
        texts += [filled(same, num_slots=slots) for _ in range(8)]
    copied = page(rng, 120)
    texts += [copied] * 2 + [replaced(rng, copied, 0.04) for _ in range(3)] + [edited(rng, copied) for _ in range(3)]
    return list(fingerprints.prints(texts[:SIZE]))


def arranged(units):
    """(table of prints, Standing, Units) of digest -> Unit."""
    digests = sorted(units)
    rows = [units[digest] for digest in digests]
    made = [prints()[one.text] for one in rows]
    table = {name: Ragged.of([getattr(one, name) for one in made]) for name in ("shingles", "words")}
    who = Standing(
        np.arange(len(rows)),
        np.array([one.priority for one in rows], np.int64),
        np.array([one.quality != 3 for one in rows], np.bool_),
        CRITERIA,
        np.array([[one.quality, np.nan] for one in rows], np.float64).reshape(len(rows), 2),
    )
    items = pa.array([str(one.item) for one in rows], pa.string())
    return table, who, Units(pa.array(digests, pa.string()), digests_of(table), items)


def check(units, prior):
    table, who, made = arranged(units)
    whole = stars(made.judged_by(TextMatcher(table, SETTINGS)), who, equal=made.equal)
    found, parts, _ = part_stars(table, made, who, settings=SETTINGS, prior=prior)
    assert found == whole
    return parts


UNIT = st.builds(
    Unit, st.integers(0, SIZE - 1), st.integers(0, 1), st.sampled_from([1.0, 2.0, 3.0]), st.sampled_from([*range(30)])
)


@st.composite
def histories(draw):
    """Sets of units, one after the other: what came, went, was replaced, or stands otherwise than before."""
    seeds = st.integers(0, 2**32 - 1)
    units, sets = {}, []
    for _ in range(draw(st.integers(2, 4))):
        rng = np.random.default_rng(draw(seeds))
        gone, better = draw(st.sampled_from([0.0, 0.03, 0.3])), draw(st.sampled_from([0.0, 0.05]))
        units = {
            digest: dataclasses.replace(one, quality=2.5) if rng.random() < better else one
            for digest, one in units.items()
            if rng.random() >= gone
        }
        num = draw(st.sampled_from([1, 3, 30])) if units else draw(st.sampled_from([20, 60]))
        # mostly a text each; now and then another one under a digest that was there
        names = rng.integers(0, SIZE, num)
        units |= {f"{at:02d}": Unit(int(at), 0, 1.0, int(at)) for at in names}
        units |= draw(st.dictionaries(st.integers(0, SIZE - 1).map("{:02d}".format), UNIT, max_size=2))
        sets.append(units)
    return sets


@pytest.mark.parametrize("work", WAYS)
@settings(max_examples=drawn(6, 40), deadline=None)
@given(history=histories())
def test_any_arrivals_removals_and_changes_give_the_whole_join(work, history):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept_parts, "_MOST_ANEW", 1.0)
        patch.setattr(text_kernels, "_work", [work])
        prior = None
        for units in history:
            prior = check(units, prior)


@functools.cache
def far_siblings():
    """(a text, a revision of it, runs of five words of both that are keys of neither, how many runs both have)."""
    rng = np.random.default_rng(3)
    one = page(rng, 260)
    other = replaced(rng, one, 0.08)
    grams = [[tuple(parts[at : at + 5]) for at in range(len(parts) - 4)] for parts in (one.split(), other.split())]
    keys = set(sampled(shingles_of([one, other])).values.tolist())
    shared = [gram for gram in dict.fromkeys(grams[0]) if gram in set(grams[1])]
    free = [gram for gram in shared if not keys & set(shingles_of([" ".join(gram)]).values.tolist())]
    return one, other, free, len(shared)


def shingles_of(texts):
    return Ragged.of([made.shingles for made in fingerprints.prints(texts)])


def holding(rng, grams):
    """A text that holds these, and else nothing but words of its own."""
    return " ".join(" ".join([*gram, f"q{rng.integers(10**9)}"]) for gram in grams)


def joins(texts, prior):
    """(who goes for whom, the parts) of a join that goes on from another, which is that of a whole one."""
    digests = sorted(texts)
    made = list(fingerprints.prints([texts[digest] for digest in digests]))
    table = {name: Ragged.of([getattr(one, name) for one in made]) for name in ("shingles", "words")}
    units = Units(pa.array(digests, pa.string()), digests_of(table))
    who = by_digest(digests)
    found, parts, _ = part_stars(table, units, who, settings=SETTINGS, prior=prior)
    assert found == stars(TextMatcher(table, SETTINGS), who, equal=units.equal)
    edges = zip(found.left, found.right, found.relation, strict=True)
    return {(digests[left], digests[right]) for left, right, relation in edges if relation == SAME}, parts


@pytest.mark.parametrize("work", WAYS)
def test_a_pair_is_judged_again_when_texts_that_share_no_key_with_it_make_its_wording_a_templates(monkeypatch, work):
    monkeypatch.setattr(text_kernels, "_work", [work])
    monkeypatch.setattr(kept_parts, "_MOST_ANEW", 0.9)
    rng = np.random.default_rng(4)
    one, other, free, num_shared = far_siblings()
    assert len(free) > 0.8 * num_shared
    plain = {f"y{at:03d}": page(rng, 50) for at in range(200)}  # so that all shingles are counted all along
    pair = {"a": one, "b": other}
    few = {f"x{at}": holding(rng, free[: len(free) * 2 // 3]) for at in range(4)}
    more = {f"z{at}": holding(rng, free[len(free) * 2 // 3 :]) for at in range(1)}
    goes, parts = joins(plain | pair, None)
    assert ("a", "b") in goes
    goes, with_few = joins(plain | pair | few, parts)
    assert ("a", "b") in goes and with_few.part_of[0] == with_few.part_of[1] == 0
    (row,) = np.flatnonzero((with_few.pairs.left == 0) & (with_few.pairs.right == 1))
    assert are_by_counts(with_few.pairs.code)[row], "half of what they share stands in four others, no more"
    goes, with_all = joins(plain | pair | few | more, with_few)
    assert parts.scale == with_few.scale == with_all.scale
    assert ("a", "b") not in goes, "what else they share stands in one other: no slot has as many as a template"
    goes, _ = joins(plain | pair | few | more, parts)
    assert ("a", "b") not in goes
    assert ("a", "b") in joins(plain | pair | more, with_all)[0]


def test_a_pair_that_nothing_ties_together_any_more_is_forgotten(monkeypatch):
    monkeypatch.setattr(kept_parts, "_MOST_ANEW", 1.0)
    units = {f"{at:03}": Unit(at, 0, 1.0, at) for at in range(SIZE)}
    parts = check(units, None)
    apart = int(np.flatnonzero(parts.part_of != parts.part_of[0])[0])
    stale = Pairs(*(np.array([one]) for one in (0, apart, 0, 0, 0)), np.zeros(1))
    parts = dataclasses.replace(parts, pairs=parts.pairs.and_those(stale))
    after = check(units | {"999": dataclasses.replace(units[f"{apart:03}"], quality=2.0)}, parts)
    assert not ((after.pairs.left == 0) & (after.pairs.right == apart)).any()


def test_a_join_of_the_same_texts_counts_nothing_and_one_other_standing_is_seen(monkeypatch):
    units = {f"{at:03}": Unit(at, 0, 1.0, at) for at in range(SIZE)}
    table, who, made = arranged(units)
    found, prior, compare = part_stars(table, made, who, settings=SETTINGS, prior=None)
    with monkeypatch.context() as patched:
        patched.setattr(kept_parts, "Commonness", None)
        again, same, _ = part_stars(table, made, who, settings=SETTINGS, prior=prior)
    assert same is prior and again == found
    compared = part_stars(table, made, who, settings=SETTINGS, prior=prior)[2](0, np.arange(1, SIZE))
    assert repr(compared) == repr(compare(0, np.arange(1, SIZE)))
    for change in ({"quality": 2.0}, {"priority": 1}, {"item": 99}, {"text": 0}):
        table, who, made = arranged(units | {"041": dataclasses.replace(units["041"], **change)})
        assert part_stars(table, made, who, settings=SETTINGS, prior=prior)[1] is not prior, change

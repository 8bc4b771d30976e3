"""Pairs of texts that are known are recalled as they would be compared, from either side."""

from __future__ import annotations

import numpy as np
import pytest

from mmlake.dedup import DedupSettings
from mmlake.dedup.loops import text_kernels
from mmlake.dedup.matching import HOLDS, INSIDE
from mmlake.dedup.prints import Ragged
from mmlake.dedup.text import fingerprints
from mmlake.dedup.text import pairs as text_pairs
from mmlake.dedup.text.matcher import TextMatcher
from mmlake.dedup.text.verdicts import CONTAINED
from tests.dedup.numba_there import needs_numba
from tests.dedup.test_text_walk import corpus

pytestmark = needs_numba
BY_NUMPY, COMPILED = [-(10**12)], [10**12]


def family(seed):
    """(prints of texts, for each those that come from the same one and some others)."""
    rng = np.random.default_rng(seed)
    texts, sources = corpus(rng, 90)
    order = rng.permutation(len(texts))
    made, sources = list(fingerprints.prints([texts[at] for at in order])), sources[order]
    others = [np.union1d(np.flatnonzero(sources == one), rng.integers(0, len(texts), 3)) for one in sources]
    return {name: Ragged.of([getattr(one, name) for one in made]) for name in ("shingles", "words")}, others


def answers(matcher, others):
    found = [matcher.compare(one, row) for one, row in enumerate(others)]
    return [np.concatenate([getattr(one, name) for one in found]).tolist() for name in ("relation", "score", "method")]


@pytest.mark.parametrize("seed", [1, 3])
def test_known_pairs_are_recalled_as_they_are_compared(monkeypatch, seed):
    """Those that this join found, by numpy or by compiled code, and those of the join before."""
    (prints, others), settings = family(seed), DedupSettings()
    monkeypatch.setattr(text_kernels, "_work", BY_NUMPY)
    by_numpy = TextMatcher(prints, settings)
    asked = answers(by_numpy, others)
    monkeypatch.setattr(text_kernels, "_work", COMPILED)
    pairs = TextMatcher(prints, settings)
    assert answers(pairs, others) == asked
    for known in (by_numpy.pairs.pairs(), pairs.pairs.pairs()):
        again = TextMatcher(prints, settings, known=known)
        assert answers(again, others) == asked
        assert again.pairs.ends[0] == len(known.left), "nothing was compared that is known"
    assert {INSIDE, HOLDS} <= set(known.relation.tolist())


def test_texts_of_one_size_each_hold_the_other_where_their_wording_is_a_templates():
    """The one corner in which what a pair is from one side is no mirror image of what it is from the other."""
    rows = text_pairs.Pairs(*(np.array([one]) for one in (0, 1, 7, HOLDS, CONTAINED)), np.array([0.98]))
    words = np.arange(1, 40, dtype=np.uint64)
    prints = {name: Ragged.of([words, words + np.uint64(1)]) for name in ("shingles", "words")}
    matcher = TextMatcher(prints, DedupSettings(), known=rows)
    sides = matcher.compare_pairs(np.array([0, 1]), np.array([1, 0]))
    assert sides is None or sides.relation.tolist() == [HOLDS, HOLDS]


@pytest.mark.parametrize("work", [BY_NUMPY, COMPILED])
def test_texts_with_pairs_for_which_there_is_no_room_are_named(monkeypatch, work):
    monkeypatch.setattr(text_kernels, "_work", work)
    monkeypatch.setattr(text_pairs, "_PER_TEXT", 1)
    prints, others = family(1)
    matcher = TextMatcher(prints, DedupSettings())
    answers(matcher, others)
    assert 0 < len(matcher.pairs.pairs().left) <= len(others) + 1
    assert matcher.pairs.is_beyond.any()

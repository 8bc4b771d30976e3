"""The compiled walk over texts comes to what the generic one comes to, on corpora of every kind."""

from __future__ import annotations

import numpy as np

from mmlake.dedup import DedupSettings
from mmlake.dedup.criteria import CLOSENESS
from mmlake.dedup.loops import text_kernels
from mmlake.dedup.matching import OfItems
from mmlake.dedup.postings import Postings
from mmlake.dedup.prints import Ragged, digests_of
from mmlake.dedup.stars.leaders import Walk, stars
from mmlake.dedup.stars.survivors import Standing
from mmlake.dedup.text import fingerprints
from mmlake.dedup.text.matcher import TextMatcher
from tests.dedup.numba_there import needs_numba
from tests.dedup.text_edits import filled, page, replaced, words

pytestmark = needs_numba


def edited(rng, one):
    """The text after one edit of any kind and strength."""
    parts = one.split()
    at, kind = int(rng.integers(len(parts))), int(rng.integers(8))
    if kind < 3:
        return replaced(rng, one, float(rng.choice([0.02, 0.08, 0.15, 0.3])))
    if kind == 3:
        return " ".join(parts[at:] + parts[:at])
    if kind == 4:
        return " ".join([*parts[:at], *words(rng, int(rng.integers(1, 80))), *parts[at:]])
    if kind == 5:
        return " ".join(parts[at : at + 40] if rng.random() < 0.7 else parts[: max(3, at)])
    if kind == 6:
        return " ".join(str(rng.integers(99)) if rng.random() < 0.1 else part for part in parts)
    return one


def corpus(rng, num):
    """(articles and their copies of copies, pages of a template, excerpts, very short texts and empty ones; for each
    the first text that it comes from)."""
    texts, sources = [page(rng, int(rng.integers(5, 400))) for _ in range(5)], list(range(5))
    while len(texts) < num:
        kind, at = rng.random(), int(rng.integers(len(texts)))
        is_copy = kind < 0.65
        sources.append(sources[at] if is_copy else len(texts))
        if is_copy:
            texts.append(edited(rng, texts[at]) or "x")
        elif kind < 0.8:
            texts.append(filled(rng, num_slots=int(rng.integers(2, 8))))
        elif kind < 0.9:
            texts.append(page(rng, int(rng.integers(5, 200))))
        else:
            texts.append(" ".join(words(rng, int(rng.integers(1, 9)))))
    return [*texts, "", "...", ""], np.array([*sources, num, num, num])


def standing_of(rng, num):
    return Standing(
        rng.permutation(num), rng.integers(0, 2, num), rng.random(num) < 0.8, (CLOSENESS,), np.full((num, 1), np.nan)
    )


def rows(edges):
    return sorted(zip(*(column.tolist() for column in edges[:5]), strict=True))


def outcomes(led):
    overlaps = rows(led.overlaps)
    return [
        rows(led.follows),
        rows(led.held),
        rows(led.misses),
        overlaps,
        sorted(led.released.tolist()),
        led.head_of.tolist(),
    ]


def by_reference(matcher, who, equal):
    walk = Walk(matcher, who)
    walk.collapse(equal)
    walk.lead(walk.order[(walk.leader_of[walk.order] < 0) & walk.has_candidates[walk.order]])
    return walk.led()


def walks_of(seed, monkeypatch):
    """(what phase one comes to, the edges in the end), by the generic code and by the compiled one."""
    rng = np.random.default_rng(seed)
    texts, sources = corpus(rng, 120)
    made, who = list(fingerprints.prints(texts)), standing_of(rng, len(texts))
    prints = {"shingles": Ragged.of([one.shingles for one in made]), "words": Ragged.of([one.words for one in made])}
    equal = digests_of(prints)
    if seed % 4 > 1:  # as if copies had equal prints: some of them are no followers of what takes their first
        equal = np.stack((sources, sources), axis=1).astype(np.uint64) * (rng.random(len(texts)) < 0.5)[:, None]
    items = rng.integers(0, len(texts) // 2, len(texts)) if seed % 2 else None
    seen = []
    for work in (-(10**12), 10**12):
        monkeypatch.setattr(text_kernels, "_work", [work])
        matcher = TextMatcher(prints, DedupSettings())
        of_items = matcher if items is None else OfItems(matcher, items)
        if work < 0:
            assert matcher.walked(who.order(), equal=equal, postings=Postings(matcher.keys), items=items) is None
            led = by_reference(of_items, who, equal)
        else:
            led = matcher.walked(who.order(), equal=equal, postings=Postings(matcher.keys), items=items)
        seen.append((outcomes(led), stars(of_items, who, equal=equal)))
    return seen


def test_the_compiled_walk_finds_what_the_generic_one_finds(monkeypatch):
    methods, num_held, num_missed, num_released = set(), 0, 0, 0
    for seed in range(20):
        generic, compiled = walks_of(seed, monkeypatch)
        assert generic == compiled
        follows, held, misses, _, released, _ = compiled[0]
        methods |= {row[4] for row in follows}
        num_held, num_missed, num_released = (
            num_held + len(held),
            num_missed + len(misses),
            num_released + len(released),
        )
    assert methods == {0, 1, 2}
    assert min(num_held, num_missed, num_released) > 1, "the corpora have everything that a walk can come to"

"""A join that goes on from another judges again only whom a new leader is compared with, whoever shares its keys."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from mmlake.dedup import DedupSettings
from mmlake.dedup.audio.fingerprints import Recordings, fingerprint_samples
from mmlake.dedup.kept import repair
from mmlake.dedup.kept.join import Units, kept_stars
from mmlake.dedup.matching import NONE, Found, is_mirrored
from mmlake.dedup.prints import Ragged
from mmlake.dedup.stars.leaders import stars
from mmlake.dedup.stars.standings import by_digest
from tests.dedup.test_dedup_audio import voice

NUM = 60


class Strangers:
    """Units of two crowds: in each all share ten keys, and one more key with everybody; nobody is the same."""

    min_shared = 1
    neighbours = None

    def __init__(self, crowds):
        self.crowds, self.compared = np.array(crowds), 0
        self.keys = Ragged.of([np.array([0, *range(10 * crowd, 10 * crowd + 10)], np.uint64) for crowd in crowds])

    def compare(self, one, others):
        self.compared += len(others)
        score = np.where(self.crowds[others] == self.crowds[one], 0.5, 0.1)
        return Found(np.full(len(others), NONE, np.int8), score, np.zeros(len(others), np.int8))


def joined(crowds, prior):
    """(how many units were judged again, the join that is kept), of a set of digest -> crowd."""
    digests = sorted(crowds)
    who = by_digest(digests)
    units = Units(pa.array(digests, pa.string()), np.zeros((len(digests), 2), np.uint64))
    matcher, judged = Strangers([crowds[digest] for digest in digests]), []
    with pytest.MonkeyPatch.context() as patch:
        judge = repair.Repair._judge
        patch.setattr(repair.Repair, "_judge", lambda self, units: (judge(self, units), judged.extend(units)))
        found, _, keep = kept_stars(matcher, who, units=units, prior=prior)
        kept = keep()
    assert found == stars(Strangers(matcher.crowds), who, equal=units.equal)
    return len(judged), kept


def test_a_leader_that_comes_or_goes_touches_those_alone_that_have_it_among_their_candidates():
    crowds = {f"{at:03d}": 1 + at % 2 for at in range(NUM)}
    _, kept = joined(crowds, None)
    at_the_end, _ = joined(crowds | {"999": 2}, kept)
    assert at_the_end == 1, "nobody stands behind it"
    behind_sixteen, later = joined(crowds | {"034x": 1}, kept)
    assert behind_sixteen == 1, "those behind it have sixteen candidates of their crowd that stand before it"
    assert joined(crowds, later)[0] == 0
    first, later = joined(crowds | {"000x": 1}, kept)
    own, others = NUM // 2 - 1, 16  # of the other crowd those that had room for one more
    assert own < first <= 1 + own + others
    assert own <= joined(crowds, later)[0] <= own + others


def test_who_is_asked_makes_no_difference_between_recordings():
    rng = np.random.default_rng(3)
    sounds = [voice(seed, 3.0 + seed) for seed in range(3)]
    sounds += [sounds[0] + rng.normal(0, 0.02, len(sounds[0])).astype(np.float32), sounds[2][8_000:], sounds[1] * 0.5]
    prints = [fingerprint_samples(sound) for sound in sounds]
    table = {name: Ragged.of([one[name] for one in prints]) for name in ("chromaprint", "band-signs")}
    matcher, everybody = Recordings(table, DedupSettings()), np.arange(len(sounds))
    assert is_mirrored(matcher)
    for one in everybody.tolist():
        at_once = matcher.compare(one, everybody).mirrored()
        for other in everybody.tolist():
            asked = matcher.compare(other, np.array([one]))
            for mine, theirs in zip(asked, at_once.at(np.array([other])), strict=True):
                np.testing.assert_array_equal(mine, theirs)

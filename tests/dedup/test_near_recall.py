"""The recall of the near tiers' keys: counted against a second way to find candidates, with the exact measure."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from benchmarks import dedup_new
from mmlake import dedup, schemas
from mmlake.dedup import tiers_of
from mmlake.dedup.image.matcher import ImageMatcher
from mmlake.dedup.prints import PrintTable, Ragged
from mmlake.dedup.recall.near import passed_over, sampled
from mmlake.records import digest_of

SETTINGS = dedup.DedupSettings()
SIZES = {"text": 240, "image": 120, "video": 90, "audio": 90}


def _fingerprints(modality: str) -> pa.Table:
    """A third of the units are edited copies of others."""
    return dedup_new.fingerprints(modality, SIZES[modality])


class _Blind:
    """A matcher of which no two units share a key."""

    min_shared, neighbours = 1, None

    def __init__(self, matcher: Any, num: int) -> None:
        self.keys, self.compare = Ragged.empty(num), matcher.compare


@pytest.mark.parametrize("modality", list(SIZES))
def test_what_the_keys_find_is_counted_and_what_they_miss_is_found_out(modality: str) -> None:
    fingerprints = _fingerprints(modality)
    (tier,) = tiers_of(modality)

    def blind(prints: PrintTable, settings: dedup.DedupSettings) -> Any:
        return _Blind(tier.made_matcher(prints, settings), len(next(iter(prints.values()))))

    seeing = dedup.recall_of(dedup.recall_counts(dedup.near_pairs(fingerprints, [tier], settings=SETTINGS)))
    without = dataclasses.replace(tier, matcher=blind, is_pairwise=False, derived=None)
    unseen = dedup.recall_of(dedup.recall_counts(dedup.near_pairs(fingerprints, [without], settings=SETTINGS)))

    assert seeing is not None and unseen is not None
    assert seeing["units"] >= 3 and seeing["recall"] == 1.0
    shares = [one["keys"] for one in seeing["curve"]]
    rising = [(one["recall"], one["compared"]) for one in seeing["curve"]]
    assert shares == [1 / 16, 1 / 8, 1 / 4, 1 / 2, 1] and rising == sorted(rising) and rising[-1][0] == 1.0
    assert 1 <= rising[-1][1] < SIZES[modality] / 2
    assert {(one["recall"], one["compared"]) for one in unseen["curve"]} == {(0.0, 0.0)}
    # of a pair that nobody found both sides count, of a pair that was found the one that goes
    assert unseen["units"] >= seeing["units"] and unseen["recall"] == 0.0


@pytest.mark.parametrize("modality", ["text", "video"])
def test_a_join_that_goes_on_from_another_has_the_same_recall(modality: str, tmp_path: Path) -> None:
    fingerprints, kept = _fingerprints(modality), dedup.KeptJoins(tmp_path, "")
    fewer = fingerprints.filter(pc.less(fingerprints["digest"], "f"))

    def counts(rows: pa.Table, joins: dedup.KeptJoins | None) -> dict[str, int]:
        return dedup.recall_counts(dedup.near_pairs(rows, tiers_of(modality), settings=SETTINGS, kept=joins))

    assert counts(fewer, kept) == counts(fewer, None)
    assert counts(fingerprints, kept) == counts(fingerprints, None)


def test_what_the_estimate_compared_is_not_compared_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fingerprints, kept = _fingerprints("image"), dedup.KeptJoins(tmp_path, "")
    asked: list[int] = []
    compare = ImageMatcher.compare
    monkeypatch.setattr(ImageMatcher, "compare", lambda *how: asked.append(how[1]) or compare(*how))
    fewer = fingerprints.filter(pc.less(fingerprints["digest"], "fd"))
    counts = []
    for rows in (fewer, fewer, fingerprints):
        asked.clear()
        dedup.near_pairs(rows, tiers_of("image"), settings=SETTINGS, kept=kept)
        counts.append(len(asked))

    assert counts[0] > 50 and counts[1] == 0 and counts[2] < counts[0] / 3


def test_a_unit_of_a_lower_source_that_holds_a_better_one_is_no_miss() -> None:
    """An excerpt whose source has priority stays, and the whole text stays with it."""
    wholes = [" ".join(f"word{book}x{at}" for at in range(400)) for book in range(20)]
    excerpts = [" ".join(whole.split()[50:150]) for whole in wholes]
    fingerprints = _of_texts([*wholes, *excerpts])
    digests = [digest_of(one.encode()) for one in (*wholes, *excerpts)]

    def units(priorities: list[int]) -> int:
        nodes = pa.table({"digest": digests, "priority": priorities, "is_clean": [True] * 40})
        pairs = dedup.near_pairs(fingerprints, tiers_of("text"), nodes=nodes, settings=SETTINGS)
        return dedup.recall_counts(pairs)["recall_units"]

    assert units([2] * 20 + [1] * 20) == 0
    assert units([1] * 40) > 0


def test_a_large_corpus_is_passed_over_in_part_and_a_small_one_whole() -> None:
    small = {"one": Ragged(np.zeros(500, np.uint64), np.arange(501))}
    large = {"one": Ragged(np.zeros(0, np.uint64), np.zeros(30_001, np.int64))}
    long = {"one": Ragged(np.zeros(8_000_000, np.uint64), np.arange(0, 8_000_001, 40_000))}

    numbers = np.arange(30_000, dtype=np.uint64)
    assert passed_over(small, numbers[:500], seed=1).tolist() == list(range(500))
    assert len(passed_over(large, numbers, seed=1)) == 20_000
    assert len(passed_over(long, numbers[:200], seed=1)) == 100
    assert passed_over(large, numbers, seed=1).tolist() == passed_over(large, numbers, seed=1).tolist()
    assert (len(sampled(numbers[:40], seed=1)), len(sampled(numbers[:10_000], seed=1))) == (10, 200)


def test_of_one_percent_more_nearly_the_same_units_are_sampled_and_another_seed_draws_others() -> None:
    numbers = np.arange(20_200, dtype=np.uint64)
    before, now = (set(sampled(numbers[:num], seed=3).tolist()) for num in (20_000, 20_200))

    assert len(before & now) >= 190
    assert len(before & set(sampled(numbers[:20_000], seed=4).tolist())) < 20


def test_a_corpus_without_prints_estimates_nothing() -> None:
    pairs = dedup.near_pairs(schemas.empty(schemas.FINGERPRINTS), tiers_of("text"), settings=SETTINGS)

    assert dedup.recall_counts(pairs) == {}


def _of_texts(texts: list[str]) -> pa.Table:
    from mmlake.dedup.text import fingerprints as text_fingerprints

    rows = [
        (digest_of(one.encode()), prints._asdict())
        for one, prints in zip(texts, text_fingerprints.prints(texts), strict=True)
    ]
    columns: dict[str, list[Any]] = {name: [] for name in ("digest", "method", "hashes")}
    for digest, prints in rows:
        for method in ("shingles", "words"):
            for name, value in (("digest", digest), ("method", method), ("hashes", prints[method])):
                columns[name].append(value)
    num = len(columns["digest"])
    columns |= {"times_s": [np.empty(0, np.float32)] * num, "status": ["ok"] * num}
    columns |= {"error_code": [None] * num, "reason": [None] * num}
    return schemas.from_columns(schemas.FINGERPRINTS, columns)

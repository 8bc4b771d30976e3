"""Copies that were cut at other places go for the units that hold them together, and what has more than these stays."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from film_edits import RATE_HZ, cuts, noisy, prints_of
from hypothesis import given, settings
from hypothesis import strategies as st
from test_dedup_audio import RATE, song, voice
from test_kept_joins import fingerprints

from mmlake import dedup
from mmlake.dedup.audio import fingerprints as audio_fingerprints
from mmlake.dedup.greedy import Edges
from mmlake.dedup.matching import ACROSS, OVERLAPS, SAME
from mmlake.dedup.stars.across import Places, led_across
from mmlake.dedup.stars.standings import in_order
from mmlake.dedup.stars.star_edges import Stars
from mmlake.dedup.stars.survivors import Standing
from mmlake.dedup.video import matcher

SETTINGS = dedup.DedupSettings()
METHODS = {"audio": audio_fingerprints.METHODS, "video": matcher.METHODS}


class Cut:
    """Items as they were cut: name -> (samples or frames, where it was cut in seconds)."""

    def __init__(self, modality: str, items: dict[str, tuple[np.ndarray, list[float]]], **flagged: bool) -> None:
        rate_hz, make = (RATE, audio_fingerprints.fingerprint_samples) if modality == "audio" else (RATE_HZ, prints_of)
        self.names, prints, rows = [], {}, []
        for item, (whole, borders_s) in items.items():
            for start_s, end_s in zip(borders_s, borders_s[1:], strict=False):
                name = f"{item}@{start_s:g}".ljust(64, ".")
                prints[name] = make(whole[round(start_s * rate_hz) : round(end_s * rate_hz)])
                place = {"start": round(start_s * 1e6), "end": round(end_s * 1e6)}
                rows.append({"digest": name, "parent_digest": item, **place})
                rows[-1] |= {"priority": 0, "is_clean": not flagged.get(item, False)}
        self.pairs = dedup.near_pairs(
            fingerprints(modality, prints),
            dedup.tiers_of(modality),
            nodes=pa.Table.from_pylist(rows),
            settings=SETTINGS,
        ).to_pylist()

    def across(self) -> dict[str, str]:
        """What goes across -> for whom."""
        return {row["right"].rstrip("."): row["left"].rstrip(".") for row in self.pairs if row["relation"] == "across"}

    def goes(self) -> set[str]:
        """All that goes."""
        return {row["right"].rstrip(".") for row in self.pairs if row["relation"] in ("same", "inside", "across")}


def noise_of(samples: np.ndarray) -> np.ndarray:
    return (samples + np.random.default_rng(3).normal(0, 0.002, len(samples))).astype(np.float32)


@pytest.fixture(scope="module")
def talk() -> np.ndarray:
    return np.concatenate([voice(seed, 20.0) for seed in range(3)])


@pytest.fixture(scope="module")
def film() -> np.ndarray:
    return cuts(7, 36.0)


def test_a_trimmed_copy_of_a_recording_that_was_cut_elsewhere_goes_whole(talk) -> None:
    """Its units overlap two of the original's each, and all of them stayed."""
    copy = noise_of(talk[9 * RATE :])
    found = Cut("audio", {"a": (talk, [0, 20, 40, 60]), "b": (copy, [0, 21, 40, 51])})
    assert {"b@0", "b@21"} <= found.goes()
    assert not found.goes() & {"a@0", "a@20", "a@40"}
    assert found.across()["b@0"] in {"a@0", "a@20"}


def test_an_excerpt_across_a_border_goes_though_three_seconds_lie_behind_it(talk) -> None:
    """A word of Chromaprint is 2.7 s, so hardly one of the excerpt lies behind the border."""
    found = Cut("audio", {"a": (talk, [0, 20, 40, 60]), "b": (noise_of(talk[5 * RATE : 23 * RATE]), [0, 18])})
    assert found.across() == {"b@0": "a@0"}


def test_what_goes_on_with_other_sound_stays(talk) -> None:
    other = np.concatenate([talk[8 * RATE : 20 * RATE], voice(77, 8.0)])
    found = Cut("audio", {"a": (talk, [0, 20, 40, 60]), "b": (other, [0, 20])})
    assert [row["relation"] for row in found.pairs if row["right"].startswith("b") or row["left"].startswith("b")]
    assert found.goes() == set()


@pytest.mark.parametrize("kind", ["cut out", "put in", "swapped"])
def test_a_recording_that_was_edited_goes_for_the_one_that_has_all_of_it(kind: str) -> None:
    """Seven seconds cut out of the middle, an advertisement between two halves, or these in another order."""
    whole, advertisement = song(5, 28.0), song(99, 6.0)
    first, last = whole[: 11 * RATE], whole[18 * RATE :]
    edited = {
        "cut out": (whole, np.concatenate([first, last])),
        "put in": (np.concatenate([first, advertisement, last]), np.concatenate([first, last])),
        "swapped": (np.concatenate([first, last]), np.concatenate([last, first])),
    }[kind]
    (one, other) = edited
    found = Cut("audio", {"a": (one, [0, len(one) / RATE]), "b": (noise_of(other), [0, len(other) / RATE])})
    assert len(found.across()) == len(found.goes()) == 1
    assert kind == "swapped" or found.across() == {"b@0": "a@0"}


def test_a_clean_unit_goes_for_no_flagged_one(talk) -> None:
    items = {"a": (talk, [0, 20, 40, 60]), "b": (noise_of(talk[10 * RATE : 30 * RATE]), [0, 20])}
    assert Cut("audio", items, a=True).goes() == set()
    assert Cut("audio", items, a=True, b=True).goes() == {"b@0"}


def test_a_trimmed_copy_of_a_film_that_was_cut_elsewhere_goes(film) -> None:
    copy = noisy(film[round(5 * RATE_HZ) :])
    found = Cut("video", {"a": (film, [0, 12, 24, 36]), "b": (copy, [0, 12, 24, 31])})
    assert found.across().keys() == {"b@0", "b@12"}
    assert found.goes() == {"b@0", "b@12", "b@24"}


@pytest.mark.parametrize("kind", ["cut out", "swapped"])
def test_a_film_that_was_edited_goes_for_the_one_that_has_all_of_it(film, kind: str) -> None:
    first, last = film[: 8 * RATE_HZ], film[14 * RATE_HZ : 22 * RATE_HZ]
    edited = np.concatenate([first, last] if kind == "cut out" else [last, first])
    found = Cut("video", {"a": (film[: 24 * RATE_HZ], [0, 12, 24]), "b": (noisy(edited), [0, 16])})
    assert found.across().keys() == {"b@0"}


def test_films_with_one_intro_stay(film) -> None:
    other = np.concatenate([film[: 6 * RATE_HZ], cuts(50, 10.0)])
    found = Cut("video", {"a": (film, [0, 12, 24, 36]), "b": (other, [0, 16])})
    assert found.goes() == set()


def _triples(stars: Stars) -> list[tuple[int, int, int]]:
    return list(zip(stars.left, stars.right, stars.relation, strict=True))


class Always:
    """Whatever is asked is held."""

    def covered(self, one: int, run: np.ndarray, seconds: np.ndarray) -> float:
        return 0.9


class Only:
    """Of these units these runs hold all."""

    def __init__(self, *held: tuple[int, list[int]]) -> None:
        self._held = held

    def covered(self, one: int, run: np.ndarray, seconds: np.ndarray) -> float:
        return 0.9 * ((one, run.tolist()) in self._held)


@pytest.mark.parametrize(
    ("covers", "goes"), [(Only((3, [0, 1]), (0, [2])), [3]), (Only((3, [0, 1])), [])], ids=["held", "not held"]
)
def test_nothing_goes_for_a_run_of_which_a_part_is_gone(covers: Only, goes: list[int]) -> None:
    """Unit 0 of the run goes for 2, which may lack what 3 has of it."""
    stars = Stars()
    for left, right, relation, span_s in ((2, 0, SAME, [np.nan] * 4), (1, 3, OVERLAPS, [0, 8, 12, 20])):
        row = (np.array([value]) for value in (left, right, relation, 0.9, 0))
        stars.add_all(Edges(*row, np.array([span_s], np.float32)))
    starts = np.array([0, 20_000_000, 0, 0], np.int64)
    places = Places(np.array([0, 0, 1, 2], np.int64), starts, starts + 20_000_000)
    found = led_across(stars, in_order(4), places, covers)
    assert [right for _, right, relation in _triples(found) if relation == ACROSS] == goes


@st.composite
def joins(draw: st.DrawFn) -> tuple[Stars, Standing, Places]:
    """Items of several units each, some of which are copies of others or overlap them."""
    num = draw(st.integers(4, 14))
    items = np.array(draw(st.lists(st.integers(0, 4), min_size=num, max_size=num)), np.int64)
    starts = np.zeros(num, np.int64)
    for item in set(items.tolist()):
        at = np.flatnonzero(items == item)
        starts[at] = np.arange(len(at)) * 20_000_000
    pairs = draw(st.sets(st.tuples(st.integers(0, num - 1), st.integers(0, num - 1)), max_size=24))
    stars, gone, leads = Stars(), set(), set()
    for left, right in sorted(pairs):
        if left == right or (right, left) in pairs:
            continue
        is_free = right not in gone | leads and left not in gone
        relation = SAME if is_free and draw(st.booleans()) else OVERLAPS
        if relation == SAME:
            gone.add(right)
            leads.add(left)
        span = np.array([[np.nan] * 4 if relation == SAME else [5, 20, 0, 15]], np.float32)
        row = (np.array([value]) for value in (left, right, relation, 0.9, 0))
        stars.add_all(Edges(*row, span))
    order = draw(st.permutations(range(num)))
    standing = in_order(num).take(np.array(order))
    return stars, standing, Places(items, starts, starts + 20_000_000)


@settings(max_examples=300, deadline=None)
@given(joins())
def test_nothing_goes_for_what_went_and_nobody_twice(join: tuple[Stars, Standing, Places]) -> None:
    stars, standing, places = join
    found = led_across(stars, standing, places, Always())
    goes = [right for right, relation in zip(found.right, found.relation, strict=True) if relation in (SAME, ACROSS)]
    stays = {left for left, relation in zip(found.left, found.relation, strict=True) if relation in (SAME, ACROSS)}
    assert len(goes) == len(set(goes))
    assert not stays & set(goes)
    assert {right for right, relation in zip(stars.right, stars.relation, strict=True) if relation == SAME} <= set(goes)
    num = len(standing)
    order = np.random.default_rng(len(stars.left) + num).permutation(num)
    place = np.argsort(order)
    edges = zip(stars.left, stars.right, stars.relation, stars.spans_s.array(), strict=True)
    moved = Stars()
    for left, right, relation, span in edges:
        sides = (place[left], place[right], relation, 0.9, 0)
        moved.add_all(Edges(*(np.array([value]) for value in sides), span[None]))
    others = Places(places.items[order], places.starts_us[order], places.ends_us[order])
    again = led_across(moved, standing.take(order), others, Always())
    pairs = {(int(order[left]), int(order[right]), relation) for left, right, relation in _triples(again)}
    assert pairs == set(_triples(found))
    for left, right, relation in zip(found.left, found.right, found.relation, strict=True):
        assert relation != ACROSS or places.items[left] != places.items[right]

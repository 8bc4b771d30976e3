"""Borders from places and gaps: what tiles, how long spans are, which place is taken."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmlake.errors import SettingsError
from mmlake.preprocess.settings import UnitSettings
from mmlake.preprocess.tiling.splitting import INSIDE_WORD, Piece, Places, split

SECOND = 1_000_000
SETTINGS = UnitSettings()


def places(*cheap_s: float, until_s: float = 600.0, cost: float = 6.0) -> Places:
    """One place every 100 ms, of which these cost nothing."""
    time_us = np.arange(1, round(until_s * 10)) * 100_000
    return Places(time_us, np.where(np.isin(time_us, np.round(np.array(cheap_s) * 1e6)), 0.0, cost))


def cut(duration_s: float, where: Places, *gaps: tuple[float, float], settings: UnitSettings = SETTINGS) -> list[Piece]:
    """The pieces of an item of this length with silences there."""
    gaps_us = [(round(start * 1e6), round(end * 1e6), "silence") for start, end in gaps]
    return split(round(duration_s * 1e6), gaps=gaps_us, places=where, settings=settings)


def borders_s(pieces: list[Piece]) -> list[float]:
    """Where one piece gives way to the next."""
    return [piece.end / SECOND for piece in pieces[:-1]]


@st.composite
def items(draw: st.DrawFn) -> tuple[int, list[tuple[int, int, str]], Places]:
    """A length, gaps and places of an item, in any arrangement."""
    duration = draw(st.integers(1, 400 * SECOND))
    edges = sorted(draw(st.lists(st.integers(0, duration), max_size=12, unique=True)))
    gaps = [(start, end, "silence") for start, end in zip(edges[::2], edges[1::2], strict=False)]
    times = np.unique(np.array(draw(st.lists(st.integers(1, duration), max_size=60)), np.int64))
    costs = np.array(draw(st.lists(st.sampled_from([0.0, 1.0, 6.0, INSIDE_WORD]), min_size=60, max_size=60)))
    return duration, gaps, Places(times, costs[: len(times)])


@given(items())
def test_spans_and_gaps_tile_the_item_to_the_microsecond(item):
    duration, gaps, where = item
    pieces = split(duration, gaps=gaps, places=where, settings=SETTINGS)
    assert [piece.start for piece in pieces] == [0, *(piece.end for piece in pieces[:-1])]
    assert pieces[-1].end == duration and all(piece.start < piece.end for piece in pieces)
    assert any(piece.gap is None for piece in pieces)


@given(items())
def test_every_border_that_is_no_edge_of_a_gap_is_a_place(item):
    duration, gaps, where = item
    edges = {edge for gap in gaps for edge in gap[:2]}
    pieces = split(duration, gaps=gaps, places=where, settings=SETTINGS)
    assert {piece.end for piece in pieces[:-1]} - edges <= set(where.time_us_N.tolist())


@given(items())
def test_spans_have_between_10_and_30_s_where_there_are_places_for_it(item):
    duration, gaps, _ = item
    time_us = np.arange(1, duration // 100_000) * 100_000
    costs = np.random.default_rng(duration).choice([0.0, 1.0, 6.0], len(time_us))
    pieces = split(duration, gaps=gaps, places=Places(time_us, costs), settings=SETTINGS)
    at_gaps = {0, duration} | {edge for gap in gaps for edge in gap[:2]}
    for piece in pieces:
        is_stretch = piece.start in at_gaps and piece.end in at_gaps
        if piece.gap is None and not (is_stretch and piece.end - piece.start < 10 * SECOND):
            # an item of nothing but gaps is one unit
            assert 10 * SECOND <= piece.end - piece.start <= 30 * SECOND or len(pieces) == 1


def test_a_stretch_of_30_s_is_one_span_and_one_of_a_microsecond_more_is_two():
    assert len(cut(30.0, places(15.0))) == 1
    assert len(cut(30.000001, places(15.0))) == 2


def test_the_cheapest_place_is_taken_though_it_is_far_from_the_target():
    assert borders_s(cut(40.0, places(11.0))) == [11.0]


def test_of_equal_places_the_one_next_to_the_target_is_taken():
    assert borders_s(cut(40.0, places(12.0, 20.0, 28.0))) == [20.0]


def test_a_place_at_the_shortest_span_is_taken_and_one_just_below_is_not():
    assert borders_s(cut(35.0, places(10.0))) == [10.0]
    assert borders_s(cut(35.0, places(9.9))) != [9.9]


def test_a_span_shorter_than_wanted_is_better_than_a_cut_word():
    words = Places(np.array([4, 15, 25]) * SECOND, np.array([0.0, INSIDE_WORD, INSIDE_WORD]))
    assert borders_s(cut(33.0, words)) == [4.0]


def test_a_film_of_one_frame_that_stands_for_a_minute_stays_whole():
    assert len(split(60 * SECOND, gaps=[], places=places(until_s=0.1), settings=SETTINGS)) == 1


def test_gaps_are_pieces_of_their_own_and_spans_end_at_them():
    pieces = cut(60.0, places(), (25.0, 31.0))
    assert [(piece.start / SECOND, piece.end / SECOND, piece.gap) for piece in pieces] == [
        (0, 25, None),
        (25, 31, "silence"),
        (31, 60, None),
    ]


@pytest.mark.parametrize(("left_s", "gap"), [(1.0, None), (0.999, "too_short")])
def test_what_is_left_between_gaps_is_kept_from_one_second_on(left_s, gap):
    pieces = cut(60.0, places(), (20.0, 30.0), (30.0 + left_s, 40.0))
    assert [piece.gap for piece in pieces][:4] == [None, "silence", gap, "silence"]


def test_an_item_of_nothing_but_gaps_is_one_span():
    assert cut(60.0, places(), (0.0, 29.5), (30.0, 60.0)) == [Piece(0, 60 * SECOND)]


def test_gaps_that_touch_the_ends_leave_no_empty_spans():
    assert [piece.gap for piece in cut(60.0, places(), (0.0, 20.0), (40.0, 60.0))] == ["silence", None, "silence"]


def test_a_day_of_places_is_cut_in_seconds():
    rng = np.random.default_rng(0)
    time_us = np.arange(1, 8 * 360_000) * 10_000
    pieces = split(
        8 * 3600 * SECOND, gaps=[], places=Places(time_us, rng.uniform(0, 6, len(time_us))), settings=SETTINGS
    )
    assert 8 * 120 <= len(pieces) <= 8 * 360


@pytest.mark.parametrize(
    "wrong",
    [
        {"min_span_s": 16.0},
        {"target_span_s": 31.0},
        {"target_span_s": 9.0},
        {"max_span_s": 0.0},
        {"max_span_s": 1e9},
        {"whole_up_to_s": float("nan")},
        {"gap_margin_s": 1.5},
        {"gap_margin_s": -0.1},
        {"min_kept_s": -1.0},
    ],
)
def test_settings_that_leave_nothing_to_cut_are_refused(wrong):
    with pytest.raises(SettingsError, match=f"units.{next(iter(wrong))}|grow in this order"):
        UnitSettings(**wrong)

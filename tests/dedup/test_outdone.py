"""Which copy gives way to its original by the trace of an enlargement and the sizes of both."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmlake.dedup.criteria import CLOSENESS, Criterion
from mmlake.dedup.stars.outdone import by_both, by_both_of, by_its_original
from mmlake.dedup.stars.survivors import Standing

NAN = np.nan


def gives_way(own, *its):
    return bool(by_its_original(np.array([own], np.float64), np.array(its, np.float64))[0])


@pytest.mark.parametrize(
    ("cycles", "width", "height"),
    [(0.2, 1250, 1000), (1 / 3, 1500, 1200), (1 - 1 / 1.7, 1700, 1360), (3 / 16, 2000, 1600), (1 / 12, 1500, 1200)],
    ids=["pixels", "pixels at 1.5", "pixels at 1.7", "blocks at twice", "blocks at 1.5"],
)
def test_an_enlargement_gives_way_to_what_it_was_made_of(cycles, width, height):
    assert gives_way((cycles, width, height), (NAN, 1000, 800))
    assert not gives_way((cycles + 0.01, width, height), (NAN, 1000, 800))  # another period
    assert not gives_way((cycles, width, height), (NAN, 1000, 700))  # another frame
    assert not gives_way((cycles, width, height), (NAN, width, height))  # of its size
    assert not gives_way((NAN, width, height), (NAN, 1000, 800))
    assert not gives_way((cycles, width, height), (NAN, NAN, 800))
    assert gives_way((cycles, width, height), (NAN, NAN, 800), (0.1, 1000, 800))


def test_what_repeats_in_the_picture_is_no_trace():
    """Bars, 200 of them in every copy."""
    copies = (NAN, 1000, 800), (200 / 500, 500, 400)
    assert gives_way((0.2, 1250, 1000), copies[0])
    assert not gives_way((200 / 1250, 1250, 1000), *copies)
    assert not gives_way((200 / 1000, 1000, 800), (NAN, 640, 512), copies[1])
    # two enlargements of one original have as many of its pixels
    assert gives_way((0.4, 2500, 2000), copies[0], (0.3125, 3200, 2560))


def test_nothing_is_an_enlargement_of_a_thumbnail_by_chance():
    frames = np.array([(at, 300, 200) for at in np.linspace(0.05, 0.5, 181)])
    assert not by_its_original(frames, np.array([(NAN, 60, 40)])).any()
    assert by_its_original(frames, np.array([(NAN, 120, 80)])).mean() < 0.1


def test_sides_are_rounded_to_pixels():
    assert gives_way((0.2, 414, 233), (NAN, 331, 186))
    assert not gives_way((0.2, 414, 233), (NAN, 331, 189))


def test_a_trace_decides_before_what_comes_after_it_and_the_reason_says_so():
    criteria = (
        Criterion(name="enlarged", column="resampled_at", frame=("width", "height"), says="the original"),
        Criterion(name="height", column="height_px", best=""),
        Criterion(name="width", column="width_px", says="wider"),
    )
    rows = np.array([(0.2, 800, 1250), (NAN, 640, 1000), (NAN, 300, 469)])
    standing = Standing(np.arange(3), np.zeros(3, np.int64), np.ones(3, np.bool_), criteria, rows)

    def alike(ones, others):
        return np.zeros(len(ones))

    assert standing.elect(np.arange(3), alike) == 1
    assert standing.elect(np.array([0, 2]), alike) == 0  # what it was made of is not there
    assert standing.elect_alike(np.array([[0, 1], [0, 2], [1, 2]]), alike).tolist() == [1, 0, 1]
    assert standing.reason(1, 0) == "the original: resampled_at=0.2 in the larger one"
    assert standing.reason(1, 2) == "wider: width_px=1000 against 469"
    assert standing.order().tolist() == [0, 1, 2]


@pytest.mark.parametrize(("has_say", "elected", "at_once"), [(True, 2, 2), (False, 1, -1)])
def test_how_close_an_enlargement_is_to_the_others_still_counts(has_say, elected, at_once):
    """It was made of the original, so of pictures it is a witness for it; of films it is none."""
    criteria = (
        Criterion(name="enlarged", column="resampled_at", frame=("width", "height"), has_say=has_say),
        Criterion(name="width", column="width_px", best=""),
        Criterion(name="height", column="height_px", best=""),
        CLOSENESS,
    )
    rows = np.array([(0.2, 1250, 1000, NAN), (NAN, 900, 800, NAN), (NAN, 1000, 800, NAN)])
    standing = Standing(np.arange(3), np.zeros(3, np.int64), np.ones(3, np.bool_), criteria, rows)
    near = np.array([[1, 0.8, 1], [0.8, 1, 0.9], [1, 0.9, 1]])

    def closeness(ones, others):
        return near[ones[:, None], others].mean(axis=1)

    assert standing.elect(np.arange(3), closeness) == elected
    assert standing.elect_alike(np.arange(3)[None], closeness).tolist() == [at_once]


NUMBER = st.one_of(st.just(float("nan")), st.floats(-10, 100), st.sampled_from([0.0, 1.0, 0.9, 10.0, 9.0, -1.0]))


@given(own=st.tuples(NUMBER, NUMBER), its=st.tuples(NUMBER, NUMBER), tolerance=st.sampled_from([0.0, 0.1, 0.25]))
def test_of_two_alone_the_same_gives_way(own, its, tolerance):
    among = by_both(np.array([own]), np.array([its]), tolerance=tolerance)
    assert [by_both_of(own, its, tolerance=tolerance)] == among.tolist()

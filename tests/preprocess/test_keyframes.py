"""Keyframes of long films: one at least every ten seconds, and no more memory than a few per ten seconds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmlake.preprocess.keyframes import Candidates, Keyframe
from mmlake.preprocess.settings import PreprocessSettings

STILL = np.zeros(10, np.uint8)


def chosen(
    length_s: float, *, cuts_s: tuple[float, ...] = (), rate: float = 4.0, every_s: float = 10.0
) -> tuple[list[Keyframe], int]:
    """(keyframes, most candidates held at once) of a film that changes at its cuts alone."""
    candidates = Candidates(PreprocessSettings(keyframe_every_s=every_s))
    rng, picture, most, cuts = np.random.default_rng(0), STILL, 0, list(cuts_s)
    for at in range(round(length_s * rate)):
        if cuts and at / rate >= cuts[0]:
            cuts.pop(0)
            picture = rng.integers(0, 256, 10, dtype=np.uint8)
        candidates.offer(at / rate, picture, lambda: b"")
        most = max(most, len(candidates._kept))
    starts = [0.0, *cuts_s]
    return candidates.choose([*zip(starts, starts, [*cuts_s, length_s], strict=True)]), most


def longest_hole_s(keyframes: list[Keyframe], length_s: float) -> float:
    return float(np.diff([0.0, *(frame.time_s for frame in keyframes), length_s]).max())


@pytest.mark.parametrize(("length_s", "count"), [(10.0, 1), (10.5, 2), (60.0, 6)])
def test_a_still_shot_has_one_keyframe_for_each_ten_seconds(length_s, count):
    assert len(chosen(length_s)[0]) == count


def test_the_distance_is_a_setting():
    assert len(chosen(10.0, every_s=2.0)[0]) == 5


def test_a_film_of_eight_hours_has_no_hole_and_holds_a_bounded_number():
    keyframes, most = chosen(8 * 3600.0, rate=1.0)
    assert longest_hole_s(keyframes, 8 * 3600.0) <= 10
    assert len(keyframes) <= 2 * 2880 and most <= 512 + 4 * 2880 + 1


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(4, 8000), max_size=300, unique=True))
def test_no_cuts_leave_a_hole(cuts):
    cuts_s = tuple(cut / 4 for cut in sorted(cuts))
    keyframes, _ = chosen(2000.0, cuts_s=tuple(cut for cut in cuts_s if cut < 2000))
    assert longest_hole_s(keyframes, 2000.0) <= 10
    assert [frame.time_s for frame in keyframes] == sorted({frame.time_s for frame in keyframes})


def test_an_hour_of_fast_cutting_has_a_bounded_number_and_no_hole():
    cuts_s = tuple(np.arange(1, 1800).tolist())
    keyframes, _ = chosen(3600.0, cuts_s=cuts_s, rate=2.0)
    assert len(keyframes) <= 2 * 360 + 360
    assert longest_hole_s(keyframes, 3600.0) <= 10

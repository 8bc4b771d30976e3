"""Subtitles of another cut of a film: an intro less, advertisements in the middle, scenes more, at any speed."""

from __future__ import annotations

import numpy as np
import pytest
from test_drift import DURATION_S, cues_of, detected, spoken

from mmlake.preprocess.transcripts.drift import drift_of
from mmlake.preprocess.transcripts.piecewise_lags import piecewise_lags
from mmlake.preprocess.transcripts.subtitles import Cue

Span = tuple[float, float]


def of_another_cut(
    spans: list[Span], cuts: list[tuple[float, float]], seed: int, *, intro_s: float = 0.0, speed: float = 1.0
) -> tuple[list[Cue], list[float | None]]:
    """(the cues of another cut, in order; when each is said, None of what the film lacks). cuts: (time in the film, by
    how much later cues come from there on); where they come sooner, the film has something else in between."""
    made: list[tuple[Cue, float | None]] = []
    more, own = cues_of(spoken(seed + 300), seed=seed), cues_of(spans, seed=seed)
    begin_s, late_s = 0.0, intro_s
    if intro_s > 0:
        made += [(cue, None) for cue in more if cue.end_s < intro_s]
    for at_s, step_s in [*cuts, (np.inf, 0.0)]:
        made += [
            (Cue("words", cue.start_s + late_s, cue.end_s + late_s), cue.start_s)
            for cue in own
            if begin_s <= cue.start_s and cue.end_s <= at_s and cue.start_s + late_s >= 0
        ]
        made += [
            (Cue("more", c.start_s + at_s + late_s, c.end_s + at_s + late_s), None) for c in more if c.end_s < step_s
        ]
        begin_s, late_s = at_s + max(0.0, -step_s), late_s + step_s
    return [Cue(c.text, c.start_s * speed, c.end_s * speed) for c, _ in made], [at_s for _, at_s in made]


CUTS = {
    "a scene more": ([(700.0, 40.0)], 0.0),
    "an advertisement": ([(900.0, -45.0)], 0.0),
    "three advertisements": ([(400.0, -25.0), (900.0, -60.0), (1400.0, -30.0)], 0.0),
    "a scene more and an advertisement": ([(500.0, 30.0), (1200.0, -50.0)], 0.0),
    "an intro less, and an advertisement": ([(900.0, -35.0)], 75.0),
    "no intro, and a scene more": ([(800.0, 22.0)], -90.0),
    "a small step": ([(900.0, 3.0)], 0.0),
}


@pytest.mark.parametrize("kind", CUTS)
@pytest.mark.parametrize(("seed", "speed"), [(20, 1.0), (21, 25 / 24), (22, 24 / 25)])
def test_each_part_of_the_subtitles_of_another_cut_lies_on_its_own_speech(kind: str, seed: int, speed: float) -> None:
    """Behind a jump of more than 15 s all cues stayed where they were, or were moved to somewhere else."""
    (cuts, intro_s), spans = CUTS[kind], spoken(seed)
    cues, said_s = of_another_cut(spans, cuts, seed, intro_s=intro_s, speed=speed)
    drift = drift_of(cues, detected(spans, seed), DURATION_S)
    assert drift is not None
    found = drift.corrected(cues)
    off_s = np.array([abs(cue.start_s - at_s) for cue, at_s in zip(found, said_s, strict=True) if at_s is not None])
    assert np.mean(off_s <= 0.3) >= 0.97
    assert all(one.start_s <= two.start_s for one, two in zip(found, found[1:], strict=False))  # the order stays


def test_what_the_film_lacks_has_no_place_in_it() -> None:
    """Its lines have no length; some fit by chance as well as those before the jump, which lose theirs instead."""
    lasts = []
    for seed in range(50, 60):
        spans = spoken(seed)
        cues, said_s = of_another_cut(spans, [(800.0, 50.0)], seed)
        drift = drift_of(cues, detected(spans, seed), DURATION_S)
        assert drift is not None
        found = zip(drift.corrected(cues), said_s, strict=True)
        lasts += [cue.end_s - cue.start_s > 0.3 for cue, at_s in found if at_s is None]
    assert len(lasts) > 100 and np.mean(lasts) < 0.15


@pytest.mark.parametrize("seed", range(30, 36))
@pytest.mark.parametrize("length_s", [180.0, DURATION_S])
def test_the_subtitles_of_another_film_have_no_lags(seed: int, length_s: float) -> None:
    cues = [(cue.start_s, cue.end_s) for cue in cues_of(spoken(seed, length_s), seed=seed)]
    assert piecewise_lags(cues, detected(spoken(seed + 200, length_s), seed), length_s) is None


def test_right_subtitles_of_which_a_few_windows_say_otherwise_have_no_drift() -> None:
    """Of lines that stay as long as people read, windows of 30 s are off by chance; all together they are not."""
    spans, rng = spoken(41), np.random.default_rng(41)
    ends_s = [after[0] - 0.02 for after in spans[1:]] + [DURATION_S]
    cues = [
        Cue("words", start_s + rng.uniform(-0.3, 0.1), min(end_s + rng.exponential(0.6), next_s))
        for (start_s, end_s), next_s in zip(spans, ends_s, strict=True)
    ]
    assert drift_of(cues, detected(spans, 41), DURATION_S) is None


def test_lags_of_times_that_nothing_has_take_no_more_memory() -> None:
    """A cue that ends in a hundred hours is a mistake of its file."""
    spans = spoken(42)
    cues = [(start_s + 30.0, end_s + 30.0) for start_s, end_s in spans] + [(360_000.0, 360_001.0)]
    lags = piecewise_lags(cues, detected(spans, 42), DURATION_S)
    assert lags is not None and lags.times_s.max() < DURATION_S + 400
    assert np.median(lags.late_s) == pytest.approx(30.0, abs=0.2)


@pytest.mark.parametrize("cues", [[], [(0.0, 1.0)], [(0.0, DURATION_S)], [(5.0, 5.0)] * 3, [(9.0, 2.0)]])
def test_cues_that_say_nothing_have_no_lags(cues: list[Span]) -> None:
    assert piecewise_lags(cues, spoken(43), DURATION_S) is None
    assert piecewise_lags(spoken(43), cues, DURATION_S) is None


@pytest.mark.parametrize("part_s", [300.0, 400.0])
def test_cues_of_which_a_third_is_right_have_no_lag(part_s: float) -> None:
    """As those of another speed are, where they cross the right times: minutes say more for one lag than all else says
    against it."""
    for seed in range(70, 80):
        spans = spoken(seed, 1200.0)
        cues = [(start_s + 20, end_s + 20) for start_s, end_s in spans if end_s < part_s]
        cues += [(start_s + 20, end_s + 20) for start_s, end_s in spoken(seed + 500, 1200.0) if start_s > part_s]
        assert piecewise_lags(cues, detected(spans, seed), 1200.0) is None

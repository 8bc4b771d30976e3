"""Who speaks when: the front end, the clustering, the turns, and the error that they are judged by."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

from mmlake.errors import MissingExtra, ModelMissing
from mmlake.sample import voices
from mmlake.voices import clustering, ge2e
from mmlake.voices.diarize import MANY_VOICES, diarize
from mmlake.voices.turns import diarization_errors, turns_of, window_centres
from tests.voices.conversations import conversation


@cache
def embed():
    try:
        return ge2e.load(ge2e.weights_path())
    except MissingExtra:
        pytest.skip("the wheel Resemblyzer is not installed")


def needs_espeak():
    if voices.engine() != "espeak-ng":
        pytest.skip("espeakng-loader is not installed: there are no voices")


@pytest.mark.parametrize("names", [("en-us", "en-us+f1"), ("en-gb-x-rp", "en-us+f4")])
def test_two_clean_voices_are_found_within_a_tenth(names):
    needs_espeak()
    sound, known = conversation(names, num_turns=6, seed=3)
    found = diarize(sound, [turn[:2] for turn in known], embed=embed(), max_speakers=8)
    assert len({turn.speaker for turn in found}) == 2
    assert diarization_errors(known, [turn[:3] for turn in found]).rate <= 0.10
    assert np.mean([turn.confidence for turn in found]) > MANY_VOICES


def test_one_voice_is_one_speaker():
    needs_espeak()
    sound, known = conversation(("en-gb-scotland",), num_turns=4, seed=5)
    found = diarize(sound, [turn[:2] for turn in known], embed=embed(), max_speakers=8)
    assert {turn.speaker for turn in found} == {"S1"}


def test_silence_has_no_turns():
    assert diarize(np.zeros(16000, np.float32), [], embed=lambda *_: np.zeros((0, 256)), max_speakers=8) == []


def groups(sizes, *, spread, seed=0):
    """Unit vectors around as many orthogonal centres, in blocks of ten."""
    rng = np.random.default_rng(seed)
    blocks = [
        (owner, 10) for size_at in range(max(sizes) // 10) for owner, size in enumerate(sizes) if size_at < size // 10
    ]
    labels = np.concatenate([np.full(num, owner) for owner, num in blocks])
    vectors = np.eye(64)[labels] + spread * rng.standard_normal((len(labels), 64))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32), labels


@pytest.mark.parametrize("sizes", [(60,), (60, 40), (50, 30, 30, 20)])
def test_the_number_of_voices_is_found(sizes):
    vectors, expected = groups(sizes, spread=0.05)
    np.testing.assert_array_equal(clustering.cluster(vectors, max_voices=8).labels, expected)


def test_more_windows_than_are_agglomerated_are_labelled_all_the_same():
    vectors, expected = groups((1500, 1500), spread=0.05)
    np.testing.assert_array_equal(clustering.cluster(vectors, max_voices=8).labels, expected)


def test_beyond_two_voices_confidence_is_low():
    vectors, _ = groups((60, 60, 60), spread=0.05)
    speech = [(0.0, 72.0)]
    sound = np.zeros(72 * 16000, np.float32)
    found = diarize(sound, speech, embed=lambda energies, starts: vectors, max_speakers=8)
    assert len({turn.speaker for turn in found}) == 3
    assert max(turn.confidence for turn in found) <= MANY_VOICES + 1e-6


def test_windows_lie_within_speech_and_turns_end_with_it():
    speech = [(1.0, 3.0), (4.0, 4.1)]
    centres_s, owners = window_centres(speech)
    np.testing.assert_allclose(centres_s, [1.2, 1.6, 2.0, 2.4, 2.8, 4.05])
    found = turns_of(speech, centres_s, owners, np.array([0, 0, 1, 1, 1, 0]), np.ones(6))
    assert [(round(turn.start_s, 3), round(turn.end_s, 3), turn.speaker) for turn in found] == [
        (1.0, 1.8, "S1"),
        (1.8, 3.0, "S2"),
        (4.0, 4.1, "S1"),
    ]


def test_the_diarization_error_counts_what_is_missed_false_and_confused():
    known = [(0.0, 10.0, "a"), (10.0, 20.0, "b")]
    same = [(0.0, 10.0, "x"), (10.0, 20.0, "y")]
    assert diarization_errors(known, same, collar_s=0).rate == 0
    one = diarization_errors(known, [(0.0, 20.0, "x")], collar_s=0)
    assert (one.missed_s, one.false_s, one.confused_s) == pytest.approx((0, 0, 10))
    late = diarization_errors(known, [(0.0, 10.0, "x"), (12.0, 23.0, "y")], collar_s=0)
    assert (late.missed_s, late.false_s, late.confused_s, late.spoken_s) == pytest.approx((2, 3, 0, 20))
    overlap = diarization_errors([*known, (5.0, 10.0, "b")], same, collar_s=0)
    assert overlap.missed_s == pytest.approx(5)
    near = diarization_errors(known, [(0.2, 10.2, "x"), (10.2, 20.2, "y")])
    assert near.rate == 0  # within the collar


def test_the_diarization_error_is_that_of_the_best_match_of_many_speakers():
    """More than seven were matched one after the other, the longest common speech first."""
    known, found = [], []
    for pair in range(4):  # a speaks 6 s as x and 5 s as y, b speaks 5 s as x: 10 of 16 s are right, and not 6
        start_s = 20.0 * pair
        known += [(start_s, start_s + 11, f"a{pair}"), (start_s + 11, start_s + 16, f"b{pair}")]
        found += [(start_s, start_s + 6, f"x{pair}"), (start_s + 6, start_s + 11, f"y{pair}")]
        found += [(start_s + 11, start_s + 16, f"x{pair}")]
    errors = diarization_errors(known, found, collar_s=0)
    assert (errors.confused_s, errors.spoken_s) == pytest.approx((24, 64))


@pytest.mark.parametrize(("found", "rate"), [([], 0), ([(0.0, 3.0, "x")], math.inf)])
def test_the_diarization_error_of_silence_is_none_or_has_no_bound(found, rate):
    assert diarization_errors([], found).rate == rate
    assert diarization_errors([], found).wrong_s == pytest.approx(3 if found else 0)


def test_weights_that_are_none_say_so(tmp_path):
    (tmp_path / "pretrained.pt").write_bytes(b"not weights")
    with pytest.raises(ModelMissing, match="no weights of Resemblyzer"):
        ge2e.load(tmp_path / "pretrained.pt")

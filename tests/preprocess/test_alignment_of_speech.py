"""A transcript is laid on its sound, and doubted: speech of synthesized voices whose words and times are known."""

from __future__ import annotations

import numpy as np
import pytest
from speech import SENTENCES, auc, flac, melody, speech, with_noise

from mmlake.preprocess import AlignSettings
from mmlake.preprocess.transcripts.align import IMPOSSIBLE, MISMATCH, Aligner, Alignment
from mmlake.preprocess.transcripts.subtitles import Cue
from mmlake.sample import voices
from tests.thorough import drawn

TOLERANCE_S = 0.15  # half a syllable
ALIGNER = Aligner(AlignSettings())


@pytest.fixture(scope="module")
def spoken() -> list[np.ndarray]:
    """One recording per sentence."""
    return [one.samples for one in speech()]


@pytest.fixture(scope="module")
def right(spoken) -> list[float]:
    """How sure it is of each recording with its own sentence."""
    return confidences(spoken, list(SENTENCES))


def align(samples: np.ndarray, text: str) -> Alignment:
    return ALIGNER.align(flac(samples), [Cue(text)])


def confidences(sounds: list[np.ndarray], texts: list[str]) -> list[float]:
    return [align(samples, text).confidence or 0.0 for samples, text in zip(sounds, texts, strict=True)]


def exchanged(by: int) -> list[str]:
    """The sentences of others."""
    return [SENTENCES[(at + by) % len(SENTENCES)] for at in range(len(SENTENCES))]


@pytest.mark.parametrize("snr_db", [None, 10.0], ids=["clean", "10 dB"])
def test_right_and_wrong_transcripts_are_distinguished(spoken, right, snr_db):
    """The area under the curve is .95 or more, as the requirement says."""
    sounds = spoken
    if snr_db is not None:
        sounds = [with_noise(samples, snr_db) for samples in spoken]
        right = confidences(sounds, list(SENTENCES))
    wrong = [one for by in drawn((5,), (1, 5)) for one in confidences(sounds, exchanged(by))]
    assert auc(right, wrong) >= 0.95


def test_right_transcripts_get_times_and_wrong_ones_a_reason(spoken):
    right = [align(samples, text) for samples, text in zip(spoken, SENTENCES, strict=True)]
    wrong = [align(samples, text) for samples, text in zip(spoken, exchanged(3), strict=True)]
    assert sum(bool(one.words) for one in right) >= 11
    assert [(one.words, one.code) for one in wrong] == [([], MISMATCH)] * len(wrong)
    assert all(one.reason and one.reason.startswith("transcript_match=") for one in wrong)


def test_half_wrong_and_half_missing_transcripts_are_seen(spoken, right):
    half = [len(text.split()) // 2 for text in SENTENCES]
    starts = [" ".join(text.split()[:stop]) for text, stop in zip(SENTENCES, half, strict=True)]
    ends = [" ".join(text.split()[stop:]) for text, stop in zip(exchanged(4), half, strict=True)]
    assert auc(right, confidences(spoken, starts)) >= 0.95
    assert auc(right, confidences(spoken, [f"{one} {two}" for one, two in zip(starts, ends, strict=True)])) >= 0.9


PLACED = f"{SENTENCES[0]} {SENTENCES[1]}"


def place(text: str) -> tuple[np.ndarray, tuple[tuple[float, float], ...]]:
    """(a recording, the span of each word): each word spoken for itself, with a pause after it."""
    speech(())
    (one,) = voices.speak([voices.utterance(tuple(text.split()), 0)], seed=7)
    return one.samples, one.spans_s


@pytest.fixture(scope="module")
def placed() -> tuple[np.ndarray, tuple[tuple[float, float], ...]]:
    return place(PLACED)


def test_words_lie_where_they_were_spoken(placed):
    samples, spans_s = placed
    words = align(samples, PLACED + ".").words
    assert [word["word"] for word in words] == PLACED.split()
    assert [word["start_s"] for word in words] == pytest.approx([start_s for start_s, _ in spans_s], abs=TOLERANCE_S)
    assert [word["end_s"] for word in words] == pytest.approx([end_s for _, end_s in spans_s], abs=TOLERANCE_S)


@pytest.mark.parametrize("unknown", ["kazootian", "Tkaronto", "Brzlowski"])
def test_an_unknown_word_lies_between_its_neighbours_and_moves_none(unknown):
    """Its letters say roughly where it was spoken: most of its time is its own."""
    text = PLACED.replace("sailor", unknown)
    samples, spans_s = place(text)
    words = align(samples, text).words
    assert [word["word"] for word in words] == text.split()
    for word, (start_s, end_s) in zip([*words[:2], *words[3:]], [*spans_s[:2], *spans_s[3:]], strict=True):
        assert (word["start_s"], word["end_s"]) == pytest.approx((start_s, end_s), abs=TOLERANCE_S)
    start_s, end_s = words[2]["start_s"], words[2]["end_s"]
    assert spans_s[1][1] - TOLERANCE_S <= start_s < end_s <= spans_s[3][0] + TOLERANCE_S
    assert min(end_s, spans_s[2][1]) - max(start_s, spans_s[2][0]) > 0.5 * (spans_s[2][1] - spans_s[2][0])
    assert words[2]["score"] < 0.5


@pytest.mark.parametrize("unknown", ["船乗り", "моряк"])
def test_a_word_in_foreign_letters_lies_between_its_neighbours(placed, unknown):
    samples, spans_s = placed
    words = align(samples, PLACED.replace("sailor", unknown)).words
    assert [word["word"] for word in words] == PLACED.replace("sailor", unknown).split()
    for word, (start_s, end_s) in zip([*words[:2], *words[3:]], [*spans_s[:2], *spans_s[3:]], strict=True):
        assert (word["start_s"], word["end_s"]) == pytest.approx((start_s, end_s), abs=TOLERANCE_S)
    assert words[2]["start_s"] == words[1]["end_s"]
    # the next word begins behind the silence before it
    assert 0 <= words[3]["start_s"] - words[2]["end_s"] < TOLERANCE_S
    assert words[2]["score"] < 0.5


def test_a_number_is_read_as_it_is_said():
    sound = speech(("In 1984 the museum had 25 rooms",))[0]
    words = align(sound.samples, "In 1984 the museum had 25 rooms").words
    assert [word["word"] for word in words] == "In 1984 the museum had 25 rooms".split()
    assert words[1]["end_s"] - words[1]["start_s"] > 0.5 and words[1]["score"] > 0.3


def test_every_word_has_a_score_and_wrong_words_a_lower_one(spoken):
    """In a transcript of which a part is wrong, the words of that part score less."""
    right, wrong = [], []
    for samples, text, other in zip(spoken, SENTENCES, exchanged(2), strict=True):
        words = [*text.split()[:-3], *other.split()[-3:]]
        found = Aligner(AlignSettings(min_transcript_match=0.0)).align(flac(samples), [Cue(" ".join(words))]).words
        assert all(0.0 <= word["score"] <= 1.0 for word in found)
        right += [word["score"] / max(one["score"] for one in found) for word in found[:-3]]
        wrong += [word["score"] / max(one["score"] for one in found) for word in found[-3:]]
    assert auc(right, wrong) >= 0.8


TIME = np.arange(5 * voices.RATE_HZ) / voices.RATE_HZ
NO_SPEECH = {
    "silence": np.zeros(len(TIME)),
    "tone": 0.33 * np.sin(2 * np.pi * 440 * TIME),
    "chord": 0.1 * sum(np.sin(2 * np.pi * hertz * TIME) for hertz in (220, 277, 330)),
    "noise": np.random.default_rng(0).normal(0, 0.1, len(TIME)),
    "melody": melody(1),
    "another melody": melody(2),
}


@pytest.mark.parametrize("samples", NO_SPEECH.values(), ids=NO_SPEECH)
@pytest.mark.parametrize("text", SENTENCES[:3])
def test_tones_music_and_noise_have_no_words(samples, text):
    found = align(samples, text)
    assert (found.words, found.code) == ([], MISMATCH)
    assert found.confidence is not None and found.confidence < 0.5


@pytest.mark.parametrize("text", ["one two three four five six", "你好 世界", "Größe und Länge"])
def test_subtitles_over_a_tone_have_no_words(text):
    found = ALIGNER.align(flac(NO_SPEECH["tone"]), [Cue(text, 0.5, 2.0), Cue(text, 2.5, 4.5)])
    assert (found.words, found.confidence, found.code) == ([], 0.0, MISMATCH)
    assert found.reason is not None and found.reason.startswith("no speech: ")


def test_subtitles_get_times_within_their_lines():
    speech(())
    (one,) = voices.speak([voices.utterance(SENTENCES[:3], 2)], seed=5)
    cues = [Cue(text, *span_s) for text, span_s in zip(SENTENCES, one.spans_s, strict=False)]
    words = ALIGNER.align(flac(one.samples), cues).words
    assert [word["word"] for word in words] == " ".join(SENTENCES[:3]).split()
    at = 0
    for cue in cues:
        part = words[at : at + len(cue.text.split())]
        assert part[0]["start_s"] == pytest.approx(cue.start_s, abs=TOLERANCE_S)
        assert part[-1]["end_s"] == pytest.approx(cue.end_s, abs=TOLERANCE_S)
        at += len(part)


def test_a_language_without_a_dictionary_is_not_called_wrong(spoken):
    """Plain text gets no times, lines of subtitles keep theirs, with score 0; the reason says why."""
    text = "El perro corre por la calle y los niños juegan"
    plain, lines = align(spoken[0], text), ALIGNER.align(flac(spoken[0]), [Cue(text, 0.5, 2.5)])
    assert (plain.words, plain.confidence, plain.code) == ([], None, IMPOSSIBLE)
    assert plain.reason is not None and plain.reason.startswith("known_fraction=")
    assert [word["word"] for word in lines.words] == text.split()
    assert (lines.words[0]["start_s"], lines.words[-1]["end_s"]) == (0.5, 2.5)
    assert {word["score"] for word in lines.words} == {0.0}
    assert all(left["end_s"] == right["start_s"] for left, right in zip(lines.words, lines.words[1:], strict=False))


def test_a_word_or_two_are_too_few_to_be_called_wrong(spoken):
    found = align(spoken[0], "go home")
    assert (found.confidence, found.code, found.reason) == (None, IMPOSSIBLE, "num_phones=5 not in [8, inf)")


def test_sound_longer_than_the_cap_is_not_aligned_at_once(spoken):
    found = Aligner(AlignSettings(max_stretch_s=1.0)).align(flac(spoken[0]), [Cue(SENTENCES[0])])
    assert (found.words, found.code) == ([], IMPOSSIBLE)
    assert (
        found.reason is not None and found.reason.startswith("stretch_s=") and found.reason.endswith("not in [0.1, 1]")
    )


@pytest.mark.parametrize("cues", [[Cue("...")], [Cue("over", 50.0, 60.0)]], ids=["no word", "after the end"])
def test_what_has_no_word_within_the_sound_says_so(spoken, cues):
    found = ALIGNER.align(flac(spoken[0]), cues)
    assert (found.words, found.confidence, found.code) == ([], None, IMPOSSIBLE)
    assert found.reason == "num_words=0 within the sound not in [1, inf)"


def test_the_result_does_not_depend_on_what_was_aligned_before(spoken):
    fresh = Aligner(AlignSettings()).align(flac(spoken[1]), [Cue(SENTENCES[1])])
    used = Aligner(AlignSettings())
    used.align(flac(spoken[0]), [Cue(SENTENCES[0].replace("sailor", "kazootian"))])
    used.align(flac(NO_SPEECH["noise"]), [Cue("something else entirely")])
    assert used.align(flac(spoken[1]), [Cue(SENTENCES[1])]) == fresh

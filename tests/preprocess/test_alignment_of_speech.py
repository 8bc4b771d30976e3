"""Word times on real synthesized speech whose sentence times are known."""

from __future__ import annotations

import io

import pytest
import soundfile

from mmlake.preprocess import PreprocessSettings
from mmlake.preprocess.align import Aligner
from mmlake.preprocess.subtitles import Cue
from mmlake.sample import voices

SENTENCES = ("The old sailor painted a map of the city.", "Fresh bread is delivered to the hotel every morning.")
TOLERANCE_S = 0.25  # pocketsphinx places most words within 0.15 s; the edges of a sentence fade


@pytest.fixture(scope="module")
def aligned() -> tuple[voices.Speech, list[dict]]:
    if voices.engine() != "espeak-ng":
        pytest.skip("espeakng-loader is not installed: there is no voice with words")
    (speech,) = voices.speak([voices.utterance(SENTENCES, 0)], seed=7)
    sink = io.BytesIO()
    soundfile.write(sink, speech.samples, voices.RATE_HZ, format="FLAC", subtype="PCM_16")
    return speech, Aligner(PreprocessSettings()).words(sink.getvalue(), [Cue(" ".join(SENTENCES))])


def test_every_word_of_the_transcript_gets_a_time(aligned) -> None:
    assert [word["word"].strip(".").lower() for word in aligned[1]] == " ".join(SENTENCES).replace(
        ".", ""
    ).lower().split()


def test_words_lie_in_the_sentence_that_they_were_spoken_in(aligned) -> None:
    speech, words = aligned
    first = len(SENTENCES[0].split())
    for part, (start_s, end_s) in ((words[:first], speech.spans_s[0]), (words[first:], speech.spans_s[1])):
        assert part[0]["start_s"] == pytest.approx(start_s, abs=TOLERANCE_S)
        assert part[-1]["end_s"] == pytest.approx(end_s, abs=TOLERANCE_S)
        assert all(start_s - TOLERANCE_S <= word["start_s"] < word["end_s"] <= end_s + TOLERANCE_S for word in part)

"""Words get times where the transcript fits the sound, and none where it does not."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest
from preprocess_media import tone, wav

from mmlake.errors import MissingExtra, ModelMissing, SettingsError
from mmlake.preprocess import RECOGNIZERS, PreprocessSettings
from mmlake.preprocess import speech_recognition as recognize_module
from mmlake.preprocess.align import Aligner
from mmlake.preprocess.speech_recognition import SpeechRecognizer
from mmlake.preprocess.subtitles import Cue

SETTINGS = PreprocessSettings()


def babble(duration_s: float) -> bytes:
    """Sound with the pulses and formants of a voice, as FLAC: enough for an aligner to lay words on."""
    rng, rate_hz = np.random.default_rng(0), 16000
    time = np.arange(round(duration_s * rate_hz)) / rate_hz
    voice = sum(np.sin(2 * np.pi * pitch * time) / number for number, pitch in enumerate(range(120, 2400, 120), 1))
    return wav(0.1 * voice * (1 + np.sin(2 * np.pi * 3 * time)) / 2 + rng.normal(0, 0.003, len(time)), kind="FLAC")


@pytest.fixture(scope="module")
def aligner():
    return Aligner(SETTINGS)


def test_every_word_of_a_plain_transcript_gets_ordered_times_or_none_does(aligner):
    words = aligner.words(babble(3), [Cue("The small dog, ran home.")])
    assert [word["word"] for word in words] in ([], ["The", "small", "dog", "ran", "home"])
    assert all(0 <= word["start_s"] < word["end_s"] <= 3.02 for word in words)


def test_the_result_does_not_depend_on_what_was_aligned_before(aligner):
    cues = [Cue("the small dog ran home")]
    fresh = Aligner(SETTINGS).words(babble(3), cues)
    aligner.words(babble(2), [Cue("something else entirely")])
    assert aligner.words(babble(3), cues) == fresh


@pytest.mark.parametrize("text", ["zxqwv blorptang", "Größe und Länge", "...", "日本語"])
def test_words_outside_of_the_dictionary_give_no_times(aligner, text):
    assert aligner.words(babble(2), [Cue(text)]) == []


def test_too_many_words_for_the_sound_give_no_times(aligner):
    assert aligner.words(babble(0.3), [Cue("the quick brown fox jumps over the lazy dog again and again")]) == []


def test_sound_longer_than_the_cap_is_not_aligned_at_once():
    assert Aligner(PreprocessSettings(max_align_s=1.0)).words(babble(1.5), [Cue("the dog")]) == []


def test_a_cue_that_cannot_be_aligned_spreads_its_words_over_its_time(aligner):
    words = aligner.words(wav(tone(4), kind="FLAC"), [Cue("xqzv wvvbq", 1.0, 3.0)])
    assert [word["word"] for word in words] == ["xqzv", "wvvbq"]
    assert (words[0]["start_s"], words[-1]["end_s"]) == (1.0, 3.0)
    assert words[0]["end_s"] == words[1]["start_s"]


def test_cues_beyond_the_end_of_the_sound_are_left_out(aligner):
    assert aligner.words(wav(tone(1), kind="FLAC"), [Cue("qqxz", 5.0, 6.0)]) == []


def test_no_recognizer_writes_no_transcript():
    assert SpeechRecognizer(SETTINGS).columns(wav(tone(1), kind="FLAC")) == {}


def test_an_unknown_recognizer_is_refused_with_the_choices():
    with pytest.raises(SettingsError, match="faster-whisper"):
        SpeechRecognizer(PreprocessSettings(recognizer="oracle"))


def test_a_missing_library_names_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "faster_whisper", None)
    with pytest.raises(MissingExtra, match=r"mmlake\[asr\]"):
        SpeechRecognizer(PreprocessSettings(recognizer="faster-whisper")).columns(wav(tone(1), kind="FLAC"))


def test_missing_weights_name_their_directory(monkeypatch, tmp_path):
    monkeypatch.setattr(recognize_module, "need", lambda *_, **__: types.SimpleNamespace())
    with pytest.raises(ModelMissing, match=str(tmp_path)):
        SpeechRecognizer(PreprocessSettings(recognizer="faster-whisper", recognizer_model=str(tmp_path))).columns(
            wav(tone(1), kind="FLAC")
        )


class FakeWhisper:
    """Keeps the call contract of faster_whisper.WhisperModel; says how many seconds it was given."""

    def __init__(self, path, *, device, local_files_only):
        assert device == "cpu"
        assert local_files_only

    def transcribe(self, samples, *, word_timestamps, vad_filter, temperature, condition_on_previous_text):
        assert samples.dtype == np.float32
        assert word_timestamps
        assert temperature == 0.0
        word = types.SimpleNamespace(word=f" heard{len(samples) / 16000:.0f}", start=0.5, end=0.75, probability=0.9)
        return iter([types.SimpleNamespace(words=[word])]), None


def test_a_recognizer_fills_transcript_source_and_words(monkeypatch, tmp_path):
    (tmp_path / "model.bin").touch()
    monkeypatch.setattr(recognize_module, "need", lambda *_, **__: types.SimpleNamespace(WhisperModel=FakeWhisper))
    columns = SpeechRecognizer(PreprocessSettings(recognizer="faster-whisper", recognizer_model=str(tmp_path))).columns(
        wav(tone(2), kind="FLAC")
    )
    assert columns["transcript"] == "heard2"
    assert columns["transcript_source"] == f"asr:faster-whisper@{tmp_path.name}"
    assert columns["words"] == [{"word": "heard2", "start_s": 0.5, "end_s": 0.75, "score": 0.9}]


def test_every_recognizer_row_says_what_it_is():
    assert all(row.name == name and row.what and row.licence for name, row in RECOGNIZERS.items())

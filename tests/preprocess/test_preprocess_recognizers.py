"""Recognizers write transcripts where they are chosen and can be loaded."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest
from preprocess_media import tone, wav

from mmlake.errors import MissingExtra, ModelMissing, SettingsError
from mmlake.preprocess import RECOGNIZERS, PreprocessSettings
from mmlake.preprocess.transcripts import recognition as recognize_module
from mmlake.preprocess.transcripts.recognition import SpeechRecognizer

SETTINGS = PreprocessSettings()


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


def test_a_recognizer_fills_transcript_source_and_cues(monkeypatch, tmp_path):
    (tmp_path / "model.bin").touch()
    monkeypatch.setattr(recognize_module, "need", lambda *_, **__: types.SimpleNamespace(WhisperModel=FakeWhisper))
    columns = SpeechRecognizer(PreprocessSettings(recognizer="faster-whisper", recognizer_model=str(tmp_path))).columns(
        wav(tone(2), kind="FLAC")
    )
    assert columns["transcript"] == "heard2"
    assert columns["transcript_source"] == f"asr:faster-whisper@{tmp_path.name}"
    assert columns["cues"] == [{"text": "heard2", "start_s": 0.5, "end_s": 0.75, "score": 0.9}]


def test_every_recognizer_row_says_what_it_is():
    assert all(row.name == name and row.what and row.licence for name, row in RECOGNIZERS.items())


def test_whisperx_needs_weights_and_its_environment(tmp_path):
    settings = {"recognizer": "whisperx", "recognizer_model": str(tmp_path), "environments": str(tmp_path)}
    with pytest.raises(ModelMissing, match="no model.bin"):
        SpeechRecognizer(PreprocessSettings(**settings)).columns(wav(tone(1), kind="FLAC"))
    (tmp_path / "model.bin").touch()
    with pytest.raises(MissingExtra, match="mmlake environments add whisperx"):
        SpeechRecognizer(PreprocessSettings(**settings)).columns(wav(tone(1), kind="FLAC"))

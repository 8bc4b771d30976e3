"""The table of speakers: a row per track with sound, whatever the diarizer does."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from mmlake import schemas
from mmlake.errors import MissingExtra, ModelMissing, SettingsError
from mmlake.store import BlobStore
from mmlake.voices import Diarizer, SpeakerSettings, diarizers, speakers
from mmlake.workers.script import Script
from tests.compute.scripts import written

ANSWERS = """
import os
def load(config):
    held = []
    def answer(request, samples):
        held.append(b"1" * config["leak_bytes"])
        if len(samples) == 3 * 16000 and config["kind"] == "crash":
            os.abort()
        turns = {"nan": [[0.0, float("nan"), "S1", 1.0]], "text": "turns", "long": [[0.2, 99.0, "S1", None]]}
        plain = [[0.5, 1.0, "S2", 0.5], [0.0, 0.5, "S1", 1.0]]
        return {"turns": turns.get(config["kind"], plain)}, b""
    return answer
"""
PYANNOTE = """
class Span:
    start, end = 0.25, 1.5
class Annotation:
    def itertracks(self, yield_label):
        yield Span, "A", "SPEAKER_00"
class Output:
    speaker_diarization = Annotation()
class Pipeline:
    @classmethod
    def from_pretrained(cls, folder):
        assert open(folder + "/config.yaml").read() == "pipeline"
        return cls()
    def to(self, device):
        assert str(device) == "cpu"
    def __call__(self, file, max_speakers):
        assert tuple(file["waveform"].shape) == (1, 32000) and file["sample_rate"] == 16000 and max_speakers == 10
        return Output()
"""


@pytest.fixture
def store(tmp_path):
    return BlobStore(tmp_path / "store")


def tracks_of(store, lengths_s, *, more=()):
    rows = []
    for number, length_s in enumerate(lengths_s):
        sink = io.BytesIO()
        noise = np.random.default_rng(number).standard_normal(length_s * 16000) * 0.1
        soundfile.write(sink, noise, 16000, format="FLAC")
        rows.append(
            {
                "digest": f"{number:064d}",
                "modality": "audio",
                "role": "media",
                "status": "ok",
                "size_bytes": 1,
                "duration_s": float(length_s),
                "audio_digest": store.put(sink.getvalue(), extension="flac"),
                "transcript_source": "none",
            }
        )
    return schemas.from_rows(schemas.TRACKS, [*rows, *more])


def use(monkeypatch, tmp_path, kind, *, leak_bytes=0):
    path = written(tmp_path, ANSWERS)

    def script(settings):
        config = {"kind": kind, "leak_bytes": leak_bytes}
        return Script(what="diarizer 'test'", python=Path(sys.executable), path=path, config=config)

    row = Diarizer(name="test", what="a test", revision="7", licence="MIT", script=script)
    monkeypatch.setitem(diarizers.DIARIZERS, "test", row)


def test_no_diarizer_makes_no_rows(store):
    assert speakers(tracks_of(store, [1]), store=store).num_rows == 0


def test_turns_are_a_row_in_order_of_time(store, tmp_path, monkeypatch):
    use(monkeypatch, tmp_path, "plain")
    silent = {
        "digest": "f" * 64, "modality": "audio", "role": "media", "status": "ok", "size_bytes": 1,
        "transcript_source": "none",
    }  # fmt: skip
    done: list[int] = []
    tracks = tracks_of(store, [1, 2], more=[silent])
    found = speakers(tracks, store=store, settings=SpeakerSettings(diarizer="test"), advance=done.append)
    first = found.to_pylist()[0]
    assert (found.num_rows, sum(done)) == (2, 3)  # what has no sound has no row
    assert (first["status"], first["method"], first["revision"], first["num_speakers"]) == ("ok", "test", "7", 2)
    assert [turn["speaker"] for turn in first["turns"]] == ["S1", "S2"]
    assert first["confidence"] == pytest.approx(0.75)


def test_a_leak_over_many_recordings_loses_none_of_their_speakers(store, tmp_path, monkeypatch):
    use(monkeypatch, tmp_path, "plain", leak_bytes=60 << 20)
    settings = SpeakerSettings(diarizer="test", memory_bytes=200 << 20)
    found = speakers(tracks_of(store, [1] * 7), store=store, settings=settings)
    assert found["status"].to_pylist() == ["ok"] * 7


def test_a_crash_and_a_lost_blob_are_rows_of_their_own(store, tmp_path, monkeypatch):
    use(monkeypatch, tmp_path, "crash")
    lost = {
        "digest": "e" * 64, "modality": "audio", "role": "media", "status": "ok", "size_bytes": 1,
        "audio_digest": "e" * 64, "transcript_source": "none",
    }  # fmt: skip
    found = speakers(tracks_of(store, [1, 3, 2], more=[lost]), store=store, settings=SpeakerSettings(diarizer="test"))
    assert found["error_code"].to_pylist() == [None, 3101, None, 2001]
    assert found["turns"].to_pylist()[1] == []


@pytest.mark.parametrize("kind", ["nan", "text"])
def test_an_answer_that_makes_no_sense_is_a_failure(store, tmp_path, monkeypatch, kind):
    use(monkeypatch, tmp_path, kind)
    (row,) = speakers(tracks_of(store, [1]), store=store, settings=SpeakerSettings(diarizer="test")).to_pylist()
    assert (row["status"], row["error_code"]) == ("unreadable", 3401)


def test_turns_end_with_the_sound(store, tmp_path, monkeypatch):
    use(monkeypatch, tmp_path, "long")
    (row,) = speakers(tracks_of(store, [1]), store=store, settings=SpeakerSettings(diarizer="test")).to_pylist()
    assert (row["turns"][0]["start_s"], row["turns"][0]["end_s"], row["confidence"]) == (0.2, 1.0, None)


def test_pyannote_needs_weights_and_its_environment(tmp_path):
    settings = {"diarizer": "pyannote", "environments": str(tmp_path)}
    with pytest.raises(ModelMissing, match="speakers.diarizer_model=''"):
        diarizers.DIARIZERS["pyannote"].script(SpeakerSettings(**settings))
    (tmp_path / "config.yaml").write_text("pipeline")
    with pytest.raises(MissingExtra, match="mmlake environments add pyannote"):
        diarizers.DIARIZERS["pyannote"].script(SpeakerSettings(**settings, diarizer_model=str(tmp_path)))


def test_the_script_of_pyannote_gives_its_pipeline_the_sound(store, tmp_path, monkeypatch):
    """With a pipeline of the same interface: its weights may not be passed on."""
    (tmp_path / "pyannote").mkdir()
    (tmp_path / "pyannote" / "audio.py").write_text(PYANNOTE)
    (tmp_path / "config.yaml").write_text("pipeline")
    monkeypatch.setattr(diarizers, "python_of", lambda name, **more: Path(sys.executable))
    settings = SpeakerSettings(diarizer="pyannote", diarizer_model=str(tmp_path))
    made = diarizers.DIARIZERS["pyannote"].script(settings)
    script = Script(what=made.what, python=made.python, path=made.path, config=made.config, paths=(str(tmp_path),))
    row = Diarizer(name="pyannote", what="", revision="1", licence="MIT", script=lambda settings: script)
    monkeypatch.setitem(diarizers.DIARIZERS, "pyannote", row)
    (found,) = speakers(tracks_of(store, [2]), store=store, settings=settings).to_pylist()
    assert found["turns"] == [{"start_s": 0.25, "end_s": 1.5, "speaker": "SPEAKER_00", "confidence": None}]


def test_an_unknown_diarizer_names_the_known_ones(store):
    with pytest.raises(SettingsError, match="none.*pyannote.*resemblyzer"):
        speakers(tracks_of(store, [1]), store=store, settings=SpeakerSettings(diarizer="whisper"))

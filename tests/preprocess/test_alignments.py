"""The alignments table: a row for every transcript, with times, a doubt or a reason; and failures as rows."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from preprocess_media import tone
from speech import SENTENCES, flac, speech

from mmlake import schemas
from mmlake.errors import SettingsError
from mmlake.preprocess import AlignSettings, alignments
from mmlake.preprocess.transcripts import align
from mmlake.store import BlobStore


@pytest.fixture
def store(tmp_path) -> BlobStore:
    return BlobStore(tmp_path / "store")


@pytest.fixture(scope="module")
def spoken() -> np.ndarray:
    return speech(SENTENCES[:1])[0].samples


def track(store: BlobStore, samples: np.ndarray | None, transcript: str | None, **columns: object) -> dict[str, object]:
    """A decoded recording with its sound in the store."""
    return {
        "digest": hashlib.sha256(f"{transcript} {columns}".encode()).hexdigest(),
        "modality": "audio",
        "role": "media",
        "status": "ok",
        "size_bytes": 1,
        "transcript": transcript,
        "transcript_source": "none" if transcript is None else "source",
        "audio_digest": None if samples is None else store.put(flac(samples), extension="flac"),
    } | columns


def aligned(store: BlobStore, *rows: dict[str, object], **settings: object) -> list[dict[str, object]]:
    table = alignments(schemas.from_rows(schemas.TRACKS, rows), store=store, settings=AlignSettings(**settings))
    return table.to_pylist()


def test_a_right_transcript_has_words_with_scores(store, spoken):
    (row,) = aligned(store, track(store, spoken, SENTENCES[0]))
    assert (row["status"], row["error_code"], row["error"]) == ("ok", None, None)
    assert (row["method"], row["revision"]) == ("phone-agreement", "3")
    assert row["transcript_digest"] == hashlib.sha256(SENTENCES[0].encode()).hexdigest()
    assert row["confidence"] > 0.5
    assert [word["word"] for word in row["words"]] == SENTENCES[0].split()
    assert all(0 < word["score"] <= 1 for word in row["words"])


def test_a_wrong_transcript_is_flagged_with_a_code_of_its_own_and_has_no_words(store, spoken):
    (row,) = aligned(store, track(store, spoken, SENTENCES[5]))
    assert (row["status"], row["error_code"], row["words"]) == ("flagged", 3201, [])
    assert row["confidence"] < 0.5 and row["error"].startswith("transcript_match=")


def test_subtitles_over_a_tone_are_flagged(store):
    cues = [{"text": "the dog ran home again", "start_s": 0.2, "end_s": 1.8}]
    (row,) = aligned(store, track(store, tone(2), "the dog ran home again", cues=cues))
    assert (row["status"], row["error_code"], row["confidence"], row["words"]) == ("flagged", 3201, 0.0, [])


def test_a_film_without_sound_says_so(store):
    (row,) = aligned(store, track(store, None, SENTENCES[0]))
    assert (row["status"], row["error_code"], row["confidence"]) == ("flagged", 3202, None)
    assert row["error"] == "num_audio_streams=0 not in [1, inf)"


def test_only_decoded_tracks_with_a_transcript_have_a_row(store, spoken):
    broken = track(store, None, None, status="unreadable", error_code=3001, error="no")
    assert aligned(store, track(store, spoken, None), broken) == []


def test_what_is_switched_off_says_so(store, spoken):
    (row,) = aligned(store, track(store, spoken, SENTENCES[0]), enabled=False)
    assert (row["status"], row["error_code"], row["error"]) == ("flagged", 3202, "align.enabled=false")


def test_words_of_a_recognizer_keep_their_times_and_scores(store, spoken):
    words = SENTENCES[0].split()
    cues = [{"text": word, "start_s": 0.3 * at, "end_s": 0.3 * at + 0.2, "score": 0.5} for at, word in enumerate(words)]
    source = {"cues": cues, "transcript_source": "asr:faster-whisper@tiny"}
    right = track(store, spoken, SENTENCES[0], **source)
    (row,) = aligned(store, right)
    assert (row["status"], row["method"]) == ("ok", "asr:faster-whisper@tiny")
    assert [(word["word"], word["start_s"], word["score"]) for word in row["words"]] == [
        (cue["text"], cue["start_s"], 0.5) for cue in cues
    ]


def test_what_a_recognizer_made_up_over_a_tone_has_no_words(store):
    cues = [
        {"text": word, "start_s": 0.2 * at, "end_s": 0.2 * at + 0.2, "score": 0.9} for at, word in enumerate("abcd")
    ]
    (row,) = aligned(store, track(store, tone(2), "a b c d", cues=cues, transcript_source="asr:faster-whisper@tiny"))
    assert (row["status"], row["error_code"], row["words"]) == ("flagged", 3201, [])


def test_lost_sound_is_a_row(store, spoken):
    lost = "0" * 64
    (row,) = aligned(store, track(store, None, SENTENCES[0], audio_digest=lost))
    assert (row["status"], row["error_code"], row["confidence"]) == ("unreadable", 2001, None)


def test_a_failing_aligner_is_a_row(store, spoken, monkeypatch):
    monkeypatch.setattr(align.Aligner, "align", lambda *_: (_ for _ in ()).throw(RuntimeError("of the model")))
    (row,) = aligned(store, track(store, spoken, SENTENCES[0]))
    assert (row["status"], row["error_code"]) == ("unreadable", 3203)
    assert row["error"] == "the transcript cannot be laid on its sound (RuntimeError)"


def test_every_track_advances_once(store, spoken):
    rows = [track(store, None, None), track(store, None, "x"), track(store, tone(1), SENTENCES[0])]
    counted: list[int] = []
    alignments(schemas.from_rows(schemas.TRACKS, rows), store=store, advance=counted.append)
    assert sum(counted) == 3


@pytest.mark.parametrize(
    "setting", [{"max_stretch_s": -1.0}, {"min_transcript_match": 1.5}, {"min_known_fraction": -1}]
)
def test_settings_that_no_run_could_use_are_refused(setting):
    with pytest.raises(SettingsError, match=next(iter(setting))):
        AlignSettings(**setting)

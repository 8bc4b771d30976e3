"""Small landing zones for tests: a few items per modality, made in milliseconds, distinct and clean unless asked
otherwise."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pyarrow as pa

from mmlake import schemas
from mmlake.preprocess import unit_tracks

SMALL = {"scale": 0.15}  # settings of the smallest useful sample corpus
_WORDS = (
    "river stone market harvest engine garden winter lantern bridge copper signal meadow harbour village printer "
    "orchard canyon teacher weather museum"
).split()


def prose(number: int, *, words: int = 40) -> str:
    """A document of that many words in sentences; documents with other numbers share few word sequences."""
    rng = np.random.default_rng(1000 + number)
    chosen = [str(word) for word in rng.choice(_WORDS, size=words)]
    return " ".join(
        word.capitalize() if index % 10 == 0 else word + "." if index % 10 == 9 else word
        for index, word in enumerate(chosen)
    )


def picture(number: int, *, width: int = 96, height: int = 72, kind: str = "PNG") -> bytes:
    """A sharp picture of coloured rectangles over noise."""
    from PIL import Image

    rng = np.random.default_rng(number)
    pixels = rng.integers(90, 166, size=(height, width, 3), dtype=np.uint8)
    for _ in range(12):
        top, left = int(rng.integers(0, height - 12)), int(rng.integers(0, width - 12))
        pixels[top : top + int(rng.integers(8, 40)), left : left + int(rng.integers(8, 40))] = rng.integers(
            0, 256, size=3
        )
    sink = io.BytesIO()
    Image.fromarray(pixels).save(sink, format=kind, **({"quality": 92} if kind == "JPEG" else {}))
    return sink.getvalue()


def sound(number: int, *, seconds: float = 1.5, rate_hz: int = 16_000) -> bytes:
    """A WAV file of tones that come and go over a quiet floor."""
    import soundfile

    rng = np.random.default_rng(number)
    times_s = np.arange(int(seconds * rate_hz)) / rate_hz
    samples = 0.002 * rng.standard_normal(len(times_s))
    for start_s in np.arange(0.1, seconds - 0.25, 0.2):
        pitch_hz = float(rng.uniform(200, 3000))
        window = np.clip((times_s - start_s) / 0.02, 0, 1) * np.clip((start_s + 0.15 - times_s) / 0.02, 0, 1)
        samples += 0.3 * window * np.sin(2 * np.pi * pitch_hz * times_s)
    sink = io.BytesIO()
    soundfile.write(sink, samples.astype(np.float32), rate_hz, format="WAV", subtype="PCM_16")
    return sink.getvalue()


def film(number: int, *, seconds: float = 1.0, width: int = 96, height: int = 72) -> bytes:
    """An MP4 of a square that moves over a textured ground."""
    import av

    rng = np.random.default_rng(number)
    ground = np.kron(
        rng.integers(0, 256, size=(height // 6, width // 6, 3), dtype=np.uint8), np.ones((6, 6, 1), dtype=np.uint8)
    )
    sink = io.BytesIO()
    with av.open(sink, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=12, options={"crf": "20", "threads": "1"})
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for index in range(int(12 * seconds)):
            frame = ground.copy()
            left = (5 * index + 7 * number) % (width - 20)
            frame[20:44, left : left + 20] = rng.integers(0, 256, size=3) if index == 0 else (255, 60, 20)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode(None))
    return sink.getvalue()


def as_units(tracks: pa.Table) -> pa.Table:
    """The tracks as those of whole units."""
    kept = ("digest", "role", "status", "error_code", "error")
    whole = {"position": 0, "kind": "whole", "producer": "whole"}
    rows = [row | {"parent_digest": row["digest"]} | whole for row in tracks.select(kept).to_pylist()]
    return _tracks_of(tracks, rows)


def cut(tracks: pa.Table, *spans_s: tuple[float, float]) -> pa.Table:
    """The tracks of units: of each track those spans, named `<digest>/<number>`."""
    base = {"kind": "clip", "axis": "us", "producer": "test@1", "role": "media", "status": "ok"}
    rows = [
        {"digest": f"{digest}/{at}", "parent_digest": digest, "position": at}
        | {"start": round(start_s * 1e6), "end": round(end_s * 1e6)}
        | base
        for digest in tracks["digest"].to_pylist()
        for at, (start_s, end_s) in enumerate(spans_s)
    ]
    return _tracks_of(tracks, rows)


def _tracks_of(tracks: pa.Table, units: list[dict[str, object]]) -> pa.Table:
    return unit_tracks(tracks.select(schemas.TRACKS.arrow.names), schemas.from_rows(schemas.UNITS, units))


def tar(
    members: dict[str, bytes] | list[tuple[str, bytes]], *, format: int = tarfile.USTAR_FORMAT, padded: bool = False
) -> bytes:
    """A tar of the members in their order, without times, that ends with its two closing blocks (padded: filled up
    to 10 KiB as tarfile does)."""
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w", format=format) as archive:
        for name, data in members.items() if isinstance(members, dict) else members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        end = archive.offset
    return sink.getvalue() if padded else sink.getvalue()[: end + 1024]


def jsonl(texts: list[str]) -> bytes:
    """JSON lines with an id and the text."""
    return "".join(json.dumps({"id": f"d{number}", "text": text}) + "\n" for number, text in enumerate(texts)).encode()


def land(root: Path, files: dict[str, bytes]) -> Path:
    """The landing zone with these files."""
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


def small_landing(root: Path) -> Path:
    """Two shards each of text and image, one of video and audio; one exact and one near duplicate, one blank
    picture, one cut tar."""
    same = picture(3, kind="JPEG")
    return land(
        root,
        {
            "text/a.jsonl": jsonl([prose(1), prose(2), prose(3), "Too short."]),
            "text/b.jsonl": jsonl([prose(4), prose(2), prose(3) + " Amended since."]),
            "image/a.tar": tar({"0.png": picture(1), "1.jpg": same, "2.png": picture(2)}),
            "image/b.tar": tar({"0.jpg": same, "1.png": picture(5), "2.png": picture(6)})[: -1024 - 700],
            "video/clip.mp4": film(1),
            "audio/one.wav": sound(1),
            "audio/two.wav": sound(2),
        },
    )


def whole_units(tracks: pa.Table) -> pa.Table:
    """The tracks as `unit_tracks` gives them where every item is one unit."""
    from mmlake.preprocess import UNIT_TRACKS

    whole = {"parent_digest": tracks["digest"], "kind": pa.repeat("whole", tracks.num_rows)}
    columns = {name: tracks[name] for name in tracks.column_names} | whole
    columns["num_stray_cues"] = pa.array([0] * tracks.num_rows, pa.int32())
    rest = {field.name: pa.nulls(tracks.num_rows, field.type) for field in UNIT_TRACKS if field.name not in columns}
    return pa.table(columns | rest).select(UNIT_TRACKS.names).cast(UNIT_TRACKS)

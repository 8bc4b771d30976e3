"""Small media made in memory for the preprocess tests, and the items table that names them."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pyarrow as pa
import soundfile
from PIL import Image

from mmlake import schemas
from mmlake.store import BlobStore


def items(store: BlobStore, blobs: Iterable[bytes], modality: str, **columns: object) -> pa.Table:
    """One item per blob, in the store."""
    rows = [
        {
            "item_id": f"s#{index:06d}",
            "digest": store.put(data),
            "sample_id": f"s/{index}",
            "position": 0,
            "modality": modality,
            "role": "media",
            "source_ref": "{}",
            "source": "test",
            "licence": "CC0-1.0",
            "size_bytes": len(data),
            "status": "ok",
        }
        | columns
        for index, data in enumerate(blobs)
    ]
    return schemas.from_rows(schemas.ITEMS, rows)


def photo(seed: int = 0, *, size: tuple[int, int] = (320, 240)) -> np.ndarray:
    """A picture with large and small structure, uint8 H W 3: random patches, enlarged, over a ramp."""
    rng = np.random.default_rng(seed)
    patches = Image.fromarray(rng.integers(0, 256, (6, 8, 3), dtype=np.uint8)).resize(size, Image.Resampling.NEAREST)
    grain = Image.fromarray(rng.integers(0, 256, (60, 80, 3), dtype=np.uint8)).resize(size, Image.Resampling.NEAREST)
    return np.asarray(Image.blend(patches, grain, 0.25))


def encoded(pixels: np.ndarray, kind: str = "JPEG", **options: object) -> bytes:
    """The picture as a file of that kind."""
    sink = io.BytesIO()
    Image.fromarray(pixels).save(sink, kind, **options)
    return sink.getvalue()


def wav(samples: np.ndarray, rate_hz: int = 16000, kind: str = "WAV") -> bytes:
    """The samples as a sound file."""
    sink = io.BytesIO()
    soundfile.write(sink, samples, rate_hz, format=kind)
    return sink.getvalue()


def tone(duration_s: float, rate_hz: int = 16000, *, pitch_hz: float = 440.0) -> np.ndarray:
    """A sine at a third of full scale."""
    return 0.33 * np.sin(2 * np.pi * pitch_hz * np.arange(round(duration_s * rate_hz)) / rate_hz)


def video(
    path: Path,
    frames: Iterable[np.ndarray],
    *,
    rate: int = 25,
    sound: Iterable[tuple[float, np.ndarray]] = (),
    container: str | None = None,
    options: dict[str, str] | None = None,
) -> bytes:
    """An H.264 file of the frames; sound: (start in seconds, 16 kHz samples) pieces, which may leave gaps."""
    with av.open(str(path), "w", format=container, options=options or {}) as sink:
        stream, track = None, None
        for index, frame in enumerate(frames):
            if stream is None:
                stream = sink.add_stream("libx264", rate=rate, options={"crf": "20", "preset": "ultrafast", "g": "25"})
                stream.height, stream.width, stream.pix_fmt = *frame.shape[:2], "yuv420p"
                track = (
                    sink.add_stream("pcm_s16le" if path.suffix == ".mkv" else "aac", rate=16000, layout="mono")
                    if sound
                    else None
                )
            picture = av.VideoFrame.from_ndarray(frame, format="rgb24")
            picture.pts, picture.time_base, picture.duration = index, Fraction(1, rate), 1
            sink.mux(stream.encode(picture))
        sink.mux(stream.encode())
        for start_s, samples in sound:
            for offset in range(0, len(samples), 1024):
                piece = av.AudioFrame.from_ndarray(
                    (samples[offset : offset + 1024] * 32767).astype(np.int16)[None], format="s16", layout="mono"
                )
                piece.sample_rate, piece.pts, piece.time_base = (
                    16000,
                    round(start_s * 16000) + offset,
                    Fraction(1, 16000),
                )
                sink.mux(track.encode(piece))
        if track is not None:
            sink.mux(track.encode())
    return path.read_bytes()


def scene(
    seed: int,
    count: int,
    *,
    size: tuple[int, int] = (320, 240),
    step_px: float = 1.0,
    noise: float = 3.0,
    shake_px: float = 0.0,
) -> Iterator[np.ndarray]:
    """A camera that pans over a picture, with sensor noise and perhaps a shaking hand."""
    rng = np.random.default_rng(seed)
    ground = photo(seed, size=(size[0] * 2, size[1] * 2))
    for index in range(count):
        left = int(np.clip(size[0] / 2 + index * step_px + rng.normal(0, shake_px or 1e-9), 0, size[0]))
        top = int(np.clip(size[1] / 2 + rng.normal(0, shake_px or 1e-9), 0, size[1]))
        view = ground[top : top + size[1], left : left + size[0]].astype(np.float32)
        yield np.clip(view + rng.normal(0, noise, view.shape), 0, 255).astype(np.uint8)

"""Tracks and media made in memory for the quality tests."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import soundfile
from PIL import Image, ImageFilter

from mmlake import schemas
from mmlake.modalities import MODALITIES
from mmlake.quality import QualitySettings, judge, measure
from mmlake.store import BlobStore
from tests import make

RATE_HZ = 16_000


def track(digest: str, modality: str, **columns: object) -> dict[str, object]:
    """A decoded track with those columns."""
    return {
        "digest": digest,
        "modality": modality,
        "role": "media",
        "status": "ok",
        "size_bytes": 1,
        "transcript_source": "none",
    } | columns


def text_track(text: str, *, role: str = "document") -> dict[str, object]:
    """The track of a text."""
    return track(
        f"{abs(hash(text)):064x}"[:64], "text", role=role, text=text, num_words=len(text.split()), num_chars=len(text)
    )


def image_track(
    store: BlobStore, picture: Image.Image, kind: str = "PNG", *, keep_rgb: bool = False
) -> dict[str, object]:
    """The track of a picture, whose bytes are in the store."""
    sink = io.BytesIO()
    picture.save(sink, kind, keep_rgb=keep_rgb)
    return track(store.put(sink.getvalue()), "image", width_px=picture.width, height_px=picture.height)


def audio_track(store: BlobStore, samples: np.ndarray, rate_hz: int = RATE_HZ, kind: str = "WAV") -> dict[str, object]:
    """The track of a recording; its bytes serve as its own mono track where they have that rate."""
    digest = store.put(sound(samples, rate_hz, kind))
    return track(
        digest,
        "audio",
        duration_s=len(samples) / rate_hz,
        audio_digest=store.put(
            sound(
                np.interp(np.arange(0, len(samples), rate_hz / RATE_HZ), np.arange(len(samples)), samples),
                RATE_HZ,
                "FLAC",
            )
        ),
    )


def sound(samples: np.ndarray, rate_hz: int, kind: str) -> bytes:
    """The samples as a file."""
    sink = io.BytesIO()
    soundfile.write(sink, samples, rate_hz, format=kind)
    return sink.getvalue()


def video_track(store: BlobStore, keyframes: list[Image.Image], **columns: object) -> dict[str, object]:
    """The track of a clip of three seconds that moves, with those keyframes."""
    frames = [
        {"time_s": float(index), "digest": image_track(store, picture)["digest"], "shot": 0}
        for index, picture in enumerate(keyframes)
    ]
    moving = {
        "width_px": 320,
        "height_px": 240,
        "duration_s": 3.0,
        "keyframes": frames,
        "shots": [{"start_s": 0.0, "end_s": 3.0, "transition": "start"}],
        "signals": signals(24),
    }
    return track(frames[0]["digest"] if frames else store.put(b"a film"), "video", **(moving | columns))


def signals(count: int, *, luma: float = 120.0, luma_std: float = 40.0, change: float = 5.0) -> list[dict[str, float]]:
    """That many equal signal rows."""
    return [
        {
            "time_s": index / 8,
            "luma": luma,
            "luma_std": luma_std,
            "sharpness": 100.0,
            "change": change if index else 0.0,
        }
        for index in range(count)
    ]


def picture(seed: int = 0, *, size: tuple[int, int] = (500, 375), blur_px: float = 0.0) -> Image.Image:
    """A picture with edges of all sizes, perhaps out of focus."""
    rng = np.random.default_rng(seed)
    layers = [
        Image.fromarray(rng.integers(0, 256, (rows, rows * 4 // 3), dtype=np.uint8)).resize(
            size, Image.Resampling.NEAREST
        )
        for rows in (4, 12, 40)
    ]
    mixed = Image.blend(Image.blend(layers[0], layers[1], 0.4), layers[2], 0.25)
    return mixed.filter(ImageFilter.GaussianBlur(blur_px)) if blur_px else mixed


def voice(duration_s: float, *, seed: int = 0) -> np.ndarray:
    """Syllables with pauses: harmonics that glide under a three per second envelope, peak near a third of full
    scale."""
    rng = np.random.default_rng(seed)
    time = np.arange(round(duration_s * RATE_HZ)) / RATE_HZ
    phase = 2 * np.pi * np.cumsum(130 + 30 * np.sin(2 * np.pi * 0.7 * time)) / RATE_HZ
    envelope = np.clip(np.sin(2 * np.pi * 1.5 * time), 0, None) ** 0.5
    tones = sum(np.sin(number * phase + rng.uniform(0, 6)) / number for number in range(1, 30))
    return 0.1 * envelope * tones


def measures_of(row: dict[str, object], store: BlobStore) -> dict[str, float | None]:
    """The measures of one track."""
    table = measure(table_of([row]), MODALITIES[str(row["modality"])].measurements, store=store)
    return dict(zip(table.column("measure").to_pylist(), table.column("value").to_pylist(), strict=True))


def verdict_of(row: dict[str, object], store: BlobStore, settings: QualitySettings | None = None) -> dict[str, object]:
    """The verdict on one track."""
    tracks, modality = table_of([row]), MODALITIES[str(row["modality"])]
    measures = measure(tracks, modality.measurements, store=store)
    return judge(tracks, measures, modality.rules, settings=settings).to_pylist()[0]


def rules_broken(row: dict[str, object], store: BlobStore) -> list[str]:
    """Names of the rules that the track breaks, gravest first."""
    return [finding["rule"] for finding in verdict_of(row, store)["findings"]]


def table_of(rows: list[dict[str, object]]) -> pa.Table:
    """The rows as tracks of whole units."""
    return make.as_units(schemas.from_rows(schemas.TRACKS, rows))

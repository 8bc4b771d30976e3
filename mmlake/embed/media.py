"""What an encoder may read of one item, fetched when asked for. It knows tracks and blobs, no models."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from mmlake.errors import UnreadableItem
from mmlake.pictures import picture_formats
from mmlake.store import Blobs

RATE_HZ = 16_000
TRACK_COLUMNS = ["digest", "text", "transcript", "audio_digest", "keyframes", "signals"]


@dataclass(frozen=True, slots=True)
class Media:
    """One item. The callables may raise UnreadableItem; nothing is read before they are called."""

    digest: str
    modality: str
    text: Callable[[], str]  # the text itself, or the transcript of a recording
    pictures: Callable[[], list[bytes]]  # the picture itself, or the keyframes of a video
    samples: Callable[[], np.ndarray]  # mono float32 at 16 kHz
    # per analysed frame: luma, luma_std, change
    signals: np.ndarray = field(default_factory=lambda: np.empty((0, 3), np.float32))


def from_tracks(row: Mapping, modality: str, *, store: Blobs, max_keyframes: int) -> Media:
    """The item of one row of TRACKS (the columns of TRACK_COLUMNS)."""

    def text() -> str:
        words = row["text"] if modality == "text" else row["transcript"]
        if not words or not words.strip():
            raise UnreadableItem(
                3003, "num_words=0 not in [1, inf)" if modality == "text" else "no transcript to embed"
            )
        return words

    def pictures() -> list[bytes]:
        if modality == "image":
            return [store.read(row["digest"])]
        frames = evenly(row["keyframes"] or [], max_keyframes)
        if not frames:
            raise UnreadableItem(3003, "num_keyframes=0 not in [1, inf)")
        return [store.read(frame["digest"]) for frame in frames]

    def samples() -> np.ndarray:
        if row["audio_digest"] is None:
            raise UnreadableItem(3003, "num_audio_tracks=0 not in [1, inf)")
        return flac_samples(store.read(row["audio_digest"]))

    signals = [(one["luma"], one["luma_std"], one["change"]) for one in row["signals"] or []]
    return Media(row["digest"], modality, text, pictures, samples, np.array(signals, np.float32).reshape(-1, 3))


def evenly(items: list, count: int) -> list:
    """At most `count` of the items, first and last included, in order."""
    if len(items) <= count:
        return items
    return [items[at] for at in np.linspace(0, len(items) - 1, count).round().astype(int)]


def flac_samples(data: bytes) -> np.ndarray:
    """Mono float32 samples at 16 kHz of a sound file; other rates are resampled. Raises UnreadableItem where it
    holds none."""
    import soundfile

    samples, rate_hz = soundfile.read(io.BytesIO(data), dtype="float32", always_2d=True)
    mono = samples[:, 0] if samples.shape[1] == 1 else samples.sum(axis=1) / samples.shape[1]
    if not len(mono):
        raise UnreadableItem(3001, "num_samples=0 not in [1, inf)")
    return resampled(mono, rate_hz, RATE_HZ)


def resampled(samples: np.ndarray, from_hz: int, to_hz: int) -> np.ndarray:
    """The samples at another rate."""
    if from_hz == to_hz:
        return samples
    import soxr

    return soxr.resample(samples, from_hz, to_hz).astype(np.float32)


# PIL.Image.Image, which is imported late
def upright_rgb(data: bytes, *, draft_px: int):  # type: ignore[no-untyped-def]
    """The first frame in RGB as a viewer shows it, transparent parts on white; a JPEG is decoded no larger than
    needed for `draft_px`."""
    from PIL import Image, ImageOps

    with Image.open(io.BytesIO(data), formats=picture_formats()) as picture:
        if picture.width * picture.height > 256_000_000:
            raise UnreadableItem(3004, f"pixels={picture.width * picture.height} not in [1, 256000000]")
        picture.draft("RGB", (draft_px, draft_px))
        upright = ImageOps.exif_transpose(picture)
        if "A" in upright.mode or "transparency" in upright.info:
            flat = Image.new("RGBA", upright.size, "white")
            flat.alpha_composite(upright.convert("RGBA"))
            upright = flat
        if upright.mode.startswith("I"):  # 16 bit: convert clips instead of scaling
            upright = Image.fromarray((np.asarray(upright).astype(np.float64) / 257).clip(0, 255).astype(np.uint8))
        return upright.convert("RGB")

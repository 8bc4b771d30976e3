"""What an encoder may read of one unit, with its bytes at hand so that it may go to another process. It knows tracks
and blobs, no models."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mmlake import spans
from mmlake.embed.settings import EmbedSettings
from mmlake.errors import SettingsError, UnreadableItem
from mmlake.media.pictures import picture_formats, shown
from mmlake.spans import SPAN_COLUMNS, Shared, Sound, span_of
from mmlake.store import Blobs

if TYPE_CHECKING:
    from PIL.Image import Image

T = TypeVar("T")
RATE_HZ = 16_000
TRACK_COLUMNS = ["digest", *SPAN_COLUMNS, "text", "transcript", "audio_digest", "keyframes", "signals", "duration_s"]
READS = ("text", "pictures", "sound", "bytes")  # what an encoder may read of a unit; bytes are those of a whole item
PICTURED = ("image", "video")  # modalities whose items have pictures
_NOTHING = 5003
_SLICE_ROWS = 256  # held as Python objects at once


@dataclass(frozen=True, slots=True)
class Media:
    """One unit, with what its encoder reads of it. The methods raise UnreadableItem 5003 where it has nothing of the
    kind."""

    digest: str
    modality: str
    words: str | None = None  # the text itself, or the transcript of a recording
    encoded: tuple[bytes, ...] = ()  # the picture itself, or the keyframes of a video, or the item's own bytes
    sound: Sound | NDArray[np.float32] | None = None  # a sound file or a span of one, or mono samples at 16 kHz
    # per analysed frame: luma, luma_std, change
    signals: NDArray[np.float32] = field(default_factory=lambda: np.empty((0, 3), np.float32))

    def text(self) -> str:
        """The text of a text, or the transcript of a recording."""
        if not self.words or not self.words.strip():
            raise UnreadableItem(
                _NOTHING, "num_words=0 not in [1, inf)" if self.modality == "text" else "no transcript to embed"
            )
        return self.words

    def pictures(self) -> tuple[bytes, ...]:
        """The encoded picture, or the encoded keyframes; at least one."""
        if not self.encoded:
            raise UnreadableItem(_NOTHING, "num_keyframes=0 not in [1, inf)")
        return self.encoded

    def data(self) -> bytes:
        """The item's own bytes, for encoders that read those."""
        return self.pictures()[0]

    def samples(self) -> NDArray[np.float32]:
        """Mono samples at 16 kHz; at least one."""
        if self.sound is None:
            raise UnreadableItem(_NOTHING, "num_audio_tracks=0 not in [1, inf)")
        return samples_of(self.sound) if isinstance(self.sound, Sound) else self.sound


def rows_of(tracks: pa.Table) -> Iterator[Mapping[str, Any]]:
    """What `from_track` takes of each row, few of them at once as Python objects."""
    return spans.rows_of(tracks.select(TRACK_COLUMNS), most_rows=_SLICE_ROWS)


@contextmanager
def from_track(
    row: Mapping[str, Any], modality: str, *, reads: str, store: Blobs, shared: Shared, settings: EmbedSettings
) -> Iterator[Media]:
    """The unit of one row of unit tracks (the columns of TRACK_COLUMNS). reads: one of READS, for what is no text.
    Raises UnreadableItem 5003 where bytes are asked for of a span, BlobMissing, BlobCorrupt, and what a failing store
    raises."""
    digest, span_s = row["digest"], span_of(row)
    if modality == "text" or reads == "text":
        yield Media(digest, modality, words=row["text"] if modality == "text" else row["transcript"])
    elif reads == "sound":
        sound = row["audio_digest"]
        if sound is None or span_s is None:
            yield Media(digest, modality, sound=None if sound is None else Sound(store.read(sound)))
        else:
            with shared.one(sound, partial(store.local, sound)) as path:
                yield Media(digest, modality, sound=Sound(path, span_s))
    elif reads == "bytes":
        if span_s is not None:
            raise UnreadableItem(_NOTHING, "a span has no bytes of its own, and this encoder reads nothing else")
        yield Media(digest, modality, encoded=(store.read(digest),))
    else:
        blobs = picture_blobs(row, modality, settings)
        signals = [(one["luma"], one["luma_std"], one["change"]) for one in row["signals"] or []]
        yield Media(
            digest,
            modality,
            encoded=tuple(store.read(blob) for blob in blobs),
            signals=np.array(signals, np.float32).reshape(-1, 3),
        )


def picture_blobs(row: Mapping[str, Any], modality: str, settings: EmbedSettings) -> list[str]:
    """The blobs of the pictures that encoders read of a unit, in order: the image itself, or keyframes of a film.
    row: as for `from_track`."""
    check_pictures(modality)
    if modality == "image":
        return [row["digest"]]
    return [one["digest"] for one in evenly(row["keyframes"] or [], settings.num_keyframes(row["duration_s"]))]


def check_pictures(modality: str) -> None:
    """Raises SettingsError for a modality whose items have none: nothing is decoded as a film that is not called
    one."""
    if modality not in PICTURED:
        raise SettingsError(
            f"embed: items of modality {modality!r} have no pictures, expected one of {', '.join(PICTURED)}; choose "
            "another encoder for it, or one that reads bytes"
        )


def evenly(items: list[T], count: int) -> list[T]:
    """At most `count` of the items, first and last included, in order."""
    if len(items) <= count:
        return items
    return [items[at] for at in np.linspace(0, len(items) - 1, count).round().astype(int)]


def samples_of(sound: Sound) -> NDArray[np.float32]:
    """Mono float32 samples at 16 kHz; other rates are resampled. Raises UnreadableItem where there are none."""
    samples, rate_hz = sound.samples()
    if not len(samples):
        raise UnreadableItem(3001, "num_samples=0 not in [1, inf)")
    return resampled(samples, rate_hz, RATE_HZ)


def resampled(samples: NDArray[np.float32], from_hz: int, to_hz: int) -> NDArray[np.float32]:
    """The samples at another rate."""
    if from_hz == to_hz:
        return samples
    import soxr

    found: NDArray[np.float32] = soxr.resample(samples, from_hz, to_hz).astype(np.float32)
    return found


def upright_rgb(data: bytes, *, draft_px: int) -> Image:
    """The first frame in RGB as a viewer shows it; a JPEG is decoded no larger than needed for `draft_px`."""
    from PIL import Image

    with Image.open(io.BytesIO(data), formats=picture_formats()) as picture:
        if picture.width * picture.height > 256_000_000:
            raise UnreadableItem(3004, f"pixels={picture.width * picture.height} not in [1, 256000000]")
        picture.draft("RGB", (draft_px, draft_px))
        return shown(picture).convert("RGB")

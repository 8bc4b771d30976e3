"""What the prints of a unit are made of: its text, bytes of the store, or a local file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from mmlake.dedup.settings import DedupSettings
from mmlake.dedup.video import fingerprints as video_fingerprints
from mmlake.errors import UnreadableItem
from mmlake.media.film_frames import STEP_S
from mmlake.records import Digest
from mmlake.spans import Row, span_of
from mmlake.store import Blobs, checked_file


def text(row: Row, store: Blobs) -> AbstractContextManager[str]:
    return nullcontext(row["text"] or "")


def picture(row: Row, store: Blobs) -> AbstractContextManager[bytes]:
    return nullcontext(store.read(row["digest"]))


def film(row: Row, store: Blobs) -> AbstractContextManager[Path]:
    return store.local(row["parent_digest"])


def kept_film(
    row: Row, store: Blobs, settings: DedupSettings
) -> AbstractContextManager[video_fingerprints.KeptFilm] | None:
    """None where no frames were kept, or those of another grid."""
    if row["frames_digest"] is None or settings.video_step_s != STEP_S:
        return None
    if span_of(row) is not None:  # of a film of hours they are hundreds of megabytes
        return _kept_file(row["frames_digest"], store)
    return nullcontext(video_fingerprints.KeptFilm(store.read(row["frames_digest"])))


@contextmanager
def _kept_file(digest: Digest, store: Blobs) -> Iterator[video_fingerprints.KeptFilm]:
    with checked_file(store, digest) as path:
        yield video_fingerprints.KeptFilm(path)


def recording(row: Row, store: Blobs) -> AbstractContextManager[bytes | Path]:
    """The sound whole; as a file where spans of it are wanted."""
    if row["audio_digest"] is None:
        raise UnreadableItem(3003, "num_audio_tracks=0 not in [1, inf)")
    if span_of(row) is not None:
        return store.local(row["audio_digest"])
    return nullcontext(store.read(row["audio_digest"]))

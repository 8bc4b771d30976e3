"""The stage itself: one track per distinct digest of a partition, and the one border where a bad item becomes a row."""

from __future__ import annotations

import errno
import logging
from dataclasses import dataclass

import pyarrow as pa

from mmlake import schemas
from mmlake.errors import BlobCorrupt, BlobMissing, MmlakeError, SettingsError, UnreadableItem
from mmlake.preprocess.align import Aligner
from mmlake.preprocess.audio import audio_track
from mmlake.preprocess.image import image_track
from mmlake.preprocess.recognize import Listener
from mmlake.preprocess.settings import PreprocessSettings
from mmlake.preprocess.subtitles import parse_cues
from mmlake.preprocess.text import normalize, text_track
from mmlake.preprocess.video import video_track
from mmlake.progress import Advance, counted, silent
from mmlake.records import MODALITIES
from mmlake.store import Blobs

_log = logging.getLogger(__name__)
_STRICTEST = ("document", "media", "transcript", "caption")  # first wins: rules for documents ask the most
_COLUMNS = (
    "item_id",
    "digest",
    "modality",
    "role",
    "content_type",
    "sample_text",
    "size_bytes",
    "status",
    "error_code",
    "materialize_error",
)
# the machine's fault, never the item's: a full or failing disk must stop the run, not mark good items unreadable
_MACHINE_FAULTS = frozenset(
    {errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.EACCES, errno.EPERM}
)


@dataclass(frozen=True, slots=True)
class _Occurrences:
    """What all items of one digest say together."""

    digest: str
    role: str
    content_type: str | None
    sample_text: str | None  # of the first item, by id, that has one
    size_bytes: int
    error_code: int | None  # set where no occurrence could be read
    error: str | None


def tracks(
    items: pa.Table,
    modality: str,
    *,
    store: Blobs,
    settings: PreprocessSettings | None = None,
    advance: Advance = silent,
) -> pa.Table:
    """The TRACKS table: one row per distinct digest among the items of this modality.

    An item that cannot be decoded becomes a row with status unreadable, a code and a reason. Raises only for settings,
    missing libraries and a failing disk.
    """
    if modality not in MODALITIES:
        raise SettingsError(f"modality {modality!r} is not one of {MODALITIES}; correct the call")
    decoder = _Decoder(store=store, settings=settings or PreprocessSettings())
    rows = [_row(decoder, item, modality) for item in counted(_distinct(items, modality), advance)]
    num_unreadable = sum(row["status"] == "unreadable" for row in rows)
    _log.info(
        "tracks %s: %d digests of %d items = %d ok + %d unreadable",
        modality,
        len(rows),
        items.num_rows,
        len(rows) - num_unreadable,
        num_unreadable,
    )
    return schemas.from_rows(schemas.TRACKS, rows)


def _distinct(items: pa.Table, modality: str) -> list[_Occurrences]:
    """One record per digest, sorted; independent of the order of the items."""
    by_digest: dict[str, list[dict]] = {}
    for row in sorted(items.select(list(_COLUMNS)).to_pylist(), key=lambda row: row["item_id"]):
        if row["digest"] is not None and row["modality"] == modality:
            by_digest.setdefault(row["digest"], []).append(row)
    distinct = []
    for digest, rows in sorted(by_digest.items()):
        good = [row for row in rows if row["status"] == "ok"]
        first = (good or rows)[0]
        distinct.append(
            _Occurrences(
                digest=digest,
                role=min((row["role"] for row in rows), key=_STRICTEST.index),
                content_type=next((row["content_type"] for row in good or rows if row["content_type"]), None),
                sample_text=next((row["sample_text"] for row in good or rows if row["sample_text"]), None),
                size_bytes=first["size_bytes"],
                error_code=None if good else first["error_code"],
                error=None if good else first["materialize_error"],
            )
        )
    return distinct


def _row(decoder: _Decoder, item: _Occurrences, modality: str) -> dict[str, object]:
    """The track of one digest, whatever its bytes hold."""
    row: dict[str, object] = {
        "digest": item.digest,
        "modality": modality,
        "role": item.role,
        "content_type": item.content_type,
        "size_bytes": item.size_bytes,
        "transcript_source": "none",
    }
    if item.error_code is not None or item.error is not None:
        return row | {"status": "unreadable", "error_code": item.error_code, "error": item.error}
    try:
        return row | decoder.decode(item, modality) | {"status": "ok"}
    except UnreadableItem as error:
        code, reason = error.code, error.reason
    except BlobMissing:
        code, reason = 2001, "the store holds no blob of this digest"
    except BlobCorrupt:
        code, reason = 2002, "the blob's bytes do not hash to its digest"
    except (MmlakeError, MemoryError):
        raise  # settings and environment: a person must act
    except OSError as error:
        if error.errno in _MACHINE_FAULTS:
            raise
        code, reason = 3001, f"size_bytes={item.size_bytes} do not decode as {modality} (OSError)"
    # the one per-item border: decoders raise anything on hostile bytes, and one item must not stop its shard
    except Exception as error:  # noqa: BLE001
        _log.warning("tracks %s: %s met an unforeseen %s", modality, item.digest, type(error).__name__, exc_info=True)
        code, reason = 3001, f"size_bytes={item.size_bytes} do not decode as {modality} ({type(error).__name__})"
    return row | {"status": "unreadable", "error_code": code, "error": reason}


class _Decoder:
    """Bytes to columns, with the aligner and the recognizer loaded at most once."""

    def __init__(self, *, store: Blobs, settings: PreprocessSettings) -> None:
        self._store, self._settings = store, settings
        self._aligner, self._listener = Aligner(settings), Listener(settings)

    def decode(self, item: _Occurrences, modality: str) -> dict[str, object]:
        """The columns of this item's modality. Raises UnreadableItem and whatever a decoder raises."""
        if modality == "text":
            return text_track(self._store.read(item.digest), item.content_type, settings=self._settings)
        if modality == "image":
            return image_track(self._store.read(item.digest), settings=self._settings)
        self._check_blob(item.digest)
        with self._store.local(item.digest) as path:
            if modality == "audio":
                columns, flac = audio_track(path, settings=self._settings)
                return columns | self._sound(flac, item)
            decoded = video_track(path, settings=self._settings)
        keyframes = [
            {"time_s": frame.time_s, "digest": self._store.put(frame.jpeg, extension="jpg"), "shot": frame.shot}
            for frame in decoded.keyframes
        ]
        return decoded.columns | {"keyframes": keyframes} | self._sound(decoded.flac, item)

    def _check_blob(self, digest: str) -> None:
        """Raises BlobMissing, BlobCorrupt: media are decoded from their file, which nothing else checks."""
        fault = self._store.verify(digest)
        if fault == "missing":
            raise BlobMissing(f"blob {digest} is named by an item but absent; run `mmlake fsck`")
        if fault == "corrupt":
            raise BlobCorrupt(f"blob {digest} does not hash to its name; run `mmlake fsck`")

    def _sound(self, flac: bytes | None, item: _Occurrences) -> dict[str, object]:
        """audio_digest, transcript, transcript_source and words."""
        columns: dict[str, object] = {} if flac is None else {"audio_digest": self._store.put(flac, extension="flac")}
        cues = parse_cues(item.sample_text) if item.sample_text else []
        if cues:
            words = self._aligner.words(flac, cues) if flac is not None and self._settings.align else []
            transcript = normalize(" ".join(cue.text for cue in cues), settings=self._settings)
            return columns | {"transcript": transcript, "transcript_source": "source", "words": words}
        return columns if flac is None else columns | self._listener.columns(flac)

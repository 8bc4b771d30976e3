"""The stage itself: one track per distinct digest of a partition; what cannot be decoded is a row as well."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from mmlake import schemas
from mmlake.border import IN_PROCESS, Failure, Runner, attempt, map_opened
from mmlake.error_codes import CODES
from mmlake.film_decoders import DecodeSettings
from mmlake.preprocess.checked_file import checked_file
from mmlake.preprocess.decoding import Decoded, Decoder, Encoded
from mmlake.preprocess.item_charsets import with_charsets
from mmlake.preprocess.settings import PreprocessSettings
from mmlake.preprocess.transcripts.recognition import SpeechRecognizer
from mmlake.progress import Advance, silent
from mmlake.records import CAPTION
from mmlake.store import Blobs

_log = logging.getLogger(__name__)
_STRICTEST = ("document", "media", "transcript", "caption")  # first wins: rules for documents ask the most
ITEM_COLUMNS = (  # of items, which tracks are made from
    "item_id",
    "digest",
    "modality",
    "role",
    "content_type",
    "sample_text",
    "sample_text_role",
    "metadata_json",
    "size_bytes",
    "status",
    "error_code",
    "materialize_error",
)
_UNDECODABLE = 3001


@dataclass(frozen=True, slots=True)
class _Occurrences:
    """What all items of one digest say together."""

    digest: str
    role: str
    content_type: str | None
    sample_text: str | None  # of the first item, by id, that has one which is no caption
    charset: str | None  # of a text that is not UTF-8, as its source noted it
    size_bytes: int
    error_code: int | None  # set where no occurrence could be read
    error: str | None


def tracks(
    items: pa.Table,
    modality: str,
    *,
    decoder: Decoder,
    store: Blobs,
    settings: PreprocessSettings | None = None,
    decode: DecodeSettings | None = None,
    runner: Runner = IN_PROCESS,
    advance: Advance = silent,
) -> pa.Table:
    """The TRACKS table: one row per distinct digest among the items of this modality.

    decoder: the modality's (`mmlake/modalities.py`). An item that cannot be decoded becomes a row with status
    unreadable, a code and a reason. Raises only for settings, missing libraries, a failing disk and a store that does
    not answer. decode: by which row the pictures of films are decoded. runner: where decoders run.
    """
    settings = settings or PreprocessSettings()
    recognizer = SpeechRecognizer(settings)
    readable, rows = [], []
    for item in _distinct(items, modality):
        if item.error_code is None and item.error is None:
            readable.append(item)
        else:  # nobody could read it at its source
            code = _UNDECODABLE if item.error_code is None else item.error_code
            rows.append(_unreadable(_row(item, modality), code, item.error or CODES[code].what))
            advance(1)
    decoded = map_opened(
        runner,
        decoder.kernel_with(settings, decode or DecodeSettings()),
        readable,
        opened=partial(_encoded, store=store, in_memory=decoder.in_memory),
        code=_UNDECODABLE,
        what=f"the bytes do not decode as {modality}",
        advance=advance,
    )
    for item, found in decoded:
        columns = found if isinstance(found, Failure) else _stored(found, store=store, recognizer=recognizer)
        if isinstance(columns, Failure):
            rows.append(_unreadable(_row(item, modality), columns.code, columns.reason))
        else:
            rows.append(_row(item, modality) | columns | {"status": "ok"})
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
    by_digest: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(with_charsets(items.select(list(ITEM_COLUMNS))).to_pylist(), key=lambda row: str(row["item_id"])):
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
                sample_text=next((row["sample_text"] for row in good or rows if _is_transcribed(row)), None),
                charset=next((row["charset"] for row in good or rows if row["charset"]), None),
                size_bytes=first["size_bytes"],
                error_code=None if good else first["error_code"],
                error=None if good else first["materialize_error"],
            )
        )
    return distinct


def _is_transcribed(row: Mapping[str, Any]) -> bool:
    """Whether a transcript came with the item: nobody says its captions."""
    return bool(row["sample_text"]) and row["sample_text_role"] != CAPTION


def _row(item: _Occurrences, modality: str) -> dict[str, object]:
    """What every track of the item has, decoded or not."""
    return {
        "digest": item.digest,
        "modality": modality,
        "role": item.role,
        "content_type": item.content_type,
        "size_bytes": item.size_bytes,
        "transcript_source": "none",
    }


def _unreadable(row: dict[str, object], code: int, reason: str) -> dict[str, object]:
    return row | {"status": "unreadable", "error_code": code, "error": reason}


@contextmanager
def _encoded(item: _Occurrences, *, store: Blobs, in_memory: bool) -> Iterator[Encoded]:
    """The item for its decoder. Raises BlobMissing, BlobCorrupt, and what a failing store raises."""
    if in_memory:
        is_said = item.role == "transcript"
        yield Encoded(item.content_type, item.sample_text, is_said, item.charset, data=store.read(item.digest))
        return
    with checked_file(store, item.digest) as path:
        yield Encoded(item.content_type, item.sample_text, path=path)


def _stored(decoded: Decoded, *, store: Blobs, recognizer: SpeechRecognizer) -> dict[str, object] | Failure:
    """The columns, with keyframes and sound in the store. A Failure where speech cannot be recognized in the sound."""
    columns = dict(decoded.columns)
    if decoded.flac is not None and decoded.needs_transcript:
        spoken = columns.get("speech")
        speech = [(one["start_s"], one["end_s"]) for one in spoken] if isinstance(spoken, list) else None
        words = attempt(
            partial(recognizer.columns, speech=speech),
            decoded.flac,
            code=_UNDECODABLE,
            what="no speech can be recognized in the sound",
        )
        if isinstance(words, Failure):
            return words
        columns |= words
    if decoded.keyframes:
        columns["keyframes"] = [
            {"time_s": frame.time_s, "digest": store.put(frame.jpeg, extension="jpg"), "shot": frame.shot}
            for frame in decoded.keyframes
        ]
    if decoded.flac is not None:
        columns["audio_digest"] = store.put(decoded.flac, extension="flac")
    if decoded.frames is not None:
        columns["frames_digest"] = store.put(decoded.frames, extension="arrow")
    return columns

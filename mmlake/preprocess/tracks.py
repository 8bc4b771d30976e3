"""The stage itself: one track per distinct digest of a partition; what cannot be decoded is a row as well."""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc

from mmlake import schemas
from mmlake.border import IN_PROCESS, Failure, Runner, attempt, map_opened
from mmlake.error_codes import CODES
from mmlake.errors import UnreadableItem
from mmlake.film_decoders import DecodeSettings
from mmlake.preprocess.decoding import Decoded, Decoder, Encoded
from mmlake.preprocess.item_charsets import with_charsets
from mmlake.preprocess.outputs import Output, opened_output
from mmlake.preprocess.settings import PreprocessSettings
from mmlake.preprocess.transcripts.recognition import SpeechRecognizer
from mmlake.preprocess.visual.signals import Signals
from mmlake.progress import Advance, silent
from mmlake.records import CAPTION, Digest
from mmlake.store import Blobs, checked_file

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
_HELD_ROWS = 1_024  # as Python objects at once
_HELD_S = 30.0
_LARGE_BYTES = 1 << 19  # of a film or recording: what becomes of less goes through memory, a folder for each costs 1 ms
_PUT_WHOLE_BYTES = 1 << 20  # a stream gets a file of its own before it goes into a pack


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


def track_parts(
    items: pa.Table,
    modality: str,
    *,
    decoder: Decoder,
    store: Blobs,
    settings: PreprocessSettings | None = None,
    decode: DecodeSettings | None = None,
    runner: Runner = IN_PROCESS,
    scratch: Path | None = None,
    advance: Advance = silent,
) -> Iterator[pa.Table]:
    """Rows of TRACKS, some at a time as they are made: one per distinct digest among the items of this modality.

    decoder: the modality's (`mmlake/modalities.py`). An item that cannot be decoded becomes a row with status
    unreadable, a code and a reason. Raises only for settings, missing libraries, a failing disk and a store that does
    not answer. decode: by which row the pictures of films are decoded. runner: where decoders run. scratch: a folder
    for the sound and the pictures of films until they are stored; None for the machine's own. `tracks` gives them as
    one table.
    """
    settings = settings or PreprocessSettings()
    recognizer = SpeechRecognizer(settings)
    rows, folders = _Rows(), dict[str, Path]()
    decoded = map_opened(
        runner,
        decoder.kernel_with(settings, decode or DecodeSettings()),
        _readable(items, modality, rows, advance),
        opened=partial(_encoded, store=store, in_memory=decoder.in_memory, scratch=scratch, folders=folders),
        code=_UNDECODABLE,
        what=f"the bytes do not decode as {modality}",
        advance=advance,
    )
    for item, found in decoded:
        folder = folders.get(item.digest)
        columns = found if isinstance(found, Failure) else _stored(found, folder, store=store, recognizer=recognizer)
        if isinstance(columns, Failure):
            rows.add(_unreadable(_row(item, modality), columns.code, columns.reason))
        else:
            rows.add(_row(item, modality) | columns | {"status": "ok"})
        yield from rows.full()
    yield rows.rest()
    _log.info(
        "tracks %s: %d digests of %d items = %d ok + %d unreadable",
        modality,
        rows.num,
        items.num_rows,
        rows.num - rows.num_unreadable,
        rows.num_unreadable,
    )


tracks = schemas.whole(schemas.TRACKS, track_parts)


class _Rows:
    """Rows on their way into the table, few of them as Python objects: a shard may have a million."""

    def __init__(self) -> None:
        self.num = self.num_unreadable = 0
        self._held: list[dict[str, object]] = []
        self._since = time.monotonic()

    def add(self, row: dict[str, object]) -> None:
        """Take one more."""
        self.num += 1
        self.num_unreadable += row["status"] == "unreadable"
        self._held.append(row)

    def full(self) -> Iterator[pa.Table]:
        """Those that are held, where they are as many as may be, or took so long that they shall not be lost."""
        if len(self._held) >= _HELD_ROWS or time.monotonic() - self._since >= _HELD_S:
            yield self.rest()

    def rest(self) -> pa.Table:
        """Those that are held."""
        held, self._held, self._since = self._held, [], time.monotonic()
        return schemas.from_rows(schemas.TRACKS, held)


def _readable(items: pa.Table, modality: str, rows: _Rows, advance: Advance) -> Iterator[_Occurrences]:
    """The items that were read at their source, in order; those that were not become rows."""
    for item in _distinct(items, modality):
        if item.error_code is None and item.error is None:
            yield item
        else:
            code = _UNDECODABLE if item.error_code is None else item.error_code
            rows.add(_unreadable(_row(item, modality), code, item.error or CODES[code].what))
            advance(1)


def _distinct(items: pa.Table, modality: str) -> Iterator[_Occurrences]:
    """One record per digest, sorted; independent of the order of the items, few of which are Python objects at once."""
    own = items.select(list(ITEM_COLUMNS))
    own = own.filter(pc.and_(pc.is_valid(own["digest"]), pc.equal(own["modality"], modality)))
    order = pc.sort_indices(own, sort_keys=[("digest", "ascending"), ("item_id", "ascending")])
    own = with_charsets(own)
    parts = (own.take(order[start : start + _HELD_ROWS]) for start in range(0, len(order), _HELD_ROWS))
    rows = (row for part in parts for row in part.to_pylist())
    return (_occurrences(digest, list(same)) for digest, same in groupby(rows, key=itemgetter("digest")))


def _occurrences(digest: str, rows: Sequence[Mapping[str, Any]]) -> _Occurrences:
    """What the items of one digest say, in order of their ids."""
    good = [row for row in rows if row["status"] == "ok"]
    first = (good or rows)[0]
    return _Occurrences(
        digest=digest,
        role=min((row["role"] for row in rows), key=_STRICTEST.index),
        content_type=next((row["content_type"] for row in good or rows if row["content_type"]), None),
        sample_text=next((row["sample_text"] for row in good or rows if _is_transcribed(row)), None),
        charset=next((row["charset"] for row in good or rows if row["charset"]), None),
        size_bytes=first["size_bytes"],
        error_code=None if good else first["error_code"],
        error=None if good else first["materialize_error"],
    )


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
def _encoded(
    item: _Occurrences, *, store: Blobs, in_memory: bool, scratch: Path | None, folders: dict[str, Path]
) -> Iterator[Encoded]:
    """The item for its decoder. Raises BlobMissing, BlobCorrupt, and what a failing store raises.

    folders: digest -> the folder of each item that has one, while it is open."""
    if in_memory:
        is_said = item.role == "transcript"
        yield Encoded(item.content_type, item.sample_text, is_said, item.charset, data=store.read(item.digest))
        return
    with checked_file(store, item.digest) as path:
        if path.stat().st_size < _LARGE_BYTES:
            yield Encoded(item.content_type, item.sample_text, path=path)
            return
        if scratch is not None:
            scratch.mkdir(parents=True, exist_ok=True)
        # a worker that is being ended may still write
        with tempfile.TemporaryDirectory(prefix="item-", dir=scratch, ignore_cleanup_errors=True) as folder:
            folders[item.digest] = Path(folder)
            yield Encoded(item.content_type, item.sample_text, path=path, folder=Path(folder))
            del folders[item.digest]


def _stored(
    decoded: Decoded, folder: Path | None, *, store: Blobs, recognizer: SpeechRecognizer
) -> dict[str, object] | Failure:
    """The columns, with keyframes and sound in the store. A Failure where speech cannot be recognized in the sound.

    folder: of the item, where its decoder may have written."""
    columns = dict(decoded.columns)
    if isinstance(signals := columns.get("signals"), Signals):
        columns["signals"] = signals.scalar()
    put = partial(_put, folder=folder, store=store)
    try:
        if decoded.flac is not None and decoded.needs_transcript:
            with opened_output(decoded.flac, folder) as sound:
                words = _recognized(sound, columns.get("speech"), recognizer)
            if isinstance(words, Failure):
                return words
            columns |= words
        if decoded.keyframes:
            columns["keyframes"] = [
                {"time_s": frame.time_s, "digest": put(frame.jpeg, extension="jpg"), "shot": frame.shot}
                for frame in decoded.keyframes
            ]
        if decoded.flac is not None:
            columns["audio_digest"] = put(decoded.flac, extension="flac")
        if decoded.frames is not None:
            columns["frames_digest"] = put(decoded.frames, extension="arrow")
    except UnreadableItem as error:
        return Failure(error.code, error.reason)
    return columns


def _recognized(sound: IO[bytes], spoken: object, recognizer: SpeechRecognizer) -> dict[str, object] | Failure:
    """What the recognizer adds to the columns. spoken: the column `speech`."""
    speech = [(one["start_s"], one["end_s"]) for one in spoken] if isinstance(spoken, list) else None
    return attempt(
        partial(recognizer.columns, speech=speech),
        sound,
        code=_UNDECODABLE,
        what="no speech can be recognized in the sound",
    )


def _put(output: Output, *, folder: Path | None, store: Blobs, extension: str) -> Digest:
    """The digest in the store. Raises UnreadableItem 3101."""
    if isinstance(output, bytes):
        return store.put(output, extension=extension)
    with opened_output(output, folder) as stream:
        if output.size_bytes < _PUT_WHOLE_BYTES:
            return store.put(stream.read(), extension=extension)
        return store.put_stream(stream, extension=extension)[0]

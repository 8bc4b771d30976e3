"""The bytes of media rows, fetched by their locators: all at once, or one row after the other.

Each row takes the shortest way: a blob of the store by its digest, a range of a file, a whole file, or a member found
by reading its container. What goes wrong with one row is text in its `materialize_error`. Only landing zones that the
caller names are opened: a locator is data and must not choose where the library connects to.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake import sources
from mmlake.errors import BlobCorrupt, BlobMissing, SettingsError, UnreadableItem
from mmlake.landing import Landing, as_landing
from mmlake.preprocess import PreprocessSettings
from mmlake.records import Digest, SourceRef, digest_of
from mmlake.rows.batch import RowBatch
from mmlake.rows.image_frames import Frames
from mmlake.rows.locators import way_of
from mmlake.rows.order import as_mask
from mmlake.rows.schema import METADATA, SCHEMA
from mmlake.store import Blobs


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where the bytes of rows may be read from."""

    landing: Landing | str | os.PathLike[str] | None = None
    # of paths that no entry of `others` begins
    others: Mapping[str, Landing | str | os.PathLike[str]] = field(default_factory=dict)
    # beginning of a path -> the landing zone that has the rest of it; the longest beginning counts
    store: Blobs | None = None
    # of rows that name a digest
    settings: sources.SourceSettings = field(default_factory=sources.SourceSettings)
    # those of the ingest, where field names were changed
    decoding: PreprocessSettings = field(default_factory=PreprocessSettings)
    # the pixel budget of frames

    def of(self, path: str) -> tuple[Landing | str | os.PathLike[str], str] | None:
        """(landing zone, path inside it) of a locator's path; None where nobody named one."""
        begin = max((begin for begin in self.others if path.startswith(begin)), key=len, default=None)
        if begin is not None:
            return self.others[begin], path[len(begin) :]
        return None if self.landing is None else (self.landing, path)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What is known of one row."""

    row: int
    ref: SourceRef | None
    digest: Digest | None
    error: str | None = None  # why there is no locator


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What became of one row."""

    row: int
    data: bytes | None
    error: str | None


def materialize(
    batch: RowBatch, places: Places, *, content_types: Collection[str] | None = None, only_missing: bool = True
) -> RowBatch:
    """The batch with the bytes of its media rows in `binary_content`, or the reason in `materialize_error`.

    content_types: only rows of these, `image/*` for a whole kind. only_missing: whether rows that have bytes keep them.
    Rows that their source found unreadable stay as they are. A frame that does not exist leaves the bytes of the whole
    picture next to its error.
    """
    table = _with_columns(batch.table)
    chosen = _chosen(table, content_types, only_missing=only_missing)
    if not chosen:
        return batch
    data: dict[int, bytes | None] = {}
    errors: dict[int, str | None] = {}
    for outcome in _outcomes(_wanted(table, chosen), places):
        data[outcome.row], errors[outcome.row] = outcome.data, outcome.error
    for name, found in (("binary_content", data), ("materialize_error", errors)):
        at = table.schema.get_field_index(name)
        kind = table.schema.field(at).type
        new = pa.chunked_array([pa.array([found.get(row) for row in range(table.num_rows)], kind)])
        # else there is nothing to keep, and choosing copies all bytes
        if len(found) < table.num_rows and table.column(at).null_count < table.num_rows:
            new = pc.if_else(pa.array([row in found for row in range(table.num_rows)]), new, table.column(at))
        table = table.set_column(at, table.schema.field(at), new)
    return batch.replace(table)


def iter_materialized(rows: Any, mask: Any, places: Places) -> Iterator[tuple[Any, bytes | None]]:
    """(index, bytes or None where they cannot be had) of every row that the mask holds; other rows are not touched.

    rows: a batch, or what `RowBatch.of` takes. mask: as for `filter_rows`. index: the row's number, or its label where
    a data frame was given. Rows that have bytes come first, then the others in the order in which their bytes are read.
    Memory holds one of them, and ranges that are read together.
    """
    batch = RowBatch.of(rows)
    labels = list(rows.index) if hasattr(rows, "index") and hasattr(rows, "columns") else range(batch.num_rows)
    picked = np.flatnonzero(as_mask(mask, batch.num_rows)).tolist()
    if not picked:
        return
    table = _with_columns(batch.table)
    column = table["binary_content"]
    empty = pc.is_null(column).to_pylist()
    yield from ((labels[row], column[row].as_py()) for row in picked if not empty[row])
    for outcome in _outcomes(_wanted(table, [row for row in picked if empty[row]]), places):
        yield labels[outcome.row], outcome.data


def _with_columns(table: pa.Table) -> pa.Table:
    """The table with every reserved column that is inspected here, null where it was absent."""
    for name in ("binary_content", "materialize_error"):
        if name not in table.column_names:
            table = table.append_column(name, pa.nulls(table.num_rows, SCHEMA.field(name).type))
    return table


def _chosen(table: pa.Table, content_types: Collection[str] | None, *, only_missing: bool) -> list[int]:
    modalities, types, statuses = (_cells(table, name) for name in ("modality", "content_type", "status"))
    empty = pc.is_null(table["binary_content"]).to_pylist()
    return [
        row
        for row in range(table.num_rows)
        if modalities[row] not in ("text", METADATA, None)
        and statuses[row] != "unreadable"
        and (empty[row] or not only_missing)
        and _is_of(types[row], content_types)
    ]


def _is_of(content_type: str | None, wanted: Collection[str] | None) -> bool:
    if wanted is None or content_type is None:
        return wanted is None
    plain = content_type.partition(";")[0].strip().lower()
    return content_type in wanted or plain in wanted or f"{plain.partition('/')[0]}/*" in wanted


def _cells(table: pa.Table, name: str) -> list[Any]:
    return table[name].to_pylist() if name in table.column_names else [None] * table.num_rows


def _wanted(table: pa.Table, chosen: list[int]) -> list[_Wanted]:
    some = table.select([name for name in ("source_ref", "digest") if name in table.column_names]).take(
        pa.array(chosen, pa.int64())
    )
    found = []
    for row, value, digest in zip(
        chosen,
        _cells(some, "source_ref") or [None] * len(chosen),
        _cells(some, "digest") or [None] * len(chosen),
        strict=True,
    ):
        try:
            ref = SourceRef.parse(value)
            found.append(_Wanted(row, None if way_of(ref) == "missing" else ref, digest))
        except ValueError:
            found.append(_Wanted(row, None, digest, "the cell of source_ref is no locator that this release reads"))
    return found


def _outcomes(wanted: list[_Wanted], places: Places) -> Iterator[_Outcome]:
    """One outcome per row: blobs first, then one call per landing zone."""
    framing = _Framing(places)
    by_landing: dict[int, tuple[Landing | str | os.PathLike[str], list[_Wanted], list[SourceRef]]] = {}
    last: tuple[Digest, bytes | UnreadableItem] | None = None
    for each in sorted(wanted, key=lambda each: each.digest or "") if places.store is not None else wanted:
        if places.store is not None and each.digest and each.digest in places.store:
            if last is None or last[0] != each.digest:
                last = each.digest, _blob(each.digest, places.store)
            if isinstance(last[1], bytes):
                yield framing.framed(each, last[1])
                continue
        place = places.of(each.ref.path) if each.ref is not None else None
        if each.ref is None or place is None:
            yield _Outcome(
                each.row,
                None,
                each.error or _lost(each, last[1] if last is not None and last[0] == each.digest else None),
            )
            continue
        _, rows, refs = by_landing.setdefault(id(place[0]), (place[0], [], []))
        rows.append(each)
        refs.append(SourceRef(place[1], each.ref.member, each.ref.byte_offset, each.ref.byte_size))
    for landing, rows, refs in by_landing.values():
        yield from _landed(rows, refs, landing, framing)


def _landed(
    rows: list[_Wanted], refs: list[SourceRef], landing: Landing | str | os.PathLike[str], framing: _Framing
) -> Iterator[_Outcome]:
    try:
        opened = as_landing(landing)
    except SettingsError:
        yield from (
            _Outcome(
                each.row, None, f"no kind of landing zone opens the address of {each.ref.path!r}" if each.ref else None
            )
            for each in rows
        )
        return
    checked: tuple[bytes, Digest] | None = None
    for at, found in sources.fetch_many(refs, landing=opened, settings=framing.places.settings):
        each = rows[at]
        if not isinstance(found, bytes):
            yield _Outcome(each.row, None, found.reason)
            continue
        if each.digest:
            # Equal locators share one object: its hash is counted once.
            checked = checked if checked is not None and checked[0] is found else (found, digest_of(found))
            if checked[1] != each.digest:
                yield _Outcome(
                    each.row, None, f"the source now gives bytes of SHA-256 {checked[1]}, the row names {each.digest}"
                )
                continue
        yield framing.framed(each, found) if found else _Outcome(each.row, None, "size_bytes=0 not in [1, inf)")


def _blob(digest: Digest, store: Blobs) -> bytes | UnreadableItem:
    try:
        return store.read(digest)
    except BlobMissing:
        return UnreadableItem(2001, f"blob {digest} has gone from the store")
    except BlobCorrupt:
        return UnreadableItem(2002, f"blob {digest} no longer hashes to its name")
    except OSError as error:  # of the disk or the network: the source may still have the bytes
        return UnreadableItem(2001, f"blob {digest} cannot be read ({type(error).__name__})")


def _lost(each: _Wanted, failure: bytes | UnreadableItem | None) -> str:
    if isinstance(failure, UnreadableItem):
        return failure.reason
    if each.ref is None:
        return "the row has neither a locator nor a digest that the store holds"
    return f"no landing zone was named for the path {each.ref.path!r}"


class _Framing:
    """Bytes of items to bytes of rows: the frame that a locator picks. Rows of one picture that follow one another
    share its decoder."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self._data: bytes | None = None
        self._frames: Frames | None = None

    def framed(self, each: _Wanted, data: bytes) -> _Outcome:
        index = each.ref.frame_index if each.ref is not None else None
        if index is None:
            return _Outcome(each.row, data, None)
        if self._frames is None or self._data is not data:
            self._data, self._frames = data, Frames(data, settings=self.places.decoding)
        try:
            return _Outcome(each.row, self._frames.pick(index), None)
        except UnreadableItem as error:
            return _Outcome(
                each.row, data, error.reason if "frame" in error.reason else f"frame_index={index}: {error.reason}"
            )

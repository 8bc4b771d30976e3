"""Tables inside archives: the records of a member that is a file of them, read as they are where such a file lies
alone.

JSON lines, lists and separated values are read in order. Parquet and Arrow are read where they lie if the archive keeps
them as they are, else from a temporary file. Locators have the member before the record: `data/a.jsonl#line:7`.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import IO

from mmlake.errors import UnreadableItem
from mmlake.formats import sniff
from mmlake.formats.compression import MARK_BYTES, compression_of, expanded_head
from mmlake.landing import Entry
from mmlake.sources.companions.archives import OneFile
from mmlake.sources.connectors import arrow, json_lines
from mmlake.sources.connectors.table import SOURCES, Connector
from mmlake.sources.raw_items import Content, Member, Opener, RawItem, Reading
from mmlake.sources.samples.shard_samples import TABLE_EXTENSIONS

_COPY_BYTES = 1 << 20


def _are_lines(head: bytes, name: str) -> bool:
    """Whether they are JSON lines: a name that says so needs no second line."""
    is_named = sniff.extension_of(name) != "json" and sniff.kind_by_magic(head) is None
    return bool(head) and (is_named or json_lines.claims(head, name))


# connectors of tables, in the order in which they are asked, and extensions of members that may be one
_FORMATS = {
    "parquet": ("parquet",),
    "arrow": tuple(name[1:] for name in arrow.NAMES),
    "jsonl": ("jsonl", "ndjson", "json"),
    "json-list": ("json",),
    "separated": ("csv", "tsv"),
}
_SOUGHT = ("parquet", "arrow")  # are read here and there
_WRITTEN = ("csv", "tsv")  # what is written next to a medium describes it, as JSON does next to anything


class InnerTable:
    """A member that is a table."""

    def __init__(self, member: Member, kind: Connector, reading: Reading) -> None:
        self._member, self._kind, self._reading = member, kind, reading

    @property
    def modalities(self) -> tuple[str, ...]:
        """The modalities that its rows may have."""
        try:
            with self._opened() as reading:
                return self._kind.modalities(reading)
        except UnreadableItem:
            return (self._reading.home,)

    def items(self) -> Iterator[RawItem]:
        """The rows of its records. Where the member breaks, a last one says so."""
        try:
            with self._opened() as reading:
                for item in self._kind.items(reading):
                    yield item.replace(ref=self._member.locate(item.ref.member or ""))
        except UnreadableItem as error:
            reason = f"{error.reason}; what follows in the member is not read"
            fault = self._inner_reading(self._member.open).fault(error.code, reason, modality=self.modalities[0])
            yield fault.replace(ref=self._member.locate(""))

    @contextmanager
    def _opened(self) -> Iterator[Reading]:
        content = self._member.content
        assert content is not None
        if self._kind.name not in _SOUGHT:
            yield self._inner_reading(content.raw or content.open)  # which are seen through as those of a file are
        elif self._member.is_range:
            yield self._inner_reading(content.open)
        else:
            with tempfile.TemporaryFile(prefix="mmlake-table-") as copy:
                with content.open() as stream:
                    shutil.copyfileobj(stream, copy, _COPY_BYTES)
                copy.seek(0)
                yield self._inner_reading(lambda: _reopened(copy))

    def _inner_reading(self, open_member: Opener) -> Reading:
        """The member as a landing zone of one file."""
        name = self._member.label or self._member.name
        landing = OneFile(Entry(self._member.name, self._member.size_bytes, 0), open_member)
        return replace(
            self._reading, landing=landing, key=f"{self._reading.key}/{name}", path=self._member.name, limit=None
        )


def _reopened(file: IO[bytes]) -> IO[bytes]:
    """The same file from its start, for a reader that closes it."""
    again = open(file.fileno(), "rb", closefd=False)  # noqa: SIM115 - whoever asked for it closes it
    again.seek(0)
    return again


def table_of(member: Member, group: list[Member], reading: Reading) -> InnerTable | None:
    """The table that a member of an archive is; None for any other. group: the members of its sample."""
    content, name, extension = member.content, member.name, member.extension
    if extension not in TABLE_EXTENSIONS or member.fault or content is None or member.is_media or not member.size_bytes:
        return None
    describes = extension == "json" or (extension in _WRITTEN and any(one.is_media for one in group))
    if describes and len(group) > 1:
        return None
    first = partial(_first_of, content)
    for kind in (SOURCES[one] for one, extensions in _FORMATS.items() if extension in extensions):
        claims = _are_lines if kind.name == "jsonl" else kind.claims
        if claims(first(sniff.HEAD_BYTES), name) and (
            kind.holds_records is None or kind.holds_records(first, name, reading.settings)
        ):
            return InnerTable(member, kind, reading)
    return None


def _first_of(content: Content, size_bytes: int) -> bytes:
    """So many of the first bytes; as many as can be had of a member whose compression is broken."""
    try:
        return content.head(size_bytes)
    except UnreadableItem:
        if content.raw is None:
            return b""  # its own row says so
    with content.raw() as file:
        compression = compression_of(file.read(MARK_BYTES))
        file.seek(0)
        return expanded_head(file, compression, size_bytes=size_bytes) if compression is not None else b""

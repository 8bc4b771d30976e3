"""The records of a WARC file, strictly: every byte of it belongs to a record or to a damage, and after a damage the
next record is found.

A gzip WARC is one gzip member per record as a rule; each member is expanded for itself, so that a damaged one costs
only itself. A Zstandard WARC is expanded as a whole. Expanded bytes lie in a temporary file until the next record is
taken.
"""

from __future__ import annotations

import io
import re
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import IO, Any

from mmlake.errors import Fault, UnreadableItem
from mmlake.formats import compression, http_responses
from mmlake.formats.checksums import Checksum
from mmlake.formats.http_responses import MAX_HEADER_BYTES, HttpResponse, response_of
from mmlake.formats.texts import Limits, printable
from mmlake.formats.urls import redacted
from mmlake.streams import Slice

_MARK = rb"WARC/[01]\."  # of ISO 28500, and of the drafts that older crawls (ClueWeb09) were written by
_MARK_BYTES = 7
_MARKED, _NEXT_MARK = re.compile(_MARK), re.compile(rb"\n" + _MARK)
_MAY_BE_MARK = (b"WARC/1.", b"WARC/0.")

_GZIP = b"\x1f\x8b\x08"
_GZIP_MARK = re.compile(re.escape(_GZIP))
_MAX_HEADER_BYTES = 1 << 18
_HEAD_BYTES = 1 << 11  # read first: most headers end in it, and where marks lie close each of them costs no more
_BLANK_LINE = re.compile(rb"\r?\n\r?\n")
_MARK_OR_END = re.compile(rb"\r?\n(?:\r?\n|%b)" % _MARK)
_MEMORY_BYTES = 4 << 20  # an expanded member up to here stays in memory; pages are far below
_CHUNK_BYTES = 1 << 20
_KEPT = ("warc-type", "warc-target-uri", "warc-date", "warc-record-id", "warc-truncated",
"warc-identified-payload-type", "warc-identified-content-language", "warc-filename",
         "warc-refers-to", "warc-refers-to-target-uri", "warc-refers-to-date", "warc-profile")  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class _Stretch:
    # "record:<byte of the file where it, or its gzip member, starts>", "+<byte in the expanded member>" behind it where
    # that is not 0
    member: str
    fields: tuple[tuple[str, str], ...] = ()  # of its header, where that was read

    @cached_property
    def _by_name(self) -> dict[str, str]:
        return dict(reversed(self.fields))

    def field(self, name: str) -> str | None:
        """The value of a header field, by its name in lower case; the first where it is repeated."""
        return self._by_name.get(name)

    @property
    def metadata(self) -> dict[str, Any]:
        found = self._by_name
        return {name.removeprefix("warc-").replace("-", "_"): redacted(found[name]) for name in _KEPT if name in found}

    def passed(self, member: str) -> bool:
        """Whether a record of that name can no longer come."""
        return _place(self.member) > _place(member)


@dataclass(frozen=True, kw_only=True)
class Damage(_Stretch):
    """A stretch of the file that is no whole record."""

    fault: Fault
    stop: int | None = None  # the byte behind it, where that was sought already


@dataclass(frozen=True, kw_only=True)
class Record(_Stretch):
    """One record: its header, and its block to be read from the file or the expanded bytes that hold it."""

    file: IO[bytes]
    start: int  # of the block in `file`
    size_bytes: int  # of the block
    plain: bool  # whether `file` is the file as it lies on disk

    def block(self, skip_bytes: int = 0) -> io.BufferedReader:
        """The block, or what follows its first bytes, for reading and seeking."""
        size_bytes = max(0, self.size_bytes - skip_bytes)
        return io.BufferedReader(Slice(self.file, self.start + skip_bytes, size_bytes), 1 << 16)

    def extent(self, skip_bytes: int) -> tuple[int, int] | None:
        """(offset, size) in bytes of the block behind its first bytes, where the file on disk holds it as it is."""
        return (self.start + skip_bytes, max(0, self.size_bytes - skip_bytes)) if self.plain else None


def begins(head: bytes) -> bool:
    """Whether these are the first bytes of a record."""
    return _MARKED.match(head) is not None


def _may_begin(head: bytes) -> bool:
    """Whether a record may begin so, of which no more bytes are there."""
    return any(mark.startswith(head) for mark in _MAY_BE_MARK)


def _place(member: str) -> tuple[int, int]:
    at, _, inner = member.removeprefix("record:").partition("+")
    return (int(at), int(inner or 0)) if at.isdigit() else (0, 0)


def records(file: IO[bytes], *, settings: Limits, start: int = 0) -> Iterator[Record | Damage]:
    """The records and the damages of the file in order. Each record can be read until the next one is taken.

    start: the byte where a record, or its gzip member, is known to start; what lies before is passed over where the
    format allows it.
    """
    file.seek(0)
    packing = compression.compression_of(file.read(compression.MARK_BYTES))
    if packing == "gzip":
        yield from _members(file, settings, start)
    elif packing is not None:
        with tempfile.SpooledTemporaryFile(max_size=_MEMORY_BYTES) as spool:
            file.seek(0)
            broken = _expand(compression.decoder_of(file, packing), spool, packing, settings)
            size, label = spool.tell(), _label(None)
            yield from _marked(_walk(spool, 0, size, label, plain=False), broken, label(size))
    else:
        size = file.seek(0, io.SEEK_END)
        yield from _walk(file, start, size, _label(None), plain=True)


def _label(member_at: int | None) -> Any:
    """From a byte of the expanded bytes to the record's name."""
    return lambda at: f"record:{at}" if member_at is None else f"record:{member_at}" + (f"+{at}" if at else "")


def _expand(decoder: compression.Decoder, spool: IO[bytes], name: str, settings: Limits) -> Fault | None:
    """Why the stream is not whole; what it expands to is in the spool."""
    count, limit_bytes = 0, settings.max_shard_bytes
    try:
        while part := compression.next_of(decoder, _CHUNK_BYTES, name, count, limit_bytes):
            count += spool.write(part)
    except UnreadableItem as error:
        return Fault.of(error)
    return None


def _members(file: IO[bytes], settings: Limits, start: int) -> Iterator[Record | Damage]:
    """The records of every gzip member; what lies between members and is not zero padding is a damage."""
    size = file.seek(0, io.SEEK_END)
    at = start
    while at < size:
        file.seek(at)
        if file.read(3) != _GZIP:
            found = _next_member(file, at, size)
            if found < size or not _is_padding(file, at, size):
                fault = Fault(1003, f"bytes {at} to {found} belong to no gzip member")
                yield Damage(member=f"record:{at}", fault=fault)
            at = found
            continue
        with tempfile.SpooledTemporaryFile(max_size=_MEMORY_BYTES) as spool:
            file.seek(at)
            member, label = compression.Stepwise(file, partial(compression.Inflater, compression.GZIP_BITS)), _label(at)
            broken = _expand(member, spool, "gzip", settings)
            end = file.tell() - len(member.rest)
            yield from _marked(_walk(spool, 0, spool.tell(), label, plain=False), broken, label(0))
            at = end if broken is None else _next_member(file, at + 1, size)


def _next_member(file: IO[bytes], at: int, size: int) -> int:
    """The first byte from there on at which a gzip member with a record starts, or the size of the file."""
    for found in _occurrences(file, _GZIP_MARK, len(_GZIP), at, size):
        file.seek(found)
        try:
            if begins(zlib.decompressobj(compression.GZIP_BITS).decompress(file.read(_HEAD_BYTES), _MARK_BYTES)):
                return found
        except zlib.error:
            continue
    return size


def _occurrences(file: IO[bytes], mark: re.Pattern[bytes], mark_bytes: int, at: int, size: int) -> Iterator[int]:
    chunk_bytes = _HEAD_BYTES
    while at < size:
        file.seek(at)
        data = file.read(chunk_bytes + mark_bytes - 1)
        yield from (at + found.start() for found in mark.finditer(data))
        at, chunk_bytes = at + chunk_bytes, min(2 * chunk_bytes, _CHUNK_BYTES)


def _is_padding(file: IO[bytes], at: int, size: int) -> bool:
    file.seek(at)
    return all(not file.read(min(_CHUNK_BYTES, size - start)).strip(b"\0") for start in range(at, size, _CHUNK_BYTES))


def _marked(found: Iterator[Record | Damage], broken: Fault | None, member: str) -> Iterator[Record | Damage]:
    """What was found; where the bytes are broken, the last of it, which the break is in, is a damage with that
    reason."""
    if broken is None:
        yield from found
        return
    last: Record | Damage = Damage(member=member, fault=broken)
    for number, item in enumerate(found):
        if number:
            yield last
        last = item
    yield Damage(member=last.member, fault=broken, fields=last.fields)


def _walk(file: IO[bytes], at: int, size: int, label: Any, *, plain: bool) -> Iterator[Record | Damage]:
    while at < size:
        head = _head(file, at)
        blank = len(head) - len(head.lstrip(b"\r\n"))
        if blank == len(head):
            at += blank
            continue
        at, head = at + blank, head[blank:]
        found = _record(file, at, head, size, label, plain=plain)
        yield found
        if isinstance(found, Record):
            at = found.start + found.size_bytes
        else:
            at = _next_record(file, at + 1, size) if found.stop is None else found.stop


def _head(file: IO[bytes], at: int) -> bytes:
    """The bytes from there on, as many as hold a header or the mark of another record, or may be one."""
    size_bytes = _HEAD_BYTES
    while True:
        file.seek(at)
        head = file.read(size_bytes)
        inner = head.lstrip(b"\r\n")
        is_all = len(head) < size_bytes or size_bytes >= _MAX_HEADER_BYTES
        if is_all or _BLANK_LINE.search(inner) or _NEXT_MARK.search(inner):
            return head
        size_bytes = min(8 * size_bytes, _MAX_HEADER_BYTES)


def _record(file: IO[bytes], at: int, head: bytes, size: int, label: Any, *, plain: bool) -> Record | Damage:
    """The record at this byte, or why there is none. Its length must lead to the end of the file or to another
    record."""
    fields: tuple[tuple[str, str], ...] = ()

    def damage(code: int, reason: str, stop: int | None = None) -> Damage:
        return Damage(member=label(at), fields=fields, fault=Fault(code, reason), stop=stop)

    if not begins(head):
        where = f"byte {at}" if plain else f"byte {at} of the expanded file"
        return damage(1002 if _may_begin(head) else 1003, f"no record starts at {where}")
    blank, other = _BLANK_LINE.search(head), _NEXT_MARK.search(head)
    if other is not None and (blank is None or other.start() < blank.start()):
        count, last = _cut_headers(file, at + other.start() + 1, size)
        many, one = f"{count} record headers from byte {at} to {last} each end", f"the record header at byte {at} ends"
        return damage(1003, f"{many if count > 1 else one} where another record starts", stop=last)
    if blank is None:
        if at + len(head) >= size:
            return damage(1002, f"the file ends inside the record header at byte {at}")
        return damage(1003, f"the record header at byte {at} has no end in its first {_MAX_HEADER_BYTES} bytes")
    fields = _fields(head[: blank.start()])
    length = next((value for name, value in fields if name == "content-length"), "")
    if not (length.isascii() and length.isdigit() and len(length) < 20):
        return damage(1003, f"the record at byte {at} has the Content-Length {length[:30]!r}, which is no number")
    start = at + blank.end()
    stop = start + int(length)
    if stop > size:
        found = _next_record(file, start, size)  # the header holds no record, as was seen
        reason = f"the record at byte {at} states {length} bytes, {size - start} are there"
        return damage(1003 if found < size else 1002, reason, stop=found)
    file.seek(stop)
    behind = file.read(4 + _MARK_BYTES)
    # Two line ends close a record (ISO 28500, 4); some writers make them one or none, which is believed where another
    # record or the end follows.
    is_fewer = begins(behind) or (behind[:1] in b"\r\n" and _may_begin(behind.lstrip(b"\r\n")[:_MARK_BYTES]))
    if not behind.startswith(b"\r\n\r\n") and stop < size and not is_fewer:
        return damage(1003, f"the record at byte {at} states {length} bytes, behind which no record ends")
    return Record(member=label(at), fields=fields, file=file, start=start, size_bytes=int(length), plain=plain)


def _cut_headers(file: IO[bytes], at: int, size: int) -> tuple[int, int]:
    """(headers that another one cuts, the byte where the last of this run of headers starts, whose own end comes
    first). at: where the second starts.

    Marks may stand eight bytes apart for gigabytes, and a row for each of them would say nothing that their number does
    not.
    """
    count, last, begin = 1, at, at
    while begin < size:
        file.seek(begin)
        data = file.read(_CHUNK_BYTES)
        for found in _MARK_OR_END.finditer(data):
            if not found[0].strip(b"\r\n"):
                return count, last
            count, last = count + 1, begin + found.end() - _MARK_BYTES
        if begin + len(data) - last > _MAX_HEADER_BYTES:
            return count, last
        begin += max(1, len(data) - _MARK_BYTES)  # what stands across two chunks is found in the second
    return count, last


def _fields(head: bytes) -> tuple[tuple[str, str], ...]:
    text = printable(head.decode("utf-8", "surrogateescape")).replace("\r\n", "\n")
    lines = text.replace("\n ", " ").replace("\n\t", " ").split("\n")[1:]
    pairs = (line.partition(":") for line in lines)
    return tuple((name.strip().lower(), value.strip()) for name, colon, value in pairs if colon)


def _next_record(file: IO[bytes], at: int, size: int) -> int:
    """The first byte from there on at which a line starts a record, or the size of the file."""
    return next((found + 1 for found in _occurrences(file, _NEXT_MARK, _MARK_BYTES + 1, max(0, at - 1), size)), size)


@dataclass(frozen=True)
class Payload:
    """The content of one record, to be read as long as the record can be: the HTTP response in it, its body with chunks
    and content codings undone, its publisher's digests verified (ISO 28500, 5.8 and 5.9)."""

    record: Record
    response: HttpResponse  # of a record of another type than `response`, one that says no more than the record's own
    limit_bytes: int  # of the body, also after its codings are undone

    @classmethod
    def of(cls, record: Record, *, limit_bytes: int) -> Payload:
        """The payload of the record. Raises UnreadableItem 1003 for a response that is no HTTP."""
        if record.field("warc-type") != "response":
            of_record = (("content-type", record.field("content-type") or ""),)
            return cls(record, HttpResponse(200, of_record, 0), limit_bytes)
        with record.block() as stream:
            head = stream.read(MAX_HEADER_BYTES)
        return cls(record, response_of(head, size_bytes=record.size_bytes), limit_bytes)

    @property
    def is_response(self) -> bool:
        """Whether the record holds one."""
        return self.response.size_bytes > 0

    @property
    def is_stored_bare(self) -> bool:
        """Whether the body is in the file as it is, and the record states no digest that it could miss."""
        if any(self.record.field(f"warc-{name}-digest") for name in ("payload", "block")):
            return False
        return not (self.response.is_chunked or self.response.codings)

    def stored(self) -> IO[bytes]:
        """The body as it is in the record, with chunks and content codings."""
        return self.record.block(self.response.size_bytes)

    def open(self) -> IO[bytes]:
        """The body. Raises UnreadableItem: 1010 where it is not what a digest states; as `http_responses` says."""
        if self._mismatch is not None:
            raise UnreadableItem(self._mismatch.code, self._mismatch.reason)
        stream = http_responses.dechunked(self.stored()) if self.response.is_chunked else self.stored()
        return http_responses.decoded(stream, self.response.codings, limit_bytes=self.limit_bytes)

    @cached_property
    def _mismatch(self) -> Fault | None:
        """Why the bytes are not those that the record's digests state, or None where they are."""
        block, payload = (Checksum.of_label(self.record.field(f"warc-{name}-digest")) for name in ("block", "payload"))
        if self.record.field("warc-truncated"):
            payload = None  # of the payload as it was served, which is longer
        if block is not None and not block.fits(self.record.block()):
            return Fault(1010, f"the record's block does not have the digest {block} that it states")
        if payload is None or payload.fits(self.stored()):
            return None
        try:
            # Some crawlers hash the body before they chunk it, some after.
            if self.response.is_chunked and payload.fits(http_responses.dechunked(self.stored())):
                return None
        except UnreadableItem:
            pass
        return Fault(1010, f"the record's payload does not have the digest {payload} that it states")

"""WARC files (ISO 28500), plain, gzip and Zstandard: one row per record that holds content or should.

Rows are the records `response`, `resource`, `conversion` (WET texts), `revisit`, and those of unknown type; `request`,
`metadata`, `warcinfo` and DNS records describe the crawl and are counted in the log. Bodies are undone (chunks, content
codings), their publisher's digests verified. A damaged record is a row, and the next one is looked for behind it.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from mmlake.download.opt_out import refusal_of
from mmlake.errors import Fault, UnreadableItem
from mmlake.formats import http_bodies, sniff
from mmlake.formats.addresses import kind_of
from mmlake.formats.charsets import declared_charset
from mmlake.formats.checksums import Checksum
from mmlake.formats.warc import Damage, Record, records
from mmlake.records import SourceRef
from mmlake.sources import shard as shards
from mmlake.sources.first_samples import first_samples
from mmlake.sources.names import SampleNames
from mmlake.sources.raw_items import Content, RawItem, Reading

_LOG = logging.getLogger("mmlake.sources")
_CONTENT = ("response", "resource", "conversion", "revisit")
_ABOUT_THE_CRAWL = ("request", "metadata", "warcinfo")
_MAX_HTTP_HEADER_BYTES = 1 << 18
_STATUS = re.compile(rb"HTTP/\d(?:\.\d)? (\d{3})(?: |\r|\n|$)")
_KEPT_HEADERS = (
    "content-type",
    "content-language",
    "last-modified",
    "x-robots-tag",
    "tdm-reservation",
    "content-disposition",
    "etag",
)
_MEMBER = re.compile(r"record:(\d+)(?:\+\d+)?")


@dataclass(frozen=True, slots=True)
class _Answer:
    """An HTTP response inside a record."""

    status: int
    headers: tuple[tuple[str, str], ...]
    size_bytes: int  # of status line and headers

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name), None)


def modalities(reading: Reading) -> tuple[str, ...]:
    """The modalities that the records have, exactly: every header is read, and the start of every body."""
    return shards.ordered(item.modality for item in first_samples(items(reading), reading.limit)) or (
        reading.hint or "text",
    )


def items(reading: Reading) -> Iterator[RawItem]:
    """The rows in the order of the records. Their bytes can be read until the next item is taken."""
    names, skipped, number = SampleNames(reading.key), Counter[str](), 0
    with reading.open() as file:
        for number, found in enumerate(records(file, settings=reading.settings), 1):
            if isinstance(found, Record) and (kind := _about_the_crawl(found)) is not None:
                skipped[kind] += 1
            else:
                yield _item(found, number, reading, names)
    if not number:
        yield reading.fault(
            1006, "num_records=0 not in [1, inf)", modality=reading.hint or "text", content=Content(reading.open)
        )
    _LOG.info(
        "%s: records=%d rows=%d about_the_crawl=%s",
        reading.path,
        number,
        number - skipped.total(),
        dict(sorted(skipped.items())),
    )


def take(reading: Reading, ref: SourceRef) -> bytes:
    """The bytes of one item, read from where its record starts. Raises UnreadableItem where it is gone."""
    place = _MEMBER.fullmatch(ref.member or "")
    with reading.open() as file:
        for found in records(file, settings=reading.settings, start=int(place[1])) if place else ():
            if found.member == ref.member:
                item = _item(found, 1, reading, SampleNames(reading.key))
                if item.content is not None:
                    return item.content.read()
            if found.passed(ref.member or ""):
                break
    raise UnreadableItem(1001, f"{ref.path} no longer has the member {ref.member!r}")


def _about_the_crawl(record: Record) -> str | None:
    kind = record.field("warc-type") or ""
    if kind in _ABOUT_THE_CRAWL:
        return kind
    return "dns" if (record.field("warc-target-uri") or "").startswith("dns:") else None


def _item(found: Record | Damage, number: int, reading: Reading, names: SampleNames) -> RawItem:
    if isinstance(found, Damage):
        item = reading.fault(found.fault.code, found.fault.reason, modality=reading.hint or "text", member=found.member)
        item.metadata = found.metadata
        return item
    identity = (found.field("warc-record-id") or "").strip("<>").removeprefix("urn:uuid:")
    blank = RawItem(
        modality=reading.hint or "text",
        role="document" if (reading.hint or "text") == "text" else "media",
        ref=SourceRef(path=reading.path, member=found.member),
        sample_id=names.of(identity or None, number),
        metadata=found.metadata,
        size_bytes=found.size_bytes,
    )
    try:
        return _content_item(found, blank, reading)
    except UnreadableItem as error:
        return blank.replace(content=Content(found.block), fault=Fault.of(error))


def _content_item(record: Record, blank: RawItem, reading: Reading) -> RawItem:
    kind = record.field("warc-type")
    if kind not in _CONTENT:
        raise UnreadableItem(
            1005, f"the record is of type {str(kind)[:40]!r}, which ISO 28500 does not have for content"
        )
    if record.field("warc-segment-number") not in (None, "1") or record.field("warc-segment-total-length"):
        raise UnreadableItem(1003, "the record is one segment of several, which are not joined")
    if kind == "revisit":
        raise UnreadableItem(
            1106,
            "a revisit: the body is in the record "
            f"{(record.field('warc-refers-to') or 'of ' + str(record.field('warc-refers-to-date')))[:100]}",
        )
    answer = _answer(record) if kind == "response" else None
    metadata = dict(blank.metadata)
    if answer is not None:
        metadata.update(
            {
                "http_status": answer.status,
                "http_headers": {name: value for name in _KEPT_HEADERS if (value := answer.header(name)) is not None},
            }
        )
    return _body_item(record, answer, blank.replace(metadata=metadata), reading)


def _answer(record: Record) -> _Answer:
    with record.block() as stream:
        head = stream.read(_MAX_HTTP_HEADER_BYTES)
    status = _STATUS.match(head)
    if status is None:
        raise UnreadableItem(1003, "the response does not start with an HTTP status line")
    end = re.search(rb"\r?\n\r?\n", head)
    if end is None and len(head) < record.size_bytes:
        raise UnreadableItem(1003, f"the HTTP header has no end in its first {_MAX_HTTP_HEADER_BYTES} bytes")
    text = head[: end.start() if end else len(head)].decode("utf-8", "backslashreplace")
    lines = re.sub(r"\r?\n[ \t]+", " ", text).splitlines()[1:]
    headers = tuple(
        (name.strip().lower(), value.strip()) for name, colon, value in (line.partition(":") for line in lines) if colon
    )
    return _Answer(int(status[1]), headers, end.end() if end else len(head))


def _body_item(record: Record, answer: _Answer | None, item: RawItem, reading: Reading) -> RawItem:
    """The item with its bytes; those of answers that are no content, and of what its publisher withholds, are not
    kept."""
    limit = reading.settings.max_item_bytes
    content = _content(record, answer, limit)
    declared = (answer.header("content-type") if answer else record.field("content-type")) or ""
    if answer is not None and answer.status != 200:
        return item.replace(fault=Fault(1106, f"http_status={answer.status} not in [200, 200]"))
    if record.size_bytes > limit:
        return item.replace(fault=Fault(1008, f"size_bytes={record.size_bytes} not in [0, {limit}]"))
    head, broken = _head(content)
    kind = kind_of(
        head[: sniff.HEAD_BYTES],
        content_type=declared,
        url=record.field("warc-target-uri") or "",
        stream=None if broken else content.open,
    )
    modality = kind.modality if kind else None
    wish = (
        refusal_of(
            answer.headers, agent=reading.settings.agent, modality=modality, page=head if modality == "text" else b""
        )
        if answer
        else None
    )
    placed = item.replace(
        modality=modality or item.modality,
        content_type=kind.content_type if kind else None,
        extension=kind.extension if kind else "bin",
    )
    placed = placed.replace(role="document" if placed.modality == "text" else "media")
    if wish is not None and reading.settings.respect_opt_out:
        return placed.replace(fault=Fault(1108, wish))
    ref, plain = record.range_of(item.ref, answer.size_bytes if answer else 0), content.raw is None
    placed = placed.replace(content=content, ref=ref if plain else item.ref)
    if broken is not None:
        return placed.replace(fault=broken)
    if modality is None:
        told = kind.content_type if kind else None
        return placed.replace(
            fault=Fault(1005, f"content is {told or declared[:80] or 'of no declared type'}, which no modality takes")
        )
    if not head:
        return placed.replace(fault=Fault(1006, "size_bytes=0 not in [1, inf)"))
    return placed.replace(charset=declared_charset(declared, head) if modality == "text" else None)


def _head(content: Content) -> tuple[bytes, Fault | None]:
    """(the first bytes of the content, why they are not all of it)."""
    try:
        with content.open() as stream:
            return stream.read(1 << 18), None
    except UnreadableItem as error:
        return b"", Fault.of(error)


def _content(record: Record, answer: _Answer | None, limit_bytes: int) -> Content:
    """The way to the body. Opening it verifies the digests that the record states, once."""
    checked: list[Fault | None] = []
    start = answer.size_bytes if answer else 0

    def body() -> IO[bytes]:
        return record.block(start)

    chunked = answer is not None and "chunked" in (answer.header("transfer-encoding") or "").lower()
    codings = http_bodies.codings_of(answer.header("content-encoding")) if answer else ()

    def undone() -> IO[bytes]:
        if not checked:
            checked.append(_mismatch(record, start, chunked=chunked))
        if checked[0] is not None:
            raise UnreadableItem(checked[0].code, checked[0].reason)
        stream = http_bodies.dechunked(body()) if chunked else body()
        return http_bodies.decoded(stream, codings, limit_bytes=limit_bytes)

    # raw is what is kept where a body cannot be undone or is not what was hashed; without codings it is the body
    # itself.
    return Content(undone, body if chunked or codings or _states_digest(record) else None)


def _states_digest(record: Record) -> bool:
    return any(record.field(name) for name in ("warc-payload-digest", "warc-block-digest"))


def _mismatch(record: Record, start: int, *, chunked: bool) -> Fault | None:
    """Why the bytes are not those that the record's digests tell of, or None where they are."""
    block, payload = (Checksum.of_label(record.field(f"warc-{name}-digest")) for name in ("block", "payload"))
    if record.field("warc-truncated"):
        payload = None  # of the payload as it was served, which is longer
    if block is not None and not block.fits(record.block()):
        return Fault(1010, f"the record's block does not have the digest {block} that it states")
    if payload is None or payload.fits(record.block(start)):
        return None
    try:
        # Some crawlers hash the body before they chunk it, some after.
        if chunked and payload.fits(http_bodies.dechunked(record.block(start))):
            return None
    except UnreadableItem:
        pass
    return Fault(1010, f"the record's payload does not have the digest {payload} that it states")

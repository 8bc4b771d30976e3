"""WARC files (ISO 28500), plain, gzip and Zstandard: one row per record that holds content or should.

Rows are the records `response`, `resource`, `conversion` (WET texts), `revisit`, and those of unknown type; `request`,
`metadata`, `warcinfo` and DNS records, and what wget and wpull keep of themselves, describe the crawl and are counted
in the log. A damaged record is a row, and the
rows behind it are read.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterator

from mmlake.download.classification import HEAD_BYTES, classify
from mmlake.errors import Fault, UnreadableItem
from mmlake.formats.http_responses import kept_headers
from mmlake.formats.warc import Damage, Payload, Record, begins, records
from mmlake.records import SourceRef
from mmlake.sources import shard as shards
from mmlake.sources.directory_parts import first_samples
from mmlake.sources.names import SampleNames
from mmlake.sources.raw_items import EMPTY, Content, RawItem, Reading, role_of

_LOG = logging.getLogger("mmlake.sources")
_CONTENT = ("response", "resource", "conversion", "revisit")
_ABOUT_THE_CRAWL = ("request", "metadata", "warcinfo")
_LOGS = ("metadata:", "urn:x-wpull:")  # addresses under which wget and wpull keep their arguments and logs
_MEMBER = re.compile(r"record:(\d+)(?:\+\d+)?")


def claims(head: bytes, name: str) -> bool:
    """Whether these are the first bytes of a WARC file."""
    return begins(head)


def modalities(reading: Reading) -> tuple[str, ...]:
    """The modalities that the records have, exactly: every header is read, and the start of every body."""
    return shards.ordered(item.modality for item in first_samples(items(reading), reading.limit)) or (reading.home,)


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
        yield reading.empty(reading.home, what="num_records")
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
    address = (record.field("warc-target-uri") or "").strip("<>").lower()
    if kind == "resource" and address.startswith(_LOGS):
        return "log"
    return "dns" if address.startswith("dns:") else None


def _item(found: Record | Damage, number: int, reading: Reading, names: SampleNames) -> RawItem:
    if isinstance(found, Damage):
        item = reading.fault(found.fault.code, found.fault.reason, modality=reading.home, member=found.member)
        item.metadata = found.metadata
        return item
    identity = (found.field("warc-record-id") or "").strip("<>").removeprefix("urn:uuid:")
    blank = RawItem(
        modality=reading.home,
        role=role_of(reading.home),
        ref=SourceRef(path=reading.path, member=found.member),
        sample_id=names.of(identity or None, number),
        metadata=found.metadata,
        size_bytes=found.size_bytes,
    )
    try:
        _check_type(found)
        payload = Payload.of(found, limit_bytes=reading.settings.max_item_bytes)
        return _content_item(payload, blank, reading)
    except UnreadableItem as error:
        return blank.replace(content=Content(found.block), fault=Fault.of(error))


def _check_type(record: Record) -> None:
    """Return where the record holds its whole content. Raises UnreadableItem."""
    kind = record.field("warc-type")
    if kind not in _CONTENT:
        raise UnreadableItem(
            1005, f"the record is of type {str(kind)[:40]!r}, which ISO 28500 does not have for content"
        )
    if record.field("warc-segment-number") not in (None, "1") or record.field("warc-segment-total-length"):
        raise UnreadableItem(1003, "the record is one segment of several, which are not joined")
    if kind == "revisit":
        original = record.field("warc-refers-to") or f"of {record.field('warc-refers-to-date')}"
        raise UnreadableItem(1106, f"a revisit: the body is in the record {original[:100]}")


def _content_item(payload: Payload, item: RawItem, reading: Reading) -> RawItem:
    """The item with its bytes; those of answers that are no content, and of what its publisher withholds, are not
    kept."""
    record, response, limit = payload.record, payload.response, payload.limit_bytes
    if payload.is_response:
        of_response = {"http_status": response.status, "http_headers": kept_headers(response.headers)}
        item = item.replace(metadata={**item.metadata, **of_response})
        if response.status != 200:
            return item.replace(fault=Fault(1106, f"http_status={response.status} not in [200, 200]"))
    if record.size_bytes > limit:
        return item.replace(fault=Fault(1008, f"size_bytes={record.size_bytes} not in [0, {limit}]"))
    head, broken = _head(payload)
    declared = response.header("content-type")
    found = classify(
        head,
        declared=declared,
        url=record.field("warc-target-uri") or "",
        agent=reading.settings.agent,
        headers=response.headers if payload.is_response else None,
        stream=None if broken else payload.open,
    )
    modality = found.modality or item.modality
    item = item.replace(
        modality=modality,
        role=role_of(modality),
        content_type=found.content_type,
        extension=found.extension,
    )
    if found.opt_out is not None and reading.settings.respect_opt_out:
        return item.replace(fault=Fault(1108, found.opt_out))
    # what is stored is kept where a body cannot be undone or is not what was hashed
    content, ref = Content(payload.open, None if payload.is_stored_bare else payload.stored), item.ref
    if payload.is_stored_bare and (extent := record.extent(response.size_bytes)) is not None:
        ref = ref._replace(byte_offset=extent[0], byte_size=extent[1])
    item = item.replace(content=content, ref=ref)
    if broken is not None:
        return item.replace(fault=broken)
    if found.modality is None:
        named = found.content_type or declared[:80] or "of no declared type"
        return item.replace(fault=Fault(1005, f"content is {named}, which no modality takes"))
    if not head:
        return item.replace(fault=EMPTY)
    return item.replace(charset=found.charset)


def _head(payload: Payload) -> tuple[bytes, Fault | None]:
    """(the first bytes of the content, why they are not all of it)."""
    try:
        with payload.open() as stream:
            return stream.read(HEAD_BYTES), None
    except UnreadableItem as error:
        return b"", Fault.of(error)

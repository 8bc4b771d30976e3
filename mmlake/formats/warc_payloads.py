"""The content of a WARC record: the HTTP response in it, its body with chunks and content codings undone, its
publisher's digests verified (ISO 28500, 5.8 and 5.9)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import IO

from mmlake.errors import Fault, UnreadableItem
from mmlake.formats import http_bodies
from mmlake.formats.checksums import Checksum
from mmlake.formats.http_responses import MAX_HEADER_BYTES, HttpResponse, response_of
from mmlake.formats.warc import Record


@dataclass(frozen=True)
class Payload:
    """The content of one record, to be read as long as the record can be."""

    record: Record
    response: HttpResponse | None  # of a record of type `response`
    limit_bytes: int  # of the body, also after its codings are undone

    @classmethod
    def of(cls, record: Record, *, limit_bytes: int) -> Payload:
        """The payload of the record. Raises UnreadableItem 1003 for a response that is no HTTP."""
        if record.field("warc-type") != "response":
            return cls(record, None, limit_bytes)
        with record.block() as stream:
            head = stream.read(MAX_HEADER_BYTES)
        return cls(record, response_of(head, size_bytes=record.size_bytes), limit_bytes)

    @property
    def offset(self) -> int:
        """The byte of the block at which the body starts."""
        return self.response.size_bytes if self.response else 0

    @property
    def content_type(self) -> str:
        """The declared type of the body; "" where there is none."""
        return (self.response.header("content-type") if self.response else self.record.field("content-type")) or ""

    @property
    def is_stored_bare(self) -> bool:
        """Whether the body is in the file as it is, and the record states no digest that it could miss."""
        if any(self.record.field(f"warc-{name}-digest") for name in ("payload", "block")):
            return False
        return self.response is None or not (self.response.is_chunked or self.response.codings)

    def stored(self) -> IO[bytes]:
        """The body as it is in the record, with chunks and content codings."""
        return self.record.block(self.offset)

    def open(self) -> IO[bytes]:
        """The body. Raises UnreadableItem: 1010 where it is not what a digest states; as `http_bodies` says."""
        if self._mismatch is not None:
            raise UnreadableItem(self._mismatch.code, self._mismatch.reason)
        stream = http_bodies.dechunked(self.stored()) if self._is_chunked else self.stored()
        return http_bodies.decoded(stream, self.response.codings if self.response else (), limit_bytes=self.limit_bytes)

    @property
    def _is_chunked(self) -> bool:
        return self.response is not None and self.response.is_chunked

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
            if self._is_chunked and payload.fits(http_bodies.dechunked(self.stored())):
                return None
        except UnreadableItem:
            pass
        return Fault(1010, f"the record's payload does not have the digest {payload} that it states")

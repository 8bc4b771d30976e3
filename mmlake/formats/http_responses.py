"""HTTP responses as a crawl stores them: status line and headers parsed; bodies undone, chunks joined (RFC 9112) and
content encodings expanded (RFC 9110), each with a limit on what comes out."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import IO

from mmlake.errors import UnreadableItem
from mmlake.formats.compression import Damaged, Expanded, Inflater, Stepwise, compression_of, expanded
from mmlake.formats.sniff import HEAD_BYTES, is_textual, kind_by_magic
from mmlake.optional import need
from mmlake.streams import Converted, Kept

MAX_HEADER_BYTES = 1 << 18
_KEPT = (
    *("content-type", "content-language", "last-modified", "etag"),
    *("x-robots-tag", "tdm-reservation", "content-disposition"),
)
_STATUS = re.compile(rb"(?i:HTTP)/\d(?:\.\d)? (\d{3})(?: |\r|\n|$)")
_BLANK_LINE = re.compile(rb"\r?\n\r?\n")

Header = tuple[str, str]  # the name in lower case, the value


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """Status and headers of one response."""

    status: int
    headers: tuple[Header, ...]
    size_bytes: int  # of status line and headers: the body is behind them

    @property
    def is_chunked(self) -> bool:
        """Whether the headers say that the body is in chunks; crawlers join them and keep the header."""
        return "chunked" in self.header("transfer-encoding").lower()

    @property
    def codings(self) -> tuple[str, ...]:
        """The content codings of the body, in the order of their application."""
        return codings_of(self.header("content-encoding"))

    def header(self, name: str) -> str:
        """The value of a header, by its name in lower case; the first where it is repeated, "" where there is none."""
        return next((value for key, value in self.headers if key == name), "")


def response_of(head: bytes, *, size_bytes: int) -> HttpResponse:
    """The response that begins so. Raises UnreadableItem 1003 where it does not begin as HTTP does, or its header does
    not end within these bytes.

    head: the first bytes, `MAX_HEADER_BYTES` of them or all. size_bytes: of the whole.
    """
    status = _STATUS.match(head)
    if status is None:
        raise UnreadableItem(1003, "the response does not start with an HTTP status line")
    end = _BLANK_LINE.search(head)
    if end is None and len(head) < size_bytes:
        raise UnreadableItem(1003, f"the HTTP header has no end in its first {MAX_HEADER_BYTES} bytes")
    text = head[: end.start() if end else len(head)].decode("utf-8", "backslashreplace")
    lines = re.sub(r"\r?\n[ \t]+", " ", text).splitlines()[1:]
    pairs = (line.partition(":") for line in lines)
    headers = tuple((name.strip().lower(), value.strip()) for name, colon, value in pairs if colon)
    return HttpResponse(int(status[1]), headers, end.end() if end else len(head))


def kept_headers(headers: Iterable[Header]) -> dict[str, str]:
    """The headers that rows keep, which say something of the content: the first of each name."""
    by_name = dict(reversed(tuple(headers)))
    return {name: by_name[name] for name in _KEPT if name in by_name}


ACCEPTED = "gzip, deflate"  # what is asked for; crawls may hold br and zstd as well

_STEP_BYTES = 1 << 16
_MAX_CODINGS = 4  # nobody encodes a body five times but to hide a bomb


def codings_of(header: str | None) -> tuple[str, ...]:
    """The content codings that a header names, in the order of their application; without `identity`."""
    names = (name.strip().lower().removeprefix("x-") for name in (header or "").split(","))
    return tuple(name for name in names if name and name != "identity")


def decoded(source: IO[bytes], codings: tuple[str, ...], *, limit_bytes: int) -> IO[bytes]:
    """The body behind its content codings, for reading in order; the source itself where there are none.

    A coding that the bytes plainly do not have was undone by whoever stored them, and is passed over, as is one that
    nobody knows (none, utf-8, text/html) of a body that is text, or a medium, as it stands. Reading raises
    UnreadableItem: 1002 where the stream is cut, 1003 where it is damaged, 1008 past the limit.
    source: at its start, seekable.
    """
    if len(codings) > _MAX_CODINGS:
        raise UnreadableItem(1003, f"num_content_codings={len(codings)} not in [0, {_MAX_CODINGS}]")
    for coding in reversed(codings):
        buffered = source if isinstance(source, io.BufferedReader) else io.BufferedReader(Kept(source), _STEP_BYTES)
        head = buffered.peek(4)[:4]
        if coding in ("gzip", "zstd"):
            source = expanded(buffered, coding, limit_bytes=limit_bytes) if compression_of(head) == coding else buffered
        elif coding in ("deflate", "br"):
            decoder = Stepwise(buffered, partial(_inflater, head) if coding == "deflate" else _Brotli)
            stream = Expanded(buffered, decoder, name=coding, limit_bytes=limit_bytes)
            source = io.BufferedReader(stream, _STEP_BYTES)
        elif _is_content(buffered.peek(HEAD_BYTES)[:HEAD_BYTES]):
            source = buffered
        else:
            raise UnreadableItem(1003, f"content coding {coding[:40]!r} is none of gzip, deflate, br and zstd")
    return source


def _is_content(head: bytes) -> bool:
    return is_textual(head) or kind_by_magic(head) is not None


def _inflater(head: bytes) -> Inflater:
    """deflate is the zlib format (RFC 9110, 8.4.1.2), but servers send raw streams under its name too."""
    wrapped = len(head) >= 2 and head[0] & 0x0F == 8 and (head[0] << 8 | head[1]) % 31 == 0
    return Inflater(15 if wrapped else -15)


class _Brotli:
    """Brotli's decompressor with the interface of those of bz2 and lzma."""

    def __init__(self) -> None:
        self._brotli = need("brotli", extra="web", purpose="reading a body in Brotli")
        self._decompressor = self._brotli.Decompressor()
        self._output = b""  # expanded already: it gives more at a time than it is asked for

    @property
    def needs_input(self) -> bool:
        # What it holds back must be taken out with empty input before it accepts more.
        return not self._output and self._decompressor.can_accept_more_data()

    @property
    def eof(self) -> bool:
        return not self._output and self._decompressor.is_finished()

    def decompress(self, data: bytes, size: int) -> bytes:
        try:
            found = self._output or self._decompressor.process(data, output_buffer_limit=size)
        except self._brotli.error as error:
            raise Damaged from error
        self._output = found[size:]
        return bytes(found[:size])


def dechunked(source: IO[bytes]) -> IO[bytes]:
    """The body without its chunk marks; the body as it is where it has none, since many crawlers join chunks and
    keep the header."""
    start = source.tell()
    first = source.readline(80)
    source.seek(start)
    if _chunk_size(first) is None:
        return source
    return io.BufferedReader(_Dechunked(source), _STEP_BYTES)


def _chunk_size(line: bytes) -> int | None:
    digits = line.partition(b";")[0].strip()
    if not line.endswith(b"\n") or not 0 < len(digits) <= 16 or digits.strip(b"0123456789abcdefABCDEF"):
        return None
    return int(digits, 16)


class _Dechunked(Converted):
    def __init__(self, source: IO[bytes]) -> None:
        self._source, self._left, self._count, self._has_ended = source, 0, 0, False

    def next_bytes(self, size: int) -> bytes:
        if not self._left and not self._has_ended:
            line = self._source.readline(80)
            chunk_bytes = _chunk_size(line)
            if chunk_bytes is None:
                reason = f"no chunk size stands after {self._count} bytes of the chunked body"
                raise UnreadableItem(1003 if line else 1002, reason)
            self._left, self._has_ended = chunk_bytes, chunk_bytes == 0
        data = self._source.read(min(size, self._left))
        if self._left and not data:
            raise UnreadableItem(1002, f"the chunked body stops after {self._count} bytes, inside a chunk")
        self._left -= len(data)
        self._count += len(data)
        if data and not self._left:
            self._source.readline(80)  # the line end behind the chunk
        return data

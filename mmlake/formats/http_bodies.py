"""HTTP bodies undone: chunks joined (RFC 9112), content encodings expanded (RFC 9110), each with a limit on what
comes out."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable
from typing import IO, Any

from mmlake.errors import UnreadableItem
from mmlake.formats.compression import compression_of, expanded
from mmlake.optional import need
from mmlake.streams import Kept

ACCEPTED = "gzip, deflate"  # what is asked for; crawls may hold br and zstd as well

_STEP_BYTES = 1 << 16
_MAX_CODINGS = 4  # nobody encodes a body five times but to hide a bomb


def codings_of(header: str | None) -> tuple[str, ...]:
    """The content codings that a header names, in the order of their application; without `identity`."""
    names = (name.strip().lower().removeprefix("x-") for name in (header or "").split(","))
    return tuple(name for name in names if name and name != "identity")


def decoded(source: IO[bytes], codings: tuple[str, ...], *, limit_bytes: int) -> IO[bytes]:
    """The body behind its content codings, for reading in order; the source itself where there are none.

    A coding that the bytes plainly do not have was undone by whoever stored them, and is passed over. Reading raises
    UnreadableItem:
    1002 where the stream is cut, 1003 where it is damaged, 1008 past the limit. source: at its start, seekable.
    """
    if len(codings) > _MAX_CODINGS:
        raise UnreadableItem(1003, f"num_content_codings={len(codings)} not in [0, {_MAX_CODINGS}]")
    for coding in reversed(codings):
        buffered = source if isinstance(source, io.BufferedReader) else io.BufferedReader(Kept(source), _STEP_BYTES)
        head = buffered.peek(4)[:4]
        if coding in ("gzip", "zstd"):
            source = expanded(buffered, coding, limit_bytes=limit_bytes) if compression_of(head) == coding else buffered
        elif coding == "deflate":
            source = io.BufferedReader(_Stepwise(buffered, _inflater(head), "deflate", limit_bytes), _STEP_BYTES)
        elif coding == "br":
            source = io.BufferedReader(_Stepwise(buffered, _brotli(), "br", limit_bytes), _STEP_BYTES)
        else:
            raise UnreadableItem(1003, f"content coding {coding[:40]!r} is none of gzip, deflate, br and zstd")
    return source


# (input, most bytes to give) -> (output, input left over, whether the end was reached)
Step = Callable[[bytes, int], tuple[bytes, bytes, bool]]


def _inflater(head: bytes) -> Step:
    """deflate is the zlib format (RFC 9110, 8.4.1.2), but servers send raw streams under its name too."""
    wrapped = len(head) >= 2 and head[0] & 0x0F == 8 and (head[0] << 8 | head[1]) % 31 == 0
    inflater = zlib.decompressobj(15 if wrapped else -15)

    def step(data: bytes, size: int) -> tuple[bytes, bytes, bool]:
        try:
            return inflater.decompress(data, size), inflater.unconsumed_tail, inflater.eof
        except zlib.error as error:
            raise ValueError from error

    return step


def _brotli() -> Step:
    brotli = need("brotli", extra="web", purpose="reading a body in Brotli")
    decompressor = brotli.Decompressor()

    def step(data: bytes, size: int) -> tuple[bytes, bytes, bool]:
        try:
            taken = decompressor.can_accept_more_data()
            # What it holds back must be taken out with empty input before it accepts more.
            return (
                decompressor.process(data if taken else b"", output_buffer_limit=size),
                b"" if taken else data,
                decompressor.is_finished(),
            )
        except brotli.error as error:
            raise ValueError from error

    return step


class _Stepwise(io.RawIOBase):
    """A stream that a step function expands piece by piece."""

    def __init__(self, source: IO[bytes], step: Step, name: str, limit_bytes: int) -> None:
        self._source, self._step, self._name, self._limit = source, step, name, limit_bytes
        self._input, self._count, self._ended = b"", 0, False
        self._output = b""  # expanded already: Brotli gives more at a time than it is asked for

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data, dry = self._output, False
        while not data and not self._ended:
            if not self._input:
                self._input = self._source.read(_STEP_BYTES)
                if not self._input and dry:
                    raise UnreadableItem(
                        1002, f"the {self._name} stream stops after {self._count} expanded bytes, before its end mark"
                    )
                dry = not self._input
            try:
                data, self._input, self._ended = self._step(self._input, len(buffer))
            except ValueError as error:
                raise UnreadableItem(
                    1003, f"the {self._name} stream is damaged after {self._count} expanded bytes"
                ) from error
        data, self._output = data[: len(buffer)], data[len(buffer) :]
        self._count += len(data)
        if self._count > self._limit:
            raise UnreadableItem(1008, f"expanded_bytes>={self._count} not in [0, {self._limit}]")
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._source.close()
        super().close()


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


class _Dechunked(io.RawIOBase):
    def __init__(self, source: IO[bytes]) -> None:
        self._source, self._left, self._count, self._ended = source, 0, 0, False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._left and not self._ended:
            line = self._source.readline(80)
            size = _chunk_size(line)
            if size is None:
                raise UnreadableItem(
                    1003 if line else 1002, f"no chunk size stands after {self._count} bytes of the chunked body"
                )
            self._left, self._ended = size, size == 0
        data = self._source.read(min(len(buffer), self._left))
        if self._left and not data:
            raise UnreadableItem(1002, f"the chunked body stops after {self._count} bytes, inside a chunk")
        self._left -= len(data)
        self._count += len(data)
        if data and not self._left:
            self._source.readline(80)  # the line end behind the chunk
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._source.close()
        super().close()

"""HTTP bodies undone: chunks joined (RFC 9112), content encodings expanded (RFC 9110), each with a limit on what
comes out."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable
from typing import IO

from mmlake.errors import UnreadableItem
from mmlake.formats.compression import Damaged, Expanded, compression_of, expanded
from mmlake.optional import need
from mmlake.streams import Converted, Kept

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
        elif coding in ("deflate", "br"):
            decoder = _StepDecoder(buffered, _inflater(head) if coding == "deflate" else _brotli())
            stream = Expanded(buffered, decoder, name=coding, limit_bytes=limit_bytes)
            source = io.BufferedReader(stream, _STEP_BYTES)
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
            raise Damaged from error

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
            raise Damaged from error

    return step


class _StepDecoder:
    """Expands a stream by a step function."""

    def __init__(self, source: IO[bytes], step: Step) -> None:
        self._source, self._step = source, step
        self._input, self._has_ended = b"", False
        self._output = b""  # expanded already: Brotli gives more at a time than it is asked for

    def read(self, size: int) -> bytes:
        """As `compression.Decoder`."""
        data, dry = self._output, False
        while not data and not self._has_ended:
            if not self._input:
                self._input = self._source.read(_STEP_BYTES)
                if not self._input and dry:
                    raise EOFError
                dry = not self._input
            data, self._input, self._has_ended = self._step(self._input, size)
        data, self._output = data[:size], data[size:]
        return data


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
                raise UnreadableItem(
                    1003 if line else 1002, f"no chunk size stands after {self._count} bytes of the chunked body"
                )
            self._left, self._has_ended = chunk_bytes, chunk_bytes == 0
        data = self._source.read(min(size, self._left))
        if self._left and not data:
            raise UnreadableItem(1002, f"the chunked body stops after {self._count} bytes, inside a chunk")
        self._left -= len(data)
        self._count += len(data)
        if data and not self._left:
            self._source.readline(80)  # the line end behind the chunk
        return data

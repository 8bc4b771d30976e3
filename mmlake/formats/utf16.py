"""UTF-16 with its mark as UTF-8, a piece at a time: what spreadsheets save as "Unicode text". Halves of surrogate
pairs stay broken bytes."""

from __future__ import annotations

import codecs
import io
from typing import IO, Any

from mmlake.streams import Converted

UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_READ_BYTES = 1 << 16
_BROKEN = b"\xff"  # what an odd byte at the end becomes: no UTF-8, as it was no UTF-16


def decoded_head(head: bytes) -> str:
    """The first bytes of a text, as far as they go."""
    if head.startswith(UTF_16):
        return codecs.getincrementaldecoder("utf-16")("replace").decode(head)
    return head.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace")


def as_utf_8(stream: IO[bytes]) -> IO[bytes]:
    """The stream itself, or what it says in UTF-8 where it begins with the mark of UTF-16. For reading in order,
    once."""
    mark = stream.read(len(UTF_16[0]))
    whole = io.BufferedReader(_Ahead(mark, stream), _READ_BYTES)
    return io.BufferedReader(_Recoded(whole), _READ_BYTES) if mark in UTF_16 else whole


class _Ahead(Converted):
    """A stream of which the first bytes were read."""

    def __init__(self, first: bytes, stream: IO[bytes]) -> None:
        self._first, self._source = first, stream
        self._read = getattr(stream, "read1", stream.read)  # a cut stream gives what it has before it raises

    def next_bytes(self, size: int) -> bytes:
        data: bytes = self._first[:size] or self._read(size)
        self._first = self._first[len(data) :]
        return data


class _Recoded(Converted):
    """UTF-16 as UTF-8."""

    def __init__(self, stream: io.BufferedReader[Any]) -> None:
        self._source, self._read = stream, stream.read1
        self._decoder = codecs.getincrementaldecoder("utf-16")("surrogatepass")
        self._held, self._has_ended = b"", False

    def next_bytes(self, size: int) -> bytes:
        while not self._held and not self._has_ended:
            data = self._read(_READ_BYTES)
            self._has_ended = not data
            try:
                self._held = self._decoder.decode(data, final=self._has_ended).encode("utf-8", "surrogatepass")
            except UnicodeDecodeError:
                self._held = _BROKEN
        data, self._held = self._held[:size], self._held[size:]
        return data

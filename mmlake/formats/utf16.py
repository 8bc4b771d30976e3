"""UTF-16 with its mark as UTF-8, a piece at a time: what spreadsheets save as "Unicode text". Halves of surrogate
pairs stay broken bytes."""

from __future__ import annotations

import codecs
import io
from typing import IO, Any

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


class _Ahead(io.RawIOBase):
    """A stream of which the first bytes were read."""

    def __init__(self, first: bytes, stream: IO[bytes]) -> None:
        self._first, self._stream = first, stream
        self._next = getattr(stream, "read1", stream.read)  # a cut stream gives what it has before it raises

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._first[: len(buffer)] or self._next(len(buffer))
        self._first = self._first[len(data) :]
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()


class _Recoded(io.RawIOBase):
    """UTF-16 as UTF-8."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._decoder, self._held, self._is_ended = (
            stream,
            codecs.getincrementaldecoder("utf-16")("surrogatepass"),
            b"",
            False,
        )
        self._next = stream.read1

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._held and not self._is_ended:
            data = self._next(_READ_BYTES)
            self._is_ended = not data
            try:
                self._held = self._decoder.decode(data, final=self._is_ended).encode("utf-8", "surrogatepass")
            except UnicodeDecodeError:
                self._held = _BROKEN
        data = self._held[: len(buffer)]
        self._held = self._held[len(data) :]
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()

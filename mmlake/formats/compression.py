"""gzip, Zstandard, bzip2 and xz streams, read in bounded pieces: a cut, damaged or exploding stream raises
UnreadableItem and nothing else."""

from __future__ import annotations

import bz2
import io
import lzma
import re
import zlib
from collections.abc import Callable
from functools import partial
from typing import IO, Any, Protocol

from mmlake.errors import UnreadableItem
from mmlake.streams import Converted, Kept

_GZIP, _ZSTD = b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd"
_SKIPPED = b"\x2a\x4d\x18"  # behind one of sixteen bytes: a frame to pass over, as `pzstd` begins its files with
_XZ = b"\xfd7zXZ\0"
# and the first block's mark, or that of an empty stream: four letters alone begin texts
_BZIP2 = re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)")
GZIP_BITS = 31  # what zlib calls a stream with gzip's header and trailer
MARK_BYTES = 10  # so many first bytes name the compression
SUFFIXES = (".gz", ".zst", ".bz2", ".xz")  # of names of compressed files
MAX_WINDOW_BYTES = 256 << 20  # what an LZMA stream may take in memory to expand; `xz -9` takes 65 MiB
_INPUT_BYTES = 1 << 14  # compressed bytes taken at a time: at deflate's limit of 1:1032 they give 16 MB


def compression_of(head: bytes) -> str | None:
    """Which of "gzip", "zstd", "bzip2" and "xz" the first bytes are; None where they are none of them."""
    if head.startswith(_GZIP):
        return "gzip"
    if head.startswith(_ZSTD) or (head[1:4] == _SKIPPED and 0x50 <= head[0] <= 0x5F):
        return "zstd"
    if head.startswith(_XZ):
        return "xz"
    return "bzip2" if head.startswith(b"BZh") and _BZIP2.match(head) else None


def expanded(source: IO[bytes], compression: str, *, limit_bytes: int) -> io.BufferedReader:
    """What the stream expands to, for reading in order.

    Reading raises UnreadableItem: 1002 where the stream is cut, 1003 where it is damaged, 1008 past the limit.
    """
    decoder = decoder_of(source, compression)
    return io.BufferedReader(Expanded(source, decoder, name=compression, limit_bytes=limit_bytes), 1 << 16)


def expanded_head(source: IO[bytes], compression: str, *, size_bytes: int) -> bytes:
    """The first bytes of what the stream expands to; fewer, or none, where it is broken."""
    found = bytearray()
    try:
        decoder = decoder_of(source, compression)
        while (left := size_bytes - len(found)) and (part := next_of(decoder, left, compression, 0, 1 << 62)):
            found += part
    except UnreadableItem:
        pass
    return bytes(found)


def decoder_of(source: IO[bytes], compression: str) -> Decoder:
    """What expands the stream, which is at its start."""
    return Salvaged(source, _DECODERS[compression])


class Decoder(Protocol):
    """Expands one stream."""

    def read(self, size: int) -> bytes:
        """The next bytes, at most `size`; none at the end. Raises EOFError where the stream is cut, Damaged."""


class Expanded(Converted):
    """What a decoder makes of the stream, up to a limit.

    Those of this module never fail while expanded bytes are left: everything before a cut or a wrong bit is given out
    first.
    """

    def __init__(self, source: IO[bytes], decoder: Decoder, *, name: str, limit_bytes: int) -> None:
        self._source, self._decoder, self._name, self._limit, self._count = source, decoder, name, limit_bytes, 0

    def next_bytes(self, size: int) -> bytes:
        data = next_of(self._decoder, size, self._name, self._count, self._limit)
        self._count += len(data)
        return data


def next_of(decoder: Decoder, size: int, name: str, num_given: int, limit_bytes: int) -> bytes:
    """The next bytes of a stream that gave so many. Raises UnreadableItem as reading what `expanded` gives does."""
    try:
        data = decoder.read(size)
    except EOFError as error:
        reason = f"the {name} stream stops after {num_given} expanded bytes, before its end mark"
        raise UnreadableItem(1002, reason) from error
    except Damaged as error:
        reason = f"the {name} stream is damaged after {num_given} expanded bytes"
        raise UnreadableItem(1003, reason) from error
    if num_given + len(data) > limit_bytes:
        raise UnreadableItem(1008, f"expanded_bytes>={num_given + len(data)} not in [0, {limit_bytes}]")
    return data


class Damaged(Exception):
    """The compressed bytes do not expand any further."""


class Inflater:
    """zlib's decompressor with the interface of those of bz2 and lzma."""

    def __init__(self, window_bits: int) -> None:
        self._inflater, self._held, self.needs_input = zlib.decompressobj(window_bits), b"", True

    @property
    def eof(self) -> bool:
        return self._inflater.eof

    @property
    def unused_data(self) -> bytes:
        return self._inflater.unused_data + self._held

    def decompress(self, data: bytes, size: int) -> bytes:
        """The next bytes, at most so many; a single one of no more input than it takes, since zlib drops it where what
        follows is wrong."""
        found, self._held = b"", self._held + data
        while not found:
            taken = self._held[:1] if size == 1 else self._held
            found = self._inflater.decompress(taken, size)
            self._held = self._inflater.unconsumed_tail + self._held[len(taken) :]
            if not self._held or self.eof:
                break
        self.needs_input = not self._held and len(found) < size
        return found


class Stepwise:
    """A stream, expanded by a decompressor with the interface of those of bz2 and lzma."""

    def __init__(self, source: IO[bytes], begin: Callable[[], Any], *, mark: bytes | None = None) -> None:
        """begin: makes the decompressor. mark: what each begins with, where several streams may stand one behind
        another, zero padding between and after them; None: there is one."""
        self._source, self._begin, self._mark = source, begin, mark
        self._decompressor, self._held = begin(), b""

    def read(self, size: int) -> bytes:
        """As `Decoder`."""
        data = b""
        while not data and (not self._decompressor.eof or self._has_next()):
            more, needs_input = b"", self._decompressor.needs_input
            if needs_input:
                more, self._held = self._held or self._source.read(_INPUT_BYTES), b""
            try:
                data = self._decompressor.decompress(more, size)  # of nothing, too: Brotli may hold some back
            # of these the source raises none: it is read before
            except (zlib.error, lzma.LZMAError, OSError, ValueError) as error:
                if isinstance(error, lzma.LZMAError) and "limit" in str(error):
                    reason = f"the xz stream takes more memory to expand than window_bytes={MAX_WINDOW_BYTES}"
                    raise UnreadableItem(1008, reason) from error
                raise Damaged from error
            if needs_input and not (more or data or self._decompressor.eof):
                raise EOFError
        return data

    def _has_next(self) -> bool:
        """Whether another stream follows, which is begun."""
        if self._mark is None:
            return False
        held = self.rest
        while not (held := held.lstrip(b"\0")):
            if not (held := self._source.read(_INPUT_BYTES)):
                return False
        if held[: len(self._mark)] != self._mark[: len(held)]:
            raise Damaged  # and no stream that was cut
        self._decompressor, self._held = self._begin(), held
        return True

    @property
    def rest(self) -> bytes:
        """What was read behind the end of the stream."""
        return bytes(self._decompressor.unused_data) + self._held

    def has_rest(self) -> bool:
        """Whether bytes follow the end of the stream."""
        return bool(self.rest or self._source.read(1))


class Salvaged:
    """A stream whose decoder drops what it holds when it fails, as zlib, bz2, lzma and pyarrow do: what stands before a
    cut or a wrong bit is given first."""

    def __init__(self, source: IO[bytes], begin: Callable[[IO[bytes]], Decoder]) -> None:
        """begin: makes the decoder of a source that is at its start."""
        self._source, self._begin, self._decoder = source, begin, begin(source)
        self._count, self._step = 0, 0  # bytes given; at most so many at a time, 0 for as many as are wanted

    def read(self, size: int) -> bytes:
        """As `Decoder`."""
        try:
            data = self._decoder.read(min(size, self._step or size))
        except Damaged as error:
            if self._step == 1 or not self._source.seekable():
                raise (EOFError if isinstance(error, _Truncated) else Damaged) from error
            # come back to this place and go on in small steps, then byte by byte, until it fails again
            self._source.seek(0)
            self._decoder = self._begin(self._source)
            self._step, left = 1 if self._step else 1024, self._count
            while left and (again := self._decoder.read(min(left, 1 << 16))):
                left -= len(again)
            return self.read(size)
        self._count += len(data)
        return data


class _Truncated(Damaged):
    """They end too early."""


class Zstd:
    """Zstandard frames through pyarrow, and not zstandard, whose stream reader takes a cut frame for the end of the
    data (measured, 0.25)."""

    def __init__(self, source: IO[bytes]) -> None:
        import pyarrow as pa

        self._stream = pa.CompressedInputStream(pa.PythonFile(Kept(source), mode="r"), "zstd")

    def read(self, size: int) -> bytes:
        """As `Decoder`, but for a cut stream, which is `Damaged` too."""
        try:
            return bytes(self._stream.read(size))
        except (OSError, ValueError) as error:
            raise (_Truncated if "Truncated" in str(error) else Damaged) from error


_DECODERS: dict[str, Callable[[IO[bytes]], Decoder]] = {
    # zlib itself holds what begins against its mark
    "gzip": partial(Stepwise, begin=partial(Inflater, GZIP_BITS), mark=b""),
    "zstd": Zstd,
    "bzip2": partial(Stepwise, begin=bz2.BZ2Decompressor, mark=b"BZh"),
    "xz": partial(Stepwise, begin=partial(lzma.LZMADecompressor, lzma.FORMAT_XZ, MAX_WINDOW_BYTES), mark=_XZ),
}

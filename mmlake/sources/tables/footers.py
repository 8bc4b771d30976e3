"""Where the columns of a Parquet file lie, told by its footer.

Enters: the file. Leaves: a `Chunk` for every column of every row group. pyarrow tells the same of a footer without
contradictions; asking it about one with some (a histogram of levels that the column does not have) ends the process, so
that the few numbers needed are read here (parquet-format, `FileMetaData`).
"""

from __future__ import annotations

import io
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import IO

from mmlake.errors import UnreadableItem
from mmlake.sources.tables.compact import (
    BINARY,
    INT32,
    INT64,
    LIST,
    STRUCT,
    Malformed,
    Readers,
    passed,
    read_fields,
    read_integer,
    read_list,
    read_varint,
)

_TAIL_BYTES = 8  # length of the footer, and a mark
_CODECS = ("uncompressed", "snappy", "gzip", "lzo", "brotli", "lz4", "zstd", "lz4_raw")
# what is kept of a chunk, in this order
_CODEC, _STORED_BYTES, _DATA_AT, _DICTIONARY_AT, _ELSEWHERE, _ENCRYPTED = range(6)
_NUMBERS = 6


@dataclass(frozen=True, slots=True)
class Chunk:
    """One column of one row group."""

    start: int  # where its first page lies in the file
    stored_bytes: int
    codec: str  # as the format calls it, in lower case; "" for one that it does not name
    is_elsewhere: bool  # in another file
    is_encrypted: bool


def footer_place(stream: IO[bytes]) -> tuple[int, int]:
    """(where the footer begins, its bytes) as the end of the file says; (0, 0) where that is not Parquet's."""
    end = stream.seek(0, io.SEEK_END) - _TAIL_BYTES
    stream.seek(max(0, end))
    tail = stream.read(_TAIL_BYTES)
    size = int.from_bytes(tail[:4], "little")
    return (end - size, size) if tail.endswith(b"PAR1") and size < end else (0, 0)


class Footer:
    """The chunks of a file in 48 bytes each, since a footer may name half a million."""

    def __init__(self, stream: IO[bytes]) -> None:
        """Raises UnreadableItem 1001 where the footer does not parse."""
        self._start, size = footer_place(stream)
        stream.seek(self._start)
        self._numbers = array("q")
        self._ends = array("q", [0])  # of the row groups, in chunks
        about: Readers = {
            4: (INT32, self._keep(_CODEC)),
            7: (INT64, self._keep(_STORED_BYTES)),
            9: (INT64, self._keep(_DATA_AT)),
            11: (INT64, self._keep(_DICTIONARY_AT)),
        }
        self._column: Readers = {
            1: (BINARY, self._file_path),
            3: (STRUCT, partial(read_fields, readers=about)),
            8: (STRUCT, self._crypto),
        }
        try:
            read_fields(stream.read(size), 0, {4: (LIST, partial(_read_structs, read=self._read_group))})
        except (IndexError, Malformed) as error:
            raise UnreadableItem(1001, "the footer does not say where its columns lie") from error

    def chunks(self, group: int) -> list[Chunk]:
        """The columns of the row group in the order of the schema. Raises UnreadableItem 1001 where there is no such
        group, or a column does not lie before the footer."""
        if group + 1 >= len(self._ends):
            raise UnreadableItem(1001, f"group={group} not in [0, {len(self._ends) - 2}], the row groups of the footer")
        found = []
        for at in range(self._ends[group] * _NUMBERS, self._ends[group + 1] * _NUMBERS, _NUMBERS):
            codec, stored, start, dictionary, elsewhere, encrypted = self._numbers[at : at + _NUMBERS]
            start = min((offset for offset in (dictionary, start) if offset), default=0)
            if start <= 0 or stored < 0 or start + stored > self._start:
                raise UnreadableItem(
                    1001,
                    f"a column chunk is said to have {stored} bytes at byte {start} of the file, whose footer "
                    f"begins at byte {self._start}",
                )
            found.append(
                Chunk(
                    start, stored, _CODECS[codec] if 0 <= codec < len(_CODECS) else "", bool(elsewhere), bool(encrypted)
                )
            )
        return found

    def _read_group(self, data: bytes, at: int) -> int:
        at = read_fields(data, at, {1: (LIST, partial(_read_structs, read=self._read_chunk))})
        self._ends.append(len(self._numbers) // _NUMBERS)
        return at

    def _read_chunk(self, data: bytes, at: int) -> int:
        self._numbers.extend((-1, 0, 0, 0, 0, 0))
        return read_fields(data, at, self._column)

    def _keep(self, which: int) -> Callable[[bytes, int], int]:
        """What reads an integer as this number of the newest chunk."""
        numbers, place, kind = self._numbers, which - _NUMBERS, INT32 if which == _CODEC else INT64

        def read(data: bytes, at: int) -> int:
            numbers[place], at = read_integer(data, at, kind)
            return at

        return read

    def _file_path(self, data: bytes, at: int) -> int:
        size, at = read_varint(data, at)
        self._numbers[_ELSEWHERE - _NUMBERS] = size > 0
        return at + size

    def _crypto(self, data: bytes, at: int) -> int:
        self._numbers[_ENCRYPTED - _NUMBERS] = True
        return passed(data, at, STRUCT)


def _read_structs(data: bytes, at: int, read: Callable[[bytes, int], int]) -> int:
    """Where the list ends that begins there."""
    count, kind, at = read_list(data, at)
    if count and kind != STRUCT:
        raise Malformed
    for _ in range(count):
        at = read(data, at)
    return at

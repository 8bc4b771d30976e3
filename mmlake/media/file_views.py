"""Files as FFmpeg reads them to their end, where it would stop or go astray in the bytes as they are.

Enters: a file. Leaves: a view of it, in which MPEG-TS has one clock, a WAV the padding that its writer forgot, and AMR
recordings that were laid end to end one header. Nothing is copied.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from mmlake.media.transport_clock import OneClock, restarts
from mmlake.media.wav_chunks import forgotten_padding
from mmlake.streams import Owned, Seekable

_AMR_HEAD = re.compile(rb"#!AMR(?:-WB)?\n")  # RFC 4867, section 5
_LONGEST_HEAD = 9
_BLOCK_BYTES = 1 << 20
_MAX_FILES = 10_000

Piece = bytes | tuple[int, int]  # to give as they are, or from and up to which byte of a file to read


def view_of(path: Path) -> Seekable | None:
    """What FFmpeg is to be given in place of the file, closed by who drops it; None where that is the file itself."""
    if found := restarts(path):
        return OneClock(path.open("rb"), path.stat().st_size, found)
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(12)
        if head[:4] in (b"RIFF", b"RF64") and head[8:] == b"WAVE":
            pieces = _padded(forgotten_padding(file, size), size)
        elif _AMR_HEAD.match(head):
            pieces = _of_one_head(file, size)
        else:
            return None
    return PiecedFile(path.open("rb"), pieces) if pieces != [(0, size)] else None


def other_amr(file: IO[bytes]) -> int | None:
    """The byte at which a recording of the other kind of AMR, of another rate, begins behind the first; None where
    there is none."""
    heads = list(_amr_heads(file))
    return next((at for at, head in heads if head != heads[0][1]), None)


def _padded(places: list[int], size: int) -> list[Piece]:
    borders = [0, *places, size]
    found: list[Piece] = [(0, borders[1])]
    for span in itertools.pairwise(borders[1:]):
        found += [b"\0", span]
    return found


def _of_one_head(file: IO[bytes], size: int) -> list[Piece]:
    """All recordings of the kind of the first, up to one of another kind."""
    heads = list(_amr_heads(file))
    alike = list(itertools.takewhile(lambda one: one[1] == heads[0][1], heads))
    end = heads[len(alike)][0] if len(alike) < len(heads) else size
    starts = [0, *(at + len(head) for at, head in alike[1:])]
    return list(zip(starts, [*(at for at, _ in alike[1:]), end], strict=True))


def _amr_heads(file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """(place, head) of each, at most 10,000; none where the file does not begin with one. Frames are not walked: such
    bytes come by chance once in 2^48."""
    file.seek(0)
    at, num, block = 0, 0, file.read(_BLOCK_BYTES)
    if not _AMR_HEAD.match(block):
        return
    while block:
        is_last = len(block) < _BLOCK_BYTES
        for found in _AMR_HEAD.finditer(block):
            if not is_last and found.start() >= len(block) - _LONGEST_HEAD:
                break  # the next block has the whole of it
            yield at + found.start(), found[0]
            if (num := num + 1) == _MAX_FILES:
                return
        if is_last:
            return
        at += len(block) - _LONGEST_HEAD
        file.seek(at)
        block = file.read(_BLOCK_BYTES)


class PiecedFile(Owned):
    """Pieces of a file, and bytes between them, as one file."""

    def __init__(self, file: IO[bytes], pieces: list[Piece]) -> None:
        self._file, self._pieces, self._at = file, pieces, 0
        lengths = [len(one) if isinstance(one, bytes) else one[1] - one[0] for one in pieces]
        self._starts = [0, *itertools.accumulate(lengths)]
        self._size = self._starts.pop()

    def readinto(self, buffer: Any) -> int:
        """As much as one piece has."""
        if self._at >= self._size:
            return 0
        number = bisect_right(self._starts, self._at) - 1
        piece, offset = self._pieces[number], self._at - self._starts[number]
        if isinstance(piece, bytes):
            data = piece[offset : offset + len(buffer)]
        else:
            self._file.seek(piece[0] + offset)
            data = self._file.read(min(len(buffer), piece[1] - piece[0] - offset))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

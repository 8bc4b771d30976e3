"""One clock for MPEG-TS whose clock begins again, as where recordings were joined by `cat` or an encoder was restarted.

Enters: a file of transport packets. Leaves: the same file with other time stamps (PTS, DTS and PCR, ISO/IEC 13818-1,
2.4.3) behind each restart, so that what follows begins where what came before ends. Nothing is copied: stamps are
replaced as they are read. A broadcast that wraps at 33 bits, pauses, or has one wrong stamp is left as it is.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmlake.streams import Owned

# N packets of one block, each of 188 bytes
_PACKET_BYTES, _SYNC = 188, 0x47
_BLOCK_PACKETS = 1 << 15  # 6 MB at once
_WRAP, _HZ = 1 << 33, 90_000
_BACK, _LEAP = _HZ // 2, 600 * _HZ  # ticks, as `mmlake.preprocess.containers.stream_clocks` has them
_NEAR = 10 * _HZ  # from one stamp of a stream to the next
_NUM_ALIKE = 3  # stamps of one stream on the new clock, from which on it is one and no wrong stamp
_MAX_RESTARTS = 10_000
_SOUND_AND_PICTURES = (0xBD, 0xC0, 0xEF, 0xFD)  # stream ids: private, the first and last of sound and video, extended


class Restart(NamedTuple):
    """Where a stream goes over to another clock."""

    at_byte: int
    pid: int
    shift: int  # ticks that are added to its stamps from there on, modulo 2^33


class _Stream(NamedTuple):
    """The stamps of one stream, in the order of the file."""

    places: NDArray[np.int64]  # bytes
    ticks: NDArray[np.int64]  # of decoding


def restarts(path: Path) -> tuple[Restart, ...]:
    """Those of the file, in its order; none where its packets do not lie one behind the other."""
    return _scanned(path)[0]


def other_streams(path: Path) -> int | None:
    """The byte from which on there are other streams than before alone, of which players know nothing at the beginning;
    None where there is none."""
    return _scanned(path)[1]


def _scanned(path: Path) -> tuple[tuple[Restart, ...], int | None]:
    about = path.stat()
    return _scan(path, about.st_size, about.st_mtime_ns)


@lru_cache(maxsize=64)  # a film is opened by each stage, often several times
def _scan(path: Path, size_bytes: int, modified_ns: int) -> tuple[tuple[Restart, ...], int | None]:
    with path.open("rb") as file:
        head = file.read(2 * _PACKET_BYTES + 1)
        if len(head) <= 2 * _PACKET_BYTES or {head[0], head[188], head[376]} != {_SYNC}:
            return (), None
        stamps = [np.empty((3, 0), np.int64)]
        file.seek(0)
        at = 0
        while block := file.read(_BLOCK_PACKETS * _PACKET_BYTES):
            packets_NB = _packets(block)
            if (packets_NB[:, 0] != _SYNC).any():
                return (), None
            stamps.append(_stamps(packets_NB, at))
            at += len(block)
    places, pids, ticks = np.concatenate(stamps, axis=1)
    of_pid = {int(pid): _Stream(places[pids == pid], ticks[pids == pid]) for pid in np.unique(pids)}
    return tuple(_found(of_pid)), _others(of_pid)


def _others(of_pid: dict[int, _Stream]) -> int | None:
    """Streams are of one recording as long as one of them goes on where another begins."""
    spans = sorted((int(one.places[0]), int(one.places[-1])) for one in of_pid.values())
    end = spans[0][1] if spans else 0
    for first, last in spans[1:]:
        if first > end:
            return first
        end = max(end, last)
    return None


def _packets(block: bytes | bytearray) -> NDArray[np.uint8]:
    num = len(block) // _PACKET_BYTES
    return np.frombuffer(block, np.uint8, num * _PACKET_BYTES).reshape(num, _PACKET_BYTES)


def _stamped(packets_NB: NDArray[np.uint8]) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.bool_]]:
    """(numbers of the packets in which a stamp of presentation stands, its place, whether one of decoding follows)."""
    control = packets_NB[:, 3] >> 4
    numbers = np.flatnonzero((packets_NB[:, 1] & 0x40 != 0) & (control & 1 != 0))
    lead = np.where(control[numbers] & 2, 5 + packets_NB[numbers, 4].astype(np.intp), 4)
    is_whole = lead + 19 <= _PACKET_BYTES
    numbers, lead = numbers[is_whole], lead[is_whole]
    first = [packets_NB[numbers, lead + offset] for offset in range(8)]
    private, low, high, extended = _SOUND_AND_PICTURES
    is_media = (first[3] >= low) & (first[3] <= high) | (first[3] == private) | (first[3] == extended)
    is_stamped = (first[0] == 0) & (first[1] == 0) & (first[2] == 1) & is_media & (first[7] & 0x80 != 0)
    return numbers[is_stamped], lead[is_stamped] + 9, first[7][is_stamped] & 0x40 != 0


def _ticks(packets_NB: NDArray[np.uint8], numbers: NDArray[np.intp], places: NDArray[np.intp]) -> NDArray[np.int64]:
    a, b, c, d, e = (packets_NB[numbers, places + offset].astype(np.int64) for offset in range(5))
    return (a >> 1 & 7) << 30 | b << 22 | c >> 1 << 15 | d << 7 | e >> 1


def _pids(packets_NB: NDArray[np.uint8]) -> NDArray[np.int64]:
    return (packets_NB[:, 1].astype(np.int64) & 0x1F) << 8 | packets_NB[:, 2]


def _stamps(packets_NB: NDArray[np.uint8], at_byte: int) -> NDArray[np.int64]:
    """(place, stream, time of decoding) of each, shape (3, num_stamps)."""
    numbers, places, has_decoding = _stamped(packets_NB)
    ticks = _ticks(packets_NB, numbers, places + 5 * has_decoding)
    return np.stack([at_byte + numbers * _PACKET_BYTES, _pids(packets_NB)[numbers], ticks])


def _distance(later: Any, earlier: Any) -> Any:
    """Ticks from one stamp to another, across the wrap where that is nearer; of integers or of arrays."""
    return (later - earlier + _WRAP // 2) % _WRAP - _WRAP // 2


def _follows(later: int, earlier: int) -> bool:
    return bool(-_BACK <= _distance(later, earlier) <= _LEAP)


def _found(of_pid: dict[int, _Stream]) -> list[Restart]:
    """Streams go over to a new clock one by one, near each other in the file; all are shifted alike."""
    moved = {pid: numbers for pid, one in of_pid.items() if (numbers := _jumps(one.ticks))}
    rounds = {len(numbers) for numbers in moved.values()}
    if len(rounds) != 1 or max(rounds) > _MAX_RESTARTS:
        return []  # none, or streams that disagree on how many
    begins = [
        {pid: int(of_pid[pid].places[numbers[at]]) for pid, numbers in moved.items()} for at in range(max(rounds))
    ]
    few = [one for pid, one in of_pid.items() if pid not in moved]
    found, shift = list[Restart](), 0
    for number, places in enumerate(begins):
        ends = [_end(of_pid[pid].ticks, numbers, number) for pid, numbers in moved.items()]
        starts = [int(of_pid[pid].ticks[numbers[number]]) for pid, numbers in moved.items()]
        end = max(ends, key=lambda one: _distance(one, ends[0]))
        start = min(starts, key=lambda one: _distance(one, starts[0]))
        first = min(places, key=lambda pid: places[pid])
        if any(_goes_on(one, of_pid[first], places[first], end - start) for one in few):
            return []
        shift = (shift + end - start) % _WRAP
        found += [Restart(place, pid, shift) for pid, place in places.items()]
    return sorted(found)


def _goes_on(stream: _Stream, other: _Stream, place: int, step: int) -> bool:
    """Whether a stream of few stamps, as of subtitles, keeps the clock that another one leaves there. step: ticks from
    the new clock to the old."""
    behind = int(np.searchsorted(stream.places, place))
    if behind == len(stream.places):
        return False
    new = other.ticks[np.searchsorted(other.places, stream.places[behind], side="right") - 1]
    own = stream.ticks[behind]
    return bool(abs(_distance(own, new + step)) < abs(_distance(own, new)))


def _jumps(ticks: NDArray[np.int64]) -> list[int]:
    """The numbers of the stamps with which a new clock begins."""
    steps = _distance(ticks[1:], ticks[:-1])
    odd = np.flatnonzero((steps < -_BACK) | (steps > _LEAP)) + 1
    found, at = list[int](), 0
    while at < len(odd):
        number = int(odd[at])
        last, before = int(ticks[number - 1]), int(ticks[max(0, number - 2)])
        is_leap = _distance(last, before) > _NEAR  # which is taken for a pause until a stamp goes back behind it
        while number < len(ticks) and not _follows(int(ticks[number]), last):
            if is_leap and -_BACK <= _distance(int(ticks[number]), before) <= _NEAR:
                break
            if _is_clock(ticks[number : number + _NUM_ALIKE]):
                found.append(number)
                break
            number += 1  # a wrong stamp
        at = int(np.searchsorted(odd, number, side="right"))
    return found


def _is_clock(ticks: NDArray[np.int64]) -> bool:
    steps = _distance(ticks[1:], ticks[:-1])
    return len(ticks) == _NUM_ALIKE and bool(((steps >= -_BACK) & (steps <= _NEAR)).all())


def _end(ticks: NDArray[np.int64], numbers: list[int], number: int) -> int:
    """Where a stream ends before its next clock: one step behind its last stamp."""
    first, behind = numbers[number - 1] if number else 0, numbers[number]
    last = int(ticks[behind - 1])
    step = int(_distance(last, int(ticks[behind - 2]))) if behind - first > 1 else 0
    return last + (step if 0 < step <= _HZ else 0)


class OneClock(Owned):
    """The file with its stamps on one clock."""

    def __init__(self, file: IO[bytes], size_bytes: int, found: tuple[Restart, ...]) -> None:
        self._file, self._size, self._at, self._first = file, size_bytes, 0, found[0].at_byte
        self._of_pid = {
            pid: np.array([(one.at_byte, one.shift) for one in found if one.pid == pid]).T
            for pid in dict.fromkeys(one.pid for one in found)
        }

    def readinto(self, buffer: Any) -> int:
        first = self._at - self._at % _PACKET_BYTES
        end = min(self._size, self._at + len(buffer))
        self._file.seek(first)
        data = bytearray(self._file.read(-(-end // _PACKET_BYTES) * _PACKET_BYTES - first))
        if first + len(data) > self._first:
            self._shift(data, first)
        part = data[self._at - first : end - first]
        buffer[: len(part)] = part
        self._at += len(part)
        return len(part)

    def _shift(self, data: bytearray, at_byte: int) -> None:
        packets_NB = _packets(data)
        places = at_byte + np.arange(len(packets_NB)) * _PACKET_BYTES
        pids = _pids(packets_NB)
        shifts = self._shifts(places, next(iter(self._of_pid)))  # what stamps few go with the stream that is first
        for pid in self._of_pid:
            is_its = pids == pid
            shifts[is_its] = self._shifts(places[is_its], pid)
        numbers, at, has_decoding = _stamped(packets_NB)
        _write(packets_NB, numbers, at, shifts)
        _write(packets_NB, numbers[has_decoding], at[has_decoding] + 5, shifts)
        is_clock = (packets_NB[:, 3] & 0x20 != 0) & (packets_NB[:, 4] >= 7) & (packets_NB[:, 5] & 0x10 != 0)
        for number in np.flatnonzero(is_clock & (shifts != 0)).tolist():
            whole = int.from_bytes(packets_NB[number, 6:12].tobytes(), "big")
            base = ((whole >> 15) + int(shifts[number])) % _WRAP
            packets_NB[number, 6:12] = np.frombuffer((base << 15 | whole & 0x7FFF).to_bytes(6, "big"), np.uint8)

    def _shifts(self, places: NDArray[np.int64], pid: int) -> NDArray[np.int64]:
        starts, shifts = self._of_pid[pid]
        return np.array([0, *shifts], np.int64)[np.searchsorted(starts, places, side="right")]


@contextmanager
def on_one_clock(path: Path) -> Iterator[Path]:
    """The file for a program that opens it itself: a copy with its stamps on one clock, where it has several."""
    if not (found := restarts(path)):
        yield path
        return
    with tempfile.NamedTemporaryFile(prefix="mmlake-", suffix=".ts") as copy:
        with OneClock(path.open("rb"), path.stat().st_size, found) as source:
            shutil.copyfileobj(source, copy, _BLOCK_PACKETS * _PACKET_BYTES)  # type: ignore[misc]  # it has a read
        copy.flush()
        yield Path(copy.name)


def _write(
    packets_NB: NDArray[np.uint8], numbers: NDArray[np.intp], at: NDArray[np.intp], shifts: NDArray[np.int64]
) -> None:
    ticks = (_ticks(packets_NB, numbers, at) + shifts[numbers]) % _WRAP
    packets_NB[numbers, at] = packets_NB[numbers, at] & 0xF1 | (ticks >> 30 & 7).astype(np.uint8) << 1
    packets_NB[numbers, at + 1] = (ticks >> 22 & 0xFF).astype(np.uint8)
    packets_NB[numbers, at + 2] = (ticks >> 15 & 0x7F).astype(np.uint8) << 1 | 1
    packets_NB[numbers, at + 3] = (ticks >> 7 & 0xFF).astype(np.uint8)
    packets_NB[numbers, at + 4] = (ticks & 0x7F).astype(np.uint8) << 1 | 1

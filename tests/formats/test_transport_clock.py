"""Restarts of the clock of MPEG-TS, of packets that are made here by the standard, one stamp in each."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from mmlake.media.transport_clock import OneClock, on_one_clock, other_streams, restarts

SOUND, PICTURES, LINES = 0x101, 0x100, 0x102
STREAM_IDS = {SOUND: 0xC0, PICTURES: 0xE0, LINES: 0xBD}
WRAP = 1 << 33


def stamp(marker: int, ticks: int) -> bytes:
    """ISO/IEC 13818-1, table 2-21: four bits, then 3, 15 and 15 bits with a one behind each."""
    bits = (
        marker << 36
        | (ticks >> 30) << 33
        | 1 << 32
        | (ticks >> 15 & 0x7FFF) << 17
        | 1 << 16
        | (ticks & 0x7FFF) << 1
        | 1
    )
    return bits.to_bytes(5, "big")


def packet(pid: int, time_s: float) -> bytes:
    """A packet with the clock of the program, and a stamp of presentation and one of decoding 40 ms before it."""
    ticks = round(time_s * 90_000) % WRAP
    clock = (ticks << 15 | 0x7E00 | 123).to_bytes(6, "big")
    head = bytes([0x47, 0x40 | pid >> 8, pid & 0xFF, 0x30, 7, 0x10]) + clock
    media = b"\0\0\1" + bytes([STREAM_IDS[pid], 0, 0, 0x80, 0xC0, 10])
    media += stamp(3, (ticks + 3_600) % WRAP) + stamp(1, ticks)
    return (head + media).ljust(188, b"\xff")


def times_s(data: bytes, pid: int) -> list[float]:
    """Of decoding, as the standard has it."""
    found = []
    for at in range(0, len(data), 188):
        one = data[at : at + 188]
        if (one[1] & 0x1F) << 8 | one[2] == pid:
            bits = int.from_bytes(one[26:31], "big")
            ticks = (bits >> 33 & 7) << 30 | (bits >> 17 & 0x7FFF) << 15 | bits >> 1 & 0x7FFF
            assert int.from_bytes(one[6:12], "big") >> 15 == ticks, "the clock of the program goes with it"
            assert int.from_bytes(one[6:12], "big") & 0x1FF == 123
            found.append(ticks / 90_000)
    return found


def written(path: Path, *stamps: tuple[int, float]) -> Path:
    path.write_bytes(b"".join(packet(pid, time_s) for pid, time_s in stamps))
    return path


def both(start_s: float, count: int = 5) -> list[tuple[int, float]]:
    """Sound and pictures, two of each a second."""
    return [(pid, start_s + number / 2) for number in range(count) for pid in (PICTURES, SOUND)]


@pytest.mark.parametrize("second_s", [10.0, 2.0, 5_000.0, 90_000.0])
def test_what_follows_a_restart_begins_where_what_came_before_ends(tmp_path, second_s: float) -> None:
    path = written(tmp_path / "joined.ts", *both(10.0), *both(second_s), *both(1.0))
    assert [one.at_byte for one in restarts(path)] == [188 * number for number in (10, 11, 20, 21)]
    with on_one_clock(path) as copy:
        assert times_s(copy.read_bytes(), PICTURES) == pytest.approx([10.0 + number / 2 for number in range(15)])
        assert times_s(copy.read_bytes(), SOUND) == pytest.approx([10.0 + number / 2 for number in range(15)])


def test_a_stream_of_few_stamps_goes_with_the_others(tmp_path) -> None:
    path = written(tmp_path / "joined.ts", *both(10.0), (LINES, 11.0), *both(10.0), (LINES, 11.0))
    with on_one_clock(path) as copy:
        assert times_s(copy.read_bytes(), LINES) == pytest.approx([11.0, 13.5])


@pytest.mark.parametrize(
    "stamps",
    [
        both(10.0, 20),
        both(WRAP / 90_000 - 3.0, 20),  # its 33 bits end within it
        [*both(10.0), *both(400.0)],  # a pause
        [*both(10.0), (SOUND, 500.0), (SOUND, 2_000.0), *both(12.5)],  # wrong stamps
        [*both(10.0), *both(12.1)],  # a writer that is a little late
        [*both(10.0), (PICTURES, 3.0), (PICTURES, 3.5)],  # too few to know
        [*both(10.0), *((PICTURES, 2.0 + at / 2) for at in range(5)), (SOUND, 12.5), (SOUND, 13.0)],
    ],
    ids="one wrap pause wrong late few disagree".split(),
)
def test_one_clock_stays_as_it_is(tmp_path, stamps: list[tuple[int, float]]) -> None:
    path = written(tmp_path / "one.ts", *stamps)
    assert restarts(path) == ()
    assert other_streams(path) is None
    with on_one_clock(path) as same:
        assert same == path


def test_packets_that_do_not_lie_one_behind_the_other_are_left(tmp_path) -> None:
    path = written(tmp_path / "joined.ts", *both(10.0), *both(10.0))
    path.write_bytes(path.read_bytes()[: 10 * 188] + b"x" + path.read_bytes()[10 * 188 :])
    assert restarts(path) == ()


def test_any_part_is_read_as_in_the_whole(tmp_path) -> None:
    path = written(tmp_path / "joined.ts", *both(10.0), *both(10.0))
    path.write_bytes(path.read_bytes() + b"\x47rest")
    with on_one_clock(path) as copy:
        whole = copy.read_bytes()
    assert len(whole) == path.stat().st_size
    chance = random.Random(3)
    with OneClock(path.open("rb"), path.stat().st_size, restarts(path)) as file:
        for _ in range(200):
            at, count = chance.randrange(len(whole)), chance.randrange(1, 600)
            file.seek(at)
            assert file.read(count) == whole[at : at + count]

"""Whether the packets of a stream go on where those before them end.

Enters: the packets of a container. Leaves: which of them belong to another clock, as in MPEG-TS, MPEG-PS and broadcasts
that were laid end to end: two moments of such a file have one time, and no reader that goes by time finds the second.
"""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmlake.errors import UnreadableItem
from mmlake.preprocess.settings import PreprocessSettings

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.packet import Packet
    from av.stream import Stream

_BACK_S = 0.5  # decoding times only grow; a writer that is late by so much is none
_LEAP_S = 10.0  # as the program ffmpeg has it for formats whose clock may jump (-dts_delta_threshold)
# of formats without an index, whose times are a counter: no pause there, as it may be one in a film of few pictures
_MAX_LEAP_S = 600.0
_MARK_BYTES, _MOST_HEADER_BYTES = 4, 1 << 20  # of a file: what it begins with, and what stands before its packets
_COUNTERS = frozenset(("mpegts", "mpeg"))  # by FFmpeg's names


def is_of_a_counter(container: InputContainer) -> bool:
    """Whether nothing but time stamps at both ends of the file says how long it lasts."""
    return container.format.name in _COUNTERS


class StreamClocks:
    """Takes the packets of a container in the order of the file."""

    def __init__(self, container: InputContainer, streams: list[Stream]) -> None:
        max_leap_s = _MAX_LEAP_S if is_of_a_counter(container) else math.inf
        # the clock of a chained Ogg file begins anew with each link, which `mmlake.media.decoders.Stamps` corrects
        followed = [] if container.format.name == "ogg" else streams
        self._clocks = {stream.index: _Clock(max_leap_s) for stream in followed}
        self.first_byte: int | None = None  # of the packets that are astray; None where there is none

    def is_astray(self, packet: Packet[Any]) -> bool:
        """Whether the next packet comes at a time that is over, or that cannot follow."""
        clock = self._clocks.get(packet.stream.index)
        if clock is None or packet.dts is None or (base := packet.time_base) is None:
            return False
        # the quotient of the product, which as a fraction would be reduced first, at every packet
        if not clock.is_astray(packet.dts * base.numerator / base.denominator):
            return False
        if packet.pos is not None and packet.pos >= 0:
            self.first_byte = packet.pos if self.first_byte is None else min(self.first_byte, packet.pos)
        return True


class _Clock:
    """The decoding times of one stream."""

    def __init__(self, max_leap_s: float) -> None:
        self._max_leap_s = max_leap_s
        self._last_s = math.nan
        self._before_leap_s = math.nan  # one wrong time leaps ahead, and the next packet goes back to there

    def is_astray(self, time_s: float) -> bool:
        last_s, before_s = self._last_s, self._before_leap_s
        self._before_leap_s = math.nan
        if time_s < last_s - _BACK_S:  # of the first packet nothing is true
            is_back = before_s - _BACK_S <= time_s <= before_s + _LEAP_S
            self._last_s = time_s if is_back else last_s
            return not is_back
        if time_s > last_s + self._max_leap_s:
            return True
        if time_s > last_s + _LEAP_S:
            self._before_leap_s = last_s
        self._last_s = max(time_s, last_s)
        return False


class Beginning:
    """Takes the packets of a container in the order of the file, and finds the pictures at its beginning that need
    others from before it, as where a broadcast was joined between two keyframes: those before the first keyframe, and
    those behind it that are shown before it."""

    def __init__(self) -> None:
        self._keyframes: dict[int, int | None] = {}  # by stream: when the first one is shown

    def needs_earlier(self, packet: Packet[Any]) -> bool:
        """Whether the next packet holds such a picture."""
        if packet.stream.type != "video" or not packet.size:
            return False
        index = packet.stream.index
        if packet.is_keyframe:
            self._keyframes.setdefault(index, packet.pts)
            return False
        if index not in self._keyframes:
            return True
        shown = self._keyframes[index]
        return shown is not None and packet.pts is not None and packet.pts < shown


def check_clock(
    path: Path,
    clocks: StreamClocks,
    num_astray: Counter[str],
    packets: Counter[str],
    *,
    settings: PreprocessSettings,
) -> None:
    """Raises UnreadableItem 3011 where more packets of a type of stream are of another clock than may be damaged. Both
    by type of stream."""
    high = settings.max_decode_error_fraction
    for kind, num in num_astray.items():
        if num > high * packets[kind]:
            astray = f"{num} of {packets[kind]} {kind} packets lie behind a jump of the clock"
            if clocks.first_byte is not None:
                astray += f", which comes at byte {_start_of(path, clocks.first_byte)}"
            raise UnreadableItem(3011, f"astray_fraction={num / packets[kind]:.3f} ({astray}) not in [0, {high:g}]")


def _start_of(path: Path, at_byte: int) -> int:
    """Where the file that a packet is in begins, by the bytes that the whole begins with; the packet's own place where
    they do not stand within a megabyte before it."""
    with path.open("rb") as file:
        mark = file.read(_MARK_BYTES)
        file.seek(first := max(0, at_byte - _MOST_HEADER_BYTES))
        found = first + file.read(at_byte - first).rfind(mark)
    return found if found >= max(first, 1) else at_byte

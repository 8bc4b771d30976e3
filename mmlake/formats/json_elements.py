"""The elements of a JSON list, cut at their ends without being parsed: what is broken inside of one is its own
matter, and memory holds one at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import IO

from mmlake.errors import UnreadableItem

BOM = b"\xef\xbb\xbf"
_SPACE = b" \t\r\n"
_QUOTE, _BACKSLASH, _OPENING = ord('"'), ord("\\"), frozenset(b"{[")
# faster than a step per string
_TO_BRACKET = re.compile(rb'(?:[^"\[\]{}]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+([\[\]{}])', re.DOTALL)
_OUTSIDE = re.compile(rb'["\[\]{}]')
_INSIDE = re.compile(rb'["\\]')
_SCALAR_END, _MEMBER_END = re.compile(rb'[",\]]'), re.compile(rb'[",:\]}]')  # in a list, in an object
_READ_BYTES = 1 << 18


class CutElement(UnreadableItem):
    """The list ends within an element. data: what is there of it; nothing where that is over the limit."""

    def __init__(self, code: int, reason: str, data: bytes) -> None:
        super().__init__(code, reason)
        self.data = data


def elements_of(stream: IO[bytes], limit_bytes: int) -> Iterator[bytes | int]:
    """The bytes of each element, or the size of one that is over the limit. Raises UnreadableItem behind the whole
    ones where the list breaks, CutElement where it ends within one."""
    window = _Window(stream, limit_bytes)
    if window.next_byte() == BOM[:1]:
        window.take(len(BOM))
    if window.next_byte() != b"[":
        raise UnreadableItem(1001, "the file holds no JSON list")
    window.take(1)
    is_first = True
    while (byte := window.next_byte()) != b"]" or not is_first:
        is_first = False
        yield b"" if byte in (b",", b"]") else window.element()
        if (behind := window.next_byte()) == b"]":
            break
        if behind != b",":
            raise UnreadableItem(1001, f"byte {window.place} is none that stands between the records of a JSON list")
        window.take(1)
    window.take(1)
    if window.has_more():
        raise UnreadableItem(1001, f"bytes stand behind the end of the JSON list, from byte {window.place} on")


def members_of(stream: IO[bytes], limit_bytes: int) -> Iterator[tuple[bytes | int, bytes | int, bool]]:
    """(key, value, whether it is an element) of each member of a JSON object, as bytes, or the size of what is over the
    limit. A list of objects in it is given element by element. Raises UnreadableItem where the object breaks."""
    window = _Window(stream, limit_bytes, _MEMBER_END)
    if window.next_byte() == BOM[:1]:
        window.take(len(BOM))
    window.expect(b"{")
    while window.next_byte() != b"}":
        key = window.element()
        window.expect(b":")
        if window.next_byte() != b"[":
            yield key, window.element(), False
        else:
            yield from ((key, value, is_element) for value, is_element in _list_in(window, limit_bytes))
        if window.next_byte() != b"}":
            window.expect(b",")
    window.take(1)
    if window.has_more():
        raise UnreadableItem(1001, f"bytes stand behind the end of the JSON object, from byte {window.place} on")


def _list_in(window: _Window, limit_bytes: int) -> Iterator[tuple[bytes | int, bool]]:
    window.expect(b"[")
    has_objects, values, size_bytes = window.next_byte() == b"{", list[bytes](), 2
    while window.next_byte() != b"]":
        value = window.element()
        size_bytes += value + 1 if isinstance(value, int) else len(value) + 1
        if has_objects:
            yield value, True
        elif isinstance(value, bytes) and size_bytes <= limit_bytes:
            values.append(value)
        if window.next_byte() != b"]":
            window.expect(b",")
    window.expect(b"]")
    if not has_objects:
        yield b"[%b]" % b",".join(values) if size_bytes <= limit_bytes else size_bytes, False


class _Window:
    """The part of the stream that is in memory: one element, and what was read behind it."""

    def __init__(self, stream: IO[bytes], limit_bytes: int, scalar_end: re.Pattern[bytes] = _SCALAR_END) -> None:
        self._scalar_end = scalar_end
        # At most one read of what lies below: a cut stream gives what it has before it raises.
        self._next, self._limit = getattr(stream, "read1", stream.read), limit_bytes
        # _at: up to where it was taken; _before: bytes of the stream before it
        self._held, self._at, self._before = bytearray(), 0, 0

    @property
    def place(self) -> int:
        """Where in the stream the next byte is."""
        return self._before + self._at

    def take(self, num_bytes: int) -> None:
        """Pass over bytes that were seen."""
        self._at += num_bytes

    def expect(self, byte: bytes) -> None:
        """Pass over that byte. Raises UnreadableItem where another one stands there."""
        if self.next_byte() != byte:
            raise UnreadableItem(1001, f"byte {self.place} is not {byte.decode()}, as JSON has it there")
        self.take(1)

    def _read(self) -> bool:
        data = self._next(_READ_BYTES)
        self._held += data
        return bool(data)

    def _read_within(self, *, is_kept: bool) -> None:
        """Read on in an element. Raises CutElement where nothing follows."""
        try:
            if self._read():
                return
            code, reason = 1002, f"the JSON list stops at byte {self._before + len(self._held)}, within a record"
        except UnreadableItem as error:
            code, reason = error.code, error.reason
        raise CutElement(code, reason, bytes(self._held) if is_kept else b"")

    def has_more(self) -> bool:
        """Whether anything but white space follows; it is passed over."""
        while True:
            while self._at < len(self._held):
                if self._held[self._at] not in _SPACE:
                    return True
                self._at += 1
            self._drop(self._at)
            if not self._read():
                return False

    def next_byte(self) -> bytes:
        """The next byte that is no white space, which stays. Raises UnreadableItem 1002 at the end."""
        if not self.has_more():
            raise UnreadableItem(1002, f"the JSON list stops at byte {self.place}, before its end")
        return bytes(self._held[self._at : self._at + 1])

    def _drop(self, num_bytes: int) -> None:
        del self._held[:num_bytes]
        self._at -= num_bytes
        self._before += num_bytes

    def element(self) -> bytes | int:
        """The element that begins here: up to the bracket that closes it, or where it opens none, up to what can
        only stand behind it."""
        self._drop(self._at)
        # is_tail: whether no bracket outside of strings follows in what was read
        depth, at, num_dropped, is_string, is_tail = 0, 0, 0, False, False
        is_scalar = self._held[0] not in _OPENING
        while True:
            found = None
            if not (is_string or is_scalar or is_tail):
                found = _TO_BRACKET.match(self._held, at)
                is_tail = found is None
            wanted = _INSIDE if is_string else self._scalar_end if is_scalar else _OUTSIDE
            found = found or wanted.search(self._held, at)
            if found is None:
                at, is_tail = max(at, len(self._held)), False
                if num_dropped or len(self._held) > self._limit:  # it will not be given out: only its end is sought
                    num_dropped += len(self._held)
                    at -= len(self._held)
                    self._before += len(self._held)
                    self._held.clear()
                self._read_within(is_kept=not num_dropped)
                continue
            at = found.end()
            byte = self._held[at - 1]
            if byte == _QUOTE:
                is_string = not is_string
            elif byte == _BACKSLASH:
                at += 1  # whatever is escaped ends nothing
            elif is_scalar:
                at -= 1
                break
            else:
                depth += 1 if byte in _OPENING else -1
                if not depth:
                    break
        size = num_dropped + at
        element: bytes | int = size
        if size <= self._limit and not num_dropped:
            with memoryview(self._held) as view:
                element = bytes(view[:at])
        self._at = at
        self._drop(at)
        return element

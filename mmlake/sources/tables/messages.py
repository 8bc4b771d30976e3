"""The messages of an Arrow IPC file or stream, one after another: what each holds and how much it would expand to,
before Arrow sees any of it.

Enters: a stream, forward only where it cannot seek. Leaves: the schema's message, then one `Part` per dictionary and
record batch. A file with a sound footer is read by that, so that a damaged part costs no other; everything else in the
order in which it stands.
"""

from __future__ import annotations

import io
import mmap
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, NamedTuple

from mmlake.errors import Fault, UnreadableItem
from mmlake.sources.tables.flat import Malformed, Table
from mmlake.streams import read_up_to

MAGIC, FEATHER_1 = b"ARROW1", b"FEA1"
_CONTINUES = b"\xff\xff\xff\xff"
_SCHEMA, _DICTIONARY, _BATCH = 1, 2, 3  # kinds of messages (format/Message.fbs)
_MAX_HEAD_BYTES = 12 << 20  # of a message without its body: a thousand columns are 0.3 MB
_MAX_PADDING_BYTES = 64  # up to where a writer may align the first message
_MAX_BLOCKS = 1 << 20  # parts of one file
_HELD_BYTES = 64 << 20  # bodies up to here are held in memory, larger ones lie in a temporary file
_COPY_BYTES = 1 << 20
# a stream from before Arrow 0.15 begins with a length alone, which other bytes may look like
_LEGACY_SCHEMA_BYTES = 1 << 20

Buffer = bytes | memoryview


class Part(NamedTuple):
    """A dictionary or a record batch. Its body can be had until the next part is taken."""

    number: int  # of its kind, from 0
    is_dictionary: bool
    head: bytes  # the message as it stands, without its body
    body_bytes: int
    num_rows: int
    buffers: list[tuple[int, int]]  # (place in the body, bytes) of each
    is_compressed: bool
    body: Callable[[], Buffer]


class Broken(NamedTuple):
    """A part that cannot be read. Those behind it may follow."""

    number: int
    is_dictionary: bool
    fault: Fault


def is_arrow(head: bytes, *, is_named: bool) -> bool:
    """Whether these are the first bytes of a file or a stream. is_named: whether the file is called like one, which
    the oldest streams need."""
    return head.startswith((MAGIC, FEATHER_1)) or ((is_named or head.startswith(_CONTINUES)) and _is_stream(head))


def _is_stream(head: bytes) -> bool:
    """Whether a message with a schema begins the bytes; of a large one, as far as they go."""
    start = 8 if head.startswith(_CONTINUES) else 4
    size = int.from_bytes(head[start - 4 : start], "little")
    if not 16 <= size <= (_MAX_HEAD_BYTES if start == 8 else _LEGACY_SCHEMA_BYTES) or size % 8 not in (0, 4):
        return False
    try:
        table = Table.root(head[start : start + size])
        return (
            table.number(1, "B") == _SCHEMA
            and table.number(0, "h") in (2, 3, 4)
            and table.number(3, "q") == 0
            and table.table(2) is not None
        )
    except Malformed:
        return False


class Messages:
    """Those of one stream."""

    def __init__(self, stream: IO[bytes]) -> None:
        """Raises UnreadableItem: 1001 or 1002 where no schema can be read, 1005 for the first version of Feather."""
        self._stream, self._at = stream, 0
        self._stop: int | None = None  # where the last message ends at the latest
        self._is_ended = False  # whether the mark of the end was read
        mark = stream.read(8)
        self._at = len(mark)
        if mark.startswith(FEATHER_1):
            raise UnreadableItem(
                1005, "content is Feather of version 1, which is not read; write it as Arrow IPC (Feather of version 2)"
            )
        self.is_file = mark.startswith(MAGIC)
        self._ahead = b"" if self.is_file else mark
        self._blocks = self._footer() if self.is_file else None
        if self.is_file:
            self._pass_padding(mark[6:])
        found = self._head()
        if found is None:
            raise UnreadableItem(1002, f"the file stops at byte {self._at}, before its schema")
        self.schema = found
        message = _parsed(found)
        if message.kind != _SCHEMA or message.body_bytes:
            raise UnreadableItem(1001, "the first message of the file holds no schema")
        if self._blocks is not None and not self._is_complete(*self._blocks):
            self._blocks = None

    @property
    def num_batches(self) -> int | None:
        """How many record batches there are, where the footer says so."""
        return None if self._blocks is None else len(self._blocks[1])

    def parts(self) -> Iterator[Part | Broken]:
        """The dictionaries and record batches. Raises UnreadableItem behind the last whole one where the stream ends
        before its end or cannot be followed further."""
        return self._in_order() if self._blocks is None else self._by_blocks(*self._blocks)

    def _pass_padding(self, seen: bytes) -> None:
        """Go to the first message, which begins with anything but zero; the last bytes that were read may be its
        own."""
        padding = seen
        while not padding.strip(b"\0") and self._at < _MAX_PADDING_BYTES + len(MAGIC):
            padding = self._stream.read(8)
            self._at += len(padding)
            if not padding:
                break
        self._ahead = padding.lstrip(b"\0") if padding.strip(b"\0") else b""

    def _footer(self) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]] | None:
        """(dictionaries, record batches) as (place, bytes of the head, bytes of the body); None where the stream
        cannot seek or no footer can be read."""
        stream = self._stream
        if not stream.seekable():
            return None
        here = stream.tell()
        try:
            end = stream.seek(0, io.SEEK_END)
            stream.seek(max(0, end - 10))
            tail = stream.read(10)
            size = int.from_bytes(tail[:4], "little")
            if len(tail) < 10 or tail[4:] != MAGIC or not 0 < size <= min(_MAX_HEAD_BYTES, end - 18):
                return None
            self._stop = end - 10 - size
            stream.seek(self._stop)
            table = Table.root(stream.read(size))
            found: list[list[tuple[int, ...]]] = [
                [(place, head, body) for place, head, _, body in table.structs(field, "qiiq")] for field in (2, 3)
            ]
            sound = all(
                place >= 8 and 8 <= head <= _MAX_HEAD_BYTES and body >= 0 and place + head + body <= self._stop
                for blocks in found
                for place, head, body in blocks
            )
            return (found[0], found[1]) if sound else None
        except Malformed:
            return None
        finally:
            stream.seek(here)

    def _is_complete(self, dictionaries: list[tuple[int, ...]], batches: list[tuple[int, ...]]) -> bool:
        """Whether nothing but the mark of the end lies between the schema, what the footer names, and the footer:
        else it would hide rows."""
        assert self._stop is not None
        stop = self._at
        for place, head_bytes, body_bytes in sorted([*dictionaries, *batches]):
            if not 0 <= place - stop < _MAX_PADDING_BYTES:
                return False
            stop = place + head_bytes + body_bytes
        return 0 <= self._stop - stop <= _MAX_PADDING_BYTES

    def _by_blocks(
        self, dictionaries: list[tuple[int, ...]], batches: list[tuple[int, ...]]
    ) -> Iterator[Part | Broken]:
        for is_dictionary, blocks in ((True, dictionaries), (False, batches)):
            for number, (place, head_bytes, body_bytes) in enumerate(blocks):
                self._stream.seek(place)
                self._at, self._ahead = place, b""
                try:
                    head = self._head()
                    message = _parsed(head) if head is not None else None
                    if (
                        head is None
                        or message is None
                        or message.kind != (_DICTIONARY if is_dictionary else _BATCH)
                        or (len(head), message.body_bytes) != (head_bytes, body_bytes)
                    ):
                        raise UnreadableItem(1001, "its message is not the one that the footer says")
                except UnreadableItem as error:
                    yield Broken(number, is_dictionary, Fault.of(error))
                    continue
                yield self._part(number, head, message)

    def _in_order(self) -> Iterator[Part | Broken]:
        numbers = {_DICTIONARY: 0, _BATCH: 0}
        while self._stop is None or self._at < self._stop:
            head = self._head()
            if head is None:
                break
            message = _parsed(head)
            start = self._at
            if message.kind in numbers:
                part = self._part(numbers[message.kind], head, message)
                numbers[message.kind] += 1
                yield part
            else:
                yield Broken(
                    numbers[_BATCH],
                    False,
                    Fault(1001, f"a message of kind {message.kind} is neither a dictionary nor a record batch"),
                )
            self._skip(start + message.body_bytes - self._at)
        if self._stop is not None:
            return
        if not self._is_ended:
            raise UnreadableItem(1002, f"the file stops at byte {self._at}, before the mark of its end")
        tail = read_up_to(self._stream, _MAX_HEAD_BYTES)
        if self.is_file and not tail.endswith(MAGIC):
            raise UnreadableItem(1002, f"the file stops at byte {self._at + len(tail)}, before the end of its footer")
        if not self.is_file and tail:
            raise UnreadableItem(1001, f"bytes stand behind the end of the stream, from byte {self._at} on")

    def _part(self, number: int, head: bytes, message: _Message) -> Part:
        start = self._at

        def body() -> Buffer:
            if self._at != start:
                self._stream.seek(start)
                self._at = start
            return self._body(message.body_bytes)

        return Part(
            number,
            message.kind == _DICTIONARY,
            head,
            message.body_bytes,
            message.num_rows,
            message.buffers,
            message.is_compressed,
            body,
        )

    def _head(self) -> bytes | None:
        """The next message without its body; None at the end. Raises UnreadableItem."""
        mark = self._take(4, is_end_allowed=True)
        if not mark:
            return None
        start = mark
        if mark == _CONTINUES:
            mark = self._take(4)
            start += mark
        size = int.from_bytes(mark, "little", signed=True)
        if not size:
            self._is_ended = True
            return None
        if not 0 < size <= _MAX_HEAD_BYTES:
            raise UnreadableItem(
                1001 if size < 0 else 1008, f"message_bytes={size} not in [0, {_MAX_HEAD_BYTES}] before byte {self._at}"
            )
        return start + self._take(size)

    def _take(self, size: int, *, is_end_allowed: bool = False) -> bytes:
        data, self._ahead = self._ahead[:size], self._ahead[size:]
        if len(data) < size:
            more = read_up_to(self._stream, size - len(data))
            self._at += len(more)
            data += more
        if len(data) < size and (data or not is_end_allowed):
            raise UnreadableItem(1002, f"the file stops at byte {self._at}, within a message")
        return data

    def _skip(self, size: int) -> None:
        if size > 0 and self._stream.seekable():
            end = self._stream.seek(0, io.SEEK_END)
            if self._at + size > end:
                raise UnreadableItem(1002, f"the file stops at byte {end}, within a message")
            self._at = self._stream.seek(self._at + size)
        while size > 0 and not self._stream.seekable():
            data = self._stream.read(min(size, _COPY_BYTES))
            if not data:
                raise UnreadableItem(1002, f"the file stops at byte {self._at}, within a message")
            self._at, size = self._at + len(data), size - len(data)

    def _body(self, size: int) -> Buffer:
        if size <= _HELD_BYTES:
            return self._take(size)
        body = _spooled(self._stream, size)
        self._at += len(body)
        if len(body) < size:
            raise UnreadableItem(1002, f"the file stops at byte {self._at}, within a message")
        return body


@dataclass(frozen=True, slots=True)
class _Message:
    """What a message says of itself."""

    kind: int
    body_bytes: int
    num_rows: int
    buffers: list[tuple[int, int]]
    is_compressed: bool


def _parsed(head: bytes) -> _Message:
    """Raises UnreadableItem 1001 where the message does not parse."""
    try:
        table = Table.root(head[8 if head.startswith(_CONTINUES) else 4 :])
        kind, body_bytes, about = table.number(1, "B"), table.number(3, "q"), table.table(2)
        if kind == _DICTIONARY:
            about = about.table(1) if about is not None else None
        if kind not in (_DICTIONARY, _BATCH):
            about = None
        elif about is None:
            raise Malformed
        num_rows = about.number(0, "q") if about is not None else 0
        buffers = [(start, size) for start, size in about.structs(2, "qq")] if about is not None else []
        if (
            body_bytes < 0
            or num_rows < 0
            or any(start < 0 or size < 0 or start + size > body_bytes for start, size in buffers)
        ):
            raise Malformed
        return _Message(kind, body_bytes, num_rows, buffers, about is not None and about.table(3) is not None)
    except Malformed:
        raise UnreadableItem(1001, "a message of the file says what cannot be") from None


def _spooled(stream: IO[bytes], size: int) -> memoryview:
    """The next bytes of the stream, at most so many, as a view of a temporary file, which goes when the view does."""
    left = size
    with tempfile.TemporaryFile(prefix="mmlake-arrow-") as copy:
        while left and (data := stream.read(min(left, _COPY_BYTES))):
            copy.write(data)
            left -= len(data)
        copy.flush()
        return (
            memoryview(mmap.mmap(copy.fileno(), size - left, access=mmap.ACCESS_READ))
            if size > left
            else memoryview(b"")
        )

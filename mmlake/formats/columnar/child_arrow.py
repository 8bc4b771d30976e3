"""Arrow IPC in the child process: the dictionaries and record batches of a file or a stream, one after another.

A file whose footer names everything that lies before it is read by that, so that a damaged part costs no other;
everything else in the order in which it stands. pyarrow reads no number of rows but with their values, and skips no
batch that it has not read: those few numbers are taken from the messages here (format/Message.fbs, File.fbs).
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from mmlake.formats.columnar import child_source
from mmlake.formats.columnar.child_source import Answer, Buffer, ColumnarLimits, File, Refused
from mmlake.memory_limits import limit_memory

MAGIC, FEATHER_1 = b"ARROW1", b"FEA1"
CONTINUES = b"\xff\xff\xff\xff"
_SCHEMA, _DICTIONARY, _BATCH = 1, 2, 3  # kinds of messages
_MAX_HEAD_BYTES = 12 << 20  # of a message without its body: a thousand columns are 0.3 MB
_MAX_LEGACY_SCHEMA_BYTES = 1 << 20  # where a length alone begins the stream, which other bytes may resemble
_MAX_PADDING_BYTES = 64  # up to where a writer may align the first message
_MAX_BLOCKS = 1 << 20  # parts of one file
_BLOCK = struct.Struct("<qiiq")  # place, bytes of the head, padding, bytes of the body
_ROW_BYTES = 256  # what a row costs as an item, even where all its cells are null


class _Message(NamedTuple):
    """A message without its body, and what it says of itself."""

    head: bytes
    body_at: int
    kind: int
    body_bytes: int
    num_rows: int
    is_compressed: bool


def _number(data: bytes, at: int, form: str) -> int:
    """The number at that place. Raises struct.error where the bytes do not reach that far."""
    if at < 0:
        raise struct.error
    return int(struct.unpack_from(f"<{form}", data, at)[0])


def _place(data: bytes, table: int, field: int) -> int:
    """Where the value of a FlatBuffers table's field stands; 0 where the table does not have it."""
    fields, entry = table - _number(data, table, "i"), 4 + 2 * field
    offset = _number(data, fields + entry, "H") if entry + 2 <= _number(data, fields, "H") else 0
    return table + offset if offset else 0


def _reached(data: bytes, place: int) -> int:
    """Where the table or vector begins to which the offset there leads."""
    return place + _number(data, place, "I")


def _parsed(head: bytes, body_at: int) -> _Message:
    """Raises Refused where the message does not parse."""
    data = head[8 if head.startswith(CONTINUES) else 4 :]
    try:
        table = _number(data, 0, "I")
        places = [_place(data, table, field) for field in (1, 2, 3)]
        kind = _number(data, places[0], "B") if places[0] else 0
        about = _reached(data, places[1])
        body_bytes = _number(data, places[2], "q") if places[2] else 0
        if kind == _DICTIONARY:
            about = _reached(data, _place(data, about, 1))
        num_rows, is_compressed = 0, False
        if kind in (_DICTIONARY, _BATCH):
            length = _place(data, about, 0)
            num_rows, is_compressed = _number(data, length, "q") if length else 0, bool(_place(data, about, 3))
    except struct.error:
        body_bytes = num_rows = -1
    if body_bytes < 0 or num_rows < 0:
        raise Refused(1001, "a message of the file says what cannot be")
    return _Message(head, body_at, kind, body_bytes, num_rows, is_compressed)


def is_schema(head: bytes) -> bool:
    """Whether the bytes begin with the message of a schema; of a large one, as far as they go."""
    start = 8 if head.startswith(CONTINUES) else 4
    size = int.from_bytes(head[start - 4 : start], "little")
    if not 16 <= size <= (_MAX_HEAD_BYTES if start == 8 else _MAX_LEGACY_SCHEMA_BYTES) or size % 8 not in (0, 4):
        return False
    try:
        found = _parsed(head[: start + size], 0)
    except Refused:
        return False
    return found.kind == _SCHEMA and not found.body_bytes


class ArrowFile:
    """The file or stream that is open."""

    def __init__(self, file: File, limits: ColumnarLimits) -> None:
        self._file, self._limits, self._slices = file, limits, child_source.Rows()
        mark = bytes(file.read_at(0, 8))
        if mark.startswith(FEATHER_1):
            reason = "content is Feather of version 1, which is not read; write it as Arrow IPC (Feather of version 2)"
            raise Refused(1005, reason)
        self._is_file = mark.startswith(MAGIC)
        self._stop: int | None = None  # where the last message ends at the latest
        blocks = self._footer() if self._is_file and file.size_bytes is not None else None
        start = self._first(mark)
        head = self._head(start)
        if head is None:
            raise Refused(1002, f"the file stops at byte {start}, before its schema")
        schema = _parsed(head, start + len(head))
        if schema.kind != _SCHEMA or schema.body_bytes:
            raise Refused(1001, "the first message of the file holds no schema")
        if blocks is not None and not self._is_complete(schema.body_at, blocks):
            blocks = None
        self._decoder = _Decoder(head)
        self._parts: list[tuple[int, int, _Message | Refused]] = []  # (kind, number among its kind, what it is)
        self._counts = {_DICTIONARY: 0, _BATCH: 0}
        self._found = self._in_order(schema.body_at) if blocks is None else self._by_blocks(blocks)
        num_batches = None if blocks is None else sum(kind == _BATCH for kind, _ in blocks)
        self.opened = Answer({"num_batches": num_batches}, (), self._decoder.schema)

    def _first(self, mark: bytes) -> int:
        """Where the first message begins, with anything but zero; the last bytes of the mark may be its own."""
        if not self._is_file:
            return 0
        start = bytes(self._file.read_at(len(MAGIC), _MAX_PADDING_BYTES + len(MAGIC)))
        return len(MAGIC) + len(start) - len(start.lstrip(b"\0"))

    def _footer(self) -> list[tuple[int, tuple[int, ...]]] | None:
        """(kind, (place, bytes of the head, padding, bytes of the body)) of the parts; None where no footer is
        sound."""
        size_bytes = self._file.size_bytes or 0
        tail = bytes(self._file.read_at(max(0, size_bytes - 10), 10))
        footer_bytes = int.from_bytes(tail[:4], "little")
        if tail[4:] != MAGIC or not 0 < footer_bytes <= min(_MAX_HEAD_BYTES, size_bytes - 18):
            return None
        self._stop = size_bytes - 10 - footer_bytes
        data, blocks = bytes(self._file.read_at(self._stop, footer_bytes)), []
        try:
            for kind, field in ((_DICTIONARY, 2), (_BATCH, 3)):
                if place := _place(data, _number(data, 0, "I"), field):
                    start = _reached(data, place)
                    count = _number(data, start, "I")
                    if count > _MAX_BLOCKS or start + 4 + count * _BLOCK.size > len(data):
                        return None
                    entries = data[start + 4 : start + 4 + count * _BLOCK.size]
                    blocks += [(kind, block) for block in _BLOCK.iter_unpack(entries)]
        except struct.error:
            return None
        sound = all(
            place >= 8 and 8 <= head <= _MAX_HEAD_BYTES and body >= 0 and place + head + body <= self._stop
            for _, (place, head, _, body) in blocks
        )
        return blocks if sound else None

    def _is_complete(self, at: int, blocks: list[tuple[int, tuple[int, ...]]]) -> bool:
        """Whether nothing but the mark of the end lies between the schema, what the footer names, and the footer:
        else it would hide rows."""
        assert self._stop is not None
        for place, head_bytes, _, body_bytes in sorted(block for _, block in blocks):
            if not 0 <= place - at < _MAX_PADDING_BYTES:
                return False
            at = place + head_bytes + body_bytes
        return 0 <= self._stop - at <= _MAX_PADDING_BYTES

    def _by_blocks(self, blocks: list[tuple[int, tuple[int, ...]]]) -> Iterator[tuple[int, _Message | Refused]]:
        for kind, (place, head_bytes, _, body_bytes) in blocks:
            try:
                head = self._head(place)
                found = _parsed(head, place + len(head)) if head is not None else None
                if found is None or (found.kind, len(found.head), found.body_bytes) != (kind, head_bytes, body_bytes):
                    raise Refused(1001, "its message is not the one that the footer says")
                yield kind, found
            except Refused as error:
                yield kind, error

    def _in_order(self, at: int) -> Iterator[tuple[int, _Message | Refused]]:
        """Raises Refused behind the last whole one where the stream ends before its end or cannot be followed
        further."""
        while self._stop is None or at < self._stop:
            head = self._head(at)
            if head is None:
                break
            found = _parsed(head, at + len(head))
            yield found.kind, found
            at = found.body_at + found.body_bytes
            if found.body_bytes and not len(self._file.read_at(at - 1, 1)):
                raise Refused(1002, "the file stops within a message")
        if self._stop is not None:
            return
        mark = bytes(self._file.read_at(at, 8))
        if len(mark) < 4:
            raise Refused(1002, f"the file stops at byte {at + len(mark)}, before the mark of its end")
        tail = bytes(self._file.read_at(at + (8 if mark.startswith(CONTINUES) else 4), _MAX_HEAD_BYTES))
        if self._is_file and not tail.endswith(MAGIC):
            raise Refused(1002, "the file stops before the end of its footer")
        if not self._is_file and tail:
            raise Refused(1001, "bytes stand behind the end of the stream")

    def _head(self, at: int) -> bytes | None:
        """The message there without its body; None at the end. Raises Refused."""
        mark = bytes(self._file.read_at(at, 8))
        start_bytes = 8 if mark.startswith(CONTINUES) else 4
        if not mark:
            return None
        if len(mark) < start_bytes:
            raise Refused(1002, f"the file stops at byte {at + len(mark)}, within a message")
        size = int.from_bytes(mark[start_bytes - 4 : start_bytes], "little", signed=True)
        if not size:
            return None
        if not 0 < size <= _MAX_HEAD_BYTES:
            code = 1001 if size < 0 else 1008
            raise Refused(code, f"message_bytes={size} not in [0, {_MAX_HEAD_BYTES}] at byte {at}")
        return bytes(self._whole(at, start_bytes + size))

    def _whole(self, at: int, size_bytes: int) -> Buffer:
        """So many bytes of a message. Raises Refused where the file stops before."""
        found = self._file.read_at(at, size_bytes)
        if len(found) < size_bytes:
            raise Refused(1002, f"the file stops at byte {at + len(found)}, within a message")
        return found

    def part(self, at: int) -> Answer:
        """What is said of the part with this number. Dictionaries are loaded as they are passed."""
        while len(self._parts) <= at:
            kind, found = next(self._found, (0, None))
            if found is None:
                return Answer({"is_end": True})
            number = self._counts.get(kind, self._counts[_BATCH])
            if kind in self._counts:
                self._counts[kind] += 1
            else:
                found = Refused(1001, f"a message of kind {kind} is neither a dictionary nor a record batch")
            self._parts.append((kind, number, found))
            if isinstance(found, _Message) and kind == _DICTIONARY:
                self._parts[-1] = kind, number, self._added(found)
        kind, number, found = self._parts[at]
        about = {"is_dictionary": kind == _DICTIONARY, "number": number}
        if isinstance(found, Refused):
            return Answer({**about, "num_rows": 0, "broken": [found.code, found.reason]})
        return Answer({**about, "num_rows": found.num_rows})

    def _added(self, message: _Message) -> _Message | Refused:
        try:
            body = self._whole(message.body_at, message.body_bytes)
            self._check(message, message.num_rows and 1)
            self._decoder.add(message.head, body)
        except Refused as error:
            if error.code == 1002:
                raise
            return Refused(error.code, f"{error.reason}; rows that refer to it are not read")
        return message

    def _check(self, message: _Message, num_rows: int, decoded_bytes: int = 0) -> int:
        """What the part may come to as values. Raises Refused where it comes to more."""
        in_file = message.body_bytes + len(message.head) + self._decoder.dictionary_bytes
        limit_bytes = max(child_source.FLOOR_BYTES, in_file * self._limits.max_expansion)
        if (decoded := decoded_bytes + num_rows * _ROW_BYTES) > limit_bytes:
            reason = f"decoded_bytes={decoded} not in [0, {limit_bytes}] for {message.body_bytes} bytes in the file"
            raise Refused(1008, reason)
        return limit_bytes

    def rows(self, part: int, offset: int, limit: int, is_careful: bool) -> Answer:
        """Rows of a record batch from that one on. limit, is_careful: not needed, since it is decoded as a whole."""
        self.part(part)
        _, _, message = self._parts[part]
        if isinstance(message, Refused):
            raise message
        answer = self._slices.take(offset, (part,), self._decoded(message), self._limits.batch_bytes)
        return answer._replace(head={**answer.head, "limit_bytes": self._check(message, 0)})

    def _decoded(self, message: _Message) -> Iterator[pa.RecordBatch]:
        self._check(message, message.num_rows)
        body = self._whole(message.body_at, message.body_bytes)
        limit_memory(self._limits.max_decoded_bytes + 2 * self._limits.batch_bytes)
        batch = self._decoder.batch(message, body)
        if message.is_compressed:
            self._check(message, message.num_rows, batch.get_total_buffer_size())
        yield batch


class _Decoder:
    """Arrow's own reader, which is given one message after another."""

    def __init__(self, schema: bytes) -> None:
        """Raises what pyarrow raises where the schema is damaged."""
        self._first, self._dictionaries = schema, list[Buffer]()
        self.dictionary_bytes = 0
        self._restart()
        fields = [
            pa.field(field.name, field.type.storage_type, field.nullable) if _is_extended(field.type) else field
            for field in self._reader.schema
        ]
        self.schema = pa.schema(fields, metadata=self._reader.schema.metadata)

    def _restart(self) -> None:
        self._feed = _Feed([self._first, *self._dictionaries])
        options = pa.ipc.IpcReadOptions(use_threads=False)
        self._reader: Any = pa.ipc.open_stream(pa.PythonFile(self._feed, mode="r"), options=options)

    def add(self, head: bytes, body: Buffer) -> None:
        """Keep a dictionary for the batches behind it."""
        self._feed.parts += [head, body]
        self._dictionaries += [head, body]
        self.dictionary_bytes += len(body)

    def batch(self, message: _Message, body: Buffer) -> pa.RecordBatch:
        """The record batch, with extension types as what they are stored as, but for UUIDs, which have a spelling.
        Raises what pyarrow raises."""
        try:
            self._feed.parts += [message.head, body]
            found = self._reader.read_next_batch()
            if found.num_rows != message.num_rows or self._feed.parts:
                raise Refused(1001, f"num_rows={found.num_rows} not in [{message.num_rows}, {message.num_rows}]")
            columns = [column.storage if _is_extended(column.type) else column for column in found.columns]
            return pa.RecordBatch.from_arrays(columns, schema=self.schema)
        except BaseException:
            self._restart()
            raise


def _is_extended(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.BaseExtensionType) and kind.extension_name != "arrow.uuid"


class _Feed(io.RawIOBase):
    """The messages as a file that Arrow reads from, without copies of large ones."""

    def __init__(self, parts: list[Buffer]) -> None:
        self.parts = parts

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return bytes(self.read_buffer(size))

    def read_buffer(self, size: int) -> Buffer:
        """The next bytes: of one message where it has as many, which is how Arrow asks for its head and its body."""
        while self.parts and not len(self.parts[0]):
            del self.parts[0]
        if not self.parts:
            return b""
        data, rest = self.parts[0][:size], self.parts[0][size:]
        self.parts[:1] = [rest] if len(rest) else []
        return data if len(data) == size or not self.parts else bytes(data) + bytes(self.read_buffer(size - len(data)))

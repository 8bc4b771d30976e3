"""The program that reads columnar files in a process of its own. Enters: requests, JSON each. Leaves: for each its
answer, JSON and an Arrow stream.

It imports pyarrow and nothing of this package but its own formats: it starts once per process that reads such files,
and again after each file that ends it. A file comes as a descriptor beside the request that opens it, or its bytes are
asked for, range by range, while a request is worked on.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import resource
import select
import signal
import socket
import struct
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Protocol, TypeAlias

import pyarrow as pa

from mmlake.formats.columnar.weights import weight_of

PANICKED, ABSENT = 70, 69  # exit codes: native code gave up what it was doing; Lance cannot be imported
FLOOR_BYTES = 64 << 20  # a row group or batch that decodes to less is read, however small it is in the file
SLICE_ROWS = 1024  # of one answer
Buffer: TypeAlias = Any  # bytes, a memoryview, or a buffer of Arrow's

# the ways of pyarrow and pylance to say that a file is damaged
_BROKEN = (
    *(pa.ArrowException, OSError, ValueError, KeyError, TypeError, OverflowError),
    *(struct.error, RuntimeError, NotImplementedError, StopIteration),
)
# sent to whole groups and services: our parent decides when to end, and this process ends with it
_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LENGTH = struct.Struct("<q")  # before every message in both directions; below 0: the parent cannot read these bytes
_PIECE_BYTES = 4 << 20  # of one range that the parent is asked for
_HELD_BYTES = 64 << 20  # ranges up to here are held in memory, larger ones lie in a temporary file


class Refused(Exception):
    """A file, or a part of it, is not to be read."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code, self.reason = code, reason


class ColumnarLimits(NamedTuple):
    """What a file may take; the names are those of the settings of sources."""

    batch_bytes: int
    max_expansion: int
    max_decoded_bytes: int
    max_item_bytes: int
    max_line_bytes: int


class Answer(NamedTuple):
    """What is answered to a request."""

    head: dict[str, Any]
    batches: tuple[pa.RecordBatch, ...] = ()
    schema: pa.Schema | None = None


class Source(Protocol):
    """What is open."""

    opened: Answer

    def answer(self, do: str, **request: Any) -> Answer:
        """The answer to a request."""


class Connection:
    """The socket to the parent, on which one request is worked on at a time."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket, self._file, self._lock = sock, sock.makefile("wb", 1 << 16), threading.Lock()

    def request(self) -> tuple[dict[str, Any], int | None] | None:
        """(the next request, a file's descriptor that came beside it); None when there are no more."""
        start, descriptors, _, _ = socket.recv_fds(self._socket, _LENGTH.size, 1)
        if not start:
            return None
        (size_bytes,) = _LENGTH.unpack(start + self._received(_LENGTH.size - len(start)))
        return json.loads(self._received(size_bytes)), descriptors[0] if descriptors else None

    def send(self, answer: Answer) -> None:
        """Send the answer, whose head says how large its batches are."""
        self._send_head(answer.head)
        _write(pa.PythonFile(self._file, mode="w"), answer)
        self._file.flush()

    def range(self, offset: int, size_bytes: int) -> bytearray:
        """The bytes of the parent's file from there on, fewer at its end. Raises OSError where it cannot read them."""
        with self._lock:  # Arrow asks from several threads
            self._send_head({"range": [offset, size_bytes]})
            (found_bytes,) = _LENGTH.unpack(self._received(_LENGTH.size))
            if found_bytes < 0:
                raise OSError
            return self._received(found_bytes)

    def _send_head(self, head: dict[str, Any]) -> None:
        data = json.dumps(head).encode()
        self._file.write(_LENGTH.pack(len(data)) + data)
        self._file.flush()

    def _received(self, size_bytes: int) -> bytearray:
        data = bytearray(size_bytes)
        view = memoryview(data)
        while view:
            if not (num_bytes := self._socket.recv_into(view)):
                os._exit(0)
            view = view[num_bytes:]
        return data


def _write(sink: Any, answer: Answer) -> None:
    if answer.schema is not None:
        with pa.ipc.new_stream(sink, answer.schema) as writer:
            for batch in answer.batches:
                writer.write_batch(batch)


class LocalFile:
    """A file of this machine, mapped: its bytes take no memory of their own."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.native = pa.memory_map(os.fspath(path))
        self.size_bytes: int | None = self.native.size()

    def read_at(self, offset: int, size_bytes: int) -> Buffer:
        """So many bytes from there on, fewer at the end."""
        self.native.seek(min(offset, self.native.size()))
        return self.native.read_buffer(max(0, size_bytes))


class ServedFile:
    """A file of which the parent sends what is asked for."""

    closed = False

    def __init__(self, connection: Connection, size_bytes: int | None) -> None:
        """size_bytes: None where it is known at the end alone."""
        self._connection, self.size_bytes, self._at = connection, size_bytes, 0

    @property
    def native(self) -> pa.NativeFile:
        """The file as Arrow reads it, which seeks."""
        return pa.PythonFile(self, mode="r")

    def read_at(self, offset: int, size_bytes: int) -> Buffer:
        """So many bytes from there on, fewer at the end."""
        if size_bytes <= _PIECE_BYTES:
            return memoryview(self._connection.range(offset, max(0, size_bytes)))
        if size_bytes <= _HELD_BYTES:
            return memoryview(b"".join(self._pieces(offset, size_bytes)))
        with tempfile.TemporaryFile(prefix="mmlake-columnar-") as copy:
            copy.writelines(self._pieces(offset, size_bytes))
            copy.flush()
            found_bytes = copy.tell()
            return memoryview(mmap.mmap(copy.fileno(), found_bytes, access=mmap.ACCESS_READ) if found_bytes else b"")

    def _pieces(self, offset: int, size_bytes: int) -> Iterator[bytearray]:
        for at in range(offset, offset + size_bytes, _PIECE_BYTES):
            piece = self._connection.range(at, min(_PIECE_BYTES, offset + size_bytes - at))
            yield piece
            if len(piece) < min(_PIECE_BYTES, offset + size_bytes - at):
                return

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        pass

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self.size_bytes or 0}[whence]
        return self._at

    def read(self, size_bytes: int) -> bytes:
        return bytes(self.read_buffer(size_bytes))

    def read_buffer(self, size_bytes: int) -> Buffer:
        data = self.read_at(self._at, size_bytes)
        self._at += len(data)
        return data


File = LocalFile | ServedFile


class Rows:
    """The rows of one part (row group or record batch) in slices; a request for the next ones goes on where the last
    one ended."""

    def __init__(self) -> None:
        self._next: tuple[Any, ...] = ()
        self._slices: Iterator[pa.RecordBatch] = iter(())

    def take(self, offset: int, key: tuple[Any, ...], batches: Iterable[pa.RecordBatch], max_bytes: int) -> Answer:
        """The slice that begins with that row. batches: lazily, all those of the part, for a new start."""
        if self._next != (offset, *key):
            self._slices = _behind(batches, offset, max_bytes)
        self._next = ()
        found = next(self._slices, None)
        if found is None:
            return Answer({"num_rows": 0})
        self._next = (offset + found.num_rows, *key)
        return Answer({"num_rows": found.num_rows}, (found,), found.schema)

    def forget(self) -> None:
        """Let go of what is held."""
        self._next, self._slices = (), iter(())


def _behind(batches: Iterable[pa.RecordBatch], offset: int, max_bytes: int) -> Iterator[pa.RecordBatch]:
    """The rows from that one on, so many at a time that a slice is no larger than that or one row."""
    for batch in batches:
        for start in range(min(offset, batch.num_rows), batch.num_rows, SLICE_ROWS):
            pending = [_plain(batch.slice(start, SLICE_ROWS), max_bytes)]
            while pending:
                part = pending.pop()
                half = part.num_rows // 2
                halves = [part.slice(half), part.slice(0, half)] if half and part.nbytes > max_bytes else []
                # what rows share, such as a dictionary, would be sent with each half
                if halves and sum(one.nbytes for one in halves) <= 1.5 * part.nbytes:
                    pending += halves
                else:
                    yield part
                del part, halves
        offset = max(0, offset - batch.num_rows)
        is_large = batch.nbytes > 8 << 20
        del batch  # before the next one is read
        if is_large:
            pa.default_memory_pool().release_unused()  # which it else keeps: twice what is in use, measured


def _plain(batch: pa.RecordBatch, max_bytes: int) -> pa.RecordBatch:
    """The batch with references and views as the values that they stand for, where that is not much: both are sent
    with all that their column refers to."""
    columns = list(batch.columns)
    for at, column in enumerate(columns):
        if pa.types.is_dictionary(column.type) and weight_of(column) <= max_bytes:
            columns[at] = column.dictionary_decode()
        elif pa.types.is_binary_view(column.type) or pa.types.is_string_view(column.type):
            columns[at] = column.view(pa.binary_view()).cast(pa.large_binary())
            if pa.types.is_string_view(column.type):
                columns[at] = columns[at].view(pa.large_string())
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names) if columns != batch.columns else batch


def limit_memory(size_bytes: int) -> None:
    """Let this process take so much more than it has now. Not by its address space, of which threads and pools
    reserve what they never use."""
    with contextlib.suppress(OSError, ValueError, IndexError):  # systems without /proc have no limit
        with open("/proc/self/statm", "rb") as statm:
            taken_bytes = int(statm.read().split()[5]) * os.sysconf("SC_PAGE_SIZE")
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        wanted = taken_bytes + size_bytes
        resource.setrlimit(
            resource.RLIMIT_DATA, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard)
        )


def main() -> None:
    """Answer requests until there are no more."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sock = socket.socket(fileno=os.dup(0))
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):  # a library that prints must not speak in between, nor to the terminal
        os.dup2(nowhere, descriptor)
    threading.Thread(target=_end_with_parent, args=(sock.fileno(),), daemon=True).start()
    _serve(Connection(sock))
    os._exit(0)  # threads of native code are not waited for


def _end_with_parent(descriptor: int) -> None:
    """End this process when the other end of the socket is closed, also in the middle of a request."""
    hung_up = select.poll()
    hung_up.register(descriptor, 0)
    hung_up.poll()
    os._exit(0)


def _serve(connection: Connection) -> None:
    source: Source | None = None
    opened: int | None = None  # descriptor of the file

    def answer() -> Answer:
        nonlocal source, opened
        if request["do"] != "open":
            assert source is not None
            return source.answer(**request)
        source = None
        if opened is not None:
            os.close(opened)
        opened = descriptor
        source = _opened(connection, descriptor, **request)
        _check_names(source.opened.schema)
        return source.opened

    while (found := connection.request()) is not None:
        request, descriptor = found
        connection.send(answer_of(answer))


def answer_of(read: Callable[[], Answer]) -> Answer:
    """What is read, or why it is not."""
    try:
        answer, counted = read(), pa.MockOutputStream()
        _write(counted, answer)
        return answer._replace(head={**answer.head, "size_bytes": counted.size()})
    except Refused as error:
        return Answer({"fault": [error.code, error.reason], "size_bytes": 0})
    except MemoryError:
        return Answer({"fault": [1008, ""], "is_memory": True, "size_bytes": 0})
    except _BROKEN:
        return Answer({"fault": [1001, ""], "size_bytes": 0})
    # Rust's PanicException derives from it and cannot be imported; what it leaves behind is not to be used
    except BaseException:  # noqa: BLE001
        os._exit(PANICKED)


def _check_names(fields: Any) -> None:
    """Raises UnicodeDecodeError where a column, or a field in it, has a name that is no text."""
    for field in fields:
        _ = field.name
        kind = field.type
        _check_names(kind.field(at) for at in range(kind.num_fields))


def _opened(
    connection: Connection, descriptor: int | None, *, do: str, form: str, limits: list[int], **about: Any
) -> Source:
    """What the request opens: a Lance dataset by its directory, anything else by its file."""
    if form == "lance":
        try:
            import lance  # noqa: F401
        except ImportError:
            os._exit(ABSENT)
        from mmlake.formats.columnar.child_lance import LanceDataset

        return LanceDataset(**about)
    limit_memory(ColumnarLimits(*limits).max_decoded_bytes)
    file = LocalFile(f"/dev/fd/{descriptor}") if descriptor is not None else ServedFile(connection, **about)
    if form == "parquet":
        from mmlake.formats.columnar.child_parquet import ParquetFile

        return ParquetFile(file, ColumnarLimits(*limits))
    from mmlake.formats.columnar.child_arrow import ArrowFile

    return ArrowFile(file, ColumnarLimits(*limits))

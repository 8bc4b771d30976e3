"""The program that reads columnar files in a process of its own. Enters: requests, JSON each. Leaves: for each its
answer, JSON and an Arrow stream.

It imports pyarrow and nothing of this package but its own formats: it starts once per process that reads such files,
and again after each file that ends it. A file comes as a descriptor with the request that opens it, or its bytes are
asked for, range by range, while a request is worked on.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import socket
import struct
import sys
import threading
from collections.abc import Callable
from typing import Any, cast

import pyarrow as pa

from mmlake.formats.columnar import child_source
from mmlake.formats.columnar.child_source import Answer, ColumnarLimits, Refused, Source
from mmlake.memory_limits import limit_memory

PANICKED, ABSENT = 70, 69  # exit codes: native code gave up what it was doing; Lance cannot be imported

# the ways of pyarrow and pylance to say that a file is damaged
_BROKEN = (
    *(pa.ArrowException, OSError, ValueError, KeyError, TypeError, OverflowError),
    *(struct.error, RuntimeError, NotImplementedError, StopIteration),
)
# sent to whole groups and services: our parent decides when to end, and this process ends with it
_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LENGTH = struct.Struct("<q")  # before every message in both directions; below 0: the parent cannot read these bytes


class Connection:
    """The socket to the parent, on which one request is worked on at a time."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket, self._file, self._lock = sock, sock.makefile("wb", 1 << 16), threading.Lock()

    def request(self) -> tuple[dict[str, Any], int | None] | None:
        """(the next request, a file's descriptor that came with it); None when there are no more."""
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
    _spare_pandas()
    _serve(Connection(sock))
    os._exit(0)  # threads of native code are not waited for


class _NoPandas:
    """A finder of modules to which pandas is not installed."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def _spare_pandas() -> None:
    """Answer what pyarrow asks once in a process: whether pandas is there. It imports pandas to see whether a list is
    a column of a frame; here none is, and the import is half of the time in which this process starts to read Lance."""
    finder: Any = _NoPandas
    sys.meta_path.insert(0, finder)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(finder)


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
        if (do := request.pop("do")) != "open":
            return cast(Answer, getattr(source, do)(**request))
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


class LanceDataset:
    """One version of a dataset, whose rows are read by their offsets in a fragment."""

    def __init__(self, root: str, version: int | None, memory_bytes: int) -> None:
        """version: None for the newest. memory_bytes: what opening it may take."""
        import lance

        limit_memory(memory_bytes)
        dataset = lance.dataset(root, version=version)
        self._fragments: list[Any] = dataset.get_fragments()
        head = {"version": dataset.version, "num_fragments": len(self._fragments)}
        self.opened = Answer({**head, "is_elsewhere": bool(dataset.base_paths())}, (), dataset.schema)

    def fragment(self, at: int) -> Answer:
        """The fragment's number and its files, by names that are relative to the dataset."""
        fragment = self._fragments[at]
        paths = [f"data/{file.path}" for file in fragment.data_files()]
        if (deletions := fragment.deletion_file()) is not None:
            paths.append(deletions)
        return Answer({"number": fragment.fragment_id, "paths": paths})

    def count(self, at: int) -> Answer:
        """How many rows the fragment has, and how many it had before some were deleted."""
        fragment = self._fragments[at]
        return Answer({"num_rows": fragment.count_rows(), "physical_rows": fragment.physical_rows})

    def rows(
        self, at: int, columns: list[str], offset: int, limit: int, *, buffer_bytes: int, memory_bytes: int
    ) -> Answer:
        """So many rows of the fragment."""
        limit_memory(memory_bytes)
        scanner = self._fragments[at].scanner(
            columns=columns,
            offset=offset,
            limit=limit,
            batch_size=limit,
            batch_readahead=1,
            io_buffer_size=buffer_bytes,
            with_row_id=True,
            with_row_address=True,
            blob_handling="all_binary",
        )
        reader = scanner.to_reader()
        return Answer({}, tuple(reader), reader.schema)


def _opened(connection: Connection, descriptor: int | None, *, form: str, limits: list[int], **about: Any) -> Source:
    """What the request opens: a Lance dataset by its directory, anything else by its file."""
    if form == "lance":
        try:
            import lance  # noqa: F401
        except ImportError:
            os._exit(ABSENT)
        return LanceDataset(**about)
    limit_memory(ColumnarLimits(*limits).max_decoded_bytes)
    if descriptor is None:
        file: child_source.File = child_source.ServedFile(connection.range, **about)
    else:
        file = child_source.LocalFile(f"/dev/fd/{descriptor}")
    if form == "parquet":
        from mmlake.formats.columnar.child_parquet import ParquetFile

        return ParquetFile(file, ColumnarLimits(*limits))
    from mmlake.formats.columnar.child_arrow import ArrowFile

    return ArrowFile(file, ColumnarLimits(*limits))

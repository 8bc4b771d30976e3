"""The program that reads Lance in a process of its own. Enters: requests, a line of JSON each. Leaves: for each its
answer, JSON and Arrow.

Run by its path, so that it imports nothing of this package: it starts once per process that reads Lance, and again
after each dataset that ends it. An answer is four bytes with the length of its head, the head, and so many bytes as the
head's `size_bytes` says.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import threading
from collections.abc import Callable
from typing import Any

PANICKED, ABSENT = 70, 69  # exit codes: Rust gave up what it was doing; Lance cannot be imported
# told to whole groups and services: our parent decides when to end, and this ends with it
_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Answer = tuple[dict[str, Any], list[Any], Any]  # (head, batches, their schema)


def main() -> None:
    """Answer requests until there are no more."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    pipes = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):  # a library that prints must not speak in between, nor to the terminal
        os.dup2(nowhere, descriptor)
    threading.Thread(target=_end_with_parent, args=pipes[:1], daemon=True).start()
    try:
        import lance  # noqa: F401
    except ImportError:
        os._exit(ABSENT)
    import pyarrow as pa

    # OSError and the others are pylance's ways to say that a file is damaged.
    broken = (pa.ArrowException, OSError, ValueError, KeyError, TypeError, RuntimeError, NotImplementedError)
    dataset = Dataset()
    asks: dict[str, Callable[..., Answer]] = {
        "open": dataset.open,
        "fragment": dataset.fragment,
        "count": dataset.count,
        "rows": dataset.rows,
    }
    with open(pipes[0], "rb") as requests, open(pipes[1], "wb") as answers:
        for line in requests:
            request = json.loads(line)
            try:
                head, batches, schema = asks[request.pop("do")](**request)
                size_bytes = _size(batches, schema)
            except broken:
                head, batches, schema, size_bytes = {"is_unreadable": True}, [], None, 0
            # PanicException derives from it and cannot be imported; what it leaves behind is not to be used
            except BaseException:  # noqa: BLE001
                os._exit(PANICKED)
            data = json.dumps({**head, "size_bytes": size_bytes}).encode()
            answers.write(len(data).to_bytes(4, "little") + data)
            _write(pa.PythonFile(answers, mode="w"), batches, schema)
            answers.flush()


def _end_with_parent(descriptor: int) -> None:
    """End this process when the other end of its requests is closed, also in the middle of one."""
    hung_up = select.poll()
    hung_up.register(descriptor, 0)
    hung_up.poll()
    os._exit(0)


def _size(batches: list[Any], schema: Any) -> int:
    """Bytes of the answer's batches as they are sent. Raises what Arrow raises where they cannot be."""
    import pyarrow as pa

    counted = pa.MockOutputStream()
    _write(counted, batches, schema)
    return counted.size()


def _write(sink: Any, batches: list[Any], schema: Any) -> None:
    import pyarrow as pa

    if schema is not None:
        with pa.ipc.new_stream(sink, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)


class Dataset:
    """The version that is open."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._fragments: list[Any] = []

    def open(self, root: str, version: int | None, *, memory_bytes: int) -> Answer:
        """The version's number, how many fragments it has, whether files of it lie elsewhere, and its schema."""
        import lance

        _limit_memory(memory_bytes)
        self._handle, self._fragments = None, []
        handle = lance.dataset(root, version=version)
        self._handle, self._fragments = handle, handle.get_fragments()
        head = {
            "version": handle.version,
            "num_fragments": len(self._fragments),
            "is_elsewhere": bool(handle.base_paths()),
        }
        return head, [], handle.schema

    def fragment(self, at: int) -> Answer:
        """The fragment's number and its files, by names that are relative to the dataset."""
        fragment = self._fragments[at]
        paths = [f"data/{file.path}" for file in fragment.data_files()]
        if (deletions := fragment.deletion_file()) is not None:
            paths.append(deletions)
        return {"number": fragment.fragment_id, "paths": paths}, [], None

    def count(self, at: int) -> Answer:
        """How many rows the fragment has, and how many it had before some were deleted."""
        fragment = self._fragments[at]
        return {"num_rows": fragment.count_rows(), "physical_rows": fragment.physical_rows}, [], None

    def rows(
        self, at: int, columns: list[str], offset: int, limit: int, *, buffer_bytes: int, memory_bytes: int
    ) -> Answer:
        """So many rows of the fragment."""
        _limit_memory(memory_bytes)
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
        return {}, list(reader), reader.schema


def _limit_memory(size_bytes: int) -> None:
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


if __name__ == "__main__":
    main()
    os._exit(0)  # Lance's threads are not waited for

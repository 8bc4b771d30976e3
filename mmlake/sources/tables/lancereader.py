"""One version of a Lance dataset, read by another process that is replaced where the dataset ends it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from mmlake.sources.tables import lanceprocess
from mmlake.sources.tables.arrow import validate
from mmlake.sources.tables.lanceprocess import Answer, Ended, LanceProcess

_MAX_SMALL_BYTES = 64 << 20  # of a schema
_TRIES = 2  # where what ended the process may lie elsewhere


class Unread(Exception):
    """Lance did not give what it was asked for."""

    def __init__(self, *, has_ended: bool) -> None:
        super().__init__()
        self.has_ended = has_ended  # whether the process that was to read it did not survive


class Fragment(NamedTuple):
    """A part of a dataset."""

    at: int  # place among the fragments of the version
    number: int  # as Lance calls it
    paths: list[str]  # of its files, relative to the dataset
    size_bytes: int = 0  # of those files as they lie, whatever the manifest says


class Step(NamedTuple):
    """Some rows of a fragment."""

    fragment: Fragment
    columns: list[str]
    offset: int
    num_rows: int
    buffer_bytes: int
    memory_bytes: int  # what reading them may take; more is damage, such as a length in the file that says so

    @property
    def request(self) -> dict[str, Any]:
        """How the other process is asked for them."""
        names = {"at": self.fragment.at, "columns": self.columns, "offset": self.offset, "limit": self.num_rows}
        return {"do": "rows", **names, "buffer_bytes": self.buffer_bytes, "memory_bytes": self.memory_bytes}


class Reader:
    """An open version. Every method raises Unread."""

    def __init__(self, root: Path, version: int | None, memory_bytes: int) -> None:
        self._opening: dict[str, Any] = {
            "do": "open",
            "root": str(root),
            "version": version,
            "memory_bytes": memory_bytes,
        }
        self._process: LanceProcess | None = None
        self._is_sound = True  # all that it gave was: others may use the process
        self._asked: Step | None = None
        self.head: dict[str, Any] = {}
        self.schema: pa.Schema = pa.schema([])

    def open(self) -> None:
        """Learn which version it is and what it holds."""
        answer = self._answer(None, max_bytes=_MAX_SMALL_BYTES)
        with self._decoding():
            self.head, self.schema = answer.head, pa.ipc.open_stream(pa.py_buffer(answer.data)).schema
        self._opening["version"] = self.head["version"]  # another may come to be the latest

    def fragment(self, at: int) -> Fragment:
        """The fragment at that place of the version."""
        head = self._answer({"do": "fragment", "at": at}, max_bytes=_MAX_SMALL_BYTES).head
        return Fragment(at, head["number"], head["paths"])

    def count(self, fragment: Fragment) -> tuple[int, int]:
        """(rows of the fragment, rows of it before some were deleted)."""
        head = self._answer({"do": "count", "at": fragment.at}, max_bytes=_MAX_SMALL_BYTES).head
        return head["num_rows"], head["physical_rows"]

    def ask(self, step: Step) -> None:
        """Have the rows read while something else is done. `rows` gives them."""
        self._asked = step
        if self._process is not None:
            self._process.ask(step.request)

    def rows(self, step: Step) -> list[pa.RecordBatch]:
        """The rows of the step, all of whose offsets are sound."""
        is_asked, self._asked = self._asked is step and self._process is not None, None
        answer = self._answer(step.request, max_bytes=step.memory_bytes, is_asked=is_asked)
        with self._decoding():
            batches = list(pa.ipc.open_stream(pa.py_buffer(answer.data)))
            for batch in batches:
                batch.validate()
                for column in batch.columns:
                    validate(column)
        return batches

    @contextmanager
    def _decoding(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, OSError, ValueError) as error:
            self._is_sound = False
            raise Unread(has_ended=False) from error

    def _answer(self, request: dict[str, Any] | None, *, max_bytes: int, is_asked: bool = False) -> Answer:
        """The answer to the request, of a new process where there is none any more. None: the opening is the
        request."""
        for tries_left in reversed(range(_TRIES)):
            try:
                return self._once(request, max_bytes, is_asked)
            except Ended as error:
                self._process, is_asked = None, False
                if not error.may_pass or not tries_left:
                    raise Unread(has_ended=True) from error
        raise AssertionError("every try returns or raises")

    def _once(self, request: dict[str, Any] | None, max_bytes: int, is_asked: bool) -> Answer:
        process = self._process
        if process is None:
            process = lanceprocess.taken()
            try:
                process.ask(self._opening)
                answer = process.answer(max_bytes=_MAX_SMALL_BYTES)
            except BaseException:
                process.end()
                raise
            if answer.is_unreadable:
                lanceprocess.give_back(process)
                raise Unread(has_ended=False)
            self._process = process
            if request is None:
                return answer
        if request is not None and not is_asked:
            process.ask(request)
        answer = process.answer(max_bytes=max_bytes)
        if answer.is_unreadable:
            raise Unread(has_ended=False)
        return answer

    def close(self) -> None:
        """Let go of the process."""
        process, self._process = self._process, None
        if process is not None:
            lanceprocess.give_back(process) if self._is_sound else process.end()


@contextmanager
def reader(root: Path, version: int | None, *, memory_bytes: int) -> Iterator[Reader]:
    """An open reader; None as a version is the latest one. memory_bytes: what opening it may take. Raises Unread."""
    opened = Reader(root, version, memory_bytes)
    try:
        opened.open()
        yield opened
    finally:
        opened.close()

"""Columnar files as whoever reads records sees them: a schema, and record batches of bounded size. A child process
reads them, and is replaced where a file ends it.

What cannot be read raises UnreadableItem with the error code of the row that it becomes: 1001 for damage, 1002 for a
file that stops, 1008 for what would take more memory than it may.
"""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc

from mmlake.errors import UnreadableItem
from mmlake.formats.columnar.child_source import ColumnarLimits
from mmlake.formats.columnar.process import CHILDREN, Answer, ChildProcess, Ended
from mmlake.streams import read_up_to

_MAX_SMALL_BYTES = 64 << 20  # of a schema
_TRIES = 2  # where what ended the child may lie elsewhere
_MAX_ENDS = 16  # children that one file may cost, a quarter of a second each
_FEW_ROWS = 16  # decoded at a time where more took too much memory; then one
_KEPT_BYTES = 64 << 10  # of a stream that cannot seek: how far a reader may go back

Opener = Callable[[], IO[bytes]]


class Unread(UnreadableItem):
    """The child did not give what it was asked for."""

    def __init__(self, code: int, reason: str, *, has_ended: bool = False, is_memory: bool = False) -> None:
        super().__init__(code, reason)
        self.has_ended = has_ended  # whether the process that was to read it did not survive
        self.is_memory = is_memory  # whether less at a time may be read


class _Bytes:
    """The file whose ranges the child asks for, in any order, or forward where it cannot seek."""

    def __init__(self, open_file: Opener) -> None:
        self._open, self._stream = open_file, open_file()
        self._at, self._kept = 0, b""
        raw = getattr(self._stream, "raw", self._stream)
        is_local = isinstance(raw, io.FileIO) and stat.S_ISREG(os.fstat(raw.fileno()).st_mode)
        self.descriptor = raw.fileno() if is_local else None
        self._is_sought = self._stream.seekable()
        self.size_bytes = self._stream.seek(0, io.SEEK_END) if self._is_sought else None

    def read_at(self, offset: int, size_bytes: int) -> bytes:
        """So many bytes from there on, fewer at the end."""
        if self._is_sought:
            self._stream.seek(offset)
            return read_up_to(self._stream, size_bytes, part_bytes=1 << 20)
        if offset < self._at - len(self._kept):
            self._stream.close()
            self._stream, self._at, self._kept = self._open(), 0, b""
        while self._at < offset and self._forward(min(1 << 20, offset - self._at)):
            pass
        while self._at < offset + size_bytes and self._forward(offset + size_bytes - self._at):
            pass
        start = len(self._kept) - (self._at - offset)
        return self._kept[start : start + size_bytes] if start >= 0 else b""

    def _forward(self, size_bytes: int) -> int:
        data = read_up_to(self._stream, size_bytes, part_bytes=1 << 20)
        self._kept = self._kept[-_KEPT_BYTES:] + data
        self._at += len(data)
        return len(data)

    def close(self) -> None:
        """Close the file."""
        self._stream.close()


class Reader:
    """One open file or dataset. Every method raises Unread."""

    def __init__(self, opening: dict[str, Any], source: _Bytes | None) -> None:
        self._opening: dict[str, Any] = {"do": "open", **opening}
        self._source = source
        self._serve = source.read_at if source is not None else None
        self._child: ChildProcess | None = None
        self._is_sound = True  # all that it gave was: others may use the child
        self._asked: dict[str, Any] | None = None
        self._num_ends = 0
        try:
            answer = self._answer(None, max_bytes=_MAX_SMALL_BYTES)
            self.head = answer.head
            with self._decoding():
                self.schema: pa.Schema = pa.ipc.open_stream(answer.data).schema
        except BaseException:
            self.close()
            raise

    def _ask(self, request: dict[str, Any]) -> None:
        """Have it worked on while something else is done. `_answer` to an equal request gives what comes of it."""
        if self._child is not None:
            self._asked = request
            self._child.ask(request)

    def _small(self, request: dict[str, Any]) -> dict[str, Any]:
        return self._answer(request, max_bytes=_MAX_SMALL_BYTES).head

    def _batches(self, request: dict[str, Any], *, max_bytes: int) -> tuple[dict[str, Any], list[pa.RecordBatch]]:
        """(head, batches, all of whose offsets are sound) of the answer to the request."""
        answer = self._answer(request, max_bytes=max_bytes)
        if not answer.data.size:
            return answer.head, []
        with self._decoding():
            batches = list(pa.ipc.open_stream(answer.data))
            for batch in batches:
                batch.validate()
                for column in batch.columns:
                    _validate(column)
        return answer.head, batches

    @contextmanager
    def _decoding(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, OSError, ValueError) as error:
            self._is_sound = False
            raise Unread(1001, "") from error

    def _answer(self, request: dict[str, Any] | None, *, max_bytes: int) -> Answer:
        """The answer to the request, of a new child where there is none any more. None: the opening is the request."""
        asked, self._asked = self._asked, None
        is_asked = asked is not None and asked == request
        if asked is not None and not is_asked and self._child is not None:  # nobody wants that answer any more
            try:
                self._child.answer(max_bytes=max(max_bytes, _MAX_SMALL_BYTES), serve=self._serve)
            except Ended:
                self._child = None
        for tries_left in reversed(range(_TRIES)):
            if self._num_ends >= _MAX_ENDS:
                break
            try:
                return self._once(request, max_bytes, is_asked)
            except Ended as error:
                self._child, is_asked = None, False
                self._num_ends += 1
                if not error.may_pass or not tries_left:
                    reason = "took too long over them" if error.is_late else "did not survive them"
                    raise Unread(1001, f"the process that reads {reason}", has_ended=True) from error
        raise Unread(1001, f"the file ended {self._num_ends} processes that were to read it", has_ended=True)

    def _once(self, request: dict[str, Any] | None, max_bytes: int, is_asked: bool) -> Answer:
        child = self._child
        if child is None:
            self._child = child = CHILDREN.take()
            descriptor = self._source.descriptor if self._source is not None else None
            answer = self._exchange(child, self._opening, _MAX_SMALL_BYTES, descriptor)
            if "fault" in answer.head:
                self._child = None
                CHILDREN.give_back(child)
            if "fault" in answer.head or request is None:
                return _sound(answer)
        return _sound(self._exchange(child, None if is_asked else request, max_bytes))

    def _exchange(
        self, child: ChildProcess, request: dict[str, Any] | None, max_bytes: int, descriptor: int | None = None
    ) -> Answer:
        """The answer to the request, or where there is none, to the one that was sent before."""
        try:
            if request is not None:
                child.ask(request, descriptor)
            return child.answer(max_bytes=max_bytes, serve=self._serve)
        except BaseException:
            self._child = None
            child.end()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the child and of the file."""
        child, self._child = self._child, None
        if child is not None:
            CHILDREN.give_back(child) if self._is_sound else child.end()
        if self._source is not None:
            self._source.close()


def _sound(answer: Answer) -> Answer:
    if "fault" in answer.head:
        raise Unread(*answer.head["fault"], is_memory=bool(answer.head.get("is_memory")))
    return answer


class _FileReader(Reader):
    """A file whose parts, row groups or record batches, are read a slice at a time."""

    form = ""

    def __init__(self, open_file: Opener, limits: ColumnarLimits) -> None:
        self._limits, source = limits, _Bytes(open_file)
        opening: dict[str, Any] = {"form": self.form, "limits": list(limits)}
        if source.descriptor is None:
            opening["size_bytes"] = source.size_bytes
        super().__init__(opening, source)

    def _part_rows(self, part: int, num_rows: int) -> Iterator[tuple[dict[str, Any], pa.RecordBatch]]:
        """(head, rows) of each slice. Raises Unread behind those that can be read."""
        request: dict[str, Any] = {"do": "rows", "part": part, "offset": 0, "limit": 0, "is_careful": False}
        most, num_ends = 2 * self._limits.max_decoded_bytes + 4 * self._limits.max_item_bytes, 0
        while request["offset"] < num_rows:
            try:
                head, batches = self._batches(request, max_bytes=most)
            except Unread as error:
                num_ends += error.has_ended
                is_last = request["limit"] == 1 or num_ends > 1 or not (error.is_memory or error.has_ended)
                if is_last and error.is_memory:
                    limit = self._limits.max_decoded_bytes
                    reason = f"memory_bytes>{limit} not in [0, {limit}], which sources.max_decoded_bytes sets"
                    raise Unread(1008, reason) from error
                if is_last:
                    raise
                # fewer rows at a time, and lists as references, take less
                request = {**request, "limit": 1 if request["limit"] else _FEW_ROWS, "is_careful": True}
                continue
            found = sum(batch.num_rows for batch in batches)
            if not found:
                return
            request = {**request, "offset": request["offset"] + found}
            if request["offset"] < num_rows:
                self._ask(request)
            while batches:
                yield head, batches.pop(0)


class ParquetReader(_FileReader):
    """An open Parquet file."""

    form = "parquet"

    @property
    def num_rows(self) -> int:
        """Of all row groups, as the footer says."""
        return int(self.head["num_rows"])

    @property
    def groups(self) -> list[int]:
        """The number of rows of each row group, as the footer says."""
        return list(self.head["groups"])

    def batches(self, group: int) -> Iterator[pa.RecordBatch]:
        """The rows of the group. Raises UnreadableItem behind those that can be read."""
        for _, batch in self._part_rows(group, self.groups[group]):
            yield batch
            del batch  # before the next one is read


class Part(NamedTuple):
    """A dictionary or a record batch of an Arrow file."""

    at: int  # among all parts
    number: int  # among those of its kind, from 0
    is_dictionary: bool
    num_rows: int
    broken: UnreadableItem | None  # why it is not to be read


class ArrowReader(_FileReader):
    """An open Arrow IPC file or stream."""

    form = "arrow"

    @property
    def num_batches(self) -> int | None:
        """How many record batches there are, where a footer says so."""
        return self.head["num_batches"]  # type: ignore[no-any-return]

    def parts(self) -> Iterator[Part]:
        """The dictionaries and record batches in their order. Raises UnreadableItem behind the last whole one where
        the file stops before its end or cannot be followed further."""
        at = 0
        while not (head := self._small({"do": "part", "at": at})).get("is_end"):
            broken = UnreadableItem(*head["broken"]) if "broken" in head else None
            yield Part(at, head["number"], head["is_dictionary"], head["num_rows"], broken)
            at += 1

    def batches(self, part: Part) -> Iterator[tuple[pa.RecordBatch, int]]:
        """(rows of the part, bytes that all of them may come to as values). Raises UnreadableItem behind those that
        can be read."""
        for head, batch in self._part_rows(part.at, part.num_rows):
            yield batch, head["limit_bytes"]
            del batch  # before the next one is read


class Fragment(NamedTuple):
    """A part of a Lance dataset."""

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
        """How the child is asked for them."""
        names = {"at": self.fragment.at, "columns": self.columns, "offset": self.offset, "limit": self.num_rows}
        return {"do": "rows", **names, "buffer_bytes": self.buffer_bytes, "memory_bytes": self.memory_bytes}


class LanceReader(Reader):
    """An open version of a Lance dataset."""

    def __init__(self, root: Path, version: int | None, memory_bytes: int) -> None:
        about = {"root": str(root), "version": version, "memory_bytes": memory_bytes}
        super().__init__({"form": "lance", "limits": [], **about}, None)
        self._opening["version"] = self.head["version"]  # another may come to be the latest

    def fragment(self, at: int) -> Fragment:
        """The fragment at that place of the version."""
        head = self._small({"do": "fragment", "at": at})
        return Fragment(at, head["number"], head["paths"])

    def count(self, fragment: Fragment) -> tuple[int, int]:
        """(rows of the fragment, rows of it before some were deleted)."""
        head = self._small({"do": "count", "at": fragment.at})
        return head["num_rows"], head["physical_rows"]

    def ask(self, step: Step) -> None:
        """Have the rows read while something else is done. `rows` gives them."""
        self._ask(step.request)

    def rows(self, step: Step) -> list[pa.RecordBatch]:
        """The rows of the step."""
        return self._batches(step.request, max_bytes=step.memory_bytes)[1]


def _validate(column: pa.Array) -> None:
    """Raises ArrowInvalid where an offset, a length or an index leads out of the column. Texts that are no UTF-8
    cost their own rows, later."""
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        if pa.types.is_dictionary(column.type):
            column.indices.validate(full=True)
            _validate(column.dictionary)
            most = pc.max(column.indices).as_py()
            if most is not None and (most >= len(column.dictionary) or pc.min(column.indices).as_py() < 0):
                raise
        else:
            column.view(_as_bytes(column.type)).validate(full=True)


def _as_bytes(kind: pa.DataType) -> pa.DataType:
    """The type with bytes in the place of texts."""
    if pa.types.is_string(kind):
        return pa.binary()
    if pa.types.is_large_string(kind):
        return pa.large_binary()
    if pa.types.is_string_view(kind):
        return pa.binary_view()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_as_bytes(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_as_bytes(kind.value_type)))
    if pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_as_bytes(kind.value_type)))
    return kind

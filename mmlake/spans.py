"""Units of one item worked on together, so that one decode of the item serves all of them.

Enters: rows of unit tracks, those of one item next to each other. Leaves: for each row what a kernel made of it, or its
`Failure`. It knows no measures, fingerprints or vectors.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import groupby, islice
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mmlake.border import Failure, Runner, attempt, map_opened
from mmlake.errors import ContractBroken

T = TypeVar("T")
R = TypeVar("R")
Span = tuple[float, float]  # start and end in seconds of the item; the end is the first moment behind it
Row = Mapping[str, Any]  # of unit tracks
_HELD_BYTES = 1 << 20  # of Arrow
SPAN_COLUMNS = ("parent_digest", "span_start_s", "span_end_s")


def span_of(row: Row) -> Span | None:
    """The span that the unit is; None where it is a whole item."""
    return None if row["span_start_s"] is None else (row["span_start_s"], row["span_end_s"])


def rows_of(units: pa.Table, *, most_rows: int) -> Iterator[dict[str, Any]]:
    """The rows as Python objects, so many of them held at once, and fewer of those that are large: a minute of a film
    has 480 signals, which take twenty times as much so."""
    fitting = _HELD_BYTES * units.num_rows // max(1, units.nbytes)
    for batch in units.to_batches(max_chunksize=max(1, min(most_rows, fitting))):
        yield from batch.to_pylist()


def by_parent(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """The rows of one item together. Those of one item are next to each other, as unit tracks have them."""
    return (list(group) for _, group in groupby(rows, key=lambda row: row["parent_digest"]))


def map_units(
    runner: Runner,
    make: Callable[[list[T]], Iterable[R | Failure]],
    groups: Iterable[list[Row]],
    *,
    opened: Callable[[list[Row]], AbstractContextManager[list[T]]],
    code: int,
    what: str,
) -> Iterator[tuple[Row, R | Failure]]:
    """(row, what became of it) of every row, in no order that counts.

    make: a kernel, from what was opened for a group to one result each, in order. A raise is the failure of the row
    whose turn it is. Rows that it then does not reach, and all rows of a group that ends its worker, are tried alone.
    opened, code, what: as for `mmlake.border.map_opened`.
    """
    kernel = partial(_together, make, code, what)
    stranded: list[Row] = []
    for rows, found in map_opened(runner, kernel, groups, opened=opened, code=code, what=what):
        made = found if isinstance(found, list) else [found] if len(rows) == 1 else []
        yield from zip(rows, made, strict=False)
        stranded += rows[len(made) :]
    alone = ([row] for row in stranded)
    for (row,), found in map_opened(runner, kernel, alone, opened=opened, code=code, what=what):
        if not found:
            raise ContractBroken(f"{what}: the kernel gave no result for {row['digest']}; correct its function")
        yield row, found[0] if isinstance(found, list) else found


def _together(
    make: Callable[[list[T]], Iterable[R | Failure]], code: int, what: str, items: list[T]
) -> list[R | Failure]:
    """What became of the first items, as far as `make` gets; of a single one in any case."""
    made: list[R | Failure] = []
    started = attempt(make, items, code=code, what=what)
    if isinstance(started, Failure):
        return [started] if len(items) == 1 else []
    results = iter(started)
    while len(made) < len(items):
        found = attempt(_next, results, code=code, what=what)
        if not found:
            break
        made += [found] if isinstance(found, Failure) else found
    return made


def _next(results: Iterator[R]) -> list[R]:
    return list(islice(results, 1))


@dataclass(slots=True)
class _Held:
    value: Any
    stack: ExitStack
    num_users: int = 0


class Shared:
    """Contexts that several rows want one after another, such as a blob as a local file: each is entered once, and left
    when nobody has it in hand and another one is wanted."""

    def __init__(self) -> None:
        self._held: dict[str, _Held] = {}
        self._wanted_last = ""

    def __enter__(self) -> Shared:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for held in self._held.values():
            held.stack.close()
        self._held.clear()

    @contextmanager
    def one(self, key: str, opened: Callable[[], AbstractContextManager[T]]) -> Iterator[T]:
        """What was opened under that name. Raises what `opened` raises, each time anew."""
        held = self._held.get(key)
        if held is None:
            with ExitStack() as stack:
                held = self._held[key] = _Held(stack.enter_context(opened()), stack.pop_all())
        before, self._wanted_last = self._wanted_last, key
        held.num_users += 1
        self._leave(before)
        try:
            yield held.value
        finally:
            held.num_users -= 1
            self._leave(key)

    def _leave(self, key: str) -> None:
        if key != self._wanted_last and key in self._held and not self._held[key].num_users:
            self._held.pop(key).stack.close()


@dataclass(frozen=True, slots=True)
class Sound:
    """A file of sound, or a span of one; picklable."""

    file: bytes | Path
    span_s: Span | None = None

    def samples(self) -> tuple[NDArray[np.float32], int]:
        """(mono float32 samples in [-1, 1], sample rate in Hz). Of a span no more than its own samples are read."""
        import soundfile

        with soundfile.SoundFile(io.BytesIO(self.file) if isinstance(self.file, bytes) else self.file) as sound:
            num_frames = -1
            if self.span_s is not None:
                start, end = (min(round(border * sound.samplerate), sound.frames) for border in self.span_s)
                sound.seek(start)
                num_frames = end - start
            samples = sound.read(num_frames, dtype="float32", always_2d=True)
            rate_hz: int = sound.samplerate
        return samples[:, 0] if samples.shape[1] == 1 else samples.sum(axis=1) / samples.shape[1], rate_hz

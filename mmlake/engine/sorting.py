"""Wide rows in the order of a key, whatever their number: sorted runs in files, read side by side.

DuckDB sorts narrow rows within its limit; of rows with long lists it held five times its limit (docs/dedup-at-
scale.md), so these are sorted here: runs of bounded size, then one range of keys after the other from all runs at once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake.engine.scratch import Scratch, mapped

_BATCH_ROWS = 8_192  # of a run
_ONE_CHUNK_BYTES = 8 << 30  # offsets of 32 bits reach over 16 GiB of hashes
_SAMPLES = 64  # keys of each run, by which ranges are cut


def sorted_rows(
    parts: Iterable[pa.Table], by: Sequence[str], *, scratch: Scratch, most_bytes: float
) -> Iterator[pa.Table]:
    """The rows in the order of the columns, some at a time; of rows that are equal in all of them the first that came.

    Rows that are equal in the first column come in one table. by: columns of texts without nulls. most_bytes: of rows
    that are sorted at once.
    """
    runs: list[pa.Table] = []
    held: list[pa.Table] = []
    size = 0
    for part in parts:
        held.append(part)
        size += part.nbytes
        if size > most_bytes:
            runs.append(_run(_sorted(held, by), scratch))
            size = 0
    if not runs:
        if held:
            yield _sorted(held, by)
        return
    if held:
        runs.append(_run(_sorted(held, by), scratch))
    yield from _merged(runs, by)


def _merged(runs: list[pa.Table], by: Sequence[str]) -> Iterator[pa.Table]:
    """The rows of all runs, a range of the first column at a time."""
    begins = [0] * len(runs)
    for bound in [*_bounds(runs, by[0]), None]:
        ends = [run.num_rows if bound is None else num_before(run[by[0]], bound) for run in runs]
        slices = [run.slice(low, high - low) for run, low, high in zip(runs, begins, ends, strict=True)]
        begins = ends
        if any(part.num_rows for part in slices):
            yield _sorted(slices, by)


def _bounds(runs: list[pa.Table], name: str) -> list[str]:
    """Keys that cut the rows into about as many ranges as there are runs."""
    sample = sorted(
        run[name][at].as_py() for run in runs for at in range(0, run.num_rows, max(1, run.num_rows // _SAMPLES))
    )
    return sorted(set(sample[_SAMPLES::_SAMPLES]))


class Along:
    """Sorted rows that are taken range by range, along with those of another table."""

    def __init__(self, parts: Iterable[pa.Table], by: str) -> None:
        """parts: at least one, sorted by that column of texts without nulls, within and from one to the next."""
        self._parts, self._by = iter(parts), by
        self._held = next(self._parts)

    def up_to(self, last: str) -> pa.Table:
        """Those that are left up to this text, which is included."""
        beyond, taken = f"{last}\0", list[pa.Table]()
        while (num := num_before(self._held[self._by], beyond)) == self._held.num_rows:
            part = next(self._parts, None)
            if part is None:
                break
            taken.append(self._held)
            self._held = part
        taken.append(self._held.slice(0, num))
        self._held = self._held.slice(num)
        return pa.concat_tables(taken)


def num_before(column: pa.Array | pa.ChunkedArray, bound: str) -> int:
    """How many of the sorted texts are smaller than the bound."""
    return bisect_left(range(len(column)), bound, key=lambda at: column[at].as_py())


def is_among(column: pa.ChunkedArray, keys: pa.Array) -> pa.ChunkedArray:
    """Of each text whether it is one of the sorted keys. Only keys between the least and the greatest text are hashed:
    a column that comes in hundreds of parts would hash all of them each time."""
    ends = pc.min_max(column)
    if not ends["max"].is_valid:
        return pc.is_in(column, value_set=keys.slice(0, 0))
    begin, end = num_before(keys, ends["min"].as_py()), num_before(keys, f"{ends['max'].as_py()}\0")
    return pc.is_in(column, value_set=keys.slice(begin, end - begin))


def _sorted(parts: list[pa.Table], by: Sequence[str]) -> pa.Table:
    """The rows of all parts, which are given up: rows with lists are taken from one chunk in a quarter of the time that
    many take, and the two copies are as many as there are without."""
    table = pa.concat_tables(parts)
    parts.clear()
    if table.num_rows < 2:
        return table
    if table.nbytes < _ONE_CHUNK_BYTES:
        table = table.combine_chunks()
    order = pc.sort_indices(table.select(list(by)), sort_keys=[(name, "ascending") for name in by])
    return firsts(table.take(order), by)


def firsts(table: pa.Table, by: Sequence[str]) -> pa.Table:
    """Sorted rows, of those that are equal in all of the columns the first."""
    is_new = np.zeros(table.num_rows, np.bool_)
    is_new[0] = True
    for name in by:
        column = table[name]
        is_new[1:] |= pc.not_equal(column[1:], column[:-1]).to_numpy()
    return table if is_new.all() else table.filter(pa.array(is_new))


def _run(table: pa.Table, scratch: Scratch) -> pa.Table:
    """The same rows, in a file."""
    with scratch.file() as file:
        with pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=_BATCH_ROWS)
        file.flush()
        return pa.ipc.open_file(pa.py_buffer(mapped(file))).read_all()

"""The samples of all source shards, a bounded number of rows in memory at a time, each sample once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake.versions.grouped_samples import Samples

BATCH_ROWS = 32_768  # up to which whole source shards are put together, so that small ones are not expensive
Scan = Callable[[], Iterable[pa.Table]]
_COUNTED = ["sample", "sample_ids", "source", "licences", "num_occurrences", "shard"]


class SampleBatches:
    """Batches of distinct samples. A sample that several source shards hold is in the batch of the first by name, with
    what the others say of it; which samples these are is found out first, by their names alone."""

    def __init__(self, scan: Scan) -> None:
        """scan: reads the tables of the source shards anew, in order of their names, each shard in one table; one of no
        rows where there are none."""
        self._scan = scan
        first = list(islice(_joined(scan()), 2))
        self._only = first[0] if len(first) == 1 else None
        self._repeated_in: dict[int, pa.Array] = {}  # batch -> names that an earlier batch has too
        self._more: dict[int, list[pa.Table]] = {}  # batch -> what later ones say of its samples, without parts
        if self._only is None:
            self._find_repeated()

    def __iter__(self) -> Iterator[Samples]:
        if self._only is not None:
            yield Samples.of(self._only)
            return
        for number, table in enumerate(_joined(self._scan())):
            if number in self._repeated_in:
                table = table.filter(pc.invert(pc.is_in(table["sample"], value_set=self._repeated_in[number])))
            yield Samples.of(pa.concat_tables([table, *self._more.get(number, [])]))

    def _find_repeated(self) -> None:
        names = [pc.unique(table["sample"]) for table in _joined(self._scan())]
        batch = np.repeat(np.arange(len(names)), [len(one) for one in names])
        every = pa.chunked_array(names).combine_chunks() if names else pa.array([], pa.string())
        del names
        order = pc.sort_indices(every).to_numpy().astype(np.int64)  # equal names stay in order of their batches
        is_again = np.zeros(len(order), bool)
        if len(order):
            ordered = every.take(pa.array(order))
            is_again[1:] = pc.equal(ordered.slice(1), ordered.slice(0, len(order) - 1)).to_numpy(zero_copy_only=False)
            del ordered
        if not is_again.any():
            return
        head = np.maximum.accumulate(np.where(is_again, 0, np.arange(len(order))))
        again, first = order[is_again], batch[order[head[is_again]]]
        for number in np.unique(batch[again]).tolist():
            self._repeated_in[number] = every.take(pa.array(again[batch[again] == number]))
        for number, table in enumerate(_joined(self._scan())):
            if number in self._repeated_in:
                self._keep_counted(table, self._repeated_in[number], first[batch[again] == number])

    def _keep_counted(self, table: pa.Table, names: pa.Array, first: np.ndarray) -> None:
        """Keep what a batch says of samples of these names, each of which is in the batch `first`."""
        at = pc.index_in(table["sample"], value_set=names)
        rows = table.filter(pc.is_valid(at))
        target = first[pc.drop_null(at).to_numpy()]
        for column, field in enumerate(rows.schema):
            if field.name not in _COUNTED:
                empty: list[list[str] | None] = [[] if field.name == "parts" else None] * rows.num_rows
                rows = rows.set_column(column, field, pa.array(empty, field.type))
        for one in np.unique(target).tolist():
            self._more.setdefault(one, []).append(rows.filter(pa.array(target == one)))


def _joined(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Neighbouring tables put together up to `BATCH_ROWS`; none of no rows but the first."""
    held: list[pa.Table] = []
    num_rows = 0
    for table in tables:
        if held and num_rows + table.num_rows > BATCH_ROWS:
            yield pa.concat_tables(held)
            held, num_rows = [], 0
        held.append(table)
        num_rows += table.num_rows
    if held:
        yield pa.concat_tables(held)

"""Joins, group-bys, sorts and kernels on a Ray cluster: the questions of `relations.py` and `sorting.py`, answered by
Daft there. Answers are equal to the last row, and come in the same order.

Rows go to the cluster, and sorted ones come back, as files in a folder that all of its machines see; Daft reads them in
parts, so neither a machine nor this process holds all. Ray and Daft come with the extra `ray` and are imported here.
"""

from __future__ import annotations

import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake.engine.scratch import Scratch, TextColumn
from mmlake.engine.sorting import firsts
from mmlake.optional import need

Kernel = Callable[[pa.Table], pa.Table]
_ROW = "__row"  # the number of a row among all that came
_STORE_BYTES = 600 << 20  # of a cluster that is begun here; it spills what is more
_WAITING = 4  # tables that kernels work on, or have worked on, at a time
_PART_BYTES = 64 << 20  # of one file


class Cluster:
    """Questions about keys and rows, which a Ray cluster answers."""

    def __init__(self, address: str, scratch: Scratch, folder: Path | None, *, threads: int) -> None:
        """address: of a cluster; empty for one of this machine, with so many threads. folder: that all of its machines
        see; that of `scratch` without one."""
        self._address, self._scratch, self._threads = address, scratch, threads
        self._folder = folder

    def distinct(self, keys: Iterable[pa.Table], among: Iterable[pa.Table]) -> pa.Array:
        """The keys that both have, sorted, each once. Both: tables of one column."""
        return self._keys(keys, among, how="semi")

    def strangers(self, keys: Iterable[pa.Table], known: Iterable[pa.Table]) -> pa.Array:
        """The keys that are not known, sorted, each once. Both: tables of one column."""
        return self._keys(keys, known, how="anti")

    def least_and_count(self, rows: Iterable[pa.Table]) -> pa.Table:
        """A row per key, sorted: the key, the smallest of its values (`least`), how many rows it has (`num`).

        rows: tables of two columns, a key and a value."""
        daft = self._daft()
        with self._files() as folder:
            schema = _written(rows, folder)
            key, value = schema.names
            named = pa.schema([schema.field(0), pa.field("least", schema.field(1).type), pa.field("num", pa.int64())])
            frame = daft.read_parquet(f"{folder}/*.parquet").groupby(key)
            frame = frame.agg(daft.col(value).min().alias("least"), daft.col(value).count().alias("num")).sort(key)
            return pa.concat_tables([named.empty_table(), *(_as(part, named) for part in _tables(frame))])

    def sorted_rows(self, parts: Iterable[pa.Table], by: Sequence[str]) -> Iterator[pa.Table]:
        """As `mmlake.engine.sorting.sorted_rows` says."""
        with self._files() as folder:
            schema = _written(_numbered(parts), folder)
            if not schema.names:
                return
            schema = schema.remove(schema.get_field_index(_ROW))
            frame = self._daft().read_parquet(f"{folder}/*.parquet").sort([*by, _ROW])
            held = schema.empty_table()
            for part in _tables(frame):
                held = pa.concat_tables([held, _as(part, schema)])
                # the rows of the last key may go on in the next part
                end = pc.index(held[by[0]], held[by[0]][-1]).as_py() if held.num_rows else 0
                if end:
                    yield firsts(held.slice(0, end), by)
                    held = held.slice(end).combine_chunks()
            if held.num_rows:
                yield firsts(held, by)

    def grouped(self, parts: Iterable[pa.Table], by: Sequence[str], kernel: Kernel) -> Iterator[pa.Table]:
        """As `Engine.grouped` says; a kernel of the top of a module, which runs on the cluster."""
        rows = self.sorted_rows(parts, by)
        ray, _ = _connected(self._address, self._threads)
        task = ray.remote(_applied)
        waiting: deque[Any] = deque()
        for table in rows:
            waiting.append(task.remote(kernel, table))
            if len(waiting) == _WAITING:
                yield ray.get(waiting.popleft())
        while waiting:
            yield ray.get(waiting.popleft())

    def _keys(self, keys: Iterable[pa.Table], others: Iterable[pa.Table], *, how: str) -> pa.Array:
        daft, column = self._daft(), TextColumn(self._scratch)
        with self._files() as folder, self._files() as other_folder:
            if not _written(keys, folder, "a").names:
                return column.array()
            frame = daft.read_parquet(f"{folder}/*.parquet")
            if _written(others, other_folder, "a").names:
                frame = frame.join(daft.read_parquet(f"{other_folder}/*.parquet"), on="a", how=how)
            elif how == "semi":
                return column.array()
            for part in _tables(frame.distinct().sort("a")):
                column.append(pa.chunked_array(part["a"]))
        return column.array()

    def _daft(self) -> Any:
        return _connected(self._address, self._threads)[1]

    @contextmanager
    def _files(self) -> Iterator[str]:
        folder = self._folder or self._scratch.made_folder()
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="ray-", dir=folder) as made:
            yield str(Path(made).resolve())


@lru_cache(maxsize=1)
def _connected(address: str, threads: int) -> tuple[Any, Any]:
    """(ray, daft), which run on the cluster from now on: a process is of one cluster."""
    # both report their use to their makers unless these variables forbid it
    for name, value in (("RAY_USAGE_STATS_ENABLED", "0"), ("DO_NOT_TRACK", "1"), ("DAFT_PROGRESS_BAR", "0")):
        os.environ.setdefault(name, value)
    purpose = 'engine.runner = "ray"'
    ray, daft = (need(library, extra="ray", purpose=purpose) for library in ("ray", "daft"))
    if not ray.is_initialized():
        quiet = {"include_dashboard": False, "log_to_driver": False, "configure_logging": False}
        if address:
            ray.init(address=address, log_to_driver=False, configure_logging=False)
        else:
            ray.init(num_cpus=threads, object_store_memory=_STORE_BYTES, **quiet)
    daft.set_runner_ray(noop_if_initialized=True)
    return ray, daft


def _applied(kernel: Kernel, table: pa.Table) -> pa.Table:
    return kernel(table)


def _written(parts: Iterable[pa.Table], folder: str, name: str | None = None) -> pa.Schema:
    """The schema of the rows, which lie in files of the folder then; empty where there are none, and no file is.

    name: of their one column from now on."""
    import pyarrow.parquet as pq

    schema, writer, num = pa.schema([]), None, 0
    for part in parts:
        if name is not None:
            part = part.rename_columns([name])
        schema = schema if schema.names else part.schema
        if not part.num_rows and num:
            continue
        if writer is None:
            writer = pq.ParquetWriter(f"{folder}/{num:06d}.parquet", schema, compression="zstd")
            num, size = num + 1, 0
        writer.write_table(part.cast(schema))
        size += part.nbytes
        if size > _PART_BYTES:
            writer.close()
            writer = None
    if writer is not None:
        writer.close()
    return schema


def _numbered(parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
    num = 0
    for part in parts:
        yield part.append_column(_ROW, pa.array(np.arange(num, num + part.num_rows)))
        num += part.num_rows


def _tables(frame: Any) -> Iterator[pa.Table]:
    """The rows of a frame, one part of it after the other."""
    for batch in frame.to_arrow_iter():
        yield pa.Table.from_batches([batch])


def _as(part: pa.Table, schema: pa.Schema) -> pa.Table:
    """These columns of the rows, in the types that went to the cluster: Daft widens offsets."""
    return part.select(schema.names).cast(schema)

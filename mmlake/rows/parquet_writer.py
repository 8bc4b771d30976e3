"""One Parquet file of rows in the making. Enters: tables of whole samples, whose columns may differ. Leaves: a file
with one schema.

A column that first shows late is null before; the groups written until then are copied once into the wider schema.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from mmlake.errors import SettingsError
from mmlake.rows.columns import bare, conform, unified
from mmlake.rows.schema import align

COMPRESSIONS: Final = ("snappy", "zstd", "gzip", "none")
_GROUP_BYTES = 64 << 20  # a row group is held in memory by its writer and by most readers
_HEAVY = ("binary_content", "text_content")  # dictionaries and minima of these cost much and find nothing


class ParquetRows:
    """A file that tables are appended to."""

    suffix = ".parquet"

    def __init__(
        self, path: Path, *, schema: pa.Schema | None = None, compression: str = "snappy", row_group_rows: int = 16_384
    ) -> None:
        if compression not in COMPRESSIONS:
            raise SettingsError(f"compression={compression!r} is not one of {list(COMPRESSIONS)}; correct the setting")
        if row_group_rows < 1:
            raise SettingsError(f"row_group_rows={row_group_rows} not in [1, inf); correct the setting")
        self._path, self._fixed, self._compression, self._group_rows = path, schema, compression, row_group_rows
        self._schema: pa.Schema | None = schema
        self._writer: pq.ParquetWriter | None = None
        self._pending: list[pa.Table] = []
        self.dropped: Counter[str] = Counter()  # this format holds every row
        self.problems: list[str] = []

    def append(self, table: pa.Table) -> int:
        """The number of rows taken, which is all of them. With a schema given, columns that it does not name are
        left out and missing ones are null."""
        self._pending.append(align(table, self._fixed) if self._fixed is not None else table.cast(bare(table.schema)))
        if (
            sum(one.num_rows for one in self._pending) >= self._group_rows
            or sum(one.nbytes for one in self._pending) >= _GROUP_BYTES
        ):
            self._flush()
        return int(table.num_rows)

    @property
    def size_bytes(self) -> int:
        """About what the file takes so far."""
        num_pending: int = sum(one.nbytes for one in self._pending)
        return (os.path.getsize(self._path) if self._writer else 0) + num_pending

    def finish(self) -> None:
        """Write what is left and the footer."""
        self._flush()
        if self._writer is not None:
            self._writer.close()

    def close(self) -> None:
        """Let go of the file of a write that failed."""
        if self._writer is not None:
            self._writer.close()

    def _flush(self) -> None:
        if not self._pending:
            return
        wider = self._schema
        for table in self._pending:
            wider, as_text = unified(wider, table.schema)
            self.problems += [
                f"column {name!r} has values of types that do not go together: all are kept as text" for name in as_text
            ]
        assert wider is not None
        if self._writer is None:
            self._writer = self._open(self._path, wider)
        elif wider != self._schema:
            self._writer = self._widened(self._writer, wider)
        self._schema = wider
        self._writer.write_table(
            pa.concat_tables([conform(one, wider) for one in self._pending]), row_group_size=self._group_rows
        )
        self._pending = []

    def _open(self, path: Path, schema: pa.Schema) -> pq.ParquetWriter:
        light = [field.name for field in schema if field.name not in _HEAVY]
        return pq.ParquetWriter(
            path,
            schema,
            compression=self._compression,
            use_dictionary=light,
            write_statistics=light,
            write_page_checksum=True,
        )

    def _widened(self, writer: pq.ParquetWriter, schema: pa.Schema) -> pq.ParquetWriter:
        """A writer that goes on behind what was written so far, copied into the schema: a Parquet file cannot change
        its own."""
        writer.close()
        wide = self._path.with_name(f"wide-{self._path.name}")
        try:
            writer = self._open(wide, schema)
            with pq.ParquetFile(self._path) as narrow:
                for group in range(narrow.num_row_groups):
                    writer.write_table(conform(narrow.read_row_group(group), schema), row_group_size=self._group_rows)
            os.replace(wide, self._path)
        except BaseException:
            writer.close()
            wide.unlink(missing_ok=True)
            raise
        return writer

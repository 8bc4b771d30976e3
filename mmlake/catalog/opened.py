"""The catalog's table, opened. To open it and to plan a filter takes longer than most answers: its `Catalog` keeps both
until a writer, of whatever process, has begun."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa

from mmlake.catalog import search as searching
from mmlake.catalog.files import TableFiles
from mmlake.optional import defer

NAME = "catalog"
_MAX_FILTERS = 256  # that were found to be conditions over the columns
_MAX_FILTER_CHARS = 2_000


def connect(root: Path) -> Any:
    """The database that the table is in."""
    os.environ.setdefault("LANCEDB_LOG", "error")  # its warnings are about its own plans of a filter
    defer("lance_namespace_urllib3_client")  # for REST, which no table here asks: half of the import
    import lancedb

    return lancedb.connect(str(root))


class OpenedTable:
    """The table as the last writer left it. Threads may share it."""

    def __init__(self, root: Path, files: TableFiles) -> None:
        self._root, self._files = root, files
        self._kept: tuple[object, Any, set[str]] | None = None  # what the writer wrote down, the table, sound filters
        self._schema: tuple[Any, pa.Schema] | None = None  # the table that it is of

    def newest(self) -> Any:
        """The newest version of the table, which is there. Raises what Lance does."""
        settled = self._files.settled()  # before the table is opened: it may be newer, never older
        if settled is not None and (kept := self._kept) is not None and kept[0] == settled:
            return kept[1]
        table = connect(self._root).open_table(NAME)
        self._kept = None if settled is None else (settled, table, set())
        return table

    def schema(self, table: Any) -> pa.Schema:
        """The schema of the table, for which Lance is asked once. table: what `newest` gave."""
        if (known := self._schema) is not None and known[0] is table:
            return known[1]
        schema = table.schema
        # a table that somebody writes may get other columns under the same object
        self._schema = (table, schema) if (kept := self._kept) is not None and kept[1] is table else None
        return schema

    def checked(self, table: Any, where: str | None) -> str | None:
        """See `mmlake.catalog.search.checked`; table: what `newest` gave."""
        kept = self._kept
        sound = kept[2] if kept is not None and kept[1] is table else set()
        if where is None or where in sound:
            return where
        searching.checked(table, where)
        if len(where) <= _MAX_FILTER_CHARS and len(sound) < _MAX_FILTERS:
            sound.add(where)
        return where

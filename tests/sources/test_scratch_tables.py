"""Temporary tables: their database is closed when nobody holds them."""

from __future__ import annotations

import gc
import sqlite3

import pytest

from mmlake.sources.records.scratch import ScratchTables


def test_the_database_is_closed_with_the_last_reference():
    tables = ScratchTables("CREATE TABLE names (number INTEGER, name TEXT)")
    tables.add("names", (1, "a"))
    tables.finish()
    database = tables._database
    assert tables.value("SELECT name FROM names") == "a"
    del tables
    gc.collect()
    with pytest.raises(sqlite3.ProgrammingError):  # of a closed database
        database.execute("SELECT 1")

"""One pass over all shards: what it does not ask for is not decoded, and damage is found all the same."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mmlake.errors import TableCorrupt
from mmlake.records import digest_of
from mmlake.schemas import MEASURES, from_rows
from mmlake.tables import Slot, Tables

SLOT = Slot("measures", "image", "news/2026.tar")


@pytest.fixture
def tables(tmp_path) -> Tables:
    """One small table."""
    row = {"digest": digest_of(b"passes"), "measure": "min_side_px", "value": 64.0, "status": "ok"}
    made = Tables(tmp_path)
    rows = from_rows(MEASURES, [row | {"producer": "image", "revision": "1"}])
    made.write(SLOT, MEASURES, rows, code_version="1", settings_digest="s", inputs={})
    return made


@pytest.fixture
def decoded(monkeypatch) -> list[int]:
    """The number of columns of each table that is decoded from now on."""
    found: list[int] = []
    read = pq.ParquetFile.read

    def counted(file: pq.ParquetFile, *args: object, **kwargs: object) -> pa.Table:
        table = read(file, *args, **kwargs)
        found.append(table.num_columns)
        return table

    monkeypatch.setattr(pq.ParquetFile, "read", counted)
    return found


def test_a_pass_that_nothing_follows_decodes_what_it_asks_for(tables, decoded) -> None:
    assert tables.read(SLOT, columns=["value"], keep=False).to_pydict() == {"value": [64.0]}
    assert decoded == [1]


def test_such_a_pass_takes_what_others_decoded(tables, decoded) -> None:
    whole = tables.read(SLOT)
    decoded.clear()
    assert tables.read(SLOT, columns=["value"], keep=False).equals(whole.select(["value"]))
    assert decoded == []


def test_such_a_pass_finds_damage_to_what_others_decoded(tables) -> None:
    tables.read(SLOT)
    path = tables.path(SLOT)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(TableCorrupt):
        tables.read(SLOT, columns=["value"], keep=False)

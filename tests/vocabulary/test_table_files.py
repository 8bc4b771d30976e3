"""Tables in parts: the bytes of the whole table, whatever the parts are, and never more than a row group at a time."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from mmlake import table_files, tables
from mmlake.errors import MmlakeError, SchemaMismatch, TableCorrupt
from mmlake.records import digest_of
from mmlake.schemas import MEASURES, empty, from_rows
from mmlake.tables import Slot, Tables

SLOT = Slot("measures", "text", "a.jsonl")
MADE = {"code_version": "1", "settings_digest": "s", "inputs": {}}


@pytest.fixture(autouse=True)
def small_groups(monkeypatch):
    """Row groups of seven rows, and no table that is read as a whole because it is small."""
    monkeypatch.setattr(table_files, "ROW_GROUP_ROWS", 7)
    monkeypatch.setattr(tables, "_KEPT_BYTES", 0)


def rows(num: int) -> pa.Table:
    made = [
        {
            "digest": digest_of(b"%d" % (at // 3)),
            "measure": f"num_{at % 3}",
            "value": at / 7 if at % 5 else None,
            "producer": "words",
            "revision": "1",
            "status": "ok",
        }
        for at in range(num)
    ]
    return from_rows(MEASURES, made)


def cut(table: pa.Table, *sizes: int) -> list[pa.Table]:
    parts, at = [], 0
    for size in (*sizes, table.num_rows):
        parts.append(table.slice(at, size))
        at += size
    return parts


@pytest.mark.parametrize("sizes", [(), (1, 1, 1), (7, 7), (6, 2, 0, 13), (20,), (0, 0)])
@pytest.mark.parametrize("num", [0, 1, 7, 14, 40])
def test_parts_give_the_bytes_of_the_whole(tmp_path, num, sizes):
    lake = Tables(tmp_path)
    table = rows(num)
    whole = lake.write(SLOT, MEASURES, table, **MADE)
    data = lake.path(SLOT).read_bytes()
    with lake.written(SLOT, MEASURES, iter(cut(table, *sizes))) as made:
        assert made.num_rows == num
        assert made.read(["digest", "value"]).to_pylist() == table.select(["digest", "value"]).to_pylist()
        stamp = lake.name(SLOT, MEASURES, made, **MADE)
    assert lake.path(SLOT).read_bytes() == data
    assert (stamp.data_version, stamp.num_rows, stamp.size_bytes) == (whole.data_version, num, whole.size_bytes)
    parts = list(lake.parts(SLOT))
    assert pa.concat_tables(parts).equals(lake.read(SLOT)) and len(parts) == max(1, -(-num // 7))


def test_no_parts_are_a_table_without_rows(tmp_path):
    lake = Tables(tmp_path)
    with lake.written(SLOT, MEASURES, iter(())) as made:
        lake.name(SLOT, MEASURES, made, **MADE)
    assert lake.read(SLOT).equals(empty(MEASURES)) and [part.num_rows for part in lake.parts(SLOT)] == [0]


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param(lambda table: [table.slice(9), table.slice(0, 9)], id="out of order"),
        pytest.param(lambda table: [table.slice(0, 9), table.slice(8)], id="a key twice, in two parts"),
        pytest.param(lambda table: [pa.concat_tables([table.slice(0, 4), table.slice(3)])], id="a key twice, in one"),
        pytest.param(lambda table: [table.drop_columns("producer")], id="a column is missing"),
    ],
)
def test_what_is_no_table_is_refused_and_nothing_stays(tmp_path, parts):
    lake = Tables(tmp_path)
    before = lake.write(SLOT, MEASURES, rows(3), **MADE)
    with (
        pytest.raises(SchemaMismatch, match=r"text/measures\[a\.jsonl\]: rows repeat|measures: columns"),
        lake.written(SLOT, MEASURES, parts(rows(30))),
    ):
        raise AssertionError("it was written")
    assert lake.stamp(SLOT) == before and len(list(lake.path(SLOT).parent.iterdir())) == 2


def test_what_nobody_names_is_gone(tmp_path):
    lake = Tables(tmp_path)
    with lake.written(SLOT, MEASURES, [rows(3)]):
        assert lake.stamp(SLOT) is None
    assert not list(lake.path(SLOT).parent.iterdir())


@pytest.mark.parametrize("columns", [None, ["value"]])
def test_parts_are_those_of_the_stamp(tmp_path, columns):
    lake = Tables(tmp_path)
    with pytest.raises(MmlakeError, match="has not been made"):
        next(lake.parts(SLOT, columns=columns))
    lake.write(SLOT, MEASURES, rows(30), **MADE)
    path = lake.path(SLOT)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(TableCorrupt, match="does not hash to its stamp"):
        next(lake.parts(SLOT, columns=columns))
    path.unlink()
    with pytest.raises(TableCorrupt, match="no rows"):
        next(lake.parts(SLOT, columns=columns))
    lake.write(SLOT, MEASURES, rows(30), **MADE)
    with pytest.raises(SchemaMismatch, match="no columns"):
        next(lake.parts(SLOT, columns=["else"]))


def test_shards_are_scanned_a_row_group_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(table_files, "_TOGETHER_BYTES", 0)
    lake = Tables(tmp_path)
    for shard, num in (("b", 3), ("a", 15), ("c", 0)):
        lake.write(Slot("measures", "text", shard), MEASURES, rows(num), **MADE)
    parts = list(lake.scan_parts("measures", "text", columns=["value"]))
    assert [part.num_rows for part in parts] == [7, 7, 1, 3, 0]
    assert pa.concat_tables(parts).equals(lake.concat("measures", "text", columns=["value"]))


def test_small_shards_come_as_one_table_of_one_chunk(tmp_path):
    lake = Tables(tmp_path)
    for number in range(40):
        lake.write(Slot("measures", "text", f"s{number:02}"), MEASURES, rows(number % 3), **MADE)
    (part,) = lake.scan_parts("measures", "text", columns=["value"])
    assert part.equals(lake.concat("measures", "text", columns=["value"]))
    assert part["value"].num_chunks == 1


def test_tables_come_together_in_their_order_up_to_some_bytes_and_of_one_schema(monkeypatch):
    monkeypatch.setattr(table_files, "_TOGETHER_BYTES", 100)
    small, large = (pa.table({"value": np.arange(num)}) for num in (5, 50))
    other = pa.table({"value": np.arange(5.0)})
    came = []

    def parts():
        for part in (small, small, small, large, small, other, other):
            came.append(part)
            yield part

    found, held = [], []
    for part in table_files.together(parts()):
        found.append(part)
        held.append(len(came))
    assert [part.num_rows for part in found] == [10, 5, 50, 5, 10]
    assert [part.schema.field("value").type for part in found] == [pa.int64()] * 4 + [pa.float64()]
    assert held[2] == 4  # what is large goes on before the next is read
    assert pa.concat_tables(found[:4]).equals(pa.concat_tables([small] * 3 + [large, small]))


def test_a_chunked_table_has_the_bytes_of_one_of_one_chunk():
    table = rows(30)
    chunked = pa.concat_tables(cut(table, 4, 5, 6))
    assert table_files.encoded(chunked) == table_files.encoded(table)
    assert pq.read_table(io.BytesIO(table_files.encoded(chunked))).num_rows == 30


def test_rows_that_hold_a_value_come_of_the_row_groups_that_may(tmp_path, monkeypatch) -> None:
    lake, table = Tables(tmp_path), rows(70).sort_by("digest")
    lake.write(SLOT, MEASURES, table, **MADE)
    read, read_row_group = [], pq.ParquetFile.read_row_group
    monkeypatch.setattr(
        pq.ParquetFile, "read_row_group", lambda file, at, **how: read.append(at) or read_row_group(file, at, **how)
    )
    for digest in dict.fromkeys(table["digest"].to_pylist()):
        parts = pa.concat_tables(lake.parts(SLOT, holding=("digest", digest)))
        assert parts.filter(pc.equal(parts["digest"], digest)).equals(table.filter(pc.equal(table["digest"], digest)))
    assert len(read) <= 2 * 24  # of ten groups for each of 24 digests, of which some lie in two
    read.clear()
    assert pa.concat_tables(lake.parts(SLOT, columns=["value"], holding=("digest", "g"))).column_names == ["value"]
    assert read == []

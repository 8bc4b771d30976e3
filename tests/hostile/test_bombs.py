"""Small files that would become large ones: each is a row that says so, and memory stays where it was."""

from __future__ import annotations

import gzip
import io
import subprocess
import sys
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from mmlake import sources
from tests.hostile.memory import SETTINGS, rows_of
from tests.hostile.seeds import tar


def _rows(root: Path, data: bytes, name: str, settings: sources.SourceSettings = SETTINGS) -> list[dict]:
    (root / "in").mkdir()
    (root / "in" / name).write_bytes(data)
    return rows_of(root / "in", settings=settings)


def _parquet(table: pa.Table, **options: object) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


@cache
def _bombs() -> dict[str, bytes]:
    repeated = pa.DictionaryArray.from_arrays(pa.array([0] * 50_000, pa.int32()), pa.array(["x" * 900_000]))
    return {
        "nulls": _parquet(pa.table({"text": pa.nulls(4_000_000, pa.string())}), row_group_size=4_000_000),
        "one word of a dictionary": _parquet(pa.table({"text": repeated}), row_group_size=50_000, compression="zstd"),
        "one page of zeros": _parquet(
            pa.table({"text": ["\0" * 1_000_000] * 150}),
            use_dictionary=False,
            compression="zstd",
            data_page_size=1 << 30,
        ),
        "one list of nulls": _parquet(
            pa.table(
                {"captions": pa.ListArray.from_arrays(pa.array([0, 20_000_000]), pa.nulls(20_000_000, pa.string()))}
            )
        ),
    }


@pytest.mark.parametrize("name", ["nulls", "one word of a dictionary", "one page of zeros", "one list of nulls"])
def test_a_row_group_that_expands_a_hundredfold_is_one_row(tmp_path, name):
    """45 GB would come of the second one."""
    data = _bombs()[name]
    assert len(data) < 200_000
    assert [(row["error_code"], row["digest"]) for row in _rows(tmp_path, data, "a.parquet")] == [(1008, None)]


def test_a_good_row_group_next_to_a_bomb_is_read(tmp_path):
    sink, schema = io.BytesIO(), pa.schema([("text", pa.string())])
    with pq.ParquetWriter(sink, schema) as writer:
        for texts in (pa.array(["first"]), pa.nulls(5_000_000, pa.string()), pa.array(["last"])):
            writer.write_table(pa.table([texts], schema=schema), row_group_size=10_000_000)
    rows = _rows(tmp_path, sink.getvalue(), "a.parquet")
    assert [(row["text_content"], row["error_code"]) for row in rows] == [("first", None), (None, 1008), ("last", None)]


def test_the_bound_is_a_setting(tmp_path):
    data = _parquet(pa.table({"text": pa.nulls(300_000, pa.string())}))
    assert [row["error_code"] for row in _rows(tmp_path, data, "a.parquet")] == [1008]


def test_a_large_dictionary_is_decoded_a_few_rows_at_a_time(tmp_path):
    """Just inside the bound: 60 MB of one repeated 600 kB text, of which 1,024 rows at once would be 600 MB."""
    text = "".join(chr(33 + at * at % 90) for at in range(600_000))
    repeated = pa.DictionaryArray.from_arrays(pa.array([0] * 90, pa.int32()), pa.array([text]))
    rows = _rows(tmp_path, _parquet(pa.table({"text": repeated}), compression="none"), "a.parquet")
    assert [row["error_code"] for row in rows] == [None] * 90 and {row["digest"] for row in rows} == {rows[0]["digest"]}


@pytest.mark.parametrize("name", ["a.txt.gz", "a.txt.zst", "a.jsonl.gz", "a.tar.gz", "a.bin"])
def test_streams_that_expand_past_the_limit_are_one_row(tmp_path, name):
    settings = sources.SourceSettings(max_item_bytes=1 << 20, max_shard_bytes=1 << 20)
    data = zstandard.compress(bytes(5 << 20)) if name.endswith("zst") else gzip.compress(bytes(5 << 20))
    rows = _rows(tmp_path, data, name, settings)
    assert [row["status"] for row in rows] == ["unreadable"] and rows[0]["error_code"] in (1005, 1008, 1012)


def test_compression_inside_compression_is_undone_once(tmp_path):
    """42 kB to 4 GB and more is how such files work: each layer but the first stays closed."""
    inner = gzip.compress(gzip.compress(gzip.compress(bytes(1 << 20))))
    rows = _rows(tmp_path, inner, "a.txt.gz")
    assert [row["status"] for row in rows] == ["unreadable"] and rows[0]["size_bytes"] < 10_000


def test_a_tar_in_a_tar_is_one_row(tmp_path):
    rows = _rows(tmp_path, tar((("inner.tar", tar((("0.txt", b"deep"),))), ("1.txt", b"shallow"))), "a.tar")
    assert (
        [row["text_content"] for row in rows] == [None, "shallow"]
        and rows[0]["status"] == "unreadable"
        and rows[0]["digest"]
    )


_MEASURE = """
import sys
from functools import cache
from pathlib import Path
from mmlake import sources
import pyarrow.parquet
settings, root = sources.SourceSettings(), Path(sys.argv[1])
def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) >> 10
sources.scan(root / "warm", settings=settings)
before = peak()
for shard in sources.scan(root / "in", settings=settings):
    for item in sources.read(shard, landing=root / "in", settings=settings):
        pass
print(peak() - before)
"""


def test_memory_stays_where_it_was_while_bombs_are_read(tmp_path):
    """The bound of the fuzz run holds for files that are made for breaking it."""
    for folder, bombs in (("warm", {"x": _parquet(pa.table({"text": ["a"]}))}), ("in", _bombs())):
        for name, data in bombs.items():
            (tmp_path / folder / name).mkdir(parents=True)
            (tmp_path / folder / name / "a.parquet").write_bytes(data)
    (tmp_path / "in" / "z.txt.gz").write_bytes(gzip.compress(bytes(300 << 20), 1))
    measured = subprocess.run(
        [sys.executable, "-c", _MEASURE, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert int(measured.stdout) < 256

"""Large cells of columnar files: their rows are those of small ones, and memory holds few copies of them."""

from __future__ import annotations

import random
import tracemalloc

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from source_builders import SETTINGS, brief, rows_of, sha

from mmlake import sources
from mmlake.sources.records.cells import cells_of
from mmlake.sources.records.columns import columns_of

LARGE_BYTES = 5 << 20
FILM = b"\xff\xd8\xff\xe0" + random.Random(1).randbytes(LARGE_BYTES)
OTHER = b"\xff\xd8\xff\xe0" + random.Random(2).randbytes(LARGE_BYTES)
STRUCT = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


@pytest.mark.parametrize(
    ("kind", "cell"),
    [
        (pa.binary(), FILM),
        (pa.large_binary(), FILM),
        (pa.binary_view(), FILM),
        (pa.binary(len(FILM)), FILM),
        (STRUCT, {"bytes": FILM, "path": "a.jpg"}),
        (pa.list_(STRUCT), [{"bytes": OTHER, "path": None}, None, {"bytes": FILM, "path": None}]),
        (pa.large_list(pa.binary()), [OTHER, None, FILM]),
        (pa.list_(pa.binary(), 3), [OTHER, None, FILM]),
    ],
    ids=[
        "binary",
        "large_binary",
        "binary_view",
        "fixed_size_binary",
        "struct",
        "list of structs",
        "large_list",
        "fixed_size_list",
    ],
)
def test_a_large_cell_of_any_type_is_stored_as_it_is(tmp_path, kind, cell):
    (tmp_path / "in").mkdir()
    table = pa.table({"image": pa.array([None, cell, None], kind), "caption": ["before", "amid", "behind"]})
    pq.write_table(table, tmp_path / "in" / "a.parquet")
    images = [row for row in rows_of(tmp_path / "in") if row["modality"] == "image"]
    assert [row["digest"] for row in images] == ([sha(OTHER), sha(FILM)] if isinstance(cell, list) else [sha(FILM)])
    assert {row["sample_text"] for row in images} == {"amid"}


def test_a_large_cell_of_a_sliced_array_is_the_row_s_own():
    table = pa.table({"image": pa.array([FILM, OTHER, None, FILM], pa.binary())}).slice(1, 3)
    (batch,) = table.to_batches()
    columns = columns_of(table.schema, SETTINGS)
    cells = list(cells_of(batch, columns.media, settings=sources.SourceSettings(batch_bytes=LARGE_BYTES)))
    assert [None if cell["image"] is None else bytes(cell["image"]) for cell in cells] == [OTHER, None, FILM]


def test_a_large_cell_of_a_guessed_column_that_holds_no_medium_is_named_by_digest(tmp_path):
    (tmp_path / "in").mkdir()
    pq.write_table(
        pa.table({"image_data": [b"no picture" + bytes(LARGE_BYTES)], "text": ["words"]}), tmp_path / "in" / "a.parquet"
    )
    (row,) = rows_of(tmp_path / "in")
    assert brief([row])[0][1] == "text" and sha(b"no picture" + bytes(LARGE_BYTES)) in row["metadata_json"]


@pytest.mark.parametrize("codec", ["none", "snappy"])
def test_a_large_row_group_is_read_page_by_page(tmp_path, codec):
    """16 pages of 1 MB: Python's memory, and Arrow's, hold the bytes of what is read ahead."""
    (tmp_path / "in").mkdir()
    cells = [b"\xff\xd8\xff\xe0" + random.Random(at).randbytes(1 << 20) for at in range(16)]
    pq.write_table(
        pa.table({"image": cells}),
        tmp_path / "in" / "a.parquet",
        compression=codec,
        use_dictionary=False,
        write_batch_size=1,
        data_page_size=1,
    )
    (shard,) = sources.scan(tmp_path / "in", settings=SETTINGS)
    tracemalloc.start()
    before_bytes = pa.total_allocated_bytes()
    held_bytes = list[int]()
    digests = [
        sha(item.content.read())
        for item in sources.read(shard, landing=tmp_path / "in", settings=sources.SourceSettings(batch_bytes=1 << 20))
        if held_bytes.append(pa.total_allocated_bytes() - before_bytes) is None
    ]
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert digests == [sha(cell) for cell in cells]
    assert peak_bytes + max(held_bytes) < 8 << 20

"""What one row, line or group may take in memory is bounded, and what stands before and behind it is kept."""

from __future__ import annotations

import io
import json
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mmlake import sources
from mmlake.errors import UnreadableItem
from mmlake.formats import http_responses, texts
from mmlake.formats.columnar.readers import ParquetReader
from mmlake.formats.columnar.weights import weight_of
from mmlake.formats.texts import lines_of
from mmlake.sources.excerpt import scan_first
from mmlake.sources.records.cells import limits_of
from mmlake.sources.shard import revision_of
from tests.hostile.memory import SETTINGS, rows_of


def _file(table: pa.Table, **options: object) -> io.BytesIO:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink


def _rows(root: Path, data: bytes, name: str) -> list[dict]:
    (root / "in").mkdir()
    (root / "in" / name).write_bytes(data)
    return rows_of(root / "in")


def test_a_row_that_repeats_one_word_without_end_is_alone_in_being_refused(tmp_path):
    """1.8 GB of tags in one row between two good ones, from 100 kB."""
    words = pa.array(["x" * 900_000, *(f"v{at}" for at in range(100_000))])
    numbers = np.concatenate([[1], np.zeros(2000), np.arange(1, 100_001)]).astype(np.int32)
    tags = pa.ListArray.from_arrays(
        pa.array([0, 1, 2001, 102_001], pa.int32()), pa.DictionaryArray.from_arrays(pa.array(numbers), words)
    )
    data = _file(
        pa.table({"text": ["first", "bomb", "last"], "tags": tags}),
        compression="zstd",
        dictionary_pagesize_limit=1 << 24,
    ).getvalue()
    assert [(row["text_content"], row["error_code"]) for row in _rows(tmp_path, data, "a.parquet")] == [
        ("first", None),
        (None, 1008),
        ("last", None),
    ]


def test_rows_are_read_a_few_at_a_time_where_a_few_hold_everything(tmp_path):
    """30 texts of 20 MB stand before 5,000 of one letter: the average says nothing."""
    table = pa.table(
        {
            "text": ["\0" * (15 << 20)] * 30 + ["t"] * 5000,
            "pad": [np.random.default_rng(at).bytes(1400) for at in range(5030)],
        }
    )
    data = _file(
        table,
        compression={"text": "zstd", "pad": "none"},
        use_dictionary=False,
        data_page_size=1 << 20,
        write_batch_size=1,
    ).getvalue()
    with ParquetReader(lambda: io.BytesIO(data), limits_of(SETTINGS)) as file:
        batches = [(batch.num_rows, batch.nbytes) for batch in file.batches(0)]
    assert sum(num_rows for num_rows, _ in batches) == 5030
    assert max(num_bytes for num_rows, num_bytes in batches) <= SETTINGS.batch_bytes


def test_many_short_values_in_one_large_page_are_read_many_at_a_time():
    data = _file(
        pa.table({"text": [f"word {at} " * 100 for at in range(80_000)]}),
        use_dictionary=False,
        data_page_size=1 << 30,
        max_rows_per_page=1 << 20,
    ).getvalue()
    with ParquetReader(lambda: io.BytesIO(data), limits_of(SETTINGS)) as file:
        assert min(batch.num_rows for batch in file.batches(0)) > 64


def test_paths_inside_of_cells_are_never_followed(tmp_path):
    rows = _rows(
        tmp_path,
        _file(pa.table({"image": [{"bytes": None, "path": "../../etc/passwd"}], "text": ["a"]})).getvalue(),
        "a.parquet",
    )
    assert [(row["text_content"], row["error_code"], row["digest"] is None) for row in rows] == [
        (None, 1011, True),
        ("a", None, False),
    ]


def test_a_column_that_stands_twice_is_reported(tmp_path):
    data = _file(pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["text", "text"])).getvalue()
    assert sorted(
        (row["text_content"], row["error_code"])
        for row in _rows(tmp_path, data, "a.parquet")
        if row["error_code"] is None
    ) == [("b", None)]
    assert [row["error_code"] for row in rows_of(tmp_path / "in")].count(1003) == 1


@pytest.mark.parametrize(
    ("array", "least"),
    [
        (pa.array([[1] * 1000], pa.list_(pa.int8())), 40_000),
        (pa.nulls(1000), 40_000),
        (pa.array([[("k", 1)] * 10], pa.map_(pa.string(), pa.int8())), 1000),
        (pa.DictionaryArray.from_arrays(pa.array([0] * 50, pa.int32()), pa.array(["x" * 1000])), 50_000),
        (pa.array(["a" * 5000, None]), 5000),
    ],
    ids=["list", "nulls", "map", "references", "text"],
)
def test_the_weight_of_an_array_is_that_of_its_values_in_python(array, least):
    assert least <= weight_of(array) <= 4 * least + 1000


@pytest.mark.parametrize("fill", ["[]", "{}", "0", '"a"'])
def test_a_record_of_very_many_values_is_refused_before_it_is_parsed(fill):
    settings = sources.SourceSettings(max_json_values=1000)
    data = json.dumps({"text": "a"})[:-1].encode() + f', "x": [{",".join([fill] * 1100)}]}}'.encode()
    with pytest.raises(UnreadableItem) as found:
        texts.parse_object(data, settings=settings)
    assert found.value.code == 1008


def test_commas_inside_of_a_text_are_no_values():
    record = {"text": 'a,b,"c",[{' * 500}
    assert (
        texts.parse_object(json.dumps(record).encode(), settings=sources.SourceSettings(max_json_values=1000)) == record
    )


@pytest.mark.parametrize(
    ("start", "fill", "code"),
    [
        ("", "a", None),
        ("\U0001f600", "a", 1008),
        ("\\ud83d\\ude00", "a", 1008),
        ("\U0001f600", "\U0001f600", None),
        ("\u0430", "a", None),
    ],
)
def test_a_record_is_refused_by_what_it_takes_in_memory_and_not_by_its_bytes(start, fill, code):
    """One emoji in nine megabytes makes 36 of them, each time that they are copied."""
    data = f'{{"text":"{start}{fill * ((9 << 20) // len(fill.encode()))}"}}'.encode()
    settings = sources.SourceSettings(max_decoded_bytes=7 * len(data))
    try:
        found = texts.parse_object(data, settings=settings) and None
    except UnreadableItem as error:
        found = error.code
    assert found == code


def test_a_book_with_an_emoji_in_forty_megabytes_of_metadata_is_read():
    data = '{"text":"a","notes":"\U0001f600'.encode() + b"n" * 40_000_000 + b'"}'
    assert len(texts.parse_object(data, settings=SETTINGS)["notes"]) == 40_000_001


@pytest.mark.parametrize("inside, code", [(True, None), (False, 1008)])
def test_values_count_with_the_long_text_of_their_record_and_commas_in_it_do_not(inside, code):
    commas = "," * 100_000 if inside else '","x":[' + ",".join("1" * 100_000) + '],"y":"'
    data = b'{"text":"' + b"a" * (9 << 20) + commas.encode() + b'"}'
    try:
        found = texts.parse_object(data, settings=sources.SourceSettings(max_decoded_bytes=50 << 20)) and None
    except UnreadableItem as error:
        found = error.code
    assert found == code


def test_a_field_whose_name_is_a_book_is_refused():
    with pytest.raises(UnreadableItem) as found:
        texts.parse_object(b'{"text":"a","' + b"n" * (9 << 20) + b'":1}', settings=SETTINGS)
    assert found.value.code == 1008


@pytest.mark.parametrize(
    "place", [lambda text: {"m": text}, lambda text: {"m": [{"n": text}]}, lambda text: {"m": {text: 1}}]
)
def test_a_wide_character_in_long_metadata_is_escaped_and_the_rest_is_not_widened(place):
    metadata = place("\U0001f600" + "a" * (2 << 20))
    tracemalloc.start()
    text = texts.metadata_text(metadata)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert json.loads(text) == metadata and peak_bytes < 5 * (2 << 20)  # as it is, eight in each of two copies


def test_a_line_is_held_once_while_its_record_is_read():
    stream = io.BytesIO(b"a" * (4 << 20) + b"\n")
    tracemalloc.start()
    lines = lines_of(stream, 8 << 20)
    line = next(lines)
    held_bytes = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(line) == 4 << 20 and held_bytes < 5 << 20


def test_brotli_gives_no_more_than_there_is_room_for():
    brotli = pytest.importorskip("brotli")
    stream = http_responses.decoded(
        io.BytesIO(brotli.compress(bytes(3 << 20), quality=1)), ("br",), limit_bytes=4 << 20
    )
    assert sum(len(part) for part in iter(lambda: stream.read(1 << 16), b"")) == 3 << 20


@pytest.mark.parametrize("limit", [5, 11, 25, 40, 60])
def test_the_revision_of_a_part_is_that_of_the_files_that_are_read(tmp_path, limit):
    from mmlake.sources import ingestion

    for at in range(60):
        (tmp_path / f"{at:03d}.txt").write_text(f"text {at}")
    settings = sources.SourceSettings(max_loose_files=10)
    shards = scan_first(tmp_path, limit, settings=settings)
    assert sum(shard.num_samples or 0 for shard in shards) == min(limit, 60)
    for shard in shards:
        assert (
            revision_of(ingestion.reader_of(tmp_path, settings, None, sources.SOURCES).reading_of(shard).entries)
            == shard.revision.partition("~")[0]
        )

"""Arrow IPC files and streams as tables of records."""

from __future__ import annotations

import gzip
import io
import json
import random
import uuid
from typing import IO

import pyarrow as pa
import pytest

from mmlake import sources
from mmlake.formats.columnar import child_source
from mmlake.formats.columnar.readers import _Bytes
from mmlake.formats.columnar.weights import weight_of
from mmlake.landing import LocalLanding
from mmlake.records import SourceRef
from mmlake.sources import SourceSettings
from mmlake.sources.excerpt import scan_first
from tests.hostile.seeds import arrow
from tests.sources.source_builders import SETTINGS, brief, land, parquet, png, rows_of, sha, wav

COLUMNS = {
    "id": ["a", "b", "c"],
    "image": [{"bytes": png(1), "path": "x.png"}, None, {"bytes": png(2), "path": None}],
    "text": ["one", "two", None],
    "n": [1, 2, 3],
}
REPORTED = (
    "digest",
    "text_content",
    "sample_text",
    "metadata_json",
    "modality",
    "role",
    "error_code",
    "position",
    "source_ref",
)


@pytest.mark.parametrize("name", ["a.arrow", "a.feather", "a.ipc", "a", "a.txt"])
@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("codec", [None, "lz4", "zstd"])
def test_a_file_and_a_stream_give_the_rows_of_parquet(tmp_path, name, is_stream, codec):
    found = rows_of(land(tmp_path / "a" / "in", {name: arrow(COLUMNS, is_stream=is_stream, codec=codec)}))
    wanted = rows_of(land(tmp_path / "p" / "in", {name: parquet(COLUMNS)}))
    assert [[row[one] for one in REPORTED] for row in found] == [[row[one] for one in REPORTED] for row in wanted]


def test_a_compressed_stream_is_seen_through(tmp_path):
    rows = rows_of(
        land(
            tmp_path / "in",
            {"a.arrow.gz": gzip.compress(arrow(COLUMNS, is_stream=True)), "b.arrow.gz": gzip.compress(arrow(COLUMNS))},
        )
    )
    assert [row["digest"] for row in rows] == 2 * [sha(png(1)), sha(b"one"), sha(b"two"), sha(png(2))]


@pytest.mark.parametrize(
    "text",
    [
        pa.array(["one", "two", "one"]).dictionary_encode(),
        pa.array(["one", "two", "one"], pa.large_string()),
        pa.array(["one", "two", "one"], pa.string_view()),
        pa.array([b"one", b"two", b"one"]),
        pa.DictionaryArray.from_arrays(pa.array([0, 1, 0], pa.uint8()), pa.array(["one", "two"], pa.large_string())),
        pa.ExtensionArray.from_storage(pa.opaque(pa.string(), "words", "somebody"), pa.array(["one", "two", "one"])),
    ],
    ids=["dictionary", "large", "view", "binary", "large dictionary", "extension"],
)
@pytest.mark.parametrize("is_stream", [False, True])
def test_texts_of_every_type_are_texts(tmp_path, text, is_stream):
    rows = rows_of(land(tmp_path / "in", {"a.arrow": arrow({"text": text}, is_stream=is_stream)}))
    assert [(row["text_content"], row["error_code"]) for row in rows] == [("one", None), ("two", None), ("one", None)]


def test_values_of_odd_types_are_metadata(tmp_path):
    number = uuid.UUID(int=7)
    columns = {
        "text": ["a", "b"],
        "u": pa.array([number.bytes] * 2, pa.uuid()),
        "runs": pa.RunEndEncodedArray.from_arrays([2], ["x"]),
        "views": pa.array([["p"], ["q", None]], pa.list_view(pa.string())),
        "union": pa.UnionArray.from_dense(
            pa.array([0, 1], pa.int8()), pa.array([0, 0], pa.int32()), [pa.array(["s"]), pa.array([5])]
        ),
    }
    rows = rows_of(land(tmp_path / "in", {"a.arrow": arrow(columns)}))
    assert [json.loads(row["metadata_json"]) for row in rows] == [
        {"u": str(number), "runs": "x", "views": ["p"], "union": "s"},
        {"u": str(number), "runs": "x", "views": ["q", None], "union": 5},
    ]


def test_what_the_library_datasets_saves_is_its_samples_and_nothing_else(tmp_path):
    """`DatasetDict.save_to_disk`, and a result of `map` next to it."""
    info, state = (
        json.dumps({"features": {}, "license": ""}).encode(),
        json.dumps({"_data_files": [{"filename": "data-00000-of-00002.arrow"}]}).encode(),
    )
    files = {f"d/train/data-0000{at}-of-00002.arrow": arrow({"text": [f"t{at}"]}, is_stream=True) for at in (0, 1)}
    files |= {
        "d/train/dataset_info.json": info,
        "d/train/state.json": state,
        "d/dataset_dict.json": b'{"splits": ["train"]}',
    }
    root = land(
        tmp_path / "in",
        {**files, "d/train/cache-00ff00ff00ff00ff.arrow": arrow({"text": ["t0 again"]}, is_stream=True)},
    )
    assert [row["text_content"] for row in rows_of(root)] == ["t0", "t1"]
    assert [shard.key for shard in scan_first(root, 10, settings=SETTINGS)] == [
        "d/train/data-00000-of-00002.arrow",
        "d/train/data-00001-of-00002.arrow",
    ]


def test_files_of_such_names_elsewhere_stay_samples(tmp_path):
    files = {
        "state.json": b'{"text": "a"}',
        "dataset_info.json": b'{"text": "b"}',
        "d/dataset_dict.json": b'{"splits": ["train", "../x"], "text": "c"}',
        "d/train/a.txt": b"d",
    }
    assert sorted(row["text_content"] for row in rows_of(land(tmp_path / "in", files))) == ["a", "b", "c", "d"]


def test_features_in_the_schema_classify_a_column(tmp_path):
    table = pa.table({"scan": [{"bytes": wav(), "path": None}]}).replace_schema_metadata(
        {"huggingface": json.dumps({"info": {"features": {"scan": {"_type": "Audio"}}}})}
    )
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    assert brief(rows_of(land(tmp_path / "in", {"a.arrow": sink.getvalue()}))) == [
        ("row:1/scan", "audio", "media", None)
    ]


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("cut", [1, 7, 60, 300, 400])
def test_a_cut_file_gives_its_whole_batches_and_says_so(tmp_path, is_stream, cut):
    data = arrow({"text": ["one", "two", "three"]}, rows=1, is_stream=is_stream)[:-cut]
    rows = rows_of(land(tmp_path / "in", {"a.arrow": data}))
    assert (
        rows[-1]["error_code"] in (1001, 1002)
        and [row["text_content"] for row in rows[:-1]] == ["one", "two", "three"][: len(rows) - 1]
    )
    assert len(rows) > 1 or cut >= 300


def test_a_damaged_batch_costs_itself_alone(tmp_path):
    data = bytearray(arrow({"text": [f"text number {at} " * 20 for at in range(6)]}, rows=2, codec="zstd"))
    frames = [at for at in range(len(data)) if data[at : at + 4] == b"\x28\xb5\x2f\xfd"]
    data[frames[len(frames) // 2] + 1] ^= 1
    rows = rows_of(land(tmp_path / "in", {"a.arrow": bytes(data)}))
    assert [row["error_code"] for row in rows] == [None, None, 1001, None, None]
    assert rows[2]["materialize_error"].startswith("batch 1 of 3") and rows[3]["text_content"].startswith(
        "text number 4"
    )


def test_bytes_that_are_no_utf_8_cost_one_row(tmp_path):
    bad = pa.Array.from_buffers(
        pa.string(), 3, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0\3\0\0\0"), pa.py_buffer(b"a\xffc")]
    )
    for name, text in (("a.arrow", bad), ("b.arrow", pa.DictionaryArray.from_arrays(pa.array([0, 1, 2]), bad))):
        rows = rows_of(land(tmp_path / name / "in", {name: arrow({"text": text}, rows=3)}))
        assert [row["error_code"] for row in rows] == [None, 1003, None]


def test_offsets_that_lead_out_of_the_column_are_damage_and_are_not_followed(tmp_path):
    data = arrow({"text": ["abc", "defgh"], "n": [7, 8]})
    wild = data.replace(b"\0\0\0\0\3\0\0\0\x08\0\0\0", b"\0\0\0\0\3\0\0\0\xff\xff\xff\x7f")
    assert wild != data and [row["error_code"] for row in rows_of(land(tmp_path / "in", {"a.arrow": wild}))] == [1001]


@pytest.mark.parametrize(
    "data, code",
    [
        (b"", 1006),
        (arrow({"text": pa.array([], pa.string())}), 1006),
        (arrow({"n": [1]}), 1003),
        (b"FEA1" + bytes(40), 1005),
        (b"ARROW1\0\0", 1002),
    ],
)
def test_a_file_without_records_is_one_row(tmp_path, data, code):
    assert [row["error_code"] for row in rows_of(land(tmp_path / "in", {"a.arrow": data}))] == [code]


def test_a_bomb_of_a_compressed_buffer_is_reported_before_it_is_expanded(tmp_path):
    data = arrow({"text": ["a" * (70 << 20)]}, codec="zstd")
    rows = rows_of(land(tmp_path / "in", {"a.arrow": data}))
    assert (
        len(data) < 100_000
        and [row["error_code"] for row in rows] == [1008]
        and "decoded_bytes=" in rows[0]["materialize_error"]
    )


@pytest.mark.parametrize(
    "shared",
    [
        pa.DictionaryArray.from_arrays(pa.array([0] * 900, pa.int8()), pa.array(["w" * (1 << 20)])),
        pa.RunEndEncodedArray.from_arrays(pa.array([900], pa.int32()), pa.array(["w" * (1 << 20)])),
        pa.ListViewArray.from_arrays(
            pa.array([0] * 900, pa.int32()), pa.array([1] * 900, pa.int32()), pa.array(["w" * (1 << 20)])
        ),
        pa.UnionArray.from_dense(
            pa.array([0] * 900, pa.int8()), pa.array([0] * 900, pa.int32()), [pa.array(["w" * (1 << 20)])]
        ),
    ],
    ids=["dictionary", "runs", "views of lists", "union"],
)
def test_rows_that_share_one_large_value_end_with_what_they_may_come_to(tmp_path, shared):
    """1 MiB in the file would be 900 MiB of values."""
    assert weight_of(shared) >= 900 << 20
    root = land(tmp_path / "in", {"a.arrow": arrow({"text": ["a"] * 900, "x": shared}, rows=900)})
    (shard,) = sources.scan(root, settings=SETTINGS)
    settings = SourceSettings(max_expansion=1)
    items = list(sources.read(shard, landing=root, settings=settings))
    assert items[-1].fault.code == 1008 and 30 < len(items) < 70


class Remote(LocalLanding):
    """A landing zone whose files have no descriptor: their bytes are asked for, range by range."""

    def open(self, path: str) -> IO[bytes]:
        with super().open(path) as file:
            return io.BytesIO(file.read())


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_remote_file_gives_the_rows_of_a_local_one(tmp_path, is_stream):
    pictures = [b"\xff\xd8\xff\xe0" + random.Random(at).randbytes(50_000) for at in range(8)]
    root = land(tmp_path / "in", {"a.arrow": arrow({"image": pictures}, rows=3, is_stream=is_stream)})
    (shard,) = sources.scan(root, settings=SETTINGS)
    found = [
        [(item.ref, sha(item.content.read())) for item in sources.read(shard, landing=landing, settings=SETTINGS)]
        for landing in (root, Remote(root))
    ]
    assert found[0] == found[1] and [digest for _, digest in found[1]] == [sha(one) for one in pictures]


def test_a_large_range_lies_in_a_temporary_file(monkeypatch):
    data = random.Random(1).randbytes(10_000)

    class Connection:
        def range(self, offset: int, size_bytes: int) -> bytearray:
            asked.append(size_bytes)
            return bytearray(data[offset : offset + size_bytes])

    monkeypatch.setattr(child_source, "_PIECE_BYTES", 1 << 10)
    monkeypatch.setattr(child_source, "_HELD_BYTES", 1 << 11)
    asked, file = list[int](), child_source.ServedFile(Connection().range, len(data))
    for offset, size_bytes in ((0, 100), (7, 1500), (500, 9000), (3000, 99_000), (10_000, 9000)):
        assert bytes(file.read_at(offset, size_bytes)) == data[offset : offset + size_bytes]
    assert max(asked) == 1 << 10


def test_only_the_batches_that_are_wanted_are_read_again(tmp_path, monkeypatch):
    """Batches of 50 kB and more: two of ten are asked for."""
    root = land(tmp_path / "in", {"a.arrow": arrow({"text": [str(at) * 10_000 for at in range(10, 60)]}, rows=5)})
    read = []
    monkeypatch.setattr(
        _Bytes,
        "read_at",
        lambda self, offset, size, whole=_Bytes.read_at: (read.append(size), whole(self, offset, size))[1],
    )
    refs = [SourceRef("a.arrow", f"row:{number}/text") for number in (12, 13, 41, 99)]
    found = dict(sources.fetch_many(refs, landing=Remote(root)))
    assert [found[at] for at in range(3)] == [b"21" * 10_000, b"22" * 10_000, b"50" * 10_000]
    assert found[3].code == 1001 and len([size for size in read if size >= 50_000]) == 2

"""JSON files that are one list of objects: instructions, dialogues, captions."""

from __future__ import annotations

import io
import json
import random
import tracemalloc

import pytest

from mmlake import sources
from mmlake.errors import UnreadableItem
from mmlake.formats import json_elements
from mmlake.sources import SourceSettings, excerpt
from mmlake.sources.companions import siblings
from tests.sources.source_builders import SETTINGS, brief, gz, jsonl, land, png, rows_of, sha, wav


def found(tmp_path, files, **options):
    return rows_of(land(tmp_path / "in", files), **options)


def formats(tmp_path):
    return {shard.key: shard.format for shard in sources.scan(tmp_path / "in", settings=SETTINGS)}


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
@pytest.mark.parametrize("indent", [None, 4])
def test_a_list_of_records_gives_what_json_lines_of_them_give(tmp_path, name, indent):
    records = [
        {"id": "x", "text": 'one, [two] {three} \\"', "n": {"m": [1]}},
        {"caption": ["a", "b"], "license": "MIT"},
        {"text": "ende \U0001f600"},
    ]
    data = b"\xef\xbb\xbf" + json.dumps(records, indent=indent, ensure_ascii=False).encode()
    rows = found(tmp_path / "list", {name: gz(data) if name.endswith("gz") else data})
    lines = found(tmp_path / "lines", {"a.jsonl": jsonl(*records)})
    said = ["digest", "text_content", "metadata_json", "licence", "role", "position", "error_code"]
    assert [[row[column] for column in said] for row in rows] == [[row[column] for column in said] for row in lines]
    assert [member for member, *_ in brief(rows)] == ["row:1", "row:2", "row:2#/caption/1", "row:3"]


def test_a_broken_record_is_a_row_with_its_bytes_and_the_others_are_read(tmp_path):
    data = b'[{"text": "a"}, {"text": NaN}, {"text" 1}, 5, "x, ]", {"text": "caf\xe9"}, {"n": 1}, {"text": "b"}]'
    rows = found(tmp_path, {"a.json": data})
    assert [(member, code) for member, _, _, code in brief(rows)] == [
        ("row:1", None), ("row:2", 1003), ("row:3", 1003), ("row:4", 1003), ("row:5", 1003), ("row:6", 1004),
        ("row:7", 1003), ("row:8", None),
    ]  # fmt: skip
    assert [row["digest"] for row in rows[1:6]] == [
        sha(part) for part in (b'{"text": NaN}', b'{"text" 1}', b"5", b'"x, ]"', b'{"text": "caf\xe9"}')
    ]


@pytest.mark.parametrize(
    "data, num_records, code",
    [
        (b'[{"text": "a"}, {"text": "b', 1, 1002),
        (b'[{"text": "a"}', 1, 1002),
        (b'[{"text": "a"},', 1, 1002),
        (b'[{"text": "a"} {"text": "b"}]', 1, 1001),
        (b'[{"text": "a"}] and more', 1, 1001),
        (b'[{"text": "a"}][{"text": "b"}]', 1, 1001),
        (b'[{"text": "a", "b": ]}, {"text": "c"}]', 1, 1001),
    ],
)
def test_where_a_list_breaks_a_last_row_says_so(tmp_path, data, num_records, code):
    rows = found(tmp_path, {"a.json": data})
    assert rows[-1]["error_code"] == code and f"{num_records} records were read" in rows[-1]["materialize_error"]
    assert len(rows) == num_records + 1


@pytest.mark.parametrize("data", [b'[{"text": "a"},]', b'[{"text": "a"},,{"text": "b"}]'])
def test_a_comma_without_a_record_is_a_row_and_no_end(tmp_path, data):
    assert [row["error_code"] for row in found(tmp_path, {"a.json": data})] == [None, 1003, None][
        : 1 + data.count(b",")
    ]


def test_a_gzip_that_is_cut_gives_the_records_before_it(tmp_path):
    data = gz(json.dumps([{"text": f"number {at} {random.Random(at).random()}"} for at in range(500)]).encode())
    rows = found(tmp_path, {"a.json.gz": data[: len(data) // 2]})
    assert rows[-1]["error_code"] == 1002 and len(rows) > 100 and {row["error_code"] for row in rows[:-1]} == {None}


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("read_bytes", [1, 7, 1 << 18])
def test_elements_are_cut_where_the_parser_of_python_ends_them(monkeypatch, seed, read_bytes):
    monkeypatch.setattr(json_elements, "_READ_BYTES", read_bytes)
    rng = random.Random(seed)
    values = [_any_value(rng, 4) for _ in range(rng.randrange(1, 12))]
    data = json.dumps(values, indent=rng.choice([None, 1]), ensure_ascii=rng.random() < 0.5).encode()
    assert [json.loads(element) for element in json_elements.elements_of(io.BytesIO(data), 1 << 20)] == values
    for end in range(len(data)):
        with pytest.raises(UnreadableItem) as caught:
            list(json_elements.elements_of(io.BytesIO(data[:end]), 1 << 20))
        assert caught.value.code == 1002


def _any_value(rng: random.Random, depth: int) -> object:
    kind = rng.randrange(6 if depth else 4)
    if kind < 2:
        return "".join(rng.choice('ab"\\[]{},: \n\u00e9\U0001f600') for _ in range(rng.randrange(9)))
    if kind < 4:
        return rng.choice([0, -1.5, True, None, 10**20])
    children = [_any_value(rng, depth - 1) for _ in range(rng.randrange(4))]
    return children if kind == 4 else {f"k{at}": child for at, child in enumerate(children)}


def test_a_record_over_the_limit_is_one_row_and_the_next_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(json_elements, "_READ_BYTES", 16)
    settings = SourceSettings(max_line_bytes=40)
    long = json.dumps({"text": 'x"]}' * 50}).encode()
    rows = found(tmp_path, {"a.json": b'[{"text": "a"}, ' + long + b', {"text": "b"}]'}, settings=settings)
    assert [(row["error_code"], row["text_content"]) for row in rows] == [(None, "a"), (1008, None), (None, "b")]
    assert str(len(long)) in rows[1]["materialize_error"]


@pytest.mark.parametrize(
    "record", [b'{"a": "' + b"a" * (4 << 20), b"[" * 100_000, b'{"a": "' + b'\\"' * 100_000, b"7" * (4 << 20)]
)
def test_a_record_without_an_end_takes_no_more_memory_than_a_record_may(tmp_path, monkeypatch, record):
    monkeypatch.setattr(json_elements, "_READ_BYTES", 8 << 10)
    path = tmp_path / "a.json"
    path.write_bytes(b'[{"text": "a"}, ' + record)
    tracemalloc.start()
    try:
        with path.open("rb") as stream, pytest.raises(UnreadableItem) as caught:
            list(json_elements.elements_of(stream, 32 << 10))
        assert caught.value.code == 1002 and tracemalloc.get_traced_memory()[1] < 256 << 10
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "medium, sidecar",
    [
        ("a.jpg", "a.json"),
        ("a.wav", "a.en.json"),
        ("a.jpg", "a.jpg.json"),
        ("a", "a.json"),
        ("a.jpg.gz", "a.json"),
        ("a.jpg", "a.json.gz"),
    ],
)
def test_a_list_next_to_a_medium_that_is_called_like_it_is_its_sidecar(tmp_path, medium, sidecar):
    data = b'[{"text": "STOP", "box": [1, 2]}]'
    media = wav() if ".wav" in medium else png(1)
    rows = found(
        tmp_path,
        {
            f"d/{medium}": gz(media) if medium.endswith("gz") else media,
            f"d/{sidecar}": gz(data) if sidecar.endswith("gz") else data,
            "d/other.json": data,
        },
    )
    assert formats(tmp_path) == {"d": "folder", "d/other.json": "json-list"}
    assert sum(row["text_content"] == "STOP" for row in rows) == 1


def test_other_lists_of_the_same_stem_are_no_media(tmp_path):
    found(
        tmp_path,
        {
            "train.en.json": b'[{"text": "a"}]',
            "train.de.json": b'[{"text": "b"}]',
            "train.json": b'[{"text": "c"}]',
            "train.md": b"# train",
        },
    )
    assert formats(tmp_path) == {
        "root": "folder",
        "train.json": "json-list",
        "train.en.json": "json-list",
        "train.de.json": "json-list",
    }


@pytest.mark.parametrize(
    "data",
    [b'[{"box": [1]}]', b"[1, 2]", b"[]", b'["text"]', b'{"text": "a"}', b'[{"text": "a"}]'.decode().encode("utf-16")],
)
def test_a_list_without_texts_is_what_it_was(tmp_path, data):
    found(tmp_path, {"a.json": data})
    assert formats(tmp_path) == {"root": "folder"}


def test_the_names_of_a_long_first_record_are_all_read(tmp_path):
    rows = found(tmp_path, {"a.json": json.dumps([{"instruction": "word " * 20_000, "output": "yes"}]).encode()})
    assert formats(tmp_path) == {"a.json": "json-list"} and rows[0]["text_content"].endswith("output: yes")


def test_very_many_lists_in_one_directory_describe_media_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setattr(siblings, "_MAX_JSON", 3)
    files = {f"labels/{at}.json": b'[{"text": "STOP"}]' for at in range(4)}
    found(tmp_path, files | {"few/a.json": b'[{"text": "a"}]'})
    assert formats(tmp_path) == {"labels": "folder", "few/a.json": "json-list"}


def test_a_list_becomes_a_sidecar_when_its_medium_arrives_and_a_list_again_when_it_goes(tmp_path):
    root = land(tmp_path / "in", {"d/a.json": b'[{"text": "a"}]', "d/b.png": png(2)})

    def scanned(known=None):
        return {shard.key: shard for shard in sources.scan(root, settings=SETTINGS, known=known)}

    first = scanned()
    assert scanned(first) == first and first["d/a.json"].format == "json-list"
    land(root, {"d/a.png": png(1)})
    second = scanned(first)
    assert set(second) == {"d"} and second["d"].revision != first["d"].revision
    described = next(row for row in rows_of(root) if row["sample_id"] == "d/a")
    assert json.loads(described["metadata_json"]) == {"json": [{"text": "a"}]}
    (root / "d/a.png").unlink()
    assert scanned(second) == first


def test_a_limit_reads_the_first_records(tmp_path):
    root = land(tmp_path / "in", {"a.json": json.dumps([{"text": str(at)} for at in range(9)]).encode()})
    shards = excerpt.scan_first(root, 3, settings=SETTINGS)
    assert [(shard.format, shard.num_samples) for shard in shards] == [("json-list", 3)]
    assert [item.ref.member for item in sources.read(shards[0], landing=root, settings=SETTINGS)] == [
        "row:1",
        "row:2",
        "row:3",
    ]


@pytest.mark.parametrize("record", [b'{"text": "half a sen', b'{"a": [1, 2', b'"half', b"12"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_record_that_the_list_breaks_off_in_is_the_last_row_with_its_bytes(tmp_path, record, packed):
    data = b'[{"text": "a"}, ' + record
    rows = found(tmp_path, {"a.json.gz": gz(data)[:-8]} if packed else {"a.json": data})
    assert [(member, code) for member, _, _, code in brief(rows)] == [("row:1", None), ("row:2", 1002)]
    assert (rows[1]["digest"], rows[1]["size_bytes"]) == (sha(record), len(record))


def test_a_record_over_the_limit_that_the_list_breaks_off_in_has_no_bytes(tmp_path):
    rows = found(
        tmp_path,
        {"a.json": b'[{"text": "a"}, {"text": "' + b"b" * 400_000},
        settings=SourceSettings(max_line_bytes=1 << 12),
    )
    assert [(row["error_code"], row["digest"] is None) for row in rows] == [(None, False), (1002, True)]

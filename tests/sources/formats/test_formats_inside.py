"""Tables inside archives: their records are rows, as they are where the file lies alone."""

from __future__ import annotations

import json
import zipfile

import pytest

from mmlake import sources
from mmlake.sources import SourceSettings
from mmlake.sources.excerpt import scan_first
from tests.hostile.seeds import arrow, zipped
from tests.sources.source_builders import SETTINGS, brief, gz, jsonl, land, parquet, png, rows_of, sha, tar

LINES = jsonl({"id": "x", "text": "one"}, {"text": "two"})
COLUMNS = {"image": [png(1), None, png(2)], "caption": ["a", "b", "c"]}
TABLES = {
    "d/a.jsonl": LINES,
    "d/b.jsonl.gz": gz(LINES),
    "d/c.csv": b"id,text\nx,one\n,two\n",
    "d/e.json": b'[{"id": "x", "text": "one"}, {"text": "two"}]',
    "d/f.parquet": parquet(COLUMNS),
    "d/g.arrow": arrow(COLUMNS, codec="zstd"),
    "d/h.arrow": arrow(COLUMNS, is_stream=True),
    "d/m.jsonl": jsonl(
        {"text_list": ["one", "two"], "image_info": [{"raw_url": "http://a.example/x.jpg", "matched_text_index": 1}]}
    ),
    "d/i.tsv": "id\ttext\nx\tone\n\ttwo\n".encode("utf-16"),
}
REPORTED = ("digest", "text_content", "sample_text", "metadata_json", "modality", "role", "error_code", "position")


def _packed(kind: str, files: dict[str, bytes]) -> dict[str, bytes]:
    if kind.startswith("tar"):
        return {f"t.{kind}": gz(tar(files)) if kind == "tar.gz" else tar(files)}
    return {"t.zip": zipped(files, zipfile.ZIP_STORED if kind == "stored" else zipfile.ZIP_DEFLATED)}


@pytest.mark.parametrize("kind", ["tar", "tar.gz", "stored", "deflated"])
def test_a_table_in_an_archive_gives_the_rows_of_the_same_file_alone(tmp_path, kind):
    """`rows_of` fetches every one of them again by its locator."""
    inside = rows_of(land(tmp_path / "archive" / "in", _packed(kind, {"p.png": png(9), **TABLES})))
    alone = rows_of(land(tmp_path / "alone" / "in", {"p.png": png(9), **TABLES}))
    assert sorted(([row[name] for name in REPORTED] for row in inside), key=str) == sorted(
        ([row[name] for name in REPORTED] for row in alone), key=str
    )
    reported = {member for member, *_ in brief(inside)}
    assert {
        "d/a.jsonl#line:2",
        "d/c.csv#row:2",
        "d/e.json#row:1",
        "d/f.parquet#row:3/image",
        "d/g.arrow#row:2/caption",
        "d/i.tsv#row:1",
    } <= reported
    assert len({row["sample_id"] for row in inside if row["error_code"] is None}) == 1 + 5 * 2 + 3 * 3 + 1


def test_a_table_next_to_a_medium_of_its_name_stays_what_is_said_of_it(tmp_path):
    rows = rows_of(
        land(
            tmp_path / "in",
            {"t.tar": tar({"a.png": png(1), "a.csv": b"text\nhello\n", "b.json": b'{"text": "a record"}'})},
        )
    )
    assert [(row["modality"], row["role"], row["text_content"]) for row in rows] == [
        ("image", "media", None),
        ("text", "caption", "text\nhello\n"),
        ("text", "document", "a record"),
    ]


@pytest.mark.parametrize(
    "name, data",
    [
        ("a.csv", b"a,b\n1,2\n"),
        ("a.json", b"[1, 2]"),
        ("a.parquet", b"PAR1" + bytes(50)),
        ("a.arrow", b"ARROW1\0\0" + bytes(50)),
        ("a.jsonl", b"no json\n"),
    ],
)
def test_what_is_no_table_or_a_broken_one_is_reported_in_a_row(tmp_path, name, data):
    rows = rows_of(land(tmp_path / "in", {"t.tar": tar({name: data, "z.txt": b"words"})}))
    assert rows[-1]["text_content"] == "words" and len(rows) == 2
    assert (rows[0]["error_code"] is None) == (name == "a.csv")


def test_a_cut_or_damaged_table_costs_itself_and_not_the_members_behind_it(tmp_path):
    damaged = bytearray(gz(LINES * 50))
    damaged[-6] ^= 1
    files = {
        "a.parquet": parquet(COLUMNS)[:-9],
        "b.arrow": arrow(COLUMNS, rows=1)[:-300],
        "c.jsonl.gz": bytes(damaged),
        "d.jsonl": LINES[:-9],
        "e.png": png(3),
    }
    for kind in ("tar", "deflated"):
        rows = rows_of(land(tmp_path / kind / "in", _packed(kind, files)))
        codes = {
            name: [code for member, _, _, code in brief(rows) if member.startswith(name) and code] for name in files
        }
        assert codes == {"a.parquet": [1001], "b.arrow": [1002], "c.jsonl.gz": [1001], "d.jsonl": [1003], "e.png": []}
        assert sum(row["modality"] == "image" and row["error_code"] is None for row in rows) >= 2


def test_a_wrong_checksum_of_a_zip_ends_the_records_before_its_end(tmp_path):
    data = bytearray(zipped({"a.jsonl": jsonl({"text": "one"}, {"text": "x" * 200_000})}, zipfile.ZIP_STORED))
    data[data.index(b'"one"') + 1] = ord("O")
    rows = rows_of(land(tmp_path / "in", {"t.zip": bytes(data)}))
    assert [row["error_code"] for row in rows] == [None, 1010] and rows[0]["text_content"] == "One"


def test_a_limit_takes_the_first_records_of_a_table(tmp_path):
    root = land(tmp_path / "in", {"t.tar": tar({"a.jsonl": LINES * 10, "b.png": png(1)})})
    (shard,) = scan_first(root, 3, settings=SETTINGS)
    assert [item.ref.member for item in sources.read(shard, landing=root, settings=SETTINGS)] == [
        f"a.jsonl#line:{at}" for at in (1, 2, 3)
    ]


def test_tables_of_one_name_are_distinguished(tmp_path):
    rows = rows_of(
        land(tmp_path / "in", {"t.zip": zipped((("a.jsonl", LINES), ("a.jsonl", jsonl({"id": "x", "text": "three"}))))})
    )
    assert len({row["sample_id"] for row in rows}) == len(rows) == 3 and rows[2]["digest"] == sha(b"three")


def test_settings_reach_the_tables_inside(tmp_path):
    settings = SourceSettings(text_fields=("body",), max_line_bytes=30)
    rows = rows_of(
        land(tmp_path / "in", {"t.tar": tar({"a.jsonl": jsonl({"body": "one", "n": 1}, {"body": "x" * 40})})}),
        settings=settings,
    )
    assert [(row["error_code"], row["text_content"]) for row in rows] == [(None, "one"), (1008, None)] and json.loads(
        rows[0]["metadata_json"]
    ) == {"n": 1}

"""Iceberg tables: the files of the current snapshot are read, and none that a commit took out."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mmlake import sources
from tests.sources.source_builders import texts_and_faults

_SETTINGS = sources.SourceSettings()
_UUID = "2f1b8c1e-8d0f-4a55-9a51-0123456789ab"
_LOCATION = "s3://tables/owls"  # where the table was when it was written
_OPTIONAL = ["null", "long"]
_ENTRY = {
    "type": "record",
    "name": "manifest_entry",
    "fields": [
        {"name": "status", "type": "int"},
        {"name": "sequence_number", "type": _OPTIONAL},
        {"name": "data_file", "type": {"type": "record", "name": "r2", "fields": [
            {"name": "content", "type": "int"},
            {"name": "file_path", "type": "string"},
            {"name": "sizes", "type": {"type": "array", "logicalType": "map", "items": {
                "type": "record", "name": "k1_v2", "fields": [
                    {"name": "key", "type": "int"}, {"name": "value", "type": "double"}]}}},
        ]}},
    ],
}  # fmt: skip
_MANIFEST = {
    "type": "record",
    "name": "manifest_file",
    "fields": [{"name": "manifest_path", "type": "string"}, {"name": "sequence_number", "type": "long"}],
}


def number(value: int) -> bytes:
    """As Avro's specification has it: zigzag, seven bits a byte, the lowest first."""
    value, found = value << 1 if value >= 0 else (-value << 1) - 1, b""
    while value > 0x7F:
        value, found = value >> 7, found + bytes([value & 0x7F | 0x80])
    return found + bytes([value])


def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return number(len(data)) + data


def avro(path: Path, schema: Mapping[str, Any], records: Sequence[bytes], codec: str = "deflate") -> None:
    block, sync = b"".join(records), bytes(range(16))
    packer = zlib.compressobj(wbits=-15)
    packed = packer.compress(block) + packer.flush() if codec == "deflate" else block
    meta = number(2) + text("avro.schema") + text(json.dumps(schema)) + text("avro.codec") + text(codec) + number(0)
    path.write_bytes(b"Obj\x01" + meta + sync + number(len(records)) + text(packed) + sync)


def entry(name: str, *, status: int = 1, content: int = 0, sequence: int | None = None) -> bytes:
    """Of a manifest. sequence: that of the manifest where it is None."""
    seen = number(0) if sequence is None else number(1) + number(sequence)
    sizes = number(-1) + number(9) + number(1) + bytes(8) + number(0)  # a block that states its bytes
    return number(status) + seen + number(content) + text(f"{_LOCATION}/data/{name}") + sizes


class Table:
    """A table of some snapshots, the last of them current."""

    def __init__(self, root: Path) -> None:
        self.root, self.snapshots, self.manifests = root, list[dict[str, Any]](), list[bytes]()
        (root / "metadata").mkdir(parents=True)

    def write(self, name: str, *texts: str) -> None:
        (self.root / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"text": list(texts)}), self.root / "data" / name)

    def commit(self, *entries: bytes, keeps: bool = True, codec: str = "deflate") -> None:
        sequence = len(self.snapshots) + 1
        name, listed = f"metadata/m{sequence}.avro", f"metadata/snap-{sequence}.avro"
        avro(self.root / name, _ENTRY, entries, codec)
        self.manifests = (self.manifests if keeps else []) + [text(f"{_LOCATION}/{name}") + number(sequence)]
        avro(self.root / listed, _MANIFEST, self.manifests, codec)
        self.snapshots.append({"snapshot-id": sequence << 40, "manifest-list": f"s3a://tables/owls/{listed}"})
        self.metadata(sequence).write_text(self.described())

    def described(self) -> str:
        current = self.snapshots[-1]["snapshot-id"]
        stated = {"format-version": 2, "location": _LOCATION, "current-snapshot-id": current}
        return json.dumps(stated | {"snapshots": self.snapshots})

    def metadata(self, version: int) -> Path:
        return self.root / "metadata" / f"{version:05}-{_UUID}.metadata.json"


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A table of two snapshots: the second has another file in place of the one with a private row."""
    table = Table(tmp_path / "lake" / "owls")
    table.write("day=a%2Fb/a.parquet", "An owl sleeps.", "A private row.")
    table.commit(entry("day=a%2Fb/a.parquet"))
    table.write("b.parquet", "An owl sleeps.")
    table.commit(entry("day=a%2Fb/a.parquet", status=2, sequence=1), entry("b.parquet"), keeps=False)
    return table


def test_rows_that_a_commit_took_out_do_not_come_back(tmp_path, table) -> None:
    """All Parquet files that lay there were read, and each file of metadata was a row."""
    assert texts_and_faults(tmp_path) == (["An owl sleeps."], [])


def test_files_of_earlier_commits_are_current_where_their_manifest_is(tmp_path, table) -> None:
    table.write("day=a%2Fb/c.parquet", "An owl wakes.")
    table.commit(entry("day=a%2Fb/c.parquet"), codec="null")
    assert texts_and_faults(tmp_path) == (["An owl sleeps.", "An owl wakes."], [])


def test_packed_metadata_of_a_table_without_catalog_is_read(tmp_path, table) -> None:
    for path in (table.metadata(1), table.metadata(2)):
        path.unlink()
    (table.root / "metadata" / "v12.gz.metadata.json").write_bytes(gzip.compress(table.described().encode()))
    assert len(texts_and_faults(tmp_path)[0]) == 3  # nothing else says that it is a table
    (table.root / "metadata" / "version-hint.text").write_text("12")
    assert texts_and_faults(tmp_path) == (["An owl sleeps."], [])


def test_files_that_delete_files_may_concern_are_rows_that_say_so(tmp_path, table) -> None:
    """Those that came with a later commit are not concerned; a delete file is itself Parquet, and no data."""
    table.write("deletes.parquet", "s3://tables/owls/data/b.parquet")
    table.commit(entry("deletes.parquet", content=1))
    table.write("c.parquet", "An owl wakes.")
    table.commit(entry("c.parquet"))
    texts, ((code, reason),) = texts_and_faults(tmp_path)
    assert (texts, code) == (["An owl wakes."], 1007)
    assert "deletes single rows" in reason


@pytest.mark.parametrize(
    "damage", ["lost", "cut", "many", "odd", "two", "codec", "elsewhere", "names", "number", "bits", "size", "nulls"]
)
def test_of_metadata_that_is_not_whole_nothing_is_guessed(tmp_path, table, damage: str) -> None:
    manifest, sync = table.root / "metadata" / "m2.avro", bytes(range(16))
    whole = manifest.read_bytes()
    if damage == "lost":
        manifest.unlink()
    elif damage == "two":  # of two commits at once, one of which failed
        table.metadata(2).with_name(f"00002-{_UUID[:-1]}0.metadata.json").write_text(table.described())
    elif damage == "elsewhere":
        table.metadata(2).write_text(table.described().replace("s3a://tables", "s3a://other"))
    elif damage == "names":
        avro(manifest, {**_ENTRY, "type": "owl"}, [])
        manifest.write_bytes(manifest.read_bytes()[:-18] + number(1) + text(b"\0") + sync)
    elif damage == "nulls":  # a few bytes that would be items for years
        avro(manifest, {"type": "array", "items": "null"}, [number(1 << 60) + number(0)])
    else:
        head, _, _ = whole.partition(sync)
        damaged = {
            "cut": whole[:-20],
            "many": head + sync + number(1 << 60) + text(b"\0") + sync,
            "odd": b"Obj\x02" + whole[4:],
            "codec": whole.replace(b"deflate", b"deflatf"),
            "number": head + sync + b"\xff" * 11,
            "size": head + sync + number(1) + number(1 << 68) + sync,
            "bits": head + sync + number(1) + text(b"no deflate") + sync,
        }
        manifest.write_bytes(damaged[damage])
    texts, faults = texts_and_faults(tmp_path)
    assert (texts, {code for code, _ in faults}, len(faults)) == ([], {1007}, 2)
    assert all("of an Iceberg table" in reason for _, reason in faults)


def test_a_table_without_a_snapshot_has_no_rows(tmp_path, table) -> None:
    table.metadata(3).write_text(json.dumps({"location": _LOCATION, "current-snapshot-id": -1, "snapshots": []}))
    assert texts_and_faults(tmp_path) == ([], [])


def test_metadata_of_something_else_is_read(tmp_path) -> None:
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata" / "notes.txt").write_text("A note on owls.")
    pq.write_table(pa.table({"text": ["An owl sleeps."]}), tmp_path / "a.parquet")
    assert sorted(texts_and_faults(tmp_path)[0]) == ["A note on owls.", "An owl sleeps."]

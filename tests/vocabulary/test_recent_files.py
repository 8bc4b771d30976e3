"""What was read of small files: kept while they stay what they were, read anew after any change, bounded."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mmlake.errors import TableCorrupt
from mmlake.recent_files import RecentFiles, RecentReads
from mmlake.records import digest_of
from mmlake.schemas import MEASURES, from_rows
from mmlake.tables import Slot, Stamp, Tables
from mmlake_resources import LakeResource
from tests.aged_files import SETTLES_S, aged

SLOT = Slot("measures", "image", "a.tar")


class Reader:
    """Reads a file and counts how often."""

    def __init__(self, *, max_bytes: int = 1 << 20) -> None:
        self.num_reads = 0
        self.files: RecentFiles[bytes] = RecentFiles(max_bytes=max_bytes)

    def read(self, path: Path) -> bytes:
        def make() -> tuple[bytes, int]:
            self.num_reads += 1
            data = path.read_bytes()
            return data, len(data)

        return self.files.read(str(path), make)


def test_a_file_that_stays_is_read_once(tmp_path) -> None:
    (path := tmp_path / "a").write_bytes(b"one")
    reader = Reader()
    aged(path)
    assert [reader.read(path) for _ in range(3)] == [b"one"] * 3
    assert reader.num_reads == 1


def test_a_file_that_was_just_written_is_read_again(tmp_path) -> None:
    (path := tmp_path / "a").write_bytes(b"one")
    reader = Reader()
    reader.read(path)
    reader.read(path)
    assert reader.num_reads == 2  # what is written in the same step of the clock leaves its times as they are


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.write_bytes(b"two"),
        lambda path: (path.with_name("b").write_bytes(b"two"), path.with_name("b").replace(path)),
        lambda path: (path.write_bytes(b"two"), aged(path)),
        lambda path: path.write_bytes(b"longer than it was"),
    ],
    ids=["in place", "replaced", "in place, with its time set back", "longer"],
)
def test_a_change_is_seen(tmp_path, change: Callable[[Path], object]) -> None:
    (path := tmp_path / "a").write_bytes(b"one")
    reader = Reader()
    aged(path)
    assert reader.read(path) == reader.read(path) == b"one"
    change(path)
    assert reader.read(path) == path.read_bytes() != b"one"


def test_a_file_that_is_gone_is_no_more(tmp_path) -> None:
    (path := tmp_path / "a").write_bytes(b"one")
    reader = Reader()
    reader.read(aged(path))
    path.unlink()
    with pytest.raises(FileNotFoundError):
        reader.read(path)


def test_what_is_forgotten_is_read_again(tmp_path) -> None:
    (path := tmp_path / "a").write_bytes(b"one")
    reader = Reader()
    reader.read(aged(path))
    reader.files.forget(str(path))
    reader.read(path)
    assert reader.num_reads == 2


def test_the_least_recent_go_where_there_are_too_many_bytes_and_large_ones_are_not_kept(tmp_path) -> None:
    paths = [tmp_path / str(number) for number in range(20)]
    for path in paths:
        path.write_bytes(bytes(6))
    (large := tmp_path / "large").write_bytes(bytes(7))
    time.sleep(SETTLES_S)
    reader = Reader(max_bytes=100)  # sixteen of six bytes, and none of seven
    for path in [*paths, large, large]:
        reader.read(path)
    assert reader.num_reads == 22
    for path in reversed(paths):
        reader.read(path)
    assert reader.num_reads == 22 + 4


def written(tables: Tables, value: float) -> Stamp:
    """A table of one row."""
    row = {"digest": digest_of(b"a"), "measure": "min_side_px", "value": value, "status": "ok", "producer": "image"}
    table = from_rows(MEASURES, [row | {"revision": "1"}])
    return tables.write(SLOT, MEASURES, table, code_version="1", settings_digest="s", inputs={})


@pytest.fixture
def tables(tmp_path) -> Tables:
    found = Tables(tmp_path / "tables")
    written(found, 1.5)
    time.sleep(SETTLES_S)
    return found


def test_a_small_table_is_decoded_once_and_any_columns_come_of_it(tables, monkeypatch) -> None:
    whole = tables.read(SLOT)
    monkeypatch.setattr(pa, "OSFile", None)  # nothing is opened any more
    assert tables.read(SLOT) == whole
    assert tables.read(SLOT, columns=["value", "digest"]) == whole.select(["value", "digest"])


def test_a_table_is_decoded_once_whoever_opens_the_lake(tmp_path, monkeypatch) -> None:
    """Each asset and check of a run opens it anew; and what was just written is decoded once, too."""
    recent = RecentReads()
    written(Tables(tmp_path / "tables"), 3.5)
    whole = Tables(tmp_path / "tables", recent=recent).read(SLOT)
    shutil.copytree(tmp_path / "tables", tmp_path / "copy")
    monkeypatch.setattr(pq, "ParquetFile", None)
    for name in ("tables", "copy"):
        assert Tables(tmp_path / name, recent=recent).read(SLOT) == whole


def test_damage_is_noticed_though_another_read_the_table_before(tmp_path) -> None:
    written(tables := Tables(tmp_path / "tables"), 4.5)
    tables.read(SLOT)
    (path := tables.path(SLOT)).write_bytes(path.read_bytes()[:-1])
    with pytest.raises(TableCorrupt, match="does not hash to its stamp"):
        Tables(tmp_path / "tables", recent=tables._recent).read(SLOT)


def test_damage_is_noticed_though_the_table_was_read_before(tables) -> None:
    tables.read(SLOT)
    path = tables.path(SLOT)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(TableCorrupt, match="does not hash to its stamp"):
        tables.read(SLOT)


def test_what_another_process_wrote_is_read(tables) -> None:
    """Rows with their stamp; and a stamp alone, which then is that of other rows."""
    tables.read(SLOT)
    other = Tables(tables.root)
    stamp = written(other, 2.5)
    assert tables.stamp(SLOT) == stamp
    assert tables.read(SLOT).column("value").to_pylist() == [2.5]
    time.sleep(SETTLES_S)
    tables.read(SLOT)
    other.mark(SLOT, replace(stamp, data_version="0" * 64))
    with pytest.raises(TableCorrupt, match="does not hash to its stamp"):
        tables.read(SLOT)


def test_a_file_is_only_asked_for_where_it_is_kept_as_it_is(tmp_path) -> None:
    (path := tmp_path / "a").write_bytes(b"one")
    reader = Reader()
    assert reader.files.get(str(path)) is None
    reader.read(aged(path))
    assert (reader.files.get(str(path)), reader.num_reads) == (b"one", 1)
    path.write_bytes(b"two")
    assert reader.files.get(str(path)) is None
    path.unlink()
    assert reader.files.get(str(path)) is None


def test_a_stamp_is_parsed_once_whoever_opens_the_tables(tmp_path, monkeypatch) -> None:
    written(Tables(tmp_path), 1.5)
    aged(tmp_path / "measures/image/a.tar.stamp.json")
    recent = RecentReads()
    first = Tables(tmp_path, recent=recent).stamp(SLOT)
    monkeypatch.setattr("mmlake.tables.checked_json.loads", None)
    assert first is not None and Tables(tmp_path, recent=recent).stamp(SLOT) == first


def test_a_small_table_is_read_once_whoever_opens_the_tables_and_anew_once_it_changed(tmp_path, monkeypatch) -> None:
    written(Tables(tmp_path), 1.5)
    path = aged(tmp_path / "measures/image/a.tar.parquet")
    recent = RecentReads()
    first = Tables(tmp_path, recent=recent).read(SLOT)
    with monkeypatch.context() as patched:
        patched.setattr(Tables, "_bytes", None)
        assert Tables(tmp_path, recent=recent).read(SLOT) == first
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(TableCorrupt):
        Tables(tmp_path, recent=recent).read(SLOT)


def test_all_lakes_of_a_run_share_what_they_read(tmp_path) -> None:
    resource = LakeResource.at(str(tmp_path / "lake"), None)
    with resource.open() as one, resource.open() as other:
        assert one.recent is other.recent
        assert one.tables._recent is one.registry._recent is other.recent
    with LakeResource.at(str(tmp_path / "lake"), None).open() as stranger:
        assert stranger.recent is not one.recent

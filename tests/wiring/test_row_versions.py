"""Versions of rows: hashed once for all steps that read the same tables, by one database of the process."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa

from mmlake.engine.hashing import RowHashes
from mmlake.lake import Lake
from mmlake.steps.row_versions import RowVersions, of_tables


class _Shard:
    """Two tables of a shard, and how often each was read."""

    def __init__(self, *words: str, num_at_once: int = 100) -> None:
        self.num_at_once = num_at_once
        self.num_reads: Counter[str] = Counter()
        digests = [f"{number:064}" for number in range(len(words))]
        self.rows = {
            "tracks": pa.table({"digest": digests, "word": list(words)}),
            "units": pa.table({"digest": digests, "parent_digest": digests}),
        }

    def parts(self, name: str, columns: list[str] | None) -> list[pa.Table]:
        self.num_reads[name] += 1
        rows = self.rows[name] if columns is None else self.rows[name].select(columns)
        return [rows.slice(at, self.num_at_once) for at in range(0, rows.num_rows, self.num_at_once)]


def test_tables_that_several_steps_read_are_hashed_once() -> None:
    shard, versions = _Shard("a", "b"), {"tracks": "once-1", "units": "once-2"}
    found = [of_tables(versions, shard.parts, RowHashes()) for _ in range(3)]
    assert shard.num_reads == {"tracks": 1, "units": 1}
    expected = RowVersions.of(["tracks", "units"], shard.parts, RowHashes())
    for one in found:
        assert one.keys.equals(expected.keys) and one.versions.equals(expected.versions)


def test_another_version_of_either_table_is_hashed_anew() -> None:
    before = of_tables({"tracks": "anew-1", "units": "anew-2"}, _Shard("a", "b").parts, RowHashes())
    after = of_tables({"tracks": "anew-3", "units": "anew-2"}, _Shard("a", "c").parts, RowHashes())
    assert after.same_as(before).to_pylist() == [True, False]
    alone = of_tables({"units": "anew-2"}, _Shard("a", "b").parts, RowHashes())
    assert alone.same_as(before).to_pylist() == [False, False]  # of other tables


def test_versions_do_not_depend_on_the_parts() -> None:
    words = ("a", "b", "c", "d", "e")
    whole, cut = (
        RowVersions.of(["tracks", "units"], _Shard(*words, num_at_once=num).parts, RowHashes()) for num in (9, 2)
    )
    assert cut.keys.equals(whole.keys) and cut.versions.equals(whole.versions) and len(set(cut.versions)) == len(words)


def test_the_lakes_of_a_process_hash_rows_by_one_database(tmp_path) -> None:
    assert Lake(tmp_path / "a").row_hashes is Lake(tmp_path / "b").row_hashes

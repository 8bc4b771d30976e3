"""Delta tables: rows of the latest version are read, and none that somebody updated or deleted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mmlake import sources
from mmlake.sources.excerpt import scan_first
from tests.sources.source_builders import texts_and_faults

_SETTINGS = sources.SourceSettings()


def write(table: Path, name: str, texts: Sequence[str]) -> None:
    (table / name).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"text": list(texts)}), table / name)


def commit(table: Path, version: int, *, remove: Sequence[str] = (), add: Sequence[str] = (), **fields: object) -> None:
    (table / "_delta_log").mkdir(parents=True, exist_ok=True)
    actions = [{"add": {"path": quote(path), "dataChange": True, **fields}} for path in add]
    actions += [{"remove": {"path": quote(path), "dataChange": True}} for path in remove]
    lines = "".join(f"{json.dumps(action)}\n" for action in ({"commitInfo": {"operation": "WRITE"}}, *actions))
    (table / "_delta_log" / f"{version:020}.json").write_text(lines)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table of two versions: the second removes the file that holds a private row."""
    table = tmp_path / "tables" / "owls"
    write(table, "a.parquet", ["An owl sleeps.", "A private row."])
    write(table, "b.parquet", ["An owl sleeps."])
    commit(table, 0, add=["a.parquet"])
    commit(table, 1, add=["b.parquet"], remove=["a.parquet"])
    return table


def test_rows_that_were_deleted_do_not_come_back(tmp_path, table) -> None:
    """All files that lay there were read, the removed ones too, and the lines of the log as texts."""
    (table / "_delta_log" / "_last_checkpoint").write_text('{"version": 1, "size": 3}')
    assert texts_and_faults(tmp_path) == (["An owl sleeps."], [])


def test_a_commit_takes_the_shard_of_the_file_that_it_removes(tmp_path, table) -> None:
    write(table, "c.parquet", ["An owl wakes."])
    before = sources.scan(tmp_path, settings=_SETTINGS)
    commit(table, 2, add=["c.parquet"], remove=["b.parquet"])
    after = sources.scan(tmp_path, settings=_SETTINGS, known={shard.key: shard for shard in before})
    names = [[shard.path.rpartition("/")[2] for shard in shards] for shards in (before, after)]
    assert names == [["b.parquet"], ["c.parquet"]]


def test_a_limit_counts_current_rows_alone(tmp_path, table) -> None:
    shards = scan_first(tmp_path, limit=10, settings=_SETTINGS)
    assert [(shard.path, shard.num_samples) for shard in shards] == [("tables/owls/b.parquet", 1)]


def test_partitions_of_any_name_are_current_by_their_path_in_the_log(tmp_path, table) -> None:
    for name in ("day=1 a%b/c.parquet", "day=2/d.parquet", "_change_data/e.parquet"):
        write(table, name, [f"Rows of {name}."])
    commit(table, 2, add=["day=1 a%b/c.parquet"])
    assert texts_and_faults(tmp_path) == (["An owl sleeps.", "Rows of day=1 a%b/c.parquet."], [])


def test_a_file_of_which_rows_are_deleted_is_a_row_that_says_so(tmp_path, table) -> None:
    """In the commit that does it the file comes and goes, in either order."""
    commit(table, 2, add=["b.parquet"], remove=["b.parquet"], deletionVector={"storageType": "u", "cardinality": 1})
    texts, ((code, reason),) = texts_and_faults(tmp_path)
    assert (texts, code) == ([], 1007)
    assert "deletes single rows of it" in reason


@pytest.mark.parametrize("damage", ["lost", "cut", "odd"])
def test_of_a_log_that_is_not_whole_nothing_is_guessed(tmp_path, table, damage: str) -> None:
    first = table / "_delta_log" / f"{0:020}.json"
    if damage == "lost":
        first.unlink()
    else:
        first.write_text({"cut": '{"add": {"pa', "odd": '{"add": {}}\n{"add": {"size": 1}}'}[damage])
    texts, faults = texts_and_faults(tmp_path)
    assert (texts, [code for code, _ in faults]) == ([], [1007, 1007])
    assert all("of a Delta table whose" in reason for _, reason in faults)


def test_parquet_next_to_an_empty_directory_of_that_name_is_read(tmp_path) -> None:
    write(tmp_path, "a.parquet", ["An owl sleeps."])
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / "_delta_log" / "notes.txt").write_text("A note on owls.")
    assert sorted(texts_and_faults(tmp_path)[0]) == ["A note on owls.", "An owl sleeps."]


@pytest.mark.parametrize("num_parts", [1, 2])
def test_a_checkpoint_stands_for_the_commits_that_were_cleaned_up(tmp_path, table, num_parts: int) -> None:
    write(table, "c.parquet", ["An owl wakes."])
    commit(table, 2, add=["c.parquet"])
    rows = [{"add": {"path": "b.parquet"}, "remove": None}, {"add": None, "remove": {"path": "a.parquet"}}]
    schema = pa.schema([(name, pa.struct([("path", pa.string())])) for name in ("add", "remove")])
    for part in range(num_parts):
        name = f"{1:020}.checkpoint.parquet"
        if num_parts > 1:
            name = f"{1:020}.checkpoint.{part + 1:010}.{num_parts:010}.parquet"
        pq.write_table(pa.Table.from_pylist(rows[part::num_parts], schema=schema), table / "_delta_log" / name)
    for version in (0, 1):
        (table / "_delta_log" / f"{version:020}.json").unlink()
    assert texts_and_faults(tmp_path) == (["An owl sleeps.", "An owl wakes."], [])
    (table / "_delta_log" / name).unlink()  # of two parts one
    assert (texts_and_faults(tmp_path)[0], len(texts_and_faults(tmp_path)[1])) == ([], 3)


def test_a_checkpoint_with_sidecars_is_not_read(tmp_path, table) -> None:
    row = {"add": {"path": "a.parquet"}, "sidecar": {"path": "x.parquet"}}
    pq.write_table(pa.Table.from_pylist([row]), table / "_delta_log" / f"{1:020}.checkpoint.parquet")
    (table / "_delta_log" / f"{0:020}.json").unlink()
    assert (texts_and_faults(tmp_path)[0], len(texts_and_faults(tmp_path)[1])) == ([], 2)

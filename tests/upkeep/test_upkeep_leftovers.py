"""What killed writers leave, anywhere in a lake, and files that are not of a lake."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mmlake.cli.app import app
from mmlake.errors import BlobCorrupt
from mmlake.lake import Lake
from mmlake.upkeep import collect, kind_of, strangers
from tests import make

DAY_S = 86_400.0
LEFT = ("tables/text/items/0011.part", "versions/refs/tags/22.part", "scratch/duckdb-a/b.tmp", "33.part",
        "blobs/packs/44.part")  # fmt: skip


def said(*words: object) -> str:
    """What the command printed."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def left(tmp_path: Path) -> Lake:
    """A lake without rows in which writers were killed at a time of 0 s."""
    lake = Lake(tmp_path / "lake")
    lake.store.put(b"a blob")
    make.land(lake.root, dict.fromkeys(LEFT, b"half a file"))
    for path in LEFT:
        os.utime(lake.root / path, (0, 0))
    return lake


def here(lake: Lake) -> list[str]:
    return [path for path in LEFT if (lake.root / path).exists()]


def test_garbage_collection_removes_all_that_killed_writers_left_a_day_ago(left: Lake) -> None:
    """Those next to tables, stamps, versions and results were never removed, nor what a killed step had in scratch."""
    assert collect(left, now_s=DAY_S - 1).leftovers == 0
    assert here(left) == list(LEFT)
    assert collect(left, now_s=DAY_S).leftovers == len(LEFT)
    assert here(left) == []
    assert not (left.root / "scratch" / "duckdb-a").exists()


def test_what_a_running_step_writes_is_of_a_kind_and_stays(left: Lake) -> None:
    assert {kind_of(path).name for path in LEFT} == {"unfinished"}
    with left.naming_blobs():
        said("fsck", "--repair", "--lake", left.root)
        assert here(left) == list(LEFT)
    said("fsck", "--repair", "--lake", left.root)
    assert here(left) == []


def test_files_that_are_not_of_a_lake_are_named_and_stay(left: Lake) -> None:
    mine = make.land(left.root, {"notes.txt": b"mine", "tables/odd.bin": b"mine", "a\u202eb": b"mine"})
    assert strangers(left) == ["a\u202eb", "notes.txt", "tables/odd.bin"]
    assert "a\\u202eb, notes.txt, tables/odd.bin: of no kind of file of a lake" in said("fsck", "--lake", left.root)
    found = json.loads(said("fsck", "--repair", "--json", "--lake", left.root))
    assert found["strangers"] == strangers(left)
    assert (mine / "notes.txt").exists()


@pytest.mark.parametrize("name", ["lake.json", "blobs/packs/a.idx", "versions/refs/tags/a.json"])
def test_a_pipe_in_the_place_of_a_file_is_named_and_nobody_waits_for_it(left: Lake, name: str) -> None:
    path = left.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    result = CliRunner().invoke(app, ["fsck", "--lake", str(left.root)])
    assert isinstance(result.exception, BlobCorrupt)
    assert str(result.exception).startswith(f"{path} is a pipe, a socket or a device")

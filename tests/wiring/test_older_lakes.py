"""Lakes of the release before, in format 1: read as they are, marked before they are written to, and the same after the
next run; and the other way round, refused."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from mmlake import __version__, checked_json, lake_memory
from mmlake.errors import SettingsError
from mmlake.lake import FORMAT, Lake
from tests.damages import state, wrong


def _plain(data: bytes) -> bytes:
    """The same lines without checksums."""
    return b"\n".join(
        json.dumps(checked_json.loads(line), sort_keys=True, separators=(",", ":")).encode()
        if checked_json.has_checksum(line)
        else line
        for line in data.split(b"\n")
    )


def made_old(root: Path) -> None:
    """The lake as the release of format 1 wrote it: no checksums, one copy of its memory, no list of catalog files."""
    for path in root.rglob("*.json*"):
        if path.is_file() and "catalog.lance" not in path.parts:
            path.write_bytes(_plain(path.read_bytes()))
    (root / ".lake.json").unlink()
    (root / "catalog" / "files.json").unlink()
    with closing(sqlite3.connect(root / "landing.sqlite")) as database, database:
        for key, shard in database.execute("SELECT key, shard FROM shards").fetchall():
            database.execute("UPDATE shards SET shard = ? WHERE key = ?", (_plain(shard.encode()).decode(), key))
    memory = json.loads((root / "lake.json").read_bytes())
    (root / "lake.json").write_text(json.dumps({"format": 1, "landing": memory["landing"]}))


def test_a_lake_of_format_1_is_the_same_after_a_run_and_of_this_format(own) -> None:
    before = state(own.lake)
    made_old(own.lake.root)
    assert state(own.lake) == before  # reading changes nothing
    assert not (own.lake.root / ".lake.json").exists()
    own.again()
    assert state(own.lake) == before
    assert wrong(own.lake) == []
    memory = lake_memory.read_memory(own.lake.root)
    assert (memory["format"], memory["release"]) == (FORMAT, __version__)


@pytest.mark.parametrize("held", ["naming_blobs", "collecting_blobs", "run"])
def test_whoever_is_about_to_write_marks_the_lake_first(tmp_path: Path, held: str) -> None:
    (tmp_path / "lake.json").write_text(json.dumps({"format": 1, "landing": str(tmp_path), "limit": 3}))
    lake = Lake(tmp_path)
    with lake.locked("run") if held == "run" else getattr(lake, held)():
        memory = lake_memory.read_memory(tmp_path)
    assert memory == {"format": FORMAT, "release": __version__, "landing": str(tmp_path), "limit": 3}


def test_the_release_of_format_1_refuses_a_lake_of_this_one(own, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake_memory, "FORMAT", 1)
    with pytest.raises(
        SettingsError, match=f"has format {FORMAT}.*reads formats up to 1; install mmlake {__version__}"
    ):
        Lake(own.lake.root)

"""What is synced: counted at the system call, with the paths that it was asked for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mmlake.durable import make_directory, put_in_place


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of every fsync, in order."""
    paths: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda handle: paths.append(os.readlink(f"/proc/self/fd/{handle}")))
    return paths


def test_the_directory_above_each_new_one_is_synced_and_no_other(tmp_path: Path, synced: list[str]) -> None:
    make_directory(tmp_path / "a" / "b")
    assert synced == [str(tmp_path), str(tmp_path / "a")]
    make_directory(tmp_path / "a" / "b")
    assert len(synced) == 2


def test_a_file_that_moves_is_durable_under_its_new_name_before_it_loses_the_old_one(
    tmp_path: Path, synced: list[str]
) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "a").write_bytes(b"1")
    put_in_place(tmp_path / "old" / "a", tmp_path / "b")
    assert synced == [str(tmp_path), str(tmp_path / "old")]
    assert (tmp_path / "b").read_bytes() == b"1"

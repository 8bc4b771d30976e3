"""A lake's directory: one run at a time, and the landing zone remembered."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mmlake.errors import LakeLocked, SettingsError
from mmlake.lake import Lake

ROOT = Path(__file__).parents[2]


def try_lock(root: Path, name: str) -> str:
    """What another process says when it wants the lock."""
    code = (
        "import sys\nfrom pathlib import Path\nfrom mmlake.errors import LakeLocked\nfrom mmlake.lake import Lake\n"
        "try:\n    with Lake(sys.argv[1]).locked(sys.argv[2]):\n        print('held')\nexcept LakeLocked as "
        "error:\n    print(error)\n"
    )
    return subprocess.run(
        [sys.executable, "-c", code, str(root), name], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout.strip()


def test_a_second_process_is_asked_to_wait(tmp_path) -> None:
    with Lake(tmp_path).locked("run"):
        assert f"lake {tmp_path} (lock 'run') is being written by another process" in try_lock(tmp_path, "run")


def test_the_lock_is_free_after_its_holder(tmp_path) -> None:
    with Lake(tmp_path).locked("run"):
        pass
    assert try_lock(tmp_path, "run") == "held"


def test_the_lock_is_freed_by_a_failure(tmp_path) -> None:
    with pytest.raises(ZeroDivisionError), Lake(tmp_path).locked("run"):
        raise ZeroDivisionError
    with Lake(tmp_path).locked("run"):
        pass


def test_locks_of_other_names_are_apart(tmp_path) -> None:
    with Lake(tmp_path).locked("run"), Lake(tmp_path).locked("gc"):
        pass


def test_the_same_process_cannot_take_it_twice(tmp_path) -> None:
    with Lake(tmp_path).locked("run"), pytest.raises(LakeLocked), Lake(tmp_path).locked("run"):
        pass


def test_a_remembered_landing_zone_need_not_be_given_again(tmp_path) -> None:
    (tmp_path / "landing").mkdir()
    Lake(tmp_path / "lake", landing=tmp_path / "landing").remember_landing()
    assert Lake(tmp_path / "lake").landing.root == tmp_path / "landing"


def test_a_new_landing_zone_replaces_the_remembered_one(tmp_path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        Lake(tmp_path / "lake", landing=tmp_path / name).remember_landing()
    assert Lake(tmp_path / "lake").landing.root == tmp_path / "two"


def test_a_lake_without_a_landing_zone_asks(tmp_path) -> None:
    with pytest.raises(SettingsError, match="no landing zone yet; name one with --landing"):
        _ = Lake(tmp_path).landing


def test_a_landing_zone_that_is_no_directory_is_refused(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match="is not a directory"):
        _ = Lake(tmp_path / "lake", landing=tmp_path / "file").landing


@pytest.mark.parametrize("text", ["", "{", "{}", "[]", '{"landing": 3}'])
def test_a_damaged_memory_is_named(tmp_path, text) -> None:
    (tmp_path / "lake.json").write_text(text)
    with pytest.raises(SettingsError, match=r"lake\.json does not say where the landing zone is"):
        _ = Lake(tmp_path).landing

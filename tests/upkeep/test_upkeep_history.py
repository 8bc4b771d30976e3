"""Damaged databases of Dagster: one line with the remedy, set aside by `fsck --repair`, and a run goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from mmlake.errors import HistoryCorrupt
from mmlake.locks import exclusive_lock
from mmlake.upkeep.history import SET_ASIDE
from mmlake_assets.instance import dagster_home
from mmlake_assets.show import ready_history, run_and_show
from tests.damages import files_of, repair, state, wrong
from tests.lakes import RECIPES, Done

DATABASES = ("history/runs.db", "history/runs/index.db", "schedules/schedules.db")


def harm(home: Path, database: str, *, keep: int) -> None:
    for end in ("-wal", "-shm"):  # what they hold would be read in its place
        (home / f"{database}{end}").unlink(missing_ok=True)
    data = (home / database).read_bytes()
    (home / database).unlink()  # whoever has it open keeps the whole one
    (home / database).write_bytes(data[:keep])


def run(own: Done) -> list[str]:
    """The versions that are new."""
    landing = own.resource.landing
    return run_and_show(own.lake.root, landing=landing, settings=None, device="cpu", recipes=RECIPES, quiet=True).made


def test_a_run_on_a_damaged_history_says_the_remedy_which_leaves_the_lake_as_it_was(own) -> None:
    before, home = state(own.lake), own.lake.root / "dagster"
    harm(home, "history/runs/index.db", keep=0)
    with pytest.raises(HistoryCorrupt, match=r"index.db is damaged: it is empty.*fsck --kind history --repair"):
        run(own)
    assert repair(own.lake, "history") == wrong(own.lake, "history") == []
    assert run(own) == []
    assert (state(own.lake), wrong(own.lake, "history")) == (before, [])
    assert [path for path in files_of(own.lake) if SET_ASIDE in path] == ["dagster/damaged/history/runs/index.db.1"]


@pytest.mark.parametrize("database", DATABASES)
@pytest.mark.parametrize("keep", [4_000, 20_000], ids=["in its head", "in its pages"])
def test_a_ui_is_not_started_on_a_truncated_database(own, database, keep) -> None:
    home = dagster_home(own.lake.root)
    harm(home, database, keep=keep)
    with pytest.raises(HistoryCorrupt, match=f"{database} is damaged"):
        ready_history(own.lake.root)
    assert repair(own.lake, "history") == []
    ready_history(own.lake.root)


def test_a_database_that_a_ui_has_open_is_not_set_aside(own) -> None:
    harm(own.lake.root / "dagster", "history/runs.db", keep=5_000)
    with exclusive_lock(own.lake.root / ".ui.lock", what="a UI"):
        assert ["end that" in problem for problem in repair(own.lake, "history")] == [True]
    assert repair(own.lake, "history") == []

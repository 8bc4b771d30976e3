"""Dagster's databases of a lake: which are damaged, and how they are set aside, so that Dagster begins them anew.

They say what ran and when. What was made is in the stamps of the tables, so a lake loses its history and nothing else.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from mmlake.durable import make_directory, put_in_place
from mmlake.errors import LakeLocked
from mmlake.lake import Lake
from mmlake.locks import exclusive_lock
from mmlake.upkeep.repair import Repair

SET_ASIDE = "damaged"  # the directory below Dagster's home that damaged databases are put into
_FILES = ("-wal", "-shm", "-journal", "")  # of one database; the log first, which SQLite would replay into a new one


def databases(home: Path) -> list[str]:
    """The databases below Dagster's home, as paths below it, sorted."""
    return sorted(path.relative_to(home).as_posix() for path in home.glob("**/*.db") if path.is_file())


def damage_of(path: Path) -> str | None:
    """What SQLite finds wrong with the database; None where it finds nothing. Changed values are not seen."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            said = [line for (line,) in database.execute("PRAGMA integrity_check(1)")]
            is_empty = not database.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]
    except (sqlite3.Error, UnicodeDecodeError):
        return "it cannot be read to its end"
    return "it is empty" if is_empty else None if said == ["ok"] else str(said[0])


def damaged(home: Path) -> list[str]:
    """A sentence for each of the databases that is damaged."""
    found = ((home / name, damage_of(home / name)) for name in databases(home))
    return [f"Dagster's own {path} is damaged: {what}" for path, what in found if what is not None]


def check(lake: Lake, unit: str) -> Iterator[tuple[str, str]]:
    """(unit, sentence) where the database is damaged."""
    path = lake.root / "dagster" / unit
    if (what := damage_of(path)) is not None:
        yield unit, f"Dagster's own {path} is damaged: {what}"


def set_aside(lake: Lake, units: list[str]) -> Iterator[Repair]:
    """Rename the databases, with the logs next to them: a UI or run makes new ones. Not while a UI has them open."""
    home = lake.root / "dagster"
    try:
        with exclusive_lock(lake.root / ".ui.lock", what=f"the history of {lake.root}"):
            for unit in units:
                aside = _free(home / SET_ASIDE / unit)
                make_directory(aside.parent)
                for end in _FILES:
                    source = home / f"{unit}{end}"
                    if source.exists():
                        put_in_place(source, aside.with_name(aside.name + end))
                name = aside.relative_to(lake.root)
                yield Repair(unit, "replaced", f"set aside as {name}; Dagster begins it anew, tables and versions stay")
    except LakeLocked:
        yield from (
            Repair(unit, "lost", "the UI of the lake has it open; end that, then repair again") for unit in units
        )


def _free(path: Path) -> Path:
    """A name that nothing has, of the database's and a number. It ends as no database does."""
    numbered = (path.with_name(f"{path.name}.{number}") for number in range(1, 1 << 20))
    return next(one for one in numbered if not os.path.lexists(one))

"""The tables that a table may take rows over from: the one that it replaces, or those of the shards that its files were
in before their directory was divided otherwise, or that were there under another name; and what was made of it by a run
that was stopped (`begun.py`).

A directory of more loose files than one shard may have becomes several, so the shard that it was is gone although its
files are not. Its tables are put aside, or each of its items would stand in the lake twice, until all that came of it
have theirs. They lie below `kept/`, and may be deleted like all that lies there.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mmlake.lake import Lake
from mmlake.sources.shard import LOOSE, Shard
from mmlake.steps import row_versions
from mmlake.steps.row_versions import RowVersions
from mmlake.tables import Slot, Stamp, Tables


@dataclass(frozen=True, slots=True)
class Former:
    """A table as it was last made."""

    tables: Tables
    slot: Slot
    stamp: Stamp
    versions: Path  # of its rows (`row_versions.py`)
    is_begun: bool = False  # it has some of the rows that the table will have

    def made_for(self, lake: Lake) -> dict[str, str]:
        """What its versions are of."""
        return {"slot": str(self.slot), "table": self.stamp.data_version, "hashes": lake.row_hashes.release}


def former_tables(lake: Lake, slot: Slot) -> list[Former]:
    """The slot's own table; where there is none, those put aside whose shards had its files, of longer parts of the
    directory or of shorter ones, and those of shards that are gone and may be this one under another name."""
    if (stamp := lake.tables.stamp(slot)) is not None:
        return [Former(lake.tables, slot, stamp, kept_path(lake, slot, "rows"))]
    aside = aside_tables(lake)
    keys = aside.shards(slot.table, slot.modality)
    shards = lake.registry.some([slot.shard, *keys]) if keys else {}
    found = []
    for key in keys:
        if slot.shard in shards and key in shards and _share_files(shards[slot.shard], shards[key]):
            one = Slot(slot.table, slot.modality, key)
            if (stamp := aside.stamp(one)) is not None:
                found.append(Former(aside, one, stamp, kept_path(lake, one, "rows")))
    for key in lake.registry.moved_from(slot.shard):
        one = Slot(slot.table, slot.modality, key)
        if (stamp := lake.tables.stamp(one)) is not None:
            found.append(Former(lake.tables, one, stamp, kept_path(lake, one, "rows")))
    return found


def begun_tables(lake: Lake, slot: Slot) -> list[Former]:
    """What was made of the table and is no table of the lake."""
    found = ((tables, tables.stamp(slot)) for tables in all_begun(lake))
    return [begun_former(tables, slot, stamp) for tables, stamp in found if stamp is not None]


def begun_former(tables: Tables, slot: Slot, stamp: Stamp) -> Former:
    """One of them."""
    return Former(tables, slot, stamp, tables.path(slot).with_suffix(".rows"), is_begun=True)


def all_begun(lake: Lake) -> list[Tables]:
    """Those of all slots: the first of each, then the second of each."""
    try:
        return [Tables(path) for path in sorted((lake.root / "kept" / "begun").iterdir())]
    except FileNotFoundError:
        return []


def begun_folder(lake: Lake, number: int) -> Tables:
    """Where the one of this number is, of every slot."""
    return Tables(lake.root / "kept" / "begun" / f"{number:06d}")


def forget_begun(lake: Lake, slot: Slot) -> None:
    """Remove what was made of the table."""
    for former in begun_tables(lake, slot):
        former.tables.remove(slot)
        former.versions.unlink(missing_ok=True)


def keep_versions(lake: Lake, slot: Slot, stamp: Stamp, versions: RowVersions) -> None:
    """The table is there: its next one may take over its rows, and none those that were begun."""
    former = Former(lake.tables, slot, stamp, kept_path(lake, slot, "rows"))
    row_versions.keep(former.versions, versions, former.made_for(lake))
    forget_begun(lake, slot)


def kept_path(lake: Lake, slot: Slot, kind: str) -> Path:
    """Where something is kept of a table of a shard, to go on from. kind: `rows` or `files`."""
    return lake.root / "kept" / slot.modality / slot.table / f"{slot.shard}.{kind}"


def forget(lake: Lake, slot: Slot) -> None:
    """Remove the table, and what was kept of it."""
    lake.tables.remove(slot)
    _forget_kept(lake, slot)


def put_aside(lake: Lake, slot: Slot) -> None:
    """The table is none of the lake's any more."""
    forget_begun(lake, slot)
    stamp, aside = lake.tables.stamp(slot), aside_tables(lake)
    if stamp is None:
        return
    aside.remove(slot)
    path = aside.path(slot)
    path.parent.mkdir(parents=True, exist_ok=True)
    lake.tables.retract(slot)
    with suppress(FileNotFoundError):  # a stamp without rows, which nobody can take over
        os.replace(lake.tables.path(slot), path)
        aside.mark(slot, stamp)


def forget_aside(lake: Lake, shards: Iterable[Shard]) -> None:
    """Remove the tables put aside whose rows nobody can take over any more, and what was kept of them. shards: those of
    the landing zone."""
    held = aside_tables(lake)
    if not held.root.is_dir():
        return
    heirs = defaultdict[str, list[Shard]](list)  # by the directories that their files lie in
    for shard in shards:
        for path in shard.homes if shard.format == LOOSE else ():
            heirs[path].append(shard)
    for table in sorted(path.name for path in held.root.iterdir()):
        for modality in held.modalities(table):
            keys = held.shards(table, modality)
            gone = lake.registry.some(keys)
            for key in keys:
                of_it = (heir for path in gone[key].homes for heir in heirs[path]) if key in gone else ()
                left = {heir.key for heir in of_it if modality in heir.modalities}
                if all(lake.tables.has(table, modality, heir) for heir in left):
                    held.remove(Slot(table, modality, key))
                    _forget_kept(lake, Slot(table, modality, key))


def _share_files(one: Shard, other: Shard) -> bool:
    """Whether files of one of the shards may be, or have been, of the other: both are of one directory, and neither of
    another part of it."""
    if set(one.homes).isdisjoint(other.homes):
        return False
    parts = (one.part, other.part)
    is_one_division = one.path == other.path and bool(one.directories) == bool(other.directories)
    return not is_one_division or parts[0].startswith(parts[1]) or parts[1].startswith(parts[0])


def files_kept(lake: Lake, slot: Slot) -> Iterable[Path]:
    """Which blobs the files became that the shard has, or that the shards had which it was a part of."""
    return (kept_path(lake, one.slot, "files") for one in former_tables(lake, slot))


def aside_tables(lake: Lake) -> Tables:
    """Those that were put aside."""
    return Tables(lake.root / "kept" / "aside")


def _forget_kept(lake: Lake, slot: Slot) -> None:
    forget_begun(lake, slot)
    for kind in ("rows", "files"):
        kept_path(lake, slot, kind).unlink(missing_ok=True)

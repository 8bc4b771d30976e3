"""What failed, and asking for it to be tried again."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from mmlake import sources
from mmlake.error_codes import CODES
from mmlake.errors import SettingsError
from mmlake.lake import Lake
from mmlake.parts import PLUGIN_CODES
from mmlake.publish import dead_letters_are_current, read_dead_letters, table_of, update_dead_letters
from mmlake.publish.selected import UNCUT
from mmlake.rows.lake_rows import lake_shards
from mmlake.tables import Slot

# whose rows can be tried again
_TABLES = (
    "items", "tracks", "alignments", "speakers", "units", "captions", "measures", "fingerprints", "embeddings",
)  # fmt: skip


def failed_rows(
    lake: Lake, *, codes: Collection[int] = (), shards: Collection[str] = (), transient: bool = False
) -> list[dict[str, Any]]:
    """The dead letters, brought up to date, sorted by their name. codes, shards: only those; empty means all.
    transient: only what may pass by itself. Raises SettingsError for a code that no error has, and a shard that the
    lake does not have."""
    if not dead_letters_are_current(lake):
        update_dead_letters(lake)
    rows = read_dead_letters(lake).to_pylist()
    _refuse_unknown(lake, codes, set(shards) - {row["shard"] for row in rows})
    return [
        row
        for row in rows
        if (not codes or row["error_code"] in codes)
        and (not shards or row["shard"] in shards)
        and (row["is_transient"] or not transient)
    ]


def _refuse_unknown(lake: Lake, codes: Collection[int], shards: Collection[str]) -> None:
    """Raises SettingsError: a mistyped code or shard is no lake in which nothing failed."""
    if wrong := sorted(code for code in codes if code not in CODES and code not in PLUGIN_CODES):
        raise SettingsError(f"no error has the code {wrong[0]}; `mmlake errors` lists them")
    if unknown := sorted(set(shards) - set(lake_shards(lake.tables)) - lake.registry.known().keys()):
        raise SettingsError(
            f"lake {lake.root} has no shard {unknown[0]!r}; `mmlake failed` without --shard names those that failed"
        )


def request_retries(lake: Lake, rows: Iterable[dict[str, Any]]) -> int:
    """Ask the steps to make these dead letters' rows again at the next run; the number of rows asked for. Lost blobs
    are for `mmlake fsck --repair`."""
    wanted: dict[Slot, list[str]] = {}
    known, codes, lists, count = lake.registry.known(), set[int](), set[str](), 0
    uncut = list[str]()
    for row in rows:
        table = table_of(row)
        if table == UNCUT:
            uncut.append(row["digest"])
            count += 1
            continue
        if table not in _TABLES:
            continue
        count += 1
        shard = known.get(row["shard"])
        modalities: tuple[str, ...] = (row["modality"],)
        if shard is not None and row["stage"] == "sources":
            # what comes this time may be of any of them, or stand next to a medium
            modalities = tuple({*shard.modalities, row["modality"]})
            if shard.format == sources.URL_LIST:
                codes.add(row["error_code"])
                lists.add(shard.key)
            if _is_all(lake, row):
                lake.registry.reopen(row["shard"])
        for modality in modalities:
            wanted.setdefault(Slot(table, modality, row["shard"]), []).append(row["key"])
    if codes:
        lake.downloads.forget(codes=codes, lists=lists)
    if uncut:
        lake.cuts.uncut.forget(uncut)
    for slot, keys in wanted.items():
        lake.retries.request(slot, keys)
    return count


def _is_all(lake: Lake, row: dict[str, Any]) -> bool:
    """Whether the failed row is all that its shard gave: it may not have opened, and then nobody knows yet what it
    holds."""
    stamp = lake.tables.stamp(Slot("items", row["modality"], row["shard"]))
    return stamp is not None and stamp.num_rows == 1

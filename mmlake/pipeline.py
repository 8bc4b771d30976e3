"""A whole run without Dagster: for notebooks, tests and machines that have no orchestrator.

It walks the same steps as the assets do and ends at the same manifest id.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from mmlake import sources
from mmlake.errors import MmlakeError, RemoteUnavailable, SettingsError
from mmlake.lake import Lake
from mmlake.landing import SUCCESS, Landing
from mmlake.progress import Advance, silent
from mmlake.registry import Listing
from mmlake.sources import Shard
from mmlake.sources.excerpt import scan_first
from mmlake.steps import (
    ROW_STEPS,
    Made,
    corpus_steps,
    forget,
    forget_aside,
    is_current,
    put_aside,
    row_steps,
    run_shards,
    run_step,
)
from mmlake.tables import Slot

_LOG = logging.getLogger("mmlake.pipeline")


def refresh(
    lake: Lake, *, settled_before_s: float | None = None, at_most: int | None = None, advance: Advance = silent
) -> Listing:
    """Scan the landing zone and record its shards; what is new, changed and gone since the last scan.

    Of several landing zones, one that cannot be inspected is in `Listing.failures`, and its shards stay what they were.
    Raises what it raised where none can be.

    at_most: new and changed shards that are opened; the others are left for the next scan, as is what would be opened
    anew because other settings recognise it where that is more. None opens all.
    settled_before_s: Unix time; shards touched after it are left for a later scan unless a `_SUCCESS` marker stands
    for them. None takes all.
    advance: called as files are opened.
    """
    known = lake.registry.known()
    taken_over, will_be_same = _taken_over(lake, known, at_most)
    listed, failed = _listed(lake, taken_over, at_most if taken_over or not known else None, advance)
    if settled_before_s is not None:
        waiting = {shard.key for shard in listed if not is_settled(shard, lake.landing, settled_before_s)}
        listed = [
            known[shard.key] if shard.key in waiting else shard
            for shard in listed
            if shard.key not in waiting or shard.key in known
        ]
    unseen = {key: shard for key, shard in known.items() if failed and lake.landing.part_of(shard.path) in failed}
    listing = replace(
        lake.registry.compare([*listed, *unseen.values()]), failures=tuple(failed.values()), unseen=frozenset(unseen)
    )
    counted = [
        shard
        for shard in listed
        if shard.key in known and shard.revision == known[shard.key].revision and shard != known[shard.key]
    ]
    for shard in listing.changed:
        _forget_modalities(lake, known[shard.key], shard)
    now = [*listed, *unseen.values()]
    forget_aside(lake, now)
    for shard in _divided([*(known[key] for key in listing.gone), *lake.registry.gone().values()], now):
        for modality in shard.modalities:
            for step in row_steps(lake.parts.modality(modality)):
                put_aside(lake, Slot(step.name, modality, shard.key))
    if listing.new or listing.changed or listing.gone or counted:
        lake.registry.record([*listing.new, *listing.changed, *counted], gone=listing.gone)
        _LOG.info(
            "landing zone %s: %d new, %d changed, %d gone, %d unchanged shards",
            lake.landing.location,
            len(listing.new),
            len(listing.changed),
            len(listing.gone),
            listing.unchanged,
        )
    if will_be_same and not failed:
        lake.registry.remember_connectors(_recognised_by(lake))
    for error in listing.failures:
        _LOG.error("%s; the shards there stay what they were", error)
    return listing


def _taken_over(lake: Lake, known: Mapping[str, Shard], at_most: int | None) -> tuple[Mapping[str, Shard], bool]:
    """(what of the known shards is opened only where it has changed; whether all will then be recognised as of now).

    What was recognised by other connectors, code or settings is opened anew, once, and not where that would be more
    than may be opened."""
    if not known or lake.registry.connectors() == _recognised_by(lake):
        return known, True
    if at_most is None or len(known) <= at_most:
        return {}, True
    _LOG.warning(
        "files are recognised by other settings, connectors or code than the %d shards of lake %s were; what has "
        "become a table since is not read until `mmlake run` opens all anew",
        len(known),
        lake.root,
    )
    return known, False


def _recognised_by(lake: Lake) -> str:
    """What decides which shard a file is of: connectors, and settings, since a table whose text has a name that they do
    not know is a document among others."""
    plugins = sorted({row.plugin for row in lake.parts.connectors.values() if row.plugin})
    return ",".join([*plugins, ROW_STEPS["items"].code_version, lake.settings.digest(("sources",))])


def _divided(gone: Iterable[Shard], now: Iterable[Shard]) -> list[Shard]:
    """The gone shards whose files are in other ones, since their directory is divided otherwise now. gone: of earlier
    scans too, where those that came of a shard were not settled when it went."""
    keys = {shard.key for shard in now}
    homes = {path for shard in now if shard.format == sources.LOOSE for path in shard.homes}
    return [
        shard
        for shard in gone
        if shard.format == sources.LOOSE and shard.key not in keys and not homes.isdisjoint(shard.homes)
    ]


def _forget_modalities(lake: Lake, before: Shard, now: Shard) -> None:
    """Remove the tables of modalities that the shard no longer holds: else the captions of its last revision would
    stand next to the pictures of this one. Called before the new revision is recorded: an interrupted scan does it
    again."""
    for modality in sorted(set(before.modalities) - set(now.modalities)):
        for step in row_steps(lake.parts.modality(modality)):
            forget(lake, Slot(step.name, modality, now.key))


def _listed(
    lake: Lake, known: Mapping[str, Shard], at_most: int | None, advance: Advance
) -> tuple[list[Shard], dict[Landing, MmlakeError]]:
    """(shards of the landing zones that could be inspected, what the others raised)."""
    listed: list[Shard] = []
    failed: dict[Landing, MmlakeError] = {}
    parts = lake.landing.parts()
    for part in parts:
        left = (
            None
            if at_most is None
            else max(
                0,
                at_most
                - sum(shard.key not in known or known[shard.key].revision != shard.revision for shard in listed),
            )
        )
        try:
            listed += _shards(part, lake, known, left, advance)
            lake.saw(part)
        except (SettingsError, RemoteUnavailable) as error:
            failed[part] = error
            if len(failed) == len(parts):
                raise
    if lake.limit is not None or lake.is_limit_new or lake.is_pinned:
        # what is limited, no longer limited or pinned now, every later scan, run and sensor must read the same way
        lake.remember_landing()
    return listed, failed


def _shards(
    landing: Landing, lake: Lake, known: Mapping[str, Shard], at_most: int | None, advance: Advance
) -> list[Shard]:
    if lake.limit is None:
        return sources.scan(
            landing,
            settings=lake.settings.sources,
            known=known,
            at_most=at_most,
            parsed=lake.parsed_files,
            connectors=lake.parts.connectors,
            advance=advance,
        )
    return scan_first(
        landing,
        lake.limit,
        settings=lake.settings.sources,
        known=known,
        parsed=lake.parsed_files,
        connectors=lake.parts.connectors,
    )


def is_settled(shard: Shard, landing: Landing, before_s: float) -> bool:
    """Whether nothing in the shard was touched after that time, or a `_SUCCESS` marker next to it is newer than all
    of it; of directories that are gathered, whether that holds of each."""
    if shard.modified_ns < before_s * 1e9:
        return True
    for directory in shard.homes:
        touched_ns = shard.modified_ns
        if shard.directories:
            touched_ns = max((entry.modified_ns for entry in landing.files(directory)), default=0)
        marker = landing.stat(SUCCESS if directory == "." else f"{directory}/{SUCCESS}")
        is_marked = marker is not None and marker.refused is None and marker.modified_ns >= touched_ns
        if touched_ns >= before_s * 1e9 and not is_marked:
            return False
    return True


def stale_shards(lake: Lake, modality: str) -> list[str]:
    """Shards of the modality with at least one row table that is missing or out of date, sorted."""
    return [
        shard
        for shard in lake.registry.keys(modality)
        if not all(is_current(step, lake, modality, shard) for step in row_steps(lake.parts.modality(modality)))
    ]


def stale_corpus(lake: Lake, modality: str) -> bool:
    """Whether a corpus table of the modality is missing or out of date."""
    return not all(is_current(step, lake, modality) for step in corpus_steps(lake.parts.modality(modality)))


def run_tables(lake: Lake, *, modalities: Sequence[str] | None = None, advance: Advance = silent) -> int:
    """Make every stage table that is missing or out of date; the number of tables made. modalities: all where None.

    A step is made for all shards of a modality before the next, several shards at once. Where shards fail, the others
    of that step are made, and the first one's error is raised.
    """
    made = 0
    asked = list(modalities if modalities is not None else lake.parts.modalities)
    for modality in asked:
        shards = lake.registry.keys(modality)
        for step in row_steps(lake.parts.modality(modality)):
            failed: list[MmlakeError | OSError] = []
            for _, done in run_shards(step, lake, modality, shards, advance=advance):
                if isinstance(done, Made):
                    made += not done.reused
                else:
                    failed.append(done)
            if failed:
                raise failed[0]
    for modality in asked:  # behind all rows: pictures are compared with the keyframes of films
        steps = corpus_steps(lake.parts.modality(modality))
        made += sum(not run_step(step, lake, modality, advance=advance).reused for step in steps)
    return made

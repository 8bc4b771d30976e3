"""What lies in a landing zone: every file belongs to exactly one shard. Files that did not change since the last scan are not opened."""

from __future__ import annotations

import os
from collections.abc import Mapping

from mmlake.errors import UnreadableItem
from mmlake.landing import Entry, Landing, as_landing
from mmlake.sources import shard as shards
from mmlake.sources.connectors import LOOSE, SOURCES, format_of
from mmlake.sources.defaults import default_files, defaults_of
from mmlake.sources.rows import Reading
from mmlake.sources.settings import SourceSettings
from mmlake.sources.shard import Shard


def scan(landing: Landing | str | os.PathLike[str], *, settings: SourceSettings, known: Mapping[str, Shard] | None = None) -> list[Shard]:
    """Every shard of the landing zone, sorted by key. known: earlier results by key, taken over where names, sizes and times are equal."""
    landing = as_landing(landing)
    found: list[Shard] = []
    for directory, entries in landing.directories():
        found.extend(_scan_directory(landing, directory, entries, settings=settings, known=known or {}))
    return sorted(found, key=lambda shard: shard.key)


def _scan_directory(landing: Landing, directory: str, entries: list[Entry], *, settings: SourceSettings, known: Mapping[str, Shard]) -> list[Shard]:
    governing = default_files(landing, directory)
    found, changed = [], []
    for entry in entries:
        old = known.get(shards.shard_key(entry.path))
        if old is not None and old.format != LOOSE and old.revision == shards.revision_of([entry, *governing]):
            found.append(old)
        else:
            changed.append(entry)
    old = known.get(shards.shard_key(directory))
    # Loose files are never known one by one: the directory is unchanged where all files that are no known container are those of then.
    if changed and old is not None and old.format == LOOSE and old.revision == shards.revision_of([*changed, *governing]):
        return [*found, old]
    loose = []
    for entry in changed:
        if (name := format_of(landing, entry)) == LOOSE:
            loose.append(entry)
        else:
            found.append(_shard(landing, entry.path, name, [entry], governing, settings))
    if loose:
        found.append(_shard(landing, directory, LOOSE, loose, governing, settings))
    return found


def _shard(landing: Landing, path: str, name: str, entries: list[Entry], governing: list[Entry], settings: SourceSettings) -> Shard:
    reading = reading_of(landing, path, entries=entries, settings=settings)
    try:
        modalities = SOURCES[name].modalities(reading)
    except UnreadableItem:
        modalities = (reading.hint or "text",)  # it cannot be opened: its one row, which says so, has this home
    return Shard(
        key=reading.key,
        path=path,
        format=name,
        modalities=modalities,
        size_bytes=sum(entry.size_bytes for entry in entries),
        modified_ns=max(entry.modified_ns for entry in entries),
        revision=shards.revision_of([*entries, *governing]),
    )


def reading_of(landing: Landing, path: str, *, settings: SourceSettings, entries: list[Entry] | None = None) -> Reading:
    """What a connector needs to read the container or the loose files at the path."""
    directory = path if entries is not None and [entry.path for entry in entries] != [path] else path.rpartition("/")[0] or "."
    return Reading(
        landing=landing,
        key=shards.shard_key(path),
        path=path,
        settings=settings,
        defaults=defaults_of(landing, directory),
        hint=shards.hinted_modality(path),
        entries=tuple(entries or ()),
    )

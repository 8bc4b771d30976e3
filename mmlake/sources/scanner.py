"""What lies in a landing zone: every file belongs to exactly one shard. Files that did not change since the last
scan are not opened."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from mmlake.errors import UnreadableItem
from mmlake.landing import Entry, Landing, as_landing
from mmlake.sources import directory_parts
from mmlake.sources import shard as shards
from mmlake.sources.companions import manifest_forms
from mmlake.sources.companions.bookkeeping import without_bookkeeping
from mmlake.sources.companions.placement import Placement
from mmlake.sources.companions.siblings import Siblings
from mmlake.sources.connectors.table import (
    LANCE,
    LOOSE,
    MANIFEST,
    SOURCES,
    Connectors,
    directory_of,
    format_of,
    is_still,
)
from mmlake.sources.first_samples import as_found
from mmlake.sources.ingestion import reading_of
from mmlake.sources.parsed_files import ParsedFiles, owned
from mmlake.sources.settings import SourceSettings
from mmlake.sources.shard import Shard, default_files


def scan(
    landing: Landing | str | os.PathLike[str],
    *,
    settings: SourceSettings,
    known: Mapping[str, Shard] | None = None,
    at_most: int | None = None,
    around: Placement | None = None,
    limit: int | None = None,
    parsed: ParsedFiles | None = None,
    connectors: Connectors = SOURCES,
) -> list[Shard]:
    """Every shard of the landing zone, sorted by key. known: earlier results by key, taken over where names, sizes and
    times are equal.

    at_most: how many new or changed shards are opened, so that a look at very many takes a bounded time; of the others
    those that are known stay as they were, and new ones are left for the next look. None opens all. around: the whole
    landing zone, where only a part of it is listed here.
    limit: samples of each container that will be taken, so that no further is looked for modalities; None: all.
    parsed: of the owner of this and other scans; None: what is parsed goes with the scan.
    """
    allowance = _Allowance(at_most)
    found: list[Shard] = []
    with owned(parsed) as parsed:
        for part in as_landing(landing).parts():
            placement = around or Placement(part, parsed)
            with part.naming():
                found += _scan(
                    part,
                    settings=settings,
                    known=known or {},
                    allowance=allowance,
                    around=placement,
                    is_whole=around is None,
                    limit=limit,
                    connectors=connectors,
                )
    return sorted(found, key=lambda shard: shard.key)


def _scan(
    landing: Landing,
    *,
    settings: SourceSettings,
    known: Mapping[str, Shard],
    allowance: _Allowance,
    around: Placement,
    is_whole: bool,
    limit: int | None,
    connectors: Connectors,
) -> list[Shard]:
    found: list[Shard] = []
    inside: dict[str, list[Entry]] = {}  # directories that are one shard -> all their files
    memory = _Memory(landing, around, settings=settings, known=known)
    around.is_no_manifest = memory.is_loose_still
    scan_directory = partial(
        _scan_directory,
        landing,
        settings=settings,
        known=known,
        around=around,
        allowance=allowance,
        limit=limit,
        connectors=connectors,
    )
    # directories whose files describe those of other directories: read when all are listed
    describing = dict[str, list[Entry]]()
    for directory, entries in landing.directories():
        if (whole := directory_of(directory, landing)) is not None:
            inside.setdefault(whole, []).extend(entries)
            continue
        entries = without_bookkeeping(directory, entries, landing)
        memory.listed = directory, entries
        if is_whole:
            around.learn(directory, entries)
        if around.holds_companions(directory):
            describing[directory] = entries
        else:
            found.extend(scan_directory(directory, entries))
    for directory, entries in describing.items():
        memory.listed = directory, entries
        found.extend(scan_directory(directory, entries))
    for path, entries in inside.items():
        governing = default_files(landing, path.rpartition("/")[0] or ".")
        same = as_found(known.get(shards.shard_key(path)), limit)
        if same is not None and same.format == LANCE and same.revision == shards.revision_of([*entries, *governing]):
            found.append(same)
        elif allowance.is_used_up and (old := known.get(shards.shard_key(path))) is not None:
            found.append(old)
        elif not allowance.is_used_up:
            allowance.take_one()
            found.append(_shard(landing, path, LANCE, entries, governing, settings, around.parsed, connectors))
    return found


def is_other_format(old: Shard, entry: Entry) -> bool:
    """Whether the file was a shard of another format than a manifest, and its size and time are what they were: then
    it need not be opened to know that it is none."""
    is_same = (old.size_bytes, old.modified_ns) == (entry.size_bytes, entry.modified_ns)
    return is_same and old.format != MANIFEST


class _Memory:
    """What the last scan found to be loose files, and so no manifests. Manifests are few, and looked at; files that
    only might be some are many."""

    def __init__(
        self, landing: Landing, around: Placement, *, settings: SourceSettings, known: Mapping[str, Shard]
    ) -> None:
        self._landing, self._around, self._settings, self._known = landing, around, settings, known
        self._still: dict[str, set[str]] = {}  # directory -> paths of the files that might be manifests
        self.listed: tuple[str, list[Entry]] = "", []  # a directory and its files, which need not be listed again

    def is_loose_still(self, entry: Entry) -> bool:
        """Whether the file was loose at the last scan or a shard that is no manifest, and neither it nor its siblings
        have changed."""
        directory = entry.path.rpartition("/")[0] or "."
        if not self._known:
            return False
        if (old := self._known.get(shards.shard_key(entry.path))) is not None:
            return is_other_format(old, entry)
        if directory not in self._still:
            here = self.listed[1] if self.listed[0] == directory else self._landing.files(directory)
            own = [one for one in here if shards.shard_key(one.path) not in self._known]
            # What the revision is made of follows from the same answers: they are taken to be yes, and hold where it is
            # the same.
            self._still[directory] = {one.path for one in own}
            governing = [*default_files(self._landing, directory), *self._around.companions_of(directory)]
            unchanged = _unchanged(own, directory, governing, known=self._known, settings=self._settings)
            self._still[directory] = {
                one.path for one in own if one.path in unchanged and manifest_forms.may_be(one.name)
            }
        return entry.path in self._still[directory]


class _Allowance:
    """How many shards may still be opened."""

    def __init__(self, at_most: int | None) -> None:
        self._left = at_most

    def take_one(self) -> None:
        """Count one that is opened."""
        if self._left is not None:
            self._left -= 1

    @property
    def is_used_up(self) -> bool:
        """Whether nothing more may be opened."""
        return self._left is not None and self._left <= 0


def _scan_directory(
    landing: Landing,
    directory: str,
    entries: list[Entry],
    *,
    settings: SourceSettings,
    known: Mapping[str, Shard],
    around: Placement,
    allowance: _Allowance,
    limit: int | None,
    connectors: Connectors,
) -> list[Shard]:
    defaults, siblings = default_files(landing, directory), Siblings(landing, directory, settings, around.parsed)
    found, changed = [], []
    for entry in entries:
        old = as_found(known.get(shards.shard_key(entry.path)), limit)
        same = (
            old is not None
            and old.format != LOOSE
            and old.revision == shards.revision_of([entry, *defaults, *around.dependencies(entry)])
        )
        if old is not None and same and is_still(old.format, entry, siblings, connectors):
            found.append(old)
        else:
            changed.append(entry)
    if not changed:
        return found
    governing = [*defaults, *around.companions_of(directory)]
    unchanged = _unchanged(changed, directory, governing, known=known, settings=settings)
    loose, is_seen_whole = [], True
    for entry in changed:
        if entry.path in unchanged:
            loose.append(entry)
        elif allowance.is_used_up:
            is_seen_whole = False
            if (old := known.get(shards.shard_key(entry.path))) is not None and old.format != LOOSE:
                found.append(old)
        elif (name := format_of(landing, entry, siblings, connectors)) == LOOSE:
            loose.append(entry)
        else:
            allowance.take_one()
            depends_on = [*defaults, *around.dependencies(entry)]
            found.append(
                _shard(
                    landing,
                    entry.path,
                    name,
                    [entry],
                    depends_on,
                    settings,
                    around.parsed,
                    connectors,
                    limit=limit,
                )
            )
    if not is_seen_whole:
        # Which of the files that were not looked at are loose is not known, so the loose shards of the directory stay
        # what they were.
        return [*found, *(old for old in known.values() if old.format == LOOSE and old.path == directory)]
    for part, files in directory_parts.parts_of(loose, max_files=settings.max_loose_files).items() if loose else ():
        old = as_found(known.get(shards.shard_key(directory, part)), limit)
        if old is not None and old.format == LOOSE and old.revision == shards.revision_of([*files, *governing]):
            found.append(old)
        else:
            allowance.take_one()
            others = [entry for entry in loose if not directory_parts.is_in(entry, part)]
            found.append(
                _shard(
                    landing,
                    directory,
                    LOOSE,
                    files,
                    governing,
                    settings,
                    around.parsed,
                    connectors,
                    part=part,
                    siblings=others,
                    around=around.companions_of(directory),
                )
            )
    return found


def _unchanged(
    changed: list[Entry],
    directory: str,
    governing: list[Entry],
    *,
    known: Mapping[str, Shard],
    settings: SourceSettings,
) -> set[str]:
    """Paths of the files that were loose at the last look and are what they were: those of parts of the directory
    with an equal revision."""
    same: set[str] = set()
    for part, files in directory_parts.parts_of(changed, max_files=settings.max_loose_files).items():
        old = as_found(known.get(shards.shard_key(directory, part)), None)
        if old is not None and old.format == LOOSE and old.revision == shards.revision_of([*files, *governing]):
            same.update(entry.path for entry in files)
    return same


def _shard(
    landing: Landing,
    path: str,
    name: str,
    entries: list[Entry],
    governing: list[Entry],
    settings: SourceSettings,
    parsed: ParsedFiles,
    connectors: Connectors,
    *,
    part: str = "",
    siblings: Sequence[Entry] = (),
    around: Sequence[Entry] = (),
    limit: int | None = None,
) -> Shard:
    read_from = landing if limit is None else landing.sparing()
    reading = reading_of(
        read_from,
        path,
        entries=None if name == LANCE else entries,
        settings=settings,
        part=part,
        siblings=siblings,
        around=around,
        parsed=parsed,
    )
    try:
        modalities = connectors[name].modalities(replace(reading, limit=limit))
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
        part=part,
    )

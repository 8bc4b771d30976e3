"""What lies in a landing zone: every file belongs to exactly one shard. Files that did not change since the last
scan are not opened."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence

from mmlake.errors import UnreadableItem
from mmlake.landing import Entry, Landing, as_landing
from mmlake.sources.companions import manifest_forms
from mmlake.sources.companions.placement import Placement
from mmlake.sources.companions.siblings import without_bookkeeping
from mmlake.sources.connectors.table import LANCE, LOOSE, MANIFEST, SOURCES, Connectors, directory_of
from mmlake.sources.directory_parts import is_in, parts_of
from mmlake.sources.ingestion import Reader
from mmlake.sources.parsed_files import ParsedFiles, owned
from mmlake.sources.settings import SourceSettings
from mmlake.sources.shard import Shard, as_found, default_files, revision_of, shard_key


def scan(
    landing: Landing | str | os.PathLike[str],
    *,
    settings: SourceSettings,
    known: Mapping[str, Shard] | None = None,
    at_most: int | None = None,
    parsed: ParsedFiles | None = None,
    connectors: Connectors = SOURCES,
) -> list[Shard]:
    """Every shard of the landing zone, sorted by key. known: earlier results by key, taken over where names, sizes and
    times are equal.

    at_most: how many new or changed shards are opened, so that a scan of very many takes a bounded time; of the others
    those that are known stay as they were, and new ones are left for the next scan. None opens all.
    parsed: of the owner of this and other scans; None: what is parsed goes with the scan.
    """
    found: list[Shard] = []
    left = math.inf if at_most is None else at_most
    with owned(parsed) as parsed:
        for part in as_landing(landing).parts():
            reader = Reader(part, settings, parsed, connectors)
            with part.naming():
                one = Scan(reader, known or {}, Placement(part, parsed), left=left)
                found += one.shards()
                left = one.left
    return sorted(found, key=lambda shard: shard.key)


class Scan:
    """One pass over the directories of a landing zone, or over some of them. left: how many shards may still be
    opened."""

    def __init__(
        self,
        reader: Reader,
        known: Mapping[str, Shard],
        around: Placement,
        *,
        limit: int | None = None,
        left: float = math.inf,
    ) -> None:
        """around: of the whole landing zone. limit: samples of each container that will be taken, so that no further is
        searched for modalities; None: all."""
        self.left, self._reader, self._landing = left, reader, reader.landing
        self._known, self._around, self._limit = known, around, limit
        # directory -> paths of the files that might be manifests and were loose at the last scan
        self._still: dict[str, set[str]] = {}
        self._listed: tuple[str, list[Entry]] = "", []  # a directory and its files, which need not be listed again
        around.is_no_manifest = self._is_loose_still

    def shards(self, listing: Mapping[str, list[Entry]] | None = None) -> list[Shard]:
        """The shards of these directories; None: of all."""
        found: list[Shard] = []
        inside: dict[str, list[Entry]] = {}  # directories that are one shard -> all their files
        # directories whose files describe those of other directories: read when all are listed
        describing = dict[str, list[Entry]]()
        for directory, entries in self._landing.directories() if listing is None else sorted(listing.items()):
            if (whole := directory_of(directory, self._landing)) is not None:
                inside.setdefault(whole, []).extend(entries)
                continue
            entries = without_bookkeeping(directory, entries, self._landing)
            self._listed = directory, entries
            if listing is None:
                self._around.learn(directory, entries)
            if self._around.holds_companions(directory):
                describing[directory] = entries
            else:
                found += self._in_directory(directory, entries)
        for directory, entries in describing.items():
            self._listed = directory, entries
            found += self._in_directory(directory, entries)
        for path, entries in inside.items():
            governing = default_files(self._landing, path.rpartition("/")[0] or ".")
            if (same := self._same(LANCE, path, [*entries, *governing], limit=self._limit)) is not None:
                found.append(same)
            elif self.left > 0:
                found.append(self._opened(LANCE, path, entries, governing))
            elif (old := self._known.get(shard_key(path))) is not None:
                found.append(old)
        return found

    def _in_directory(self, directory: str, entries: list[Entry]) -> list[Shard]:
        defaults, siblings = default_files(self._landing, directory), self._reader.siblings(directory)
        found, changed = [], []
        for entry in entries:
            old = as_found(self._known.get(shard_key(entry.path)), self._limit)
            if (
                old is not None
                and old.format != LOOSE
                and old.revision == revision_of([entry, *defaults, *self._around.dependencies(entry)])
                and self._reader.connectors.is_still(old.format, entry, siblings)
            ):
                found.append(old)
            else:
                changed.append(entry)
        if not changed:
            return found
        governing = [*defaults, *self._around.companions_of(directory)]
        unchanged = self._unchanged(changed, directory, governing)
        loose, is_seen_whole = [], True
        for entry in changed:
            if entry.path in unchanged:
                loose.append(entry)
            elif self.left <= 0:
                is_seen_whole = False
                if (old := self._known.get(shard_key(entry.path))) is not None and old.format != LOOSE:
                    found.append(old)
            elif (name := self._reader.format_of(entry, siblings)) == LOOSE:
                loose.append(entry)
            else:
                depends_on = [*defaults, *self._around.dependencies(entry)]
                found.append(self._opened(name, entry.path, [entry], depends_on, limit=self._limit))
        if is_seen_whole:
            return [*found, *(self._loose_files(directory, loose, governing) if loose else ())]
        # Which of the files that were not opened are loose is not known, so the loose shards of the directory stay
        # what they were.
        return [*found, *(old for old in self._known.values() if old.format == LOOSE and old.path == directory)]

    def _loose_files(self, directory: str, loose: list[Entry], governing: list[Entry]) -> list[Shard]:
        """The loose files of the directory, in parts where they are many."""
        found = []
        for part, files in parts_of(loose, max_files=self._reader.settings.max_loose_files).items():
            same = self._same(LOOSE, directory, [*files, *governing], part=part, limit=self._limit)
            if same is None:
                others = [entry for entry in loose if not is_in(entry, part)]
                around = self._around.companions_of(directory)
                same = self._opened(LOOSE, directory, files, governing, part=part, siblings=others, around=around)
            found.append(same)
        return found

    def _unchanged(self, changed: list[Entry], directory: str, governing: list[Entry]) -> set[str]:
        """Paths of the files that were loose at the last scan and are what they were: those of parts of the directory
        with an equal revision."""
        return {
            entry.path
            for part, files in parts_of(changed, max_files=self._reader.settings.max_loose_files).items()
            if self._same(LOOSE, directory, [*files, *governing], part=part) is not None
            for entry in files
        }

    def _is_loose_still(self, entry: Entry) -> bool:
        """Whether the file was loose at the last scan or a shard that is no manifest, and neither it nor its siblings
        have changed. Manifests are few, and opened; files that only might be some are many."""
        directory = entry.path.rpartition("/")[0] or "."
        if not self._known:
            return False
        if (old := self._known.get(shard_key(entry.path))) is not None:
            is_same = (old.size_bytes, old.modified_ns) == (entry.size_bytes, entry.modified_ns)
            return is_same and old.format != MANIFEST
        if directory not in self._still:
            here = self._listed[1] if self._listed[0] == directory else self._landing.files(directory)
            own = [one for one in here if shard_key(one.path) not in self._known]
            # What the revision is made of follows from the same answers: they are taken to be yes, and hold where it is
            # the same.
            self._still[directory] = {one.path for one in own}
            governing = [*default_files(self._landing, directory), *self._around.companions_of(directory)]
            unchanged = self._unchanged(own, directory, governing)
            self._still[directory] = {
                one.path for one in own if one.path in unchanged and manifest_forms.may_be(one.name)
            }
        return entry.path in self._still[directory]

    def _same(
        self, name: str, path: str, files: list[Entry], *, part: str = "", limit: int | None = None
    ) -> Shard | None:
        """The shard that the last scan found there, where it is of this format and all files are what they were."""
        old = as_found(self._known.get(shard_key(path, part)), limit)
        return old if old is not None and old.format == name and old.revision == revision_of(files) else None

    def _opened(
        self,
        name: str,
        path: str,
        entries: list[Entry],
        governing: list[Entry],
        *,
        part: str = "",
        siblings: Sequence[Entry] = (),
        around: Sequence[Entry] = (),
        limit: int | None = None,
    ) -> Shard:
        """The shard of these files, which are read for it."""
        self.left -= 1
        own = None if name == LANCE else entries
        reading = self._reader.reading(path, entries=own, part=part, siblings=siblings, around=around, limit=limit)
        try:
            modalities = self._reader.connectors[name].modalities(reading)
        except UnreadableItem:
            modalities = (reading.home,)  # it cannot be opened: its one row, which says so, has this home
        return Shard(
            key=reading.key,
            path=path,
            format=name,
            modalities=modalities,
            size_bytes=sum(entry.size_bytes for entry in entries),
            modified_ns=max(entry.modified_ns for entry in entries),
            revision=revision_of([*entries, *governing]),
            part=part,
        )

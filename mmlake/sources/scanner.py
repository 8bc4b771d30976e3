"""What lies in a landing zone: every file belongs to exactly one shard. Files that did not change since the last
scan are not opened."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from mmlake.errors import UnreadableItem
from mmlake.landing import Entry, Landing, as_landing, opened_ahead
from mmlake.progress import Advance, silent
from mmlake.sources.companions import manifest_forms
from mmlake.sources.companions.current_files import current_files
from mmlake.sources.companions.placement import Placement
from mmlake.sources.companions.siblings import Siblings, without_bookkeeping
from mmlake.sources.connectors.table import LANCE, LOOSE, SOURCES, Connectors, directory_of
from mmlake.sources.directory_parts import is_named, parts_of
from mmlake.sources.gathering import Size, gathered
from mmlake.sources.ingestion import Reader
from mmlake.sources.parsed_files import ParsedFiles, owned
from mmlake.sources.raw_items import Reading
from mmlake.sources.settings import SourceSettings
from mmlake.sources.shard import PART_MARK, Shard, as_found, default_files, ordered, revision_of, shard_key


def scan(
    landing: Landing | str | os.PathLike[str],
    *,
    settings: SourceSettings,
    known: Mapping[str, Shard] | None = None,
    at_most: int | None = None,
    parsed: ParsedFiles | None = None,
    connectors: Connectors = SOURCES,
    advance: Advance = silent,
) -> list[Shard]:
    """Every shard of the landing zone, sorted by key. known: earlier results by key, taken over where names, sizes and
    times are equal.

    at_most: how many new or changed shards are opened, so that a scan of very many takes a bounded time; of the others
    those that are known stay as they were, and new ones are left for the next scan. None opens all.
    parsed: of the owner of this and other scans; None: what is parsed goes with the scan.
    advance: called as files are opened; how many will be is known only at the end.
    """
    found: list[Shard] = []
    left = math.inf if at_most is None else at_most
    with owned(parsed) as parsed:
        for part in as_landing(landing).parts():
            reader = Reader(part, settings, parsed, connectors)
            with part.naming():
                one = Scan(reader, known or {}, Placement(part, parsed), left=left, advance=advance)
                found += one.shards()
                left = one.left
    return sorted(found, key=lambda shard: shard.key)


@dataclass(frozen=True, slots=True)
class _Home:
    """What the loose files of one shard lie in, or of several shards where one directory has many: a directory, or
    those that are gathered. part: of what is gathered at the path."""

    path: str
    listing: Mapping[str, list[Entry]]  # directory -> its files
    part: str = ""


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
        advance: Advance = silent,
    ) -> None:
        """around: of the whole landing zone. limit: samples of each container that will be taken, so that no further is
        searched for modalities; None: all."""
        self.left, self._reader, self._landing = left, reader, reader.landing
        self._known, self._around, self._limit, self._advance = known, around, limit, advance
        self._defaults = functools.cache(functools.partial(default_files, self._landing))  # of a directory
        # directory -> paths of the files that might be manifests or COCO files and were loose at the last scan
        self._still: dict[str, set[str]] = {}
        self._homes: dict[str, _Home] = {}  # of directories that need not be listed again
        around.is_known_not = self._is_known_not

    def shards(self, listing: Mapping[str, list[Entry]] | None = None) -> list[Shard]:
        """The shards of these directories, none of which are gathered; None: of all."""
        found: list[Shard] = []
        inside: dict[str, list[Entry]] = {}  # directories that are one shard -> all their files
        few: dict[str, tuple[list[Entry], Size]] = {}  # directories that may be gathered
        # directories whose files describe those of other directories: read when all are listed
        describing = dict[str, list[Entry]]()
        for directory, entries in self._landing.directories() if listing is None else sorted(listing.items()):
            if (whole := directory_of(directory, self._landing)) is not None:
                inside.setdefault(whole, []).extend(entries)
                continue
            entries = current_files(directory, entries, self._landing, self._reader.parsed, self._reader.settings)
            entries = without_bookkeeping(directory, entries, self._landing)
            if listing is None:
                self._around.learn(directory, entries)
                if (size := self._size(entries)).is_few:
                    few[directory] = entries, size
                    continue
            if self._around.holds_companions(directory):
                describing[directory] = entries
            else:
                found += self._in_home(_Home(directory, {directory: entries}))
        for home in (*self._gathered(few), *(_Home(path, {path: files}) for path, files in describing.items())):
            found += self._in_home(home)
        return list({shard.key: shard for shard in (*found, *self._whole(inside))}.values())

    def _gathered(self, few: Mapping[str, tuple[list[Entry], Size]]) -> list[_Home]:
        """Those directories, gathered where they are many."""
        sizes = {path: size for path, (_, size) in few.items() if size.num_files}
        homes = [
            _Home(one.path, {path: few[path][0] for path in one.directories}, one.part)
            for one in gathered(sizes, self._reader.settings)
        ]
        self._homes = {path: home for home in homes for path in home.listing}
        return homes + [_Home(path, {path: files}) for path, (files, _) in few.items() if path not in self._homes]

    def _size(self, entries: Sequence[Entry]) -> Size:
        """How many files there are whose names claim no container."""
        loose = [entry.size_bytes for entry in entries if not is_named(entry, self._reader.connectors.endings)]
        return Size(len(loose), sum(loose))

    def _whole(self, inside: Mapping[str, list[Entry]]) -> Iterator[Shard]:
        """The shards of directories that are one each."""
        for path, entries in inside.items():
            governing = self._defaults(path.rpartition("/")[0] or ".")
            if (same := self._same(LANCE, path, [*entries, *governing], limit=self._limit)) is not None:
                yield same
            elif self.left > 0:
                yield self._opened(LANCE, path, [self._reader.reading(path)], entries, governing)
            elif (old := self._known.get(shard_key(path))) is not None:
                yield old

    def _in_home(self, home: _Home) -> list[Shard]:
        """The shards of a directory, or of those that are gathered: containers, and the loose files."""
        if not home.part:
            self._homes[home.path] = home
        found, changed, next_to = list[Shard](), dict[str, list[Entry]](), dict[str, Siblings]()
        for directory, entries in home.listing.items():
            changed[directory], defaults = [], self._defaults(directory)
            next_to[directory] = siblings = self._reader.siblings(directory)
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
                    changed[directory].append(entry)
        if any(changed.values()):
            governing = self._governing(home)
            more, loose = self._opened_of(changed, next_to, self._unchanged(home, changed, governing))
            found += more
            # Which of the files that were not opened are loose is not known, so the loose shards of the directories
            # stay what they were.
            found += self._still_of(home) if loose is None else self._loose_files(home, loose, governing)
        if not home.part:
            del self._homes[home.path]
        return found

    def _opened_of(
        self, changed: Mapping[str, list[Entry]], next_to: Mapping[str, Siblings], unchanged: set[str]
    ) -> tuple[list[Shard], dict[str, list[Entry]] | None]:
        """(the containers among the files that changed, the loose files by directory). next_to: what is next to files
        of each directory. unchanged: paths of files that are known to be loose. None in place of loose files where some
        may not be opened any more."""
        found, loose, is_seen_whole = list[Shard](), dict[str, list[Entry]](), True
        unknown = (entry for entry in _all(changed) if entry.path not in unchanged)
        with opened_ahead(self._landing, unknown if self.left > 0 else ()) as landing:
            reader = replace(self._reader, landing=landing)
            for directory, entries in changed.items():
                siblings, here = next_to[directory], list[Entry]()
                for entry in entries:
                    if entry.path in unchanged:
                        here.append(entry)
                        continue
                    if self.left <= 0:
                        is_seen_whole = False
                        if (old := self._known.get(shard_key(entry.path))) is not None and old.format != LOOSE:
                            found.append(old)
                        continue
                    self._advance(1)
                    if (name := reader.format_of(entry, siblings)) == LOOSE:
                        here.append(entry)
                    else:
                        found.append(self._container(name, entry, directory))
                if here:
                    loose[directory] = here
        return found, loose if is_seen_whole else None

    def _container(self, name: str, entry: Entry, directory: str) -> Shard:
        """The file, which is a shard of its own."""
        described_by = self._around.companions_of_archive(entry)
        reading = self._reader.reading(entry.path, entries=[entry], limit=self._limit, around=described_by)
        depends_on = [*self._defaults(directory), *self._around.dependencies(entry)]
        found = self._opened(name, entry.path, [reading], [entry], depends_on)
        return replace(found, described_by=tuple(one.path for one in described_by))

    def _still_of(self, home: _Home) -> list[Shard]:
        """The loose shards that the last scan found there."""
        found = (old for path in home.listing for old in self._loose_known.get(path, ()))
        return list({old.key: old for old in found}.values())

    @functools.cached_property
    def _loose_known(self) -> dict[str, list[Shard]]:
        """Directory -> the loose shards that the last scan found there."""
        found = dict[str, list[Shard]]()
        for old in self._known.values():
            for path in old.homes if old.format == LOOSE else ():
                found.setdefault(path, []).append(old)
        return found

    def _loose_files(self, home: _Home, loose: Mapping[str, list[Entry]], governing: list[Entry]) -> list[Shard]:
        """The loose files, in parts where they are many."""
        found = []
        for part, files in self._parts(home, loose).items():
            same = self._same(LOOSE, home.path, [*_all(files), *governing], part=part, limit=self._limit)
            if same is None:
                with opened_ahead(self._landing, _all(files)) as landing:
                    reader = replace(self._reader, landing=landing)
                    readings = (self._reading(reader, path, own, part) for path, own in files.items())
                    directories = tuple(sorted(files)) if home.part else ()
                    same = self._opened(
                        LOOSE, home.path, readings, _all(files), governing, part=part, directories=directories
                    )
            found.append(same)
        return found

    def _reading(self, reader: Reader, directory: str, own: list[Entry], part: str) -> Reading:
        """What the reader needs to read these loose files of the directory."""
        return reader.reading(
            directory,
            entries=own,
            part="" if part.startswith(PART_MARK) else part,
            around=self._around.companions_of(directory),
        )

    def _parts(self, home: _Home, loose: Mapping[str, list[Entry]]) -> dict[str, dict[str, list[Entry]]]:
        """part -> directory -> files."""
        if home.part:
            return {home.part: {**loose}} if loose else {}
        most = self._reader.settings.max_loose_files
        return {
            part: {directory: files}
            for directory, entries in loose.items()
            for part, files in parts_of(entries, max_files=most).items()
        }

    def _governing(self, home: _Home) -> list[Entry]:
        """The files that say something of those, each once."""
        found = [
            entry
            for directory in home.listing
            for entry in (*self._defaults(directory), *self._around.companions_of(directory))
        ]
        return list(dict.fromkeys(found)) if home.part else found

    def _unchanged(self, home: _Home, changed: Mapping[str, list[Entry]], governing: list[Entry]) -> set[str]:
        """Paths of the files that were loose at the last scan and are what they were: those of shards with an equal
        revision."""
        return {
            entry.path
            for part, files in self._parts(home, changed).items()
            if self._same(LOOSE, home.path, [*_all(files), *governing], part=part) is not None
            for entry in _all(files)
        }

    def _is_known_not(self, entry: Entry, format_: str) -> bool:
        """Whether the file was loose at the last scan or a shard of another format, and neither it nor its siblings
        have changed. Manifests and COCO files are few, and opened; files that only might be some are many."""
        directory = entry.path.rpartition("/")[0] or "."
        if not self._known:
            return False
        if (old := self._known.get(shard_key(entry.path))) is not None:
            is_same = (old.size_bytes, old.modified_ns) == (entry.size_bytes, entry.modified_ns)
            return is_same and old.format != format_
        if directory not in self._still:
            home = self._homes.get(directory) or _Home(directory, {directory: self._landing.files(directory)})
            own = {
                path: [one for one in entries if shard_key(one.path) not in self._known]
                for path, entries in home.listing.items()
            }
            # What the revision is made of follows from the same answers: they are taken to be yes, and hold where it is
            # the same.
            self._still.update({path: {one.path for one in entries} for path, entries in own.items()})
            unchanged = self._unchanged(home, own, self._governing(home))
            for path, entries in own.items():
                may_be = (one.path for one in entries if manifest_forms.may_be(one.name))
                self._still[path] = unchanged.intersection(may_be)
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
        readings: Iterable[Reading],
        entries: Sequence[Entry],
        governing: Sequence[Entry],
        *,
        part: str = "",
        directories: tuple[str, ...] = (),
    ) -> Shard:
        """The shard of these files, which are read for it."""
        self.left -= 1
        found = [self._modalities(name, reading) for reading in readings]
        return Shard(
            key=shard_key(path, part),
            path=path,
            format=name,
            modalities=found[0] if len(found) == 1 else ordered(kind for each in found for kind in each),
            size_bytes=sum(entry.size_bytes for entry in entries),
            modified_ns=max(entry.modified_ns for entry in entries),
            revision=revision_of([*entries, *governing]),
            part=part,
            directories=directories,
        )

    def _modalities(self, name: str, reading: Reading) -> tuple[str, ...]:
        try:
            return self._reader.connectors[name].modalities(reading)
        except UnreadableItem:
            return (reading.home,)  # it cannot be opened: its one row, which says so, has this home


def _all(files: Mapping[str, list[Entry]]) -> list[Entry]:
    return [entry for entries in files.values() for entry in entries]

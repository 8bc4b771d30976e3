"""One listing of a directory for all parts of it. A directory of very many files is many shards, and if each listed
and sorted out all of its names, the cost would grow with the square of their number.

A listing is kept with what is parsed of files, and serves a part where it shows the very files that the part is
registered with; else the directory is listed again. So no row is made of an older listing than the registered one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from mmlake.landing import Entry, Landing
from mmlake.sources.companions.current_files import current_files
from mmlake.sources.companions.placement import Placement
from mmlake.sources.companions.siblings import Siblings, without_bookkeeping
from mmlake.sources.connectors.table import LOOSE, Connectors
from mmlake.sources.directory_parts import first_stems, is_named, part_of
from mmlake.sources.parsed_files import Kind, ParsedFiles
from mmlake.sources.settings import SourceSettings
from mmlake.sources.shard import Shard, default_files, revision_of

_AFTER = "g"  # the character behind hexadecimal digits


class DirectoryListing:
    """The files of a directory, and what lies around them, as they were at one time."""

    def __init__(
        self,
        landing: Landing,
        path: str,
        settings: SourceSettings,
        parsed: ParsedFiles,
        around: Placement | None = None,
    ) -> None:
        """around: what was listed already."""
        found = current_files(path, landing.files(path), landing, parsed, settings)
        self.entries: Sequence[Entry] = without_bookkeeping(path, found, landing)
        self.names = Siblings(landing, path, settings, parsed)
        self._landing, self._path, self._around = landing, path, around or Placement(landing, parsed)
        self._around.learn(path, self.entries)

    @cached_property
    def companions(self) -> list[Entry]:
        """Files of other shards that describe those here."""
        return self._around.companions_of(self._path)

    @cached_property
    def _hashed(self) -> tuple[list[str], list[int]]:
        """(hashes in order, place of each among the entries)."""
        hashes = [part_of(entry) for entry in self.entries]
        order = sorted(range(len(hashes)), key=hashes.__getitem__)
        return [hashes[at] for at in order], order

    def of_part(self, part: str) -> list[Entry]:
        """The files of that part, by path; "" is the whole directory."""
        if not part:
            return [*self.entries]
        hashes, order = self._hashed
        own = order[bisect_left(hashes, part) : bisect_left(hashes, part + _AFTER)]
        return [self.entries[at] for at in sorted(own)]

    def shows(self, shard: Shard, loose: Sequence[Entry]) -> bool:
        """Whether the shard is registered with these files as they are here, and with what describes them."""
        governing = (*default_files(self._landing, self._path), *self.companions)
        return revision_of([*loose, *governing]) == shard.revision


class Listed(NamedTuple):
    """A directory, and the loose files of one part of it."""

    listing: DirectoryListing
    loose: list[Entry]


_LISTINGS = Kind[DirectoryListing](max_size=1 << 20, size_of=lambda one: len(one.entries))  # entries


def listed_of(
    shard: Shard,
    landing: Landing,
    settings: SourceSettings,
    parsed: ParsedFiles,
    connectors: Connectors,
    around: Placement | None = None,
) -> Listed:
    """The files of a directory that the shard has, which gathers none. around: what was listed already."""
    landing, endings = landing.part_of(shard.path), connectors.endings
    if shard.limit is not None:
        landing = landing.sparing()

    def found(listing: DirectoryListing) -> Listed:
        own = listing.of_part(shard.part)
        if shard.limit is not None:  # only as many are opened as can hold that many samples; see `excerpt`
            own = first_stems([entry for entry in own if not is_named(entry, endings)], shard.limit)
        # Those whose name claims a container are opened here; the others show by their bytes when their turn comes.
        loose = [
            entry
            for entry in own
            if not is_named(entry, endings) or connectors.format_of(landing, entry, listing.names) == LOOSE
        ]
        return Listed(listing, loose)

    def listed() -> DirectoryListing:
        return DirectoryListing(landing, shard.path, settings, parsed, around)

    if not shard.part or shard.limit is not None:
        return found(listed())
    key = landing.location, shard.path
    is_kept = parsed.has(_LISTINGS, key)
    one = found(parsed.get(_LISTINGS, key, listed))
    if is_kept and not one.listing.shows(shard, one.loose):
        parsed.forget(_LISTINGS, key)
        one = found(parsed.get(_LISTINGS, key, listed))
    return one

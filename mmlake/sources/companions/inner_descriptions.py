"""Tables that describe files and lie with them in one archive, as corpora are published (LJSpeech, Common Voice) and
folders of images are packed: what `descriptions` reads next to loose files, read of members.

Enters: the members of an archive that are called like such tables, and the names of all. Leaves: what they say of each
sample, and a row for every record that no member took. The tables are no samples of the archive.
"""

from __future__ import annotations

import posixpath
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from mmlake.errors import UnreadableItem
from mmlake.formats import sniff
from mmlake.landing import Entry
from mmlake.records import SourceRef
from mmlake.sources.companions import places
from mmlake.sources.companions.archives import OneFile
from mmlake.sources.companions.description_forms import claims
from mmlake.sources.companions.descriptions import DescriptionTable
from mmlake.sources.companions.file_tables import FileRecords, FileTables
from mmlake.sources.companions.placement import describing
from mmlake.sources.names import label_of
from mmlake.sources.raw_items import Member, RawItem, Reading
from mmlake.sources.samples.companion import Companion, Description

MAX_TABLES = 64  # of an archive; one with more has a table per sample, and none describes the others
_FOLDERS_KEPT = 256


def may_describe(name: str) -> bool:
    """Whether a member of this name may be a table that describes others, but for Parquet's."""
    return name.rpartition("/")[2] in places.TABLES - {places.PARQUET}


class Names:
    """Which names an archive, or a directory with those below it, has, as far as hashes say."""

    def __init__(self, hashes: NDArray[np.int64]) -> None:
        """hashes: of what `label_of` gives for each."""
        self._sorted = np.sort(hashes)

    def __contains__(self, path: str) -> bool:
        if not len(self._sorted):
            return False
        spellings = {path, unicodedata.normalize("NFD", path)}
        wanted = np.array([hash(label_of(f"{start}{one}")) for one in spellings for start in ("", "./")], np.int64)
        at = np.minimum(np.searchsorted(self._sorted, wanted), len(self._sorted) - 1)
        return bool((self._sorted[at] == wanted).any())


class _Table(DescriptionTable):
    """One such table."""

    def __init__(self, reading: Reading, member: Member, names: Names, homes: Collection[str]) -> None:
        """reading: of the archive. homes: the directories of all of its tables."""
        self._archive, self._member = reading.landing.stat(reading.path), member
        self._names, self._homes = names, homes
        self.label = member.label or member.name
        content, path = member.content, _path_of(member.name)
        assert content is not None, "a table that can be read"
        landing = OneFile(Entry(path, member.size_bytes, 0), content.open)
        super().__init__(replace(reading, landing=landing, key=f"{reading.key}/{self.label}", limit=None), path)

    def key(self) -> tuple[object, ...]:
        """The archive, and which of its members the table is."""
        return (self._archive, self.label, *super().key())

    def ref(self, place: str) -> SourceRef:
        return SourceRef(self._member.path, f"{self.label}#{place}")

    def _missing(self, index: FileRecords) -> Iterator[tuple[str, str]]:
        for path in index.paths():
            places = (posixpath.normpath(posixpath.join(self.home, base, path)) for base in self.bases)
            place = next((one for one in places if one in self._names), None)
            if self.is_outside(path):
                yield path, f"the file {path[:200]} is outside of the directory of the {self.noun}"
            elif place is None:
                yield path, f"the file {path[:200]} {self.absent}"
            elif _home_of(posixpath.dirname(place) or ".", self._homes) != self.home:
                yield path, f"the file {path[:200]} {self.nearer}"


class InnerDescriptions(Companion):
    """What tables of an archive say of its other members."""

    def __init__(self, tables: Mapping[int, _Table], *, is_whole: bool) -> None:
        """tables: by the number of the member. is_whole: whether all members of the archive are known."""
        self.own, self._is_whole = frozenset(tables), is_whole
        self._tables = sorted(tables.values(), key=lambda table: table.reading.path)
        self._speaks = {table.label: table.speaks() for table in self._tables}
        self._of = lru_cache(_FOLDERS_KEPT)(self._tables_of)
        self.labels = frozenset(self._speaks)
        self.has_texts = any(self._speaks.values()) or next(self.rest(), None) is not None

    @classmethod
    def of(
        cls,
        reading: Reading,
        may_be: Sequence[int],
        member_at: Callable[[int], Member],
        *,
        names: Callable[[], Names],
        is_whole: bool,
    ) -> InnerDescriptions | None:
        """None where no member is such a table. may_be: the members that are called like one, by number."""
        if len(may_be) > MAX_TABLES:
            return None
        found = {at: member for at in may_be if _is_table(member := member_at(at))}
        by_home: dict[str, list[Entry]] = {}
        for path in sorted({_path_of(member.name) for member in found.values()}):
            by_home.setdefault(posixpath.dirname(path) or ".", []).append(Entry(path, 0, 0))
        counting = {entry.path for entries in by_home.values() for entry in describing(entries)}
        chosen = {at: member for at, member in found.items() if _path_of(member.name) in counting}
        if not chosen:
            return None
        known = names()
        tables = {at: _Table(reading, member, known, by_home.keys()) for at, member in chosen.items()}
        return cls(tables, is_whole=is_whole)

    def describe(self, stem: str, members: Sequence[Member]) -> Description:
        """The words of the records as texts, everything else as metadata of the sample."""
        media = next((member for member in members if member.is_media), None)
        found = self._of(posixpath.dirname(_path_of(media.name)) or ".") if media is not None else None
        return found.describe(stem, members) if found is not None else Description()

    def _tables_of(self, folder: str) -> FileTables | None:
        """What is said of the members of a folder."""
        home = _home_of(folder, {table.home for table in self._tables})
        tables = [table for table in self._tables if table.home == home]
        speaks = [self._speaks[table.label] for table in tables]
        return FileTables(folder, tables, with_texts=speaks) if tables else None

    def rest(self) -> Iterator[RawItem]:
        """A row for every record of a file that the archive does not have, of none, or that is broken."""
        for table in self._tables if self._is_whole else ():
            yield from table.rest()


def _is_table(member: Member) -> bool:
    """Whether the member, which is called like one, begins as such a table."""
    if member.fault is not None or member.content is None or member.notes:
        return False
    try:
        return claims(member.content.head(sniff.HEAD_BYTES), member.name.rpartition("/")[2])
    except UnreadableItem:
        return False  # its own row says why


def _path_of(name: str) -> str:
    return name.removeprefix("./")


def _home_of(folder: str, homes: Collection[str]) -> str | None:
    """The nearest of the directories, the folder itself or above it."""
    return next((above for above in places.upwards(folder) if above in homes), None)

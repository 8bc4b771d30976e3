"""Files of records that describe others and lie with them in one archive, as corpora are published and folders of
images are packed: what `descriptions` and `manifests` read next to loose files, read of members.

Enters: the members of an archive that are called like such files, and the names of all. Leaves: what they say of each
sample, and a row for every record that no member took. The files are no samples of the archive. Media that a record
names by an id alone are not found here.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice

from mmlake.errors import UnreadableItem
from mmlake.formats import sniff
from mmlake.landing import Entry
from mmlake.records import SourceRef
from mmlake.sources.companions import description_forms, manifest_forms, places
from mmlake.sources.companions.archives import OneFile
from mmlake.sources.companions.descriptions import DescriptionTable
from mmlake.sources.companions.file_records import FileRecords
from mmlake.sources.companions.file_tables import FileTable, FileTables
from mmlake.sources.companions.listed_names import describing
from mmlake.sources.companions.manifests import FIRST_RECORDS, Manifest
from mmlake.sources.names import MemberNames
from mmlake.sources.raw_items import Member, RawItem, Reading
from mmlake.sources.samples.companion import Companion, Description

MAX_TABLES = 64  # of one extension; an archive with more has a file per sample, and none describes the others
_SOUGHT_RECORDS = 1000  # of which one must name a member, in a manifest of members
_FOLDERS_KEPT = 256


def may_describe(name: str) -> str | None:
    """The kind of file that a member of this name may be, of those that describe others: tables of one name are of one
    kind, all others by their extensions. None of others, and of Parquet."""
    base = name.rpartition("/")[2]
    if base in places.TABLES:
        return None if base == places.PARQUET else ""
    is_manifest = base != manifest_forms.SCP and manifest_forms.may_be(base)
    return sniff.extension_of(base) if is_manifest else None


class _InArchive(FileTable):
    """One such file, as a member."""

    def __init__(self, reading: Reading, member: Member, names: MemberNames) -> None:
        """reading: of the archive. names: of its members."""
        self._archive, self._member, self._names = reading.landing.stat(reading.path), member, names
        self.label = member.label or member.name
        landing, entry = _alone(member)
        super().__init__(replace(reading, landing=landing, key=f"{reading.key}/{self.label}", limit=None), entry.path)

    def key(self) -> tuple[object, ...]:
        """The archive, and which of its members the file is."""
        return (self._archive, self.label, *super().key())

    def ref(self, place: str) -> SourceRef:
        return SourceRef(self._member.path, f"{self.label}#{place}")

    def _place_of(self, path: str) -> str | None:
        """The member that a record names; None where there is none."""
        found = (posixpath.normpath(posixpath.join(self.home, base, path)) for base in self.bases)
        return next((one for one in found if one in self._names), None)

    def _missing(self, index: FileRecords) -> Iterator[tuple[str, str]]:
        for path in index.paths():
            if self.is_outside(path):
                yield path, f"the file {path[:200]} is outside of the directory of the {self.noun}"
            elif (place := self._place_of(path)) is None:
                yield path, f"the file {path[:200]} {self.absent}"
            elif not self._is_nearest_to(posixpath.dirname(place) or "."):
                yield path, f"the file {path[:200]} {self.nearer}"

    def _is_nearest_to(self, folder: str) -> bool:
        return True


class _Table(_InArchive, DescriptionTable):
    """A table by its name."""

    def __init__(self, reading: Reading, member: Member, names: MemberNames, homes: Collection[str]) -> None:
        """homes: the directories of all of them."""
        super().__init__(reading, member, names)
        self._homes = homes

    def _is_nearest_to(self, folder: str) -> bool:
        return _home_of(folder, self._homes) == self.home


class _Manifest(_InArchive, Manifest):
    """A manifest, whatever it is called."""

    absent = "is missing"

    def __init__(self, reading: Reading, member: Member, names: MemberNames, form: manifest_forms.Form) -> None:
        """form: how it is read."""
        super().__init__(reading, member, names)
        self._form = form

    @property
    def _may_have_ids(self) -> bool:
        return False

    def is_of_members(self) -> bool:
        """Whether one of its first records names a member."""
        found = (path for line in islice(self.lines(), _SOUGHT_RECORDS) for path in self._paths(line))
        return any(not self.is_outside(path) and self._place_of(path) is not None for path in found)

    def speaks(self) -> bool:
        good = (line.fields for line in islice(self.lines(), FIRST_RECORDS) if line.fault is None)
        return any(self.texts(fields, set()) for fields in good)

    def rest(self) -> Iterator[RawItem]:
        for item in super().rest():
            is_own = item.ref.path == self._member.path
            yield item if is_own else item.replace(ref=self.ref(item.ref.member or ""))


class InnerDescriptions(Companion):
    """What tables and manifests in an archive say of its other members."""

    def __init__(self, tables: Mapping[int, _Table], manifests: Mapping[int, _Manifest], *, is_whole: bool) -> None:
        """tables, manifests: by the number of the member. is_whole: whether all members of the archive are known."""
        self.own, self._is_whole = frozenset((*tables, *manifests)), is_whole
        self._tables = sorted(tables.values(), key=lambda table: table.reading.path)
        self._manifests = sorted(manifests.values(), key=lambda one: one.reading.path)
        self._speaks = {one.label: one.speaks() for one in (*self._tables, *self._manifests)}
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
        names: Callable[[], MemberNames],
        is_whole: bool,
    ) -> InnerDescriptions | None:
        """None where no member is such a file. may_be: the members that are called like one, by number."""
        found, others = dict[int, Member](), dict[int, tuple[Member, manifest_forms.Form]]()
        for at in may_be:
            member = member_at(at)
            if _begins_as_table(member):
                found[at] = member
            elif (form := _manifest_form(member)) is not None:
                others[at] = member, form
        by_home: dict[str, list[Entry]] = {}
        for path in sorted({_path_of(member.name) for member in found.values()}):
            by_home.setdefault(posixpath.dirname(path) or ".", []).append(Entry(path, 0, 0))
        counting = {entry.path for entries in by_home.values() for entry in describing(entries)}
        chosen = {at: member for at, member in found.items() if _path_of(member.name) in counting}
        if not chosen and not others:
            return None
        known = names()
        tables = {at: _Table(reading, member, known, by_home.keys()) for at, member in chosen.items()}
        manifests = {at: _Manifest(reading, member, known, form) for at, (member, form) in others.items()}
        manifests = {at: manifest for at, manifest in manifests.items() if manifest.is_of_members()}
        return cls(tables, manifests, is_whole=is_whole) if tables or manifests else None

    def describe(self, stem: str, members: Sequence[Member]) -> Description:
        """The words of the records as texts, everything else as metadata of the sample."""
        media = next((member for member in members if member.is_media), None)
        found = self._of(posixpath.dirname(_path_of(media.name)) or ".") if media is not None else None
        return found.describe(stem, members) if found is not None else Description()

    def _tables_of(self, folder: str) -> FileTables | None:
        """What is said of the members of a folder."""
        home = _home_of(folder, {table.home for table in self._tables})
        near = [table for table in self._tables if table.home == home]
        found: list[_InArchive] = [*near, *self._manifests]
        speaks = [self._speaks[one.label] for one in found]
        return FileTables(folder, found, with_texts=speaks) if found else None

    def rest(self) -> Iterator[RawItem]:
        """A row for every record of a file that the archive does not have, of none, or that is broken."""
        for one in (*self._tables, *self._manifests) if self._is_whole else ():
            yield from one.rest()


def _begins_as_table(member: Member) -> bool:
    """Whether the member is called like a table of descriptions, and begins as one."""
    base = member.name.rpartition("/")[2]
    if base not in places.TABLES or member.fault is not None or member.content is None or member.notes:
        return False
    try:
        return description_forms.claims(member.content.head(sniff.HEAD_BYTES), base)
    except UnreadableItem:
        return False  # its own row says why


def _manifest_form(member: Member) -> manifest_forms.Form | None:
    """How the member is read where it is a manifest by its first records, which name files by their names; else
    None."""
    if member.fault is not None or member.content is None or member.notes or member.is_media:
        return None
    form = manifest_forms.form_of_file(*_alone(member))
    return None if form is None or (form.columns is not None and form.columns.has_ids) else form


def _alone(member: Member) -> tuple[OneFile, Entry]:
    """The member as a landing zone of one file, and that file. Its compression is seen through where it is read."""
    content = member.content
    assert content is not None, "a file that can be read"
    entry = Entry(_path_of(member.name), member.size_bytes, 0)
    return OneFile(entry, content.raw or content.open), entry


def _path_of(name: str) -> str:
    return name.removeprefix("./")


def _home_of(folder: str, homes: Collection[str]) -> str | None:
    """The nearest of the directories, the folder itself or above it."""
    return next((above for above in places.upwards(folder) if above in homes), None)

"""Files of records that describe other files: tables of descriptions and manifests, however they are written. What they
say is in tables on disk, by the files that they name, so that memory stays small however many there are.

Media are the rows of their own directories, which ask here what is said of them. Such a file is a shard of its own,
whose rows are what no file took: records of missing files (1011), broken ones, and those that name no file.
"""

from __future__ import annotations

import json
import posixpath
import unicodedata
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from mmlake.errors import Fault, UnreadableItem
from mmlake.formats.texts import printable
from mmlake.landing import Entry
from mmlake.records import SourceRef, canonical_json
from mmlake.sources.companions import packed_media
from mmlake.sources.companions.archives import File
from mmlake.sources.companions.file_records import FILE_RECORDS, FileRecords, Record
from mmlake.sources.companions.placement import Placement
from mmlake.sources.companions.places import join
from mmlake.sources.names import MemberNames, composed
from mmlake.sources.raw_items import Member, RawItem, Reading, become_text
from mmlake.sources.records import fields as record_fields
from mmlake.sources.records.fields import TextField, licence_field
from mmlake.sources.records.lines import Line, with_bytes
from mmlake.sources.samples.companion import Companion, Description

_FURTHER = "further_records"  # in the metadata: records without words of a file of which others say something else
_CAPTIONS = ("prompt", "comment")  # fields that are captions where a record has no other text; Flickr30k has comments


class FileTable(ABC):
    """One file of records, as it is read through the shard that needs it."""

    noun: str  # what messages call it
    bases: tuple[str, ...] = (".",)  # where its files may lie, as seen from it
    has_own_fields: bool  # whether a text keeps the other fields of its record, where several records name one file
    nearer: str | None = None  # why a file that is there is not described; None: as one that is not there
    absent = "is missing"
    root: str | None = None  # where an archive counts as unpacked whose members are described; None: loose files are

    def __init__(self, reading: Reading, path: str) -> None:
        """reading: of the shard. path: of the file."""
        self.reading = replace(reading, path=path)
        self.entry, self.path = reading.landing.stat(path), path
        self.home = path.rpartition("/")[0] or "."

    @abstractmethod
    def lines(self) -> Iterator[Line]:
        """Its records."""

    @abstractmethod
    def names_in(self, fields: dict[str, Any]) -> list[str]:
        """The fields of a record that name files, and are no part of what it says."""

    @abstractmethod
    def paths_in(self, line: Line) -> Iterable[str]:
        """The files that a record names, as it spells them."""

    @abstractmethod
    def describes(self, directory: str, placement: Placement) -> bool:
        """Whether files of the directory are this file's to describe."""

    @abstractmethod
    def speaks(self) -> bool:
        """Whether its records have texts, as far as its first ones say."""

    @abstractmethod
    def rest(self) -> Iterator[RawItem]:
        """A row for every record that no file took."""

    def key(self) -> tuple[Hashable, ...]:
        """What its records depend on, besides the landing zone and the settings."""
        return (self.entry,)

    def texts(self, fields: dict[str, Any], present: set[str]) -> list[TextField]:
        """The texts of a record. present: the modalities of the media that it describes."""
        found = record_fields.text_fields(fields, present, settings=self.reading.settings)
        return found or self._said(fields)

    def _said(self, fields: dict[str, Any]) -> list[TextField]:
        """What a medium was made by, or is to be: it is the caption, as trainers of diffusion models have it. A prompt
        with an answer is a dialogue."""
        name = next((name for name in fields if name.lower() in _CAPTIONS), None)
        if name is None or not isinstance(fields[name], str) or self._dialogue(fields) is not None:
            return []
        return [TextField(name, None, fields[name], "caption")]

    def _dialogue(self, fields: dict[str, Any]) -> tuple[str, str] | None:
        """(the field that a dialogue begins in, its text); None of a record that holds none."""
        return record_fields.dialogue_of(fields, settings=self.reading.settings)

    def have_texts(self, records: Iterable[Record]) -> bool:
        """Whether one of these records has a text."""
        return any(self.texts(record.fields, set()) for record in records if record.fault is None)

    def ref(self, place: str) -> SourceRef:
        """The locator of a record, or of a text in it."""
        return SourceRef(self.reading.path, place)

    def is_outside(self, path: str) -> bool:
        """Whether a path cannot be below the directory of the file."""
        return path.startswith(("/", "../")) or path in (".", "..")

    @cached_property  # held as long as it is read: of more files than are kept each was else read for each medium
    def records(self) -> FileRecords:
        """Its records by the files that they name, read once for all directories and shards of one owner."""
        limits, landing = self.reading.settings, self.reading.landing.location
        key = (landing, *self.key(), limits.max_line_bytes, limits.max_json_values, limits.max_shard_bytes)
        return self.reading.parsed.get(
            FILE_RECORDS, key, lambda: FileRecords((line, self._paths(line)) for line in self.lines())
        )

    def _paths(self, line: Line) -> list[str]:
        """The files that a record names, each once, as paths from the file's directory."""
        paths = (posixpath.normpath(path.replace("\\", "/")) for path in self.paths_in(line))
        return list(dict.fromkeys(composed(path.encode("utf-8", "backslashreplace").decode()) for path in paths))

    def places(self, directory: str) -> list[str]:
        """What the directory may be called in its records. What lies in `images/coco` is `images/coco/a.jpg` to some,
        and `coco/a.jpg` to others."""
        if self.root is not None:
            directory = posixpath.normpath(join(self.root, directory))
        below = composed(posixpath.relpath(directory, self.home))
        shorter = (posixpath.relpath(below, base) for base in self.bases[1:] if f"{below}/".startswith(f"{base}/"))
        return [below, *shorter]

    def keys_of(self, name: str, places: Sequence[str]) -> list[str]:
        """What a file of that name may be called in its records. places: what its directory may be called."""
        return [posixpath.normpath(posixpath.join(place, name)) for place in places]

    def may_name_in(self, places: Sequence[str]) -> bool:
        """Whether its records may name files in a directory that is called so."""
        return any(place == "." or self.records.names_below(place) for place in places)

    def names(self, key: str) -> bool:
        """Whether a record has that name of a file."""
        return self.records.is_named(key)

    def left_over(self, *, is_any_needed: bool) -> Iterator[tuple[Record, Fault | None]]:
        """Every record that no file took, with what is wrong with it; nothing is with one that names no file.
        is_any_needed: where none of the files is there, all records count as naming none."""
        index = self.records
        index.note_missing(self._without_packed(self._missing(index)))
        is_list = is_any_needed and not index.is_any_there()
        for record in index.records():
            if record.fault is not None or not record.paths or is_list:
                yield record, record.fault
            elif record.missing is not None:
                yield record, Fault(1011, record.missing)

    def is_any_there(self) -> bool:
        """Whether a file that a record names is one that this file describes."""
        self.records.note_missing(self._without_packed(self._missing(self.records)))
        return self.records.is_any_there()

    def _without_packed(self, missing: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
        """Those of the missing files that are no members of archives either."""
        for path, why in missing:
            if self.is_outside(path) or path not in self._packed:
                yield path, why

    @cached_property
    def _packed(self) -> MemberNames:
        """What members of archives may be called in its records."""
        landing, table = self.reading.landing, self.entry
        placement, found = Placement(landing, self.reading.parsed), list[tuple[Entry, bool]]()
        if table is not None:
            for directory, entries in self.directories():
                placement.learn(directory, entries)
                found += placement.archives_of(table, directory)
        return packed_media.named_in(self, found, landing, limit_bytes=self.reading.settings.max_shard_bytes)

    def directories(self) -> Iterator[tuple[str, list[Entry]]]:
        """The directories in which what it describes may lie, with their files."""
        inside = "" if self.home == "." else f"{self.home}/"
        # one whose name is no UTF-8 lies below by its bytes alone: no path in the file leads there
        found = self.reading.landing.directories_below(self.home)
        return (one for one in found if f"{one[0]}/".startswith(inside))

    def _missing(self, index: FileRecords) -> Iterator[tuple[str, str]]:
        """(path in the file, why it is none of those that the file describes)."""
        placement, bases = Placement(self.reading.landing, self.reading.parsed), list(self.bases)
        listed: dict[str, tuple[frozenset[str], bool]] = {}  # by directory: names, whether they are ours to describe
        for path in index.paths():
            if self.is_outside(path):
                yield path, f"the file {path[:200]} is outside of the directory of the {self.noun}"
                continue
            found, why = None, self.absent
            for base in bases:
                directory = posixpath.normpath(posixpath.join(self.home, base, posixpath.dirname(path)))
                if directory not in listed:
                    if len(listed) > 2 * len(self.bases):
                        listed.clear()
                    names = frozenset(composed(printable(entry.name)) for entry in _files(placement, directory))
                    listed[directory] = names, bool(names) and self.describes(directory, placement)
                names, is_ours = listed[directory]
                if path.rpartition("/")[2] in names and is_ours:
                    found = base
                    break
                if path.rpartition("/")[2] in names and self.nearer is not None:
                    why = self.nearer
            if found is None:
                yield path, f"the file {path[:200]} {why}"
            else:  # where one file lies, the next ones do
                bases.insert(0, bases.pop(bases.index(found)))

    def row(self, record: Record, fault: Fault | None, *, mark: str = "") -> RawItem:
        """The row of a record that no file took. mark: behind the label of one whose locator names the whole of it."""
        ref = self.ref(f"{record.label}{mark}")
        name = f"{self.reading.key}/{record.label}"
        item = RawItem(modality="text", ref=ref, sample_id=name, role="document", fault=fault)
        if not record.body:
            return item
        return with_bytes(item, record.body if isinstance(record.body, bytes) else record.body.encode())

    def take(self, member: str, *, is_text_alone: bool) -> bytes:
        """The UTF-8 of the text, or of the record, that the locator names. is_text_alone: whether a label without a
        pointer is that of a record's first text. Raises UnreadableItem where the file no longer has it."""
        label, hash_mark, pointer = member.partition("#")
        body, is_whole = self.records.body(label), not hash_mark and not is_text_alone
        if isinstance(body, str) and body and not is_whole and (pointer or not hash_mark):
            for field in self.texts(json.loads(body), set()):
                if not hash_mark or field.pointer == pointer:
                    return field.text.encode()
        if body == "" and is_text_alone:
            body = "{}"  # a record without fields
        if body and not pointer:
            return body if isinstance(body, bytes) else body.encode()
        raise UnreadableItem(1001, f"{self.reading.path} no longer has the member {member!r}")


def _files(placement: Placement, directory: str) -> Sequence[File]:
    """The files of a directory whose name is spelled with its accents composed, or with marks of their own. The
    placement knows the former: whether they are described is asked next, and a listing may be a request."""
    if found := placement.files(directory):
        placement.learn(directory, found)
    return found if found or directory.isascii() else placement.files(unicodedata.normalize("NFD", directory))


class FileTables(Companion):
    """What files of records say of the files of one directory. What no file took is in their own shards."""

    def __init__(self, directory: str, tables: Sequence[FileTable], *, with_texts: Sequence[bool]) -> None:
        """with_texts: whether each table's records have texts."""
        self._directory, self._tables = directory, list(zip(tables, with_texts, strict=True))
        self.has_texts = any(with_texts)

    def describe(self, stem: str, members: Sequence[Member]) -> Description:
        """The words of the records as texts, everything else as metadata of the sample, that of the first record before
        all others. What a table repeats of another one is said once."""
        texts, metadata, licence, before = list[RawItem](), dict[str, Any](), None, set[tuple[str, str, str]]()
        further: list[dict[str, Any]] = []
        present = {member.modality for member in members if member.is_media and member.modality}
        for table, has_texts in self._tables:
            said = set[tuple[str, str, str]]()
            for record in self._records_of(table, members):
                fields = record.fields
                found = table.texts(fields, present) if has_texts else []
                rest = record_fields.without(fields, {*table.names_in(fields), *record_fields.taken(found)})
                own = rest if table.has_own_fields else {}
                if not found and any(name in metadata and metadata[name] != value for name, value in own.items()):
                    further.append(own)
                as_text = canonical_json(own) if found else ""
                for field in found:
                    said.add((field.role, field.text, as_text))
                    if (field.role, field.text, as_text) not in before:
                        ref = table.ref(f"{record.label}#{field.pointer}")
                        blank = RawItem(modality="text", ref=ref, sample_id="", own=own)
                        texts.append(become_text(blank, field.text, field.role))
                if table.has_own_fields:
                    # a dialogue is of its text; who spoke when is of the recording
                    rest = record_fields.without(rest, {one.name for one in found if one.role != "transcript"})
                metadata = {**rest, **metadata}
                licence = licence or licence_field(fields, table.reading.settings)
            before |= said
        if further:
            metadata[_FURTHER] = further
        return Description(texts=tuple(texts), metadata=metadata, licence=licence)

    def _records_of(self, table: FileTable, members: Sequence[Member]) -> Iterator[Record]:
        """The records that name these files, in whatever spelling."""
        index, places = table.records, table.places(self._directory)
        names = [member.name.rpartition("/")[2] for member in members]  # of an archive's members without their folder
        for key in dict.fromkeys(key for name in names for key in table.keys_of(composed(printable(name)), places)):
            yield from index.of(key)

    def name_each_alone(self, names: Sequence[str]) -> bool:
        """Whether records name each of these files, and none names two of them: then they belong to different ones."""
        counts = Counter[tuple[int, str]]()
        for name in names:
            found = {
                (at, record.label)
                for at, (table, _) in enumerate(self._tables)
                for key in table.keys_of(composed(printable(name)), table.places(self._directory))
                for record in table.records.of(key)
            }
            if not found:
                return False
            counts.update(found)
        return max(counts.values()) == 1

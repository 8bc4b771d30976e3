"""Files of records that describe other files: tables of descriptions and manifests, however they are written.

Media are the rows of their own directories, which ask here what is said of them. Such a file is a shard of its own,
whose rows are what no file took: records of missing files (1011), broken ones, and those that name no file.
"""

from __future__ import annotations

import json
import posixpath
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from mmlake.errors import Fault, UnreadableItem
from mmlake.formats.texts import printable
from mmlake.records import SourceRef, canonical_json
from mmlake.sources.companions.file_records import FILE_RECORDS, FileRecords, Record
from mmlake.sources.companions.placement import Placement
from mmlake.sources.raw_items import Member, RawItem, Reading, become_text, licence_field
from mmlake.sources.records import fields as record_fields
from mmlake.sources.records.fields import TextField
from mmlake.sources.records.lines import Line
from mmlake.sources.records.rows import with_bytes
from mmlake.sources.samples.companion import Companion, Description

_FURTHER = "further_records"  # in the metadata: records without words of a file of which others say something else


class FileTable(ABC):
    """One file of records, as it is read through the shard that needs it."""

    noun: str  # what messages call it
    bases: tuple[str, ...] = (".",)  # where its files may lie, as seen from it
    has_own_fields: bool  # whether a text keeps the other fields of its record, where several records name one file
    nearer: str | None = None  # why a file that is there is not described; None: as one that is not there
    absent = "is missing"

    def __init__(self, reading: Reading, path: str) -> None:
        """reading: of the shard. path: of the file."""
        self.reading = replace(reading, path=path)
        self.entry = reading.landing.stat(path)
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

    def key(self) -> tuple[Hashable, ...]:
        """What its records depend on, besides the landing zone and the settings."""
        return (self.entry,)

    def texts(self, fields: dict[str, Any], present: set[str]) -> list[TextField]:
        """The texts of a record. present: the modalities of the media that it describes."""
        return record_fields.text_fields(fields, present, settings=self.reading.settings)

    def have_texts(self, records: Iterable[Record]) -> bool:
        """Whether one of these records has a text."""
        return any(self.texts(record.fields, set()) for record in records if record.fault is None)

    def is_outside(self, path: str) -> bool:
        """Whether a path cannot be below the directory of the file."""
        return path.startswith(("/", "../")) or path in (".", "..")

    @property
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
        return list(dict.fromkeys(path.encode("utf-8", "backslashreplace").decode() for path in paths))

    def places(self, directory: str) -> list[str]:
        """What the directory may be called in its records. What lies in `images/coco` is `images/coco/a.jpg` to some,
        and `coco/a.jpg` to others."""
        below = posixpath.relpath(directory, self.home)
        shorter = (posixpath.relpath(below, base) for base in self.bases[1:] if f"{below}/".startswith(f"{base}/"))
        return [below, *shorter]

    def left_over(self, *, is_any_needed: bool) -> Iterator[tuple[Record, Fault | None]]:
        """Every record that no file took, with what is wrong with it; nothing is with one that names no file.
        is_any_needed: where none of the files is there, all records count as naming none."""
        index = self.records
        index.note_missing(self._missing(index))
        is_list = is_any_needed and not index.is_any_there()
        for record in index.records():
            if record.fault is not None or not record.paths or is_list:
                yield record, record.fault
            elif record.missing is not None:
                yield record, Fault(1011, record.missing)

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
                    names = frozenset(printable(entry.name) for entry in placement.files(directory))
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
        ref = SourceRef(self.reading.path, f"{record.label}{mark}")
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
                        ref = SourceRef(table.reading.path, f"{record.label}#{field.pointer}")
                        blank = RawItem(modality="text", ref=ref, sample_id="", own=own)
                        texts.append(become_text(blank, field.text, field.role))
                if table.has_own_fields:
                    rest = record_fields.without(rest, {field.name for field in found})
                metadata = {**rest, **metadata}
                licence = licence or licence_field(fields, table.reading.settings)
            before |= said
        if further:
            metadata[_FURTHER] = further
        return Description(texts=tuple(texts), metadata=metadata, licence=licence)

    def _records_of(self, table: FileTable, members: Sequence[Member]) -> Iterator[Record]:
        """The records that name these files, in whatever spelling."""
        index, places = table.records, table.places(self._directory)
        for member in members:
            for place in places:
                yield from index.of(posixpath.normpath(posixpath.join(place, printable(member.name))))

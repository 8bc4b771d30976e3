"""Tables that describe the files beside and below them: `metadata.csv`, `metadata.tsv` and `metadata.jsonl`, as folders
of images or recordings for the library `datasets` have them, and those of some corpora (`dialects.py`).

A record names its file, relative to the table, in `file_name` or in fields that end in it. Its texts are texts of the
file's sample, its other fields metadata. Such a table is a shard of its own, whose rows are what no file took: records
whose file is missing, and broken ones.
"""

from __future__ import annotations

import csv
import json
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mmlake.errors import Fault, UnreadableItem
from mmlake.formats import sniff
from mmlake.formats.texts import printable
from mmlake.landing import Entry
from mmlake.records import SourceRef
from mmlake.sources.companions.dialects import TABLES, Form, dialect_of, form_of
from mmlake.sources.companions.file_records import Index, Record, index_of, kept
from mmlake.sources.companions.placement import DESCRIPTIONS, Around
from mmlake.sources.raw_items import Member, RawItem, Reading, become_text, licence_field
from mmlake.sources.records import fields as record_fields
from mmlake.sources.records import lines as record_lines
from mmlake.sources.samples.companion import Description

_NAME = "file_name"
_ENDINGS = ("file_name", "file_names")


def claims(head: bytes, name: str) -> bool:
    """Whether a file of this name is such a table: its name says so, and its first record or its line of names has a
    field for files."""
    if dialect_of(head, name) is not None:
        return True
    if name not in DESCRIPTIONS:
        return False
    first = head.removeprefix(b"\xef\xbb\xbf").lstrip().partition(b"\n")[0].decode("utf-8", "replace")
    try:
        if name.endswith(".jsonl"):
            fields = json.loads(first)
            return isinstance(fields, dict) and bool(_naming(fields))
        return bool(
            _naming(
                [
                    cell.strip()
                    for cell in next(csv.reader([first], delimiter="\t" if name.endswith(".tsv") else ","), [])
                ]
            )
        )
    except (ValueError, RecursionError, csv.Error):
        return False


def modalities(reading: Reading) -> tuple[str, ...]:
    """Always text: media are told of in their own directories."""
    return ("text",)


def items(reading: Reading) -> Iterator[RawItem]:
    """A row for every record that no file took."""
    index = _index_of(reading, _form_of(reading))
    index.tell_missing(_missing(index, reading))
    for record in index.records():
        blank = RawItem(
            modality="text",
            ref=SourceRef(path=reading.path, member=record.label),
            sample_id=f"{reading.key}/{record.label}",
            role="document",
        )
        if record.fault is not None:
            yield blank.replace(fault=record.fault, **kept(record.body))
        elif not record.paths:
            yield blank.replace(fault=Fault(1003, f"the record names no file in {_NAME!r}"), **kept(record.body))
        elif record.missing is not None:
            yield blank.replace(fault=Fault(1011, record.missing), **kept(record.body))


def take(reading: Reading, ref: SourceRef) -> bytes:
    """The UTF-8 of the text, or of the record, that the locator names. Raises UnreadableItem where the file no
    longer has it."""
    label, hash_mark, pointer = (ref.member or "").partition("#")
    body = _index_of(reading, _form_of(reading)).body(label)
    if body and not hash_mark:
        return body if isinstance(body, bytes) else body.encode()
    for field in (
        record_fields.text_fields(json.loads(body), (), settings=reading.settings)
        if isinstance(body, str) and body
        else ()
    ):
        if field.pointer == pointer:
            return field.text.encode()
    raise UnreadableItem(1001, f"{ref.path} no longer has the member {ref.member!r}")


class Described:
    """What tables say of the files of one directory."""

    def __init__(self, reading: Reading, tables: Sequence[Entry]) -> None:
        self._reading, self._tables = reading, [_Table(reading, table) for table in tables]
        self.has_texts = any(table.has_texts for table in self._tables)

    def describe(self, stem: str, members: Sequence[Member]) -> Description:
        """The texts of the records as texts, everything else as metadata of the sample. What a table repeats of
        another one is told once."""
        texts, metadata, licence, before = list[RawItem](), dict[str, Any](), None, set[tuple[str, str]]()
        present = {member.modality for member in members if member.is_media and member.modality}
        for table in self._tables:
            said = set[tuple[str, str]]()
            for record in table.records_of(members):
                fields = json.loads(record.body)
                found = (
                    record_fields.text_fields(fields, present, settings=self._reading.settings)
                    if table.has_texts
                    else []
                )
                for field in found:
                    said.add((field.role, field.text))
                    if (field.role, field.text) not in before:
                        ref = SourceRef(path=table.entry.path, member=f"{record.label}#{field.pointer}")
                        texts.append(
                            become_text(RawItem(modality="text", ref=ref, sample_id=""), field.text, field.role)
                        )
                metadata = {
                    **record_fields.without(fields, {*_naming(fields), *record_fields.taken(found)}),
                    **metadata,
                }
                licence = licence or licence_field(fields, self._reading.settings)
            before |= said
        return Description(texts=tuple(texts), metadata=metadata, licence=licence)

    def rest(self) -> Iterator[RawItem]:
        """Nothing: what no file took is told by the table's own shard."""
        return iter(())


class _Table:
    """One table, as far as it describes the files of one directory."""

    def __init__(self, reading: Reading, entry: Entry) -> None:
        self.entry = entry
        self._reading = replace(reading, path=entry.path)
        self._form = _form_of(self._reading)
        self._below = posixpath.relpath(reading.path, entry.path.rpartition("/")[0] or ".")
        first = next((record for record in self._index().records() if record.fault is None), None)
        self.has_texts = first is not None and bool(
            record_fields.text_fields(json.loads(first.body), (), settings=reading.settings)
        )

    def _index(self) -> Index:
        return _index_of(self._reading, self._form)

    def records_of(self, members: Sequence[Member]) -> Iterator[Record]:
        """The records that name these files."""
        index = self._index()
        for member in members:
            yield from index.of(posixpath.normpath(posixpath.join(self._below, printable(member.name))))


def described(reading: Reading) -> Described | None:
    """What is said of the files that are read, or None where no table describes them."""
    tables = [
        entry
        for entry in reading.around
        if _may_describe(entry) and claims(reading.landing.head(entry.path, sniff.HEAD_BYTES), entry.name)
    ]
    return Described(reading, tables) if tables else None


def _may_describe(entry: Entry) -> bool:
    return (entry.name in DESCRIPTIONS or entry.name in TABLES) and entry.refused is None


def _form_of(reading: Reading) -> Form:
    return form_of(reading.landing, reading.path, reading.landing.head(reading.path, sniff.HEAD_BYTES))


def _lines(reading: Reading, form: Form) -> Iterator[record_lines.Line]:
    """The table's records, each with the field that names its file."""
    dialect = form.dialect
    if dialect is None:
        yield from record_lines.lines(reading)
        return
    for line in record_lines.separated_lines(reading, dialect.delimiter, dialect.names):
        given = line.fields.get(dialect.file_field)
        yield line if given is None else replace(line, fields={**line.fields, _NAME: form.file_name(given)})


def _missing(index: Index, reading: Reading) -> Iterator[tuple[str, str]]:
    """(path in the table, why it is none of the files that the table describes)."""
    around, home = Around(reading.landing), reading.path.rpartition("/")[0] or "."
    at, names, is_other = "", set[str](), False
    for path in index.paths():
        if path.startswith(("/", "../")) or path in (".", ".."):
            yield path, f"the file {path[:200]} is outside of the directory of the table"
            continue
        directory = posixpath.normpath(posixpath.join(home, posixpath.dirname(path)))
        if directory != at:
            at, names = directory, {printable(entry.name) for entry in reading.landing.files(directory)}
            is_other = bool(names) and reading.landing.stat(reading.path) not in around.descriptions_of(directory)
        if path.rpartition("/")[2] not in names:
            yield path, f"the file {path[:200]} is missing"
        elif is_other:
            yield path, f"the file {path[:200]} is described by a table that lies nearer to it"


def _naming(fields: Mapping[str, Any] | Sequence[str]) -> list[str]:
    """The fields that name files."""
    return [_NAME] if _NAME in fields else [name for name in fields if name.lower().endswith(_ENDINGS)]


def _paths(fields: Mapping[str, Any]) -> list[str]:
    """The files that a record names, each once."""
    given = [
        value
        for name in _naming(fields)
        for value in (fields[name] if isinstance(fields[name], list) else [fields[name]])
    ]
    paths = [
        posixpath.normpath(value.strip().replace("\\", "/"))
        for value in given
        if isinstance(value, str) and value.strip()
    ]
    return list(dict.fromkeys(path.encode("utf-8", "backslashreplace").decode() for path in paths))


def _index_of(reading: Reading, form: Form) -> Index:
    """The index of the table, made once for all directories that this process reads one after the other."""
    entry = reading.landing.stat(reading.path)
    return index_of(
        (entry, form), reading, lambda: Index((line, _paths(line.fields)) for line in _lines(reading, form))
    )

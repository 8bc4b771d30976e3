"""What tables say of files next to and below them (`description_forms.py`): `metadata.csv`, `.tsv`, `.jsonl` and
`.parquet`, as folders of images or recordings for the library `datasets` have them, and those of some corpora.

A record names its file, relative to the table, in `file_name` or in fields that end in it. Its texts are texts of the
file's sample, its other fields metadata. A table is a shard of its own, too: of every record that no file took, since
its file is missing, it names none, or it is broken.
"""

from __future__ import annotations

import posixpath
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

from mmlake.errors import Fault
from mmlake.formats import sniff
from mmlake.landing import Entry, Landing
from mmlake.records import SourceRef
from mmlake.sources.companions import description_forms, parquet_descriptions, places
from mmlake.sources.companions.description_forms import NAME, Dialect, dialect_of, naming
from mmlake.sources.companions.file_tables import FileTable, FileTables
from mmlake.sources.companions.placement import Placement
from mmlake.sources.companions.places import PARQUET, TABLES
from mmlake.sources.companions.siblings import Siblings
from mmlake.sources.raw_items import RawItem, Reading
from mmlake.sources.records.lines import Line, lines, separated_lines, text_alone

modalities = text_alone


def claims(head: bytes, name: str) -> bool:
    """Whether these are the first bytes of such a table."""
    return parquet_descriptions.begins_as_parquet(head) if name == PARQUET else description_forms.claims(head, name)


def is_kept(name: str, siblings: Siblings) -> bool:
    """Whether a file that is claimed is one by its columns, where those are Parquet's."""
    return name != PARQUET or siblings.have_description(name)


class Form(NamedTuple):
    """How one table is read."""

    dialect: Dialect | None = None  # None: as the library `datasets` has tables
    directory: str = "."  # where the files lie

    def file_name(self, given: str) -> str:
        """The file that a record names, as seen from the table."""
        assert self.dialect is not None
        is_whole = "." in given.rpartition("/")[2]
        return posixpath.join(self.directory, given if is_whole else given + self.dialect.extension)


def items(reading: Reading) -> Iterator[RawItem]:
    """A row for every record of the shard's table that no file took."""
    yield from DescriptionTable(reading, reading.path).rest()


def take(reading: Reading, ref: SourceRef) -> bytes:
    """The UTF-8 of the text, or of the record, that the locator names. Raises UnreadableItem where the file no
    longer has it."""
    return DescriptionTable(reading, reading.path).take(ref.member or "", is_text_alone=False)


def descriptions_of(reading: Reading) -> FileTables | None:
    """What is said of the files that are read, or None where no table describes them."""
    tables = [DescriptionTable(reading, entry.path) for entry in _nearest(reading.around, reading)]
    return FileTables(reading.path, tables, with_texts=[table.speaks() for table in tables]) if tables else None


def _nearest(found: Iterable[Entry], reading: Reading) -> list[Entry]:
    """The tables of the nearest directory that has any. found: files of one directory and of those above it."""
    by_home: dict[str, list[Entry]] = {}
    for entry in found:
        if entry.name in TABLES:
            by_home.setdefault(entry.path.rpartition("/")[0], []).append(entry)
    each = (
        [one for one in by_home[home] if _is_table(one, reading)] for home in sorted(by_home, key=len, reverse=True)
    )
    return next((tables for tables in each if tables), [])


def _is_table(entry: Entry, reading: Reading) -> bool:
    if entry.name == PARQUET:
        return parquet_descriptions.is_description(
            reading.landing, entry, settings=reading.settings, parsed=reading.parsed
        )
    may_be = entry.name in TABLES and entry.refused is None
    return may_be and claims(reading.landing.head(entry.path, sniff.HEAD_BYTES), entry.name)


class DescriptionTable(FileTable):
    """One table of descriptions."""

    noun = "table"
    has_own_fields = False
    nearer = "is described by a table that lies nearer to it"

    def __init__(self, reading: Reading, path: str) -> None:
        super().__init__(reading, path)
        self._form = self._found_form(reading.landing)

    def _found_form(self, landing: Landing) -> Form:
        """How the table is read. Its files lie where the first of them does that a record names."""
        path = self.reading.path
        dialect = dialect_of(landing.head(path, sniff.HEAD_BYTES), path.rpartition("/")[2])
        if dialect is None:
            return Form()
        good = (line for line in separated_lines(self.reading, dialect.delimiter, dialect.names) if line.fault is None)
        given = next((line.fields for line in good), {}).get(dialect.file_field, "")
        forms = [Form(dialect, directory) for directory in dialect.directories]
        for form in forms if given else ():
            place = posixpath.normpath(posixpath.join(self.home, form.file_name(given)))
            if places.may_exist(place) and landing.stat(place) is not None:
                return form
        return forms[0]

    def key(self) -> tuple[Hashable, ...]:
        """The file, and where the files that it names lie."""
        return (self.entry, self._form)

    def speaks(self) -> bool:
        """Whether its first good record has texts; where that has none, later texts are metadata."""
        good = (record for record in self.records.records() if record.fault is None)
        return self.have_texts(islice(good, 1))

    def rest(self) -> Iterator[RawItem]:
        """A row for every record that no file took."""
        for record, fault in self.left_over(is_any_needed=False):
            yield self.row(record, fault or Fault(1003, f"the record names no file in {NAME!r}"))

    def lines(self) -> Iterator[Line]:
        """Its records, each with the field that names its file."""
        dialect = self._form.dialect
        if dialect is None:
            yield from lines(self.reading)
            return
        for line in separated_lines(self.reading, dialect.delimiter, dialect.names):
            given = line.fields.get(dialect.file_field)
            yield line if given is None else replace(line, fields={**line.fields, NAME: self._form.file_name(given)})

    def names_in(self, fields: dict[str, Any]) -> list[str]:
        """All fields that name files."""
        return naming(fields)

    def paths_in(self, line: Line) -> Iterable[str]:
        """Texts in the fields that name files, and in lists of them."""
        given = (line.fields[name] for name in naming(line.fields))
        each = (one for value in given for one in (value if isinstance(value, list) else [value]))
        return (one.strip() for one in each if isinstance(one, str) and one.strip())

    def describes(self, directory: str, placement: Placement) -> bool:
        """Whether no table is nearer to the directory."""
        found: Sequence[Entry] = placement.descriptions_of(directory)
        if any(entry.name == PARQUET for entry in found):  # else nothing is opened for each of many directories
            found = _nearest(found, self.reading)
        return self.entry in found

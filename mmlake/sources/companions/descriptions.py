"""Tables that describe files next to and below them: `metadata.csv`, `metadata.tsv` and `metadata.jsonl`, as folders
of images or recordings for the library `datasets` have them, and those of some corpora: Common Voice's `train.tsv`,
LJSpeech's `metadata.csv`, Flickr's `captions.txt`, which become such records.

A record names its file, relative to the table, in `file_name` or in fields that end in it. Its texts are texts of the
file's sample, its other fields metadata. A table is a shard of its own, too: of every record that no file took, since
its file is missing, it names none, or it is broken.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple

from mmlake.errors import Fault
from mmlake.formats import sniff
from mmlake.formats.json_elements import BOM
from mmlake.landing import Entry, Landing
from mmlake.records import SourceRef
from mmlake.sources.companions import places
from mmlake.sources.companions.file_tables import FileTable, FileTables
from mmlake.sources.companions.placement import Placement
from mmlake.sources.companions.places import COMMON_VOICE, DESCRIPTIONS, FLICKR, TABLES
from mmlake.sources.raw_items import RawItem, Reading
from mmlake.sources.records.lines import Line, lines, separated_lines, text_alone
from mmlake.sources.records.separated_values import first_cells

NAME = "file_name"
_ENDINGS = ("file_name", "file_names")
_LINE_CHARS = 4096  # of a first line that are read
modalities = text_alone


@dataclass(frozen=True, slots=True)
class Dialect:
    """The form of one kind of table."""

    tables: tuple[str, ...]  # names of the files; all of a directory count
    file_field: str  # names the file, with or without its extension
    text_field: str
    directories: tuple[str, ...]  # where the files lie, as seen from the table; the first that holds the first of them
    extension: str  # of a file that is named without one
    delimiter: str
    names: tuple[str, ...] = ()  # of the cells, where no line says so

    def matches(self, first_line: str) -> bool:
        """Whether a table of this kind begins so."""
        cells = _cells_of(first_line, self.delimiter)
        if not self.names:
            return {self.file_field, self.text_field} <= set(cells)
        is_name = bool(cells) and cells[0] != "" and cells[0].isprintable() and not set(cells[0]) & set(" ,;\"'/\\")
        return is_name and len(cells) in (2, len(self.names))


_COMMON_VOICE = Dialect(COMMON_VOICE, "path", "sentence", ("clips", "."), ".mp3", "\t")
_LJSPEECH = Dialect(("metadata.csv",), "id", "text", ("wavs", "."), ".wav", "|", ("id", "text", "normalized_text"))
_FLICKR = Dialect(FLICKR, "image", "caption", ("Images", "images", "."), ".jpg", ",")
_ALL = (_COMMON_VOICE, _LJSPEECH, _FLICKR)
_BY_NAME = {name: [dialect for dialect in _ALL if name in dialect.tables] for one in _ALL for name in one.tables}


class Form(NamedTuple):
    """How one table is read."""

    dialect: Dialect | None = None  # None: as the library `datasets` has tables
    directory: str = "."  # where the files lie

    def file_name(self, given: str) -> str:
        """The file that a record names, as seen from the table."""
        assert self.dialect is not None
        is_whole = "." in given.rpartition("/")[2]
        return posixpath.join(self.directory, given if is_whole else given + self.dialect.extension)


def _dialect_of(head: bytes, name: str) -> Dialect | None:
    """The dialect of a table with this name and these first bytes."""
    dialects = _BY_NAME.get(name, ())  # none for nearly every file
    return next((dialect for dialect in dialects if dialect.matches(_first_line(head))), None)


def _first_line(head: bytes) -> str:
    return head.removeprefix(BOM).partition(b"\n")[0][:_LINE_CHARS].decode("utf-8", "replace").rstrip("\r")


def _cells_of(line: str, delimiter: str) -> list[str]:
    return first_cells(line, delimiter, has_quotes=delimiter == ",")


def claims(head: bytes, name: str) -> bool:
    """Whether a file of this name is such a table: its name says so, and its first record or its line of names has a
    field for files."""
    if _dialect_of(head, name) is not None:
        return True
    if name not in DESCRIPTIONS:
        return False
    first = head.removeprefix(BOM).lstrip().partition(b"\n")[0].decode("utf-8", "replace")
    if not name.endswith(".jsonl"):
        return bool(_naming(first_cells(first, "\t" if name.endswith(".tsv") else ",", has_quotes=True)))
    try:
        fields = json.loads(first)
    except (ValueError, RecursionError):
        return False
    return isinstance(fields, dict) and bool(_naming(fields))


def items(reading: Reading) -> Iterator[RawItem]:
    """A row for every record of the shard's table that no file took."""
    table = DescriptionTable(reading, reading.path)
    for record, fault in table.left_over(is_any_needed=False):
        yield table.row(record, fault or Fault(1003, f"the record names no file in {NAME!r}"))


def take(reading: Reading, ref: SourceRef) -> bytes:
    """The UTF-8 of the text, or of the record, that the locator names. Raises UnreadableItem where the file no
    longer has it."""
    return DescriptionTable(reading, reading.path).take(ref.member or "", is_text_alone=False)


def descriptions_of(reading: Reading) -> FileTables | None:
    """What is said of the files that are read, or None where no table describes them."""
    tables = [DescriptionTable(reading, entry.path) for entry in reading.around if _is_table(entry, reading)]
    good = ((record for record in table.records.records() if record.fault is None) for table in tables)
    with_texts = [table.have_texts(islice(records, 1)) for table, records in zip(tables, good, strict=True)]
    return FileTables(reading.path, tables, with_texts=with_texts) if tables else None


def _is_table(entry: Entry, reading: Reading) -> bool:
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
        dialect = _dialect_of(landing.head(path, sniff.HEAD_BYTES), path.rpartition("/")[2])
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
        return _naming(fields)

    def paths_in(self, line: Line) -> Iterable[str]:
        """Texts in the fields that name files, and in lists of them."""
        given = (line.fields[name] for name in _naming(line.fields))
        each = (one for value in given for one in (value if isinstance(value, list) else [value]))
        return (one.strip() for one in each if isinstance(one, str) and one.strip())

    def describes(self, directory: str, placement: Placement) -> bool:
        """Whether no table is nearer to the directory."""
        return self.entry in placement.descriptions_of(directory)


def _naming(fields: Mapping[str, Any] | Sequence[str]) -> list[str]:
    """The fields that name files."""
    return [NAME] if NAME in fields else [name for name in fields if name.lower().endswith(_ENDINGS)]

"""Tables that describe files next to and below them: `metadata.csv`, `metadata.tsv` and `metadata.jsonl`, as folders
of images or recordings for the library `datasets` have them, and those of some corpora (`dialects.py`).

A record names its file, relative to the table, in `file_name` or in fields that end in it. Its texts are texts of the
file's sample, its other fields metadata.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from mmlake.formats import sniff
from mmlake.landing import Entry
from mmlake.sources.companions.dialects import TABLES, dialect_of, form_of
from mmlake.sources.companions.file_tables import FileTable, FileTables
from mmlake.sources.companions.placement import Placement
from mmlake.sources.companions.places import DESCRIPTIONS
from mmlake.sources.raw_items import Reading
from mmlake.sources.records.lines import Line, lines, separated_lines
from mmlake.sources.records.separated_values import first_cells

NAME = "file_name"
_ENDINGS = ("file_name", "file_names")


def claims(head: bytes, name: str) -> bool:
    """Whether a file of this name is such a table: its name says so, and its first record or its line of names has a
    field for files."""
    if dialect_of(head, name) is not None:
        return True
    if name not in DESCRIPTIONS:
        return False
    first = head.removeprefix(b"\xef\xbb\xbf").lstrip().partition(b"\n")[0].decode("utf-8", "replace")
    if not name.endswith(".jsonl"):
        return bool(_naming(first_cells(first, "\t" if name.endswith(".tsv") else ",", has_quotes=True)))
    try:
        fields = json.loads(first)
    except (ValueError, RecursionError):
        return False
    return isinstance(fields, dict) and bool(_naming(fields))


def descriptions_of(reading: Reading) -> FileTables | None:
    """What is said of the files that are read, or None where no table describes them."""
    tables = [DescriptionTable(reading, entry.path) for entry in reading.around if _is_table(entry, reading)]
    with_texts = [
        table.have_texts(islice((record for record in table.records.records() if record.fault is None), 1))
        for table in tables
    ]
    return FileTables(reading.path, tables, with_texts=with_texts) if tables else None


def _is_table(entry: Entry, reading: Reading) -> bool:
    may_be = (entry.name in DESCRIPTIONS or entry.name in TABLES) and entry.refused is None
    return may_be and claims(reading.landing.head(entry.path, sniff.HEAD_BYTES), entry.name)


class DescriptionTable(FileTable):
    """One table of descriptions."""

    noun = "table"
    has_own_fields = False
    nearer = "is described by a table that lies nearer to it"

    def __init__(self, reading: Reading, path: str) -> None:
        super().__init__(reading, path)
        self._form = form_of(reading.landing, path, reading.landing.head(path, sniff.HEAD_BYTES))

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

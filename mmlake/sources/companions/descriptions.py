"""What tables say of files next to and below them (`description_forms.py`): `metadata.csv`, `.tsv`, `.jsonl` and
`.parquet`, as folders of images or recordings for the library `datasets` have them, and those of some corpora.

A record names its file, relative to the table, in `file_name` or in fields that end in it. Its texts are texts of the
file's sample, its other fields metadata. A table is a shard of its own, too: of every record that no file took, since
its file is missing, it names none, or it is broken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from mmlake.errors import Fault
from mmlake.formats import sniff
from mmlake.landing import Entry
from mmlake.records import SourceRef
from mmlake.sources.companions import description_forms
from mmlake.sources.companions.description_forms import NAME, dialect_of, naming
from mmlake.sources.companions.file_tables import FileTable, FileTables
from mmlake.sources.companions.placement import Placement
from mmlake.sources.companions.places import PARQUET, TABLES
from mmlake.sources.companions.siblings import Siblings
from mmlake.sources.raw_items import RawItem, Reading
from mmlake.sources.records.lines import Line, lines, separated_lines, text_alone

claims, modalities = description_forms.claims, text_alone


def is_kept(name: str, siblings: Siblings) -> bool:
    """Whether a file that is claimed is one by its columns, where those are Parquet's."""
    return name != PARQUET or siblings.have_description(name)


def items(reading: Reading) -> Iterator[RawItem]:
    """A row for every record of the shard's table that no file took."""
    yield from DescriptionTable(reading, reading.path).rest()


def take(reading: Reading, ref: SourceRef) -> bytes:
    """The UTF-8 of the text, or of the record, that the locator names. Raises UnreadableItem where the file no
    longer has it."""
    return DescriptionTable(reading, reading.path).take(ref.member or "", is_text_alone=False)


def descriptions_of(reading: Reading) -> FileTables | None:
    """What is said of the files that are read, or None where no table describes them."""
    tables = tables_among(reading)
    return FileTables(reading.path, tables, with_texts=[table.speaks() for table in tables]) if tables else None


def tables_among(reading: Reading) -> list[DescriptionTable]:
    """The tables among the files around that describe what is read."""
    return [DescriptionTable(reading, entry.path) for entry in _nearest(reading.around, reading)]


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
        return description_forms.is_parquet_description(
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
        self._dialect = dialect_of(reading.landing.head(path, sniff.HEAD_BYTES), path.rpartition("/")[2])
        if self._dialect is not None:
            self.bases = self._dialect.bases

    def speaks(self) -> bool:
        """Whether its first good record has texts; where that has none, later texts are metadata."""
        good = (record for record in self.records.records() if record.fault is None)
        return self.have_texts(islice(good, 1))

    def rest(self) -> Iterator[RawItem]:
        """A row for every record that no file took."""
        for record, fault in self.left_over(is_any_needed=False):
            yield self.row(record, fault or Fault(1003, f"the record names no file in {NAME!r}"))

    def lines(self) -> Iterator[Line]:
        """Its records."""
        if self._dialect is None:
            return lines(self.reading)
        return separated_lines(self.reading, self._dialect.delimiter, self._dialect.names)

    def names_in(self, fields: dict[str, Any]) -> list[str]:
        """All fields that name files, but of a dialect, which may name them by ids."""
        return naming(fields) if self._dialect is None else []

    def paths_in(self, line: Line) -> Iterable[str]:
        """Texts in the fields that name files, and in lists of them."""
        if self._dialect is not None:
            return self._dialect.paths_in(line.fields)
        given = (line.fields[name] for name in naming(line.fields))
        each = (one for value in given for one in (value if isinstance(value, list) else [value]))
        return (one.strip() for one in each if isinstance(one, str) and one.strip())

    def describes(self, directory: str, placement: Placement) -> bool:
        """Whether no table is nearer to the directory."""
        found: Sequence[Entry] = placement.descriptions_of(directory)
        if any(entry.name == PARQUET for entry in found):  # else nothing is opened for each of many directories
            found = _nearest(found, self.reading)
        return self.entry in found

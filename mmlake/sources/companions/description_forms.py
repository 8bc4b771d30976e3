"""Which tables describe the files next to and below them, by name and first line: as the library `datasets` has them
(`metadata.csv`, `.tsv`, `.jsonl`), and those of some corpora, which become such records: Common Voice's `train.tsv`,
LJSpeech's `metadata.csv`, Flickr's `captions.txt`.

Whether `metadata.parquet` is one is in its footer: a column names files, and none holds media.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from mmlake.errors import UnreadableItem
from mmlake.formats.columnar.readers import ParquetReader
from mmlake.formats.json_elements import BOM
from mmlake.landing import Entry, Landing
from mmlake.sources.companions.places import COMMON_VOICE, DESCRIPTIONS, FLICKR, PARQUET
from mmlake.sources.parsed_files import Kind, ParsedFiles
from mmlake.sources.records.cells import limits_of
from mmlake.sources.records.columns import columns_of
from mmlake.sources.records.separated_values import first_cells
from mmlake.sources.settings import SourceSettings

NAME = "file_name"
_ENDINGS = ("file_name", "file_names")
_LINE_CHARS = 4096  # of a first line that are read
_PARQUET_MARK = b"PAR1"
_IS_DESCRIPTION: Kind[bool] = Kind(max_size=10_000)


@dataclass(frozen=True, slots=True)
class Dialect:
    """The form of one kind of table."""

    tables: tuple[str, ...]  # names of the files; all of a directory count
    file_field: str  # names the file, with or without its extension
    text_field: str
    bases: tuple[str, ...]  # where the files may lie, as seen from the table
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

    def paths_in(self, fields: Mapping[str, Any]) -> list[str]:
        """The file that a record names, as seen from where the files lie."""
        given = fields.get(self.file_field, "")
        is_whole = "." in given.rpartition("/")[2]
        return [given if is_whole else given + self.extension] if given else []


_COMMON_VOICE = Dialect(COMMON_VOICE, "path", "sentence", (".", "clips"), ".mp3", "\t")
_LJSPEECH = Dialect(("metadata.csv",), "id", "text", (".", "wavs"), ".wav", "|", ("id", "text", "normalized_text"))
_FLICKR = Dialect(FLICKR, "image", "caption", (".", "Images", "images"), ".jpg", ",")
_ALL = (_COMMON_VOICE, _LJSPEECH, _FLICKR)


def dialect_of(head: bytes, name: str) -> Dialect | None:
    """The dialect of a table with this name and these first bytes."""
    return next((one for one in _ALL if name in one.tables and one.matches(_first_line(head))), None)


def _first_line(head: bytes) -> str:
    return head.removeprefix(BOM).partition(b"\n")[0][:_LINE_CHARS].decode("utf-8", "replace").rstrip("\r")


def _cells_of(line: str, delimiter: str) -> list[str]:
    return first_cells(line, delimiter, has_quotes=delimiter == ",")


def claims(head: bytes, name: str) -> bool:
    """Whether a file of this name may be such a table: its name says so, and its first record or its line of names has
    a field for files. What a Parquet file is stands at its end (`is_parquet_description`)."""
    if dialect_of(head, name) is not None:
        return True
    if name not in DESCRIPTIONS:
        return False
    if name == PARQUET:
        return head.startswith(_PARQUET_MARK)
    first = head.removeprefix(BOM).lstrip().partition(b"\n")[0].decode("utf-8", "replace")
    if not name.endswith(".jsonl"):
        return bool(naming(first_cells(first, "\t" if name.endswith(".tsv") else ",", has_quotes=True)))
    try:
        fields = json.loads(first)
    except (ValueError, RecursionError):
        return False
    return isinstance(fields, dict) and bool(naming(fields))


def naming(fields: Mapping[str, Any] | Sequence[str]) -> list[str]:
    """The fields that name files."""
    return [NAME] if NAME in fields else [name for name in fields if name.lower().endswith(_ENDINGS)]


def is_parquet_description(landing: Landing, entry: Entry, *, settings: SourceSettings, parsed: ParsedFiles) -> bool:
    """Whether the Parquet file names others. It is opened once per owner of `parsed`, until it changes."""
    if entry.refused is not None:
        return False
    return parsed.get(_IS_DESCRIPTION, (landing.location, entry), lambda: _names_files(landing, entry, settings))


def _names_files(landing: Landing, entry: Entry, settings: SourceSettings) -> bool:
    try:
        if landing.head(entry.path, len(_PARQUET_MARK)) != _PARQUET_MARK:
            return False
        with ParquetReader(partial(landing.open, entry.path), limits_of(settings)) as file:
            return bool(naming(file.schema.names)) and not columns_of(file.schema, settings).media
    except UnreadableItem:
        return False  # the rows of the file itself say why

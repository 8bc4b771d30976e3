"""Which tables describe the files next to and below them, by name and first line: as the library `datasets` has them
(`metadata.csv`, `.tsv`, `.jsonl`), and those of some corpora, which become such records: Common Voice's `train.tsv`,
LJSpeech's `metadata.csv`, Flickr's `captions.txt`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mmlake.formats.json_elements import BOM
from mmlake.sources.companions.places import COMMON_VOICE, DESCRIPTIONS, FLICKR, PARQUET
from mmlake.sources.records.separated_values import first_cells

NAME = "file_name"
_ENDINGS = ("file_name", "file_names")
_LINE_CHARS = 4096  # of a first line that are read


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


def dialect_of(head: bytes, name: str) -> Dialect | None:
    """The dialect of a table with this name and these first bytes."""
    dialects = _BY_NAME.get(name, ())  # none for nearly every file
    return next((dialect for dialect in dialects if dialect.matches(_first_line(head))), None)


def _first_line(head: bytes) -> str:
    return head.removeprefix(BOM).partition(b"\n")[0][:_LINE_CHARS].decode("utf-8", "replace").rstrip("\r")


def _cells_of(line: str, delimiter: str) -> list[str]:
    return first_cells(line, delimiter, has_quotes=delimiter == ",")


def claims(head: bytes, name: str) -> bool:
    """Whether a file of this name is such a table: its name says so, and its first record or its line of names has a
    field for files. What a Parquet file is stands at its end (`parquet_descriptions`)."""
    if dialect_of(head, name) is not None:
        return True
    if name not in DESCRIPTIONS or name == PARQUET:
        return False
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

"""How corpora write the tables that describe their files: Common Voice's `train.tsv`, LJSpeech's `metadata.csv`,
Flickr's `captions.txt`.

Each becomes records with a field `file_name`, as the library `datasets` has them.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from mmlake.landing import Landing
from mmlake.sources.records.separated_values import first_cells

_LINE_CHARS = 4096  # of a first line that are read
_MAX_NAME_CHARS = 200  # of a file that is asked for


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
        return (
            len(cells) in (2, len(self.names))
            and bool(cells[0])
            and cells[0].isprintable()
            and not set(cells[0]) & set(" ,;\"'/\\")
        )


_COMMON_VOICE = Dialect(
    ("dev.tsv", "invalidated.tsv", "other.tsv", "test.tsv", "train.tsv", "validated.tsv"), "path", "sentence",
    ("clips", "."), ".mp3", "\t",
)  # fmt: skip
_LJSPEECH = Dialect(("metadata.csv",), "id", "text", ("wavs", "."), ".wav", "|", ("id", "text", "normalized_text"))
_FLICKR = Dialect(("captions.txt",), "image", "caption", ("Images", "images", "."), ".jpg", ",")
_ALL = (_COMMON_VOICE, _LJSPEECH, _FLICKR)
_BY_NAME = {name: [dialect for dialect in _ALL if name in dialect.tables] for one in _ALL for name in one.tables}
TABLES = frozenset((*_COMMON_VOICE.tables, *_FLICKR.tables))  # names of tables that say of which dialect they are


class Form(NamedTuple):
    """How one table is read."""

    dialect: Dialect | None = None  # None: as the library `datasets` has tables
    directory: str = "."  # where the files lie

    def file_name(self, given: str) -> str:
        """The file that a record names, as seen from the table."""
        assert self.dialect is not None
        return posixpath.join(
            self.directory, given if "." in given.rpartition("/")[2] else given + self.dialect.extension
        )


def dialect_of(head: bytes, name: str) -> Dialect | None:
    """The dialect of a table with this name and these first bytes."""
    dialects = _BY_NAME.get(name)
    if dialects is None:  # as of nearly every file
        return None
    first = _first_line(head)
    return next((dialect for dialect in dialects if dialect.matches(first)), None)


def form_of(landing: Landing, path: str, head: bytes) -> Form:
    """How the table at the path is read, and where its files lie."""
    home, _, name = path.rpartition("/")
    dialect = dialect_of(head, name)
    if dialect is None:
        return Form()
    given = next(_files(head, dialect), "")
    forms = [Form(dialect, directory) for directory in dialect.directories]
    return next(
        (
            form
            for form in forms
            if given and landing.stat(posixpath.normpath(posixpath.join(home, form.file_name(given)))) is not None
        ),
        forms[0],
    )


def _files(head: bytes, dialect: Dialect) -> Iterator[str]:
    """The name in the first record, as far as the bytes go."""
    names, record = list(dialect.names), head
    if not names:
        names, record = _cells_of(_first_line(head), dialect.delimiter), head.partition(b"\n")[2]
    cells = _cells_of(_first_line(record), dialect.delimiter)
    given = dict(zip(names, cells, strict=False)).get(dialect.file_field, "")
    if given and ".." not in given.split("/") and "\0" not in given and len(given) < _MAX_NAME_CHARS:
        yield given


def _first_line(head: bytes) -> str:
    return head.removeprefix(b"\xef\xbb\xbf").partition(b"\n")[0][:_LINE_CHARS].decode("utf-8", "replace").rstrip("\r")


def _cells_of(line: str, delimiter: str) -> list[str]:
    return first_cells(line, delimiter, has_quotes=delimiter == ",")

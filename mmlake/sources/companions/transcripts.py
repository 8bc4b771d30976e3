"""Transcripts of many recordings in one file, and who speaks in them, as LibriSpeech and corpora of its layout have it.

Enters: `84-121123.trans.txt`, whose lines `84-121123-0000 GO DO YOU HEAR` name files next to it, and `SPEAKERS.TXT`, a
table with bars. Leaves: what each line says, good or bad, with its place in the file.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from mmlake.errors import Fault

SPEAKERS = "SPEAKERS.TXT"
SUFFIX = ".trans.txt"
_BOM = b"\xef\xbb\xbf"
_NUMBER = re.compile(r"[0-9]{1,18}")
_READER = re.compile(r"([0-9]{1,18})[-_]([0-9]{1,18})")  # what LibriSpeech calls a table: reader and chapter
_COLUMNS = ("speaker_sex", "speaker_subset", "speaker_minutes", "speaker_name")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a table of transcripts."""

    number: int  # from 1
    name: str  # stem of the recording that it belongs to; "" where it names none
    data: bytes  # the words or, where there is a fault, the whole line
    offset: int  # of the data in the file
    fault: Fault | None = None

    @property
    def text(self) -> str:
        """The words of a line without a fault."""
        return self.data.decode()


def prefix_of(name: str) -> str | None:
    """What the stems of the recordings begin with that a table of this name is of; None for the name of something
    else."""
    if name[-4:].lower() != ".txt":  # soon known of nearly every file
        return None
    base = name.rpartition("/")[2]
    return base[: -len(SUFFIX)] if base.lower().endswith(SUFFIX) and len(base) > len(SUFFIX) else None


def is_of(stem: str, prefix: str) -> bool:
    """Whether a recording of that stem is one that the table with the prefix is of."""
    return stem.startswith(prefix) and stem[len(prefix) : len(prefix) + 1] in ("-", "_")


def lines_of(data: bytes, prefix: str) -> list[Line]:
    """Every line that is not blank. Text must be UTF-8; one bad line is a line with a fault."""
    found, offset, seen = [], 0, dict[str, int]()
    for number, raw in enumerate(data.splitlines(keepends=True), 1):
        start = offset + (len(_BOM) if number == 1 and raw.startswith(_BOM) else 0)
        offset += len(raw)
        line = raw[start - (offset - len(raw)) :].rstrip(b"\r\n")
        if line.strip():
            found.append(_line(line, number, start, prefix, seen))
    return found


def _line(line: bytes, number: int, start: int, prefix: str, seen: dict[str, int]) -> Line:
    left = len(line) - len(line.lstrip())
    head, _, rest = line.strip().partition(b" ") if b"\t" not in line else line.strip().partition(b"\t")
    words = rest.strip()
    try:
        name = head.decode()
        words.decode()
    except UnicodeDecodeError as error:
        return Line(
            number, "", line, start, Fault(1004, f"line {number} is not UTF-8 at byte {error.start} of its words")
        )
    if not is_of(name, prefix):
        return Line(
            number,
            "",
            line,
            start,
            Fault(1003, f"line {number} begins with {name[:60]!r}, expected the name of a recording of {prefix}"),
        )
    if not words:
        return Line(number, name, line, start, Fault(1003, f"line {number} has no words behind {name}"))
    if seen.setdefault(name, number) != number:
        return Line(number, name, line, start, Fault(1003, f"line {number} is of {name}, as line {seen[name]} is"))
    return Line(number, name, words, start + left + len(head) + 1 + (len(rest) - len(rest.lstrip())))


def about(stem: str, prefix: str) -> dict[str, Any]:
    """Reader, chapter and number of an utterance, as far as its name says them."""
    reader = _READER.fullmatch(prefix)
    number = stem[len(prefix) + 1 :]
    if reader is None or not _NUMBER.fullmatch(number):
        return {}
    return {"speaker_id": int(reader[1]), "chapter_id": int(reader[2]), "utterance_index": int(number)}


def speakers_of(data: bytes) -> dict[int, dict[str, Any]]:
    """What a table of speakers says, by id. Lines that do not have its form say nothing: the table is a document of
    its own."""
    found = {}
    for line in data.decode("utf-8-sig", "replace").splitlines():
        cells = [cell.strip() for cell in line.split("|", 4)]
        if line.startswith(";") or len(cells) != 5 or not _NUMBER.fullmatch(cells[0]):
            continue
        fields: dict[str, Any] = {name: cell for name, cell in zip(_COLUMNS, cells[1:], strict=True) if cell}
        minutes = _minutes(fields.pop("speaker_minutes", ""))
        if minutes is not None:
            fields["speaker_minutes"] = minutes
        found[int(cells[0])] = fields
    return found


def _minutes(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None

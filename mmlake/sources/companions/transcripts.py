"""Transcripts of many recordings in one file, and who says them, as LibriSpeech and corpora of its layout have it: the
words of each recording as a text of its sample, and the speaker as metadata.

Enters: `84-121123.trans.txt`, whose lines `84-121123-0000 GO DO YOU UNDERSTAND` name files next to it, and
`SPEAKERS.TXT`, a table with bars.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any

from mmlake.errors import Fault, UnreadableItem
from mmlake.formats.json_elements import BOM
from mmlake.formats.texts import printable
from mmlake.media_names import is_media_name
from mmlake.sources.names import file_stem_of
from mmlake.sources.raw_items import Content, Member, Opener, RawItem, Reading, become_text
from mmlake.sources.samples.companion import Companion, Description
from mmlake.streams import read_up_to

SPEAKERS = "SPEAKERS.TXT"
SUFFIX = ".trans.txt"
_NUMBER = re.compile(r"[0-9]{1,18}")
_READER = re.compile(r"([0-9]{1,18})[-_]([0-9]{1,18})")  # what LibriSpeech calls a table: reader and chapter
_COLUMNS = ("speaker_sex", "speaker_subset", "speaker_minutes", "speaker_name")
_HEAD_BYTES = 4096
_SPEAKERS_BYTES = 4 << 20  # in memory forty times as much; LibriSpeech's table is 150 kB
_MAX_LINES = 200_000  # of a table of transcripts, all in memory; LibriSpeech's have a hundred
_TABLES_KEPT = 8  # parsed tables in memory; the files of one folder follow one another


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a table of transcripts."""

    number: int  # from 1
    name: str  # stem of the recording that it belongs to; "" where it names none
    data: bytes  # the words or, where there is a fault, the whole line
    offset: int  # of the data in the file
    fault: Fault | None = None


def prefix_of(name: str) -> str | None:
    """What the stems of the recordings begin with that a table of this name is of; None for the name of something
    else."""
    if name[-4:].lower() != ".txt":  # soon known of nearly every file
        return None
    base = name.rpartition("/")[2]
    return base[: -len(SUFFIX)] if base.lower().endswith(SUFFIX) and len(base) > len(SUFFIX) else None


def _is_of(stem: str, prefix: str) -> bool:
    """Whether a recording of that stem is one that the table with the prefix is of."""
    return stem.startswith(prefix) and stem[len(prefix) : len(prefix) + 1] in ("-", "_")


def _lines_of(data: bytes, prefix: str) -> list[Line]:
    """Every line that is not blank. Text must be UTF-8; one bad line is a line with a fault."""
    found, offset, seen = [], 0, dict[str, int]()
    for number, raw in enumerate(data.splitlines(keepends=True), 1):
        start = offset + (len(BOM) if number == 1 and raw.startswith(BOM) else 0)
        line = raw[start - offset :].rstrip(b"\r\n")
        offset += len(raw)
        if line.strip():
            found.append(_line(line, number, start, prefix, seen))
    return found


def _line(line: bytes, number: int, start: int, prefix: str, seen: dict[str, int]) -> Line:
    left = len(line) - len(line.lstrip())
    head, _, rest = line.strip().partition(b"\t" if b"\t" in line else b" ")
    words, name, code = rest.strip(), "", 1003
    try:
        found = head.decode()
        words.decode()
        name = found if _is_of(found, prefix) else ""
        reason = f"begins with {found[:60]!r}, expected the name of a recording of {prefix}" if not name else ""
    except UnicodeDecodeError as error:
        code, reason = 1004, f"is not UTF-8 at byte {error.start} of its words"
    if name and not words:
        reason = f"has no words behind {name}"
    elif name and seen.setdefault(name, number) != number:
        reason = f"is of {name}, as line {seen[name]} is"
    if reason:
        return Line(number, name, line, start, Fault(code, f"line {number} {reason}"))
    return Line(number, name, words, start + left + len(head) + 1 + (len(rest) - len(rest.lstrip())))


def _about(stem: str, prefix: str) -> dict[str, Any]:
    """Reader, chapter and number of an utterance, as far as its name says them."""
    reader, number = _READER.fullmatch(prefix), stem[len(prefix) + 1 :]
    if reader is None or not _NUMBER.fullmatch(number):
        return {}
    return {"speaker_id": int(reader[1]), "chapter_id": int(reader[2]), "utterance_index": int(number)}


def _speakers_of(data: bytes) -> dict[int, dict[str, Any]]:
    """What a table of speakers says, by id. Lines that do not have its form say nothing: the table is a document of
    its own."""
    found = {}
    for line in data.decode("utf-8-sig", "replace").splitlines():
        cells = [cell.strip() for cell in line.split("|", 4)]
        if line.startswith(";") or len(cells) != 5 or not _NUMBER.fullmatch(cells[0]):
            continue
        fields: dict[str, Any] = {name: cell for name, cell in zip(_COLUMNS, cells[1:], strict=True) if cell}
        minutes = _minutes(fields.pop("speaker_minutes", ""))
        found[int(cells[0])] = fields if minutes is None else {**fields, "speaker_minutes": minutes}
    return found


def _minutes(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


class Transcripts(Companion):
    """The tables of transcripts of one shard."""

    has_texts = True

    def __init__(
        self,
        tables: Sequence[Member],
        reading: Reading,
        *,
        stems: frozenset[str],
        speakers: Opener | None,
        borrowed: Sequence[Member],
    ) -> None:
        """stems: of all samples, folders included. borrowed: tables of another part of the directory, whose own
        lines that part has."""
        self._reading, self._stems, self._owned, self._open_speakers = reading, stems, tables, speakers
        self._by_folder: dict[str, list[Member]] = {}
        for table in (*tables, *borrowed):
            self._by_folder.setdefault(_folder(table.name), []).append(table)
        self._lines = lru_cache(maxsize=_TABLES_KEPT)(self._read)

    @cached_property
    def _speakers(self) -> dict[int, dict[str, Any]]:
        """What the table of speakers says, by id; nothing where it cannot be read, of which its own row says why."""
        try:
            if self._open_speakers is not None:
                with self._open_speakers() as file:
                    return _speakers_of(read_up_to(file, _SPEAKERS_BYTES))
        except UnreadableItem:
            pass
        return {}

    def describe(self, stem: str, members: Sequence[Member]) -> Description:
        """The words of a recording, with its reader, chapter and number."""
        folder, _, name = stem.rpartition("/")
        texts, metadata = list[RawItem](), dict[str, Any]()
        for table in self._by_folder.get(folder, ()):
            prefix = prefix_of(table.name) or ""
            if not _is_of(name, prefix):
                continue
            metadata |= _about(name, prefix)
            metadata |= self._speakers.get(metadata.get("speaker_id", -1), {})
            if (line := self._lines(table).get(name)) is not None:
                texts.append(become_text(self._item(table, line, ""), line.data.decode(), "transcript"))
        return Description(texts=tuple(texts), metadata=metadata)

    def rest(self) -> Iterator[RawItem]:
        """A row for every line without a recording, for every broken one, and for a table that cannot be read."""
        key = self._reading.key
        for table in self._owned:
            folder, name = _folder(table.name), f"{key}/{printable(table.stem)}"
            try:
                lines = self._parsed(table)
                if not lines:
                    raise UnreadableItem(1006, "num_lines=0 not in [1, inf)")
            except UnreadableItem as error:
                blank = RawItem(modality="text", role="transcript", ref=table.locate(""), sample_id=name)
                yield blank.replace(content=table.content, fault=Fault.of(error), size_bytes=table.size_bytes)
                continue
            for line in lines:
                stem = f"{folder}/{line.name}" if folder else line.name
                if line.fault is not None:
                    yield self._item(table, line, f"{name}!line:{line.number}")
                elif stem not in self._stems:
                    item = self._item(table, line, f"{key}/{printable(stem)}")
                    reason = f"line {line.number} is of {line.name}, and no file of that name lies next to"
                    become_text(item, line.data.decode(), "transcript")
                    yield item.replace(fault=Fault(1011, f"{reason} {prefix_of(table.name)}.trans.txt"))

    def _read(self, table: Member) -> dict[str, Line]:
        """The good lines of a table by stem; none where it cannot be read, of which `rest` has a row."""
        try:
            return {line.name: line for line in self._parsed(table) if line.fault is None}
        except UnreadableItem:
            return {}

    def _parsed(self, table: Member) -> list[Line]:
        assert table.content is not None  # members with a fault are no tables
        data = table.content.whole(self._reading.settings.max_text_bytes, table.size_bytes)
        if (num_lines := data.count(b"\n") + data.count(b"\r")) > _MAX_LINES:
            raise UnreadableItem(1008, f"num_lines={num_lines} not in [0, {_MAX_LINES}]")
        return _lines_of(data, prefix_of(table.name) or "")

    def _item(self, table: Member, line: Line, sample_id: str) -> RawItem:
        """The row of a line."""
        ref, whole = table.locate(f"line:{line.number}"), table.locate("")
        # A range only where the table's bytes lie in the file as they are read.
        is_file = whole.member is None and table.content is not None and table.content.raw is None
        start = 0 if whole.byte_offset is None and is_file else whole.byte_offset
        if start is not None:
            ref = ref._replace(byte_offset=start + line.offset, byte_size=len(line.data))
        return RawItem(
            modality="text",
            role="transcript",
            ref=ref,
            sample_id=sample_id,
            content_type="text/plain",
            extension="txt",
            content=Content.of_bytes(line.data),
            fault=line.fault,
            size_bytes=len(line.data),
        )


def with_transcripts(
    members: Sequence[Member],
    reading: Reading,
    *,
    borrowed: Sequence[Member] = (),
) -> tuple[list[list[Member]], list[Companion]]:
    """(the members of each sample, without tables of transcripts; what these and the borrowed ones say, where there
    are any).

    What a table says is looked up by stem, and what is a table by what the others are: all members must be known.
    borrowed: files of other parts of the directory that may be tables; recordings there have lines as well.
    """
    tables = _tables_among(members)
    given, groups = {id(table) for table in tables}, dict[str, list[Member]]()
    for member in members:
        if id(member) not in given:
            groups.setdefault(member.stem, []).append(member)
    if not tables and not borrowed:
        return list(groups.values()), []
    others = [member for member in members if id(member) not in given] if borrowed else []
    elsewhere = reading.landing.files(reading.path) if reading.entries else ()
    stems = frozenset([*groups, *(file_stem_of(one.name) for one in elsewhere if is_media_name(one.name))])
    lent = _tables_among([*borrowed, *others])
    speakers = _speakers_table(members, reading)
    return list(groups.values()), [Transcripts(tables, reading, stems=stems, speakers=speakers, borrowed=lent)]


def _tables_among(members: Sequence[Member]) -> list[Member]:
    """The members that are tables of transcripts, by their name and the recordings that they are of."""
    named = [one for one in members if prefix_of(one.name) is not None and one.modality == "text" and one.fault is None]
    if not named:
        return []
    stems = (member.stem for member in members if member.is_media)
    prefixes = {stem[: max(stem.rfind("-"), stem.rfind("_"))] for stem in stems}
    tables = []
    for member in named:
        folder, prefix = _folder(member.name), prefix_of(member.name) or ""
        # `talk.trans.txt` next to `talk.mp4` is the transcript of one file.
        if (f"{folder}/{prefix}" if folder else prefix) in prefixes or _is_of_many(member, prefix):
            tables.append(member)
    return tables


def _is_of_many(member: Member, prefix: str) -> bool:
    assert member.content is not None
    try:
        lines = _lines_of(member.content.head(_HEAD_BYTES), prefix)
    except UnreadableItem:
        return False
    return bool(lines) and lines[0].fault is None


def _speakers_table(members: Sequence[Member], reading: Reading) -> Opener | None:
    """A way to the table of speakers: the one that belongs to the directory, or one among the members of an archive."""
    for entry in reading.around:
        if entry.name == SPEAKERS and entry.refused is None:
            return partial(reading.landing.open, entry.path)
    for member in members:
        is_named = member.name.rpartition("/")[2] == SPEAKERS and member.modality == "text"
        if is_named and member.content is not None and member.fault is None:
            return member.content.open
    return None


def _folder(name: str) -> str:
    return name.removeprefix("./").rpartition("/")[0]

"""Tables of transcripts (`transcripts.py`) as a companion of the samples that their lines are of: the words of each
recording as a text of its sample, and who speaks as metadata."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from typing import Any

from mmlake.errors import Fault, UnreadableItem
from mmlake.formats.texts import printable
from mmlake.sources.companions import transcripts
from mmlake.sources.companions.transcripts import Line
from mmlake.sources.raw_items import Content, Member, Opener, RawItem, Reading, become_text
from mmlake.sources.samples.companion import Description
from mmlake.streams import read_up_to

_HEAD_BYTES = 4096
_SPEAKERS_BYTES = 4 << 20  # in memory forty times as much; LibriSpeech's table is 150 kB
_MAX_LINES = 200_000  # of a table of transcripts, all in memory; LibriSpeech's have a hundred
_TABLES_KEPT = 8  # parsed tables in memory; the files of one folder follow one another


class Transcripts:
    """The tables of transcripts of one shard."""

    has_texts = True

    def __init__(
        self,
        tables: Sequence[Member],
        reading: Reading,
        *,
        stems: frozenset[str],
        speakers: Opener | None,
        borrowed: Sequence[Member] = (),
    ) -> None:
        """stems: of all samples, folders included. borrowed: tables of another part of the directory, whose own
        lines that part has."""
        self._reading, self._stems, self._owned = reading, stems, list(tables)
        self._by_folder: dict[str, list[Member]] = {}
        for table in (*tables, *borrowed):
            self._by_folder.setdefault(_folder(table.name), []).append(table)
        self._open_speakers = speakers
        self._lines = lru_cache(maxsize=_TABLES_KEPT)(self._read)

    @cached_property
    def _speakers(self) -> dict[int, dict[str, Any]]:
        """What the table of speakers says, by id; nothing where it cannot be read, of which its own row says why."""
        try:
            if self._open_speakers is not None:
                with self._open_speakers() as file:
                    return transcripts.speakers_of(read_up_to(file, _SPEAKERS_BYTES))
        except UnreadableItem:
            pass
        return {}

    def describe(self, stem: str, members: Sequence[Member]) -> Description:
        """The words of a recording, with its reader, chapter and number."""
        folder, _, name = stem.rpartition("/")
        texts: list[RawItem] = []
        metadata: dict[str, Any] = {}
        for at, table in enumerate(self._by_folder.get(folder, ())):
            prefix = transcripts.prefix_of(table.name) or ""
            if not transcripts.is_of(name, prefix):
                continue
            metadata |= transcripts.about(name, prefix)
            metadata |= self._speakers.get(metadata.get("speaker_id", -1), {})
            line = self._lines(folder, at).get(name)
            if line is not None:
                texts.append(become_text(self._item(table, line, ""), line.text, "transcript"))
        return Description(texts=tuple(texts), metadata=metadata)

    def rest(self) -> Iterator[RawItem]:
        """A row for every line without a recording, for every broken one, and for a table that cannot be read."""
        key = self._reading.key
        for table in self._owned:
            folder, prefix = _folder(table.name), transcripts.prefix_of(table.name) or ""
            name = f"{key}/{printable(table.stem)}"
            try:
                lines = self._parsed(table)
                if not lines:
                    raise UnreadableItem(1006, "num_lines=0 not in [1, inf)")
            except UnreadableItem as error:
                yield RawItem(
                    modality="text",
                    role="transcript",
                    ref=table.locate(""),
                    sample_id=name,
                    content=table.content,
                    fault=Fault.of(error),
                    size_bytes=table.size_bytes,
                )
                continue
            for line in lines:
                stem = f"{folder}/{line.name}" if folder else line.name
                if line.fault is not None:
                    yield self._item(table, line, f"{name}!line:{line.number}")
                elif stem not in self._stems:
                    item = become_text(self._item(table, line, f"{key}/{printable(stem)}"), line.text, "transcript")
                    item.fault = Fault(
                        1011,
                        f"line {line.number} is of {line.name}, and no file of that name stands beside "
                        f"{prefix}.trans.txt",
                    )
                    yield item

    def _read(self, folder: str, at: int) -> dict[str, Line]:
        """The good lines of a table by stem; none where it cannot be read, of which `rest` has a row."""
        try:
            return {line.name: line for line in self._parsed(self._by_folder[folder][at]) if line.fault is None}
        except UnreadableItem:
            return {}

    def _parsed(self, table: Member) -> list[Line]:
        limit = self._reading.settings.max_text_bytes
        assert table.content is not None  # members with a fault are no tables
        data = table.content.head(limit + 1)
        if len(data) > limit:
            raise UnreadableItem(1008, f"size_bytes={table.size_bytes} not in [0, {limit}]")
        if (num_lines := data.count(b"\n") + data.count(b"\r")) > _MAX_LINES:
            raise UnreadableItem(1008, f"num_lines={num_lines} not in [0, {_MAX_LINES}]")
        return transcripts.lines_of(data, transcripts.prefix_of(table.name) or "")

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


def tables_among(members: Sequence[Member]) -> list[Member]:
    """The members that are tables of transcripts, by their name and the recordings that they are of."""
    named = [
        member
        for member in members
        if transcripts.prefix_of(member.name) is not None and member.modality == "text" and member.fault is None
    ]
    if not named:
        return []
    prefixes = {
        member.stem[: max(member.stem.rfind("-"), member.stem.rfind("_"))] for member in members if member.is_media
    }
    tables = []
    for member in named:
        folder, prefix = _folder(member.name), transcripts.prefix_of(member.name) or ""
        # `talk.trans.txt` next to `talk.mp4` is the transcript of one file.
        if (f"{folder}/{prefix}" if folder else prefix) in prefixes or _is_of_many(member, prefix):
            tables.append(member)
    return tables


def without(members: Sequence[Member], tables: Sequence[Member]) -> list[Member]:
    """The members that are none of the tables."""
    given = {id(table) for table in tables}
    return [member for member in members if id(member) not in given]


def _is_of_many(member: Member, prefix: str) -> bool:
    assert member.content is not None
    try:
        lines = transcripts.lines_of(member.content.head(_HEAD_BYTES), prefix)
    except UnreadableItem:
        return False
    return bool(lines) and lines[0].fault is None


def speakers_among(members: Sequence[Member]) -> Opener | None:
    """A way to the table of speakers, where one is among the members of an archive."""
    for member in members:
        if (
            member.name.rpartition("/")[2] == transcripts.SPEAKERS
            and member.modality == "text"
            and member.content is not None
            and member.fault is None
        ):
            return member.content.open
    return None


def _folder(name: str) -> str:
    return name.removeprefix("./").rpartition("/")[0]

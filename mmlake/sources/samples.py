"""Files that belong together: the members of a tar or the files of a directory, grouped by stem and turned into rows.

Enters: members whose first bytes were looked at. Leaves: `RawItem`s in the order of the samples' first members. The same code serves
tars and directories, so that a tar of a directory gives the rows of the directory.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

from mmlake.errors import UnreadableItem
from mmlake.records import MODALITIES, canonical_json
from mmlake.sources import fields as record_fields
from mmlake.sources import shard as shards
from mmlake.sources import sniff, texts
from mmlake.sources.members import Member
from mmlake.sources.rows import Fault, RawItem, Reading, TextReader, home_of_unknown, licence_field, printable, reader_of, text_item

_TIMED = ("application/x-subrip", "text/vtt")


class Samples:
    """The samples of one shard. faults: what else went wrong while its members were listed, told after everything else."""

    def __init__(self, members: Iterable[Member], reading: Reading, *, faults: Iterable[RawItem] = ()) -> None:
        self._reading, self._faults = reading, list(faults)
        self._groups: dict[str, list[Member]] = {}
        for member in members:
            self._groups.setdefault(member.stem, []).append(member)

    @cached_property
    def modalities(self) -> tuple[str, ...]:
        """The modalities of all rows, exactly; never empty."""
        found = {self.modality(member) for member in self._members() if not member.is_json and not member.is_label}
        if "text" not in found and any(self._has_texts(group) for group in self._groups.values()):
            found.add("text")
        return shards.ordered(found) or (self._reading.hint or "text",)

    @cached_property
    def _common(self) -> str | None:
        counts = Counter(member.modality for member in self._members() if member.modality and not member.is_json and not member.is_label)
        return max(MODALITIES, key=lambda modality: counts[modality]) if counts else None

    def _members(self) -> Iterator[Member]:
        return itertools.chain.from_iterable(self._groups.values())

    def modality(self, member: Member) -> str:
        """The modality whose table gets the member's row."""
        if member.modality is not None:
            return member.modality
        named = sniff.kind_of(b"", member.name)
        return named.modality if named and named.modality else home_of_unknown(member.name, hint=self._reading.hint, common=self._common)

    @property
    def home(self) -> str:
        """The modality whose table gets the rows of faults that tell no modality."""
        return self.modalities[0]

    def _has_texts(self, group: list[Member]) -> bool:
        return any(item.modality == "text" for member in group if member.is_json for item in _Sample(self, self._reading, [member]).json_texts())

    def items(self) -> Iterator[RawItem]:
        """The rows of all samples, then the faults of the shard."""
        for group in self._groups.values():
            yield from _Sample(self, self._reading, group).items()
        for fault in self._faults:
            yield replace(fault, modality=self.home, role="document" if self.home == "text" else "media")


class _Sample:
    """One sample: its members, and what its JSON says."""

    def __init__(self, samples: Samples, reading: Reading, members: list[Member]) -> None:
        self._samples, self._reading, self._settings = samples, reading, reading.settings
        self._members = members
        self._id = f"{reading.key}/{printable(members[0].stem)}"
        self._media = {member.modality for member in members if member.is_media and member.modality}
        self._metadata: dict[str, Any] = {}
        self._records: dict[int, dict[str, Any]] = {}  # index of a JSON member -> its object
        self._broken: dict[int, Fault] = {}  # index of a JSON or label member -> why it says nothing
        self._licence: str | None = None
        self._placed: set[int] = set()  # ids of members that an interleaved list has given a place
        self._read_metadata()

    def _read_metadata(self) -> None:
        for at, member in enumerate(self._members):
            try:
                if member.is_json:
                    self._read_json(at, member)
                elif member.is_label:
                    text = texts.decode_text(self._read(member, self._settings.max_small_member_bytes), settings=self._settings)[0]
                    self._metadata.setdefault(member.extension, text.strip())
            except UnreadableItem as error:
                self._broken[at] = Fault.of(error)

    def _read_json(self, at: int, member: Member) -> None:
        fields = texts.parse_object(self._read(member, self._settings.max_text_bytes), settings=self._settings)
        self._records[at] = fields
        used = {field.name for field in record_fields.text_fields(fields, (), settings=self._settings)}
        used.update(name for name in (self._settings.texts_field, self._settings.images_field) if isinstance(fields.get(name), list))
        rest = record_fields.without(fields, used)
        if len(self._records) == 1:
            self._metadata = {**rest, **self._metadata}
        elif rest:
            self._metadata.setdefault(member.name.rpartition("/")[2], rest)
        self._licence = self._licence or licence_field(fields, self._settings)

    def _read(self, member: Member, limit_bytes: int) -> bytes:
        assert member.content is not None  # only members without a fault are read
        with member.content.open() as file:
            data = file.read(limit_bytes + 1)
        if len(data) > limit_bytes:
            raise UnreadableItem(1008, f"size_bytes={member.size_bytes} not in [0, {limit_bytes}]")
        return data

    def items(self) -> Iterator[RawItem]:
        """The sample's rows, positions counted from 0 in the order of the members; interleaved lists give their own positions."""
        rows = [*self._listed_texts(), *self._listed_images()]
        behind = max((item.position for item in rows), default=-1) + 1
        readers: list[tuple[str, bool, TextReader]] = []  # role, whether it has times, the text
        others: list[RawItem] = []
        for at, member in enumerate(self._members):
            if at in self._broken:
                others.append(self._unread(member, self._broken[at]))
            elif at in self._records:
                others.extend(self._record_texts(at, readers))
            elif not member.is_label and id(member) not in self._placed:
                others.append(self._file(member, readers))
        if not rows and not others:
            others = [self._unread(member, Fault(1003, "metadata without any text or media beside it")) for member in self._members]
        rows.extend(replace(item, position=behind + at) for at, item in enumerate(others))
        yield from (self._with_beside(item, readers) for item in sorted(rows, key=lambda item: item.position))

    def json_texts(self) -> list[RawItem]:
        """The text rows that come from JSON members alone."""
        found = self._listed_texts()
        for at in self._records:
            found.extend(self._record_texts(at, []))
        return found

    def _blank(self, member: Member, pointer: str = "") -> RawItem:
        metadata = {**self._metadata, "duplicate_member": True} if member.duplicate else self._metadata
        return RawItem(modality="text", ref=member.locate(pointer), sample_id=self._id, metadata=metadata, licence=self._licence, size_bytes=member.size_bytes)

    def _unread(self, member: Member, fault: Fault) -> RawItem:
        home = self._samples.home
        return replace(self._blank(member), modality=home, role="document" if home == "text" else "media", content=member.content, fault=fault)

    def _file(self, member: Member, readers: list[tuple[str, bool, TextReader]]) -> RawItem:
        item = replace(self._blank(member), content=member.content, fault=member.fault)
        kind, modality = member.kind, self._samples.modality(member)
        if member.fault is None and (kind is None or kind.modality is None):
            told = kind.content_type if kind else None
            reason = f"content is {told}, which no modality takes" if told else f"neither the first {sniff.HEAD_BYTES} bytes nor the extension {member.extension!r} tell a type"
            item = replace(item, fault=Fault(1005, reason), content_type=told, extension=kind.extension if kind else "bin")
        elif kind is not None:
            item = replace(item, content_type=kind.content_type, extension=kind.extension)
        if modality != "text":
            return replace(item, modality=modality)
        timed = item.content_type in _TIMED
        role = "transcript" if timed and self._media else record_fields.role_beside(self._media)
        if item.fault is None:
            readers.append((role, timed, lambda: self._text_of(member)))
        return replace(item, role=role)

    def _text_of(self, member: Member) -> str | None:
        try:
            return texts.decode_text(self._read(member, self._settings.max_text_bytes), settings=self._settings)[0]
        except UnreadableItem:
            return None  # the text's own row says why

    def _record_texts(self, at: int, readers: list[tuple[str, bool, TextReader]]) -> Iterator[RawItem]:
        for field in record_fields.text_fields(self._records[at], self._media, settings=self._settings):
            item = text_item(self._blank(self._members[at], field.pointer), field.text, field.role)
            if item.fault is None:
                readers.append((field.role, False, reader_of(field.text)))
            yield item

    def _with_beside(self, item: RawItem, readers: list[tuple[str, bool, TextReader]]) -> RawItem:
        if item.role != "media" or item.fault is not None:
            return item
        order = ("caption", "transcript") if item.modality == "image" else ("transcript", "caption")
        ranked = sorted((reader for reader in readers if reader[0] in order), key=lambda reader: (order.index(reader[0]), not reader[1]))
        chosen = [reader for reader in ranked if reader[0] == ranked[0][0]]
        return replace(item, beside=tuple(read for _, _, read in chosen))

    def _listed_texts(self) -> list[RawItem]:
        """The rows of the list `texts`: null skipped, everything else at its index in the list."""
        rows: list[RawItem] = []
        name = self._settings.texts_field
        for at, fields in self._records.items():
            for position, value in enumerate(self._list(fields, name)):
                if value is not None:
                    text = value if isinstance(value, str) else canonical_json(value)
                    blank = self._blank(self._members[at], record_fields.pointer(name, position))
                    rows.append(replace(text_item(blank, text, "document"), position=position))
        return rows

    def _listed_images(self) -> list[RawItem]:
        """The rows of the list `images`: null skipped, everything else at its index in the list; frames of a TIFF are counted per file."""
        rows: list[RawItem] = []
        for at, fields in self._records.items():
            frames: Counter[str] = Counter()
            for position, token in enumerate(self._list(fields, self._settings.images_field)):
                if token is not None:
                    rows.append(replace(self._image(at, position, token, frames), position=position))
        return rows

    @staticmethod
    def _list(fields: dict[str, Any], name: str) -> list[Any]:
        value = fields.get(name)
        return value if isinstance(value, list) else []

    def _image(self, at: int, position: int, token: Any, frames: Counter[str]) -> RawItem:
        member = self._resolve(token)
        if member is None:
            home = self._samples.home
            blank = self._blank(self._members[at], record_fields.pointer(self._settings.images_field, position))
            return replace(blank, modality=home, role="document" if home == "text" else "media", size_bytes=0, fault=Fault(1003, "an image is named but the sample has none"))
        self._placed.add(id(member))
        item = self._file(member, [])
        explicit = token.get("frame_index") if isinstance(token, dict) else None
        if isinstance(explicit, int) and 0 <= explicit < 1 << 31:
            return replace(item, ref=replace(item.ref, frame_index=explicit))
        if item.content_type == "image/tiff":
            item = replace(item, ref=replace(item.ref, frame_index=frames[member.name]))
            frames[member.name] += 1
        return item

    def _resolve(self, token: Any) -> Member | None:
        """The member that a token names: by its whole name, its file name, or what follows the stem; else the sample's first image."""
        images = [member for member in self._members if member.modality == "image"]
        name = token.get("member") if isinstance(token, dict) else token
        for member in images:
            base = member.name.rpartition("/")[2]
            short = base.removeprefix(member.stem.rpartition("/")[2] + ".")
            if isinstance(name, str) and name in (member.name, base, base.rpartition(".")[0], short, short.rpartition(".")[0]):
                return member
        return images[0] if images else None

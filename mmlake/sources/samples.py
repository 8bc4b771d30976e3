"""Files that belong together: the members of a tar or the files of a directory, grouped by stem and turned into rows.

Enters: members whose first bytes were looked at. Leaves: `RawItem`s in the order of the samples' first members. The same code serves
tars and directories, so that a tar of a directory gives the rows of the directory.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from operator import attrgetter
from typing import Any

from mmlake.errors import UnreadableItem
from mmlake.records import MODALITIES, SourceRef, canonical_json
from mmlake.sources import fields as record_fields
from mmlake.sources import shard as shards
from mmlake.sources import sniff, texts
from mmlake.sources.beside import Teller
from mmlake.sources.jsonl import SampleNames
from mmlake.sources.members import ARCHIVES, Member
from mmlake.sources.rows import Fault, RawItem, Reading, TextReader, home_of_unknown, licence_field, printable, reader_of, text_item
from mmlake.sources.spreading import is_spread, not_lists, spread

_MEDIA_LISTS = ("audios", "videos")  # beside `texts` and `images`: where sound and films stand in an interleaved sample that this library wrote
_TIMED = ("application/x-subrip", "text/vtt")
_POSITION = attrgetter("position")
_BLANK = RawItem(modality="text", ref=SourceRef(""), sample_id="")  # what rows start from: to change a copy is cheaper than to make one


class Samples:
    """The samples of one shard. faults: what else went wrong while its members were listed, told after everything else. tellers: what other files say."""

    def __init__(self, members: Iterable[Member], reading: Reading, *, faults: Iterable[RawItem] = (), tellers: Sequence[Teller] = ()) -> None:
        self._reading, self._faults, self.tellers = reading, list(faults), tellers
        self._names, self._num_named = SampleNames(reading.key), 0
        self._groups: dict[str, list[Member]] = {}
        for member in members:
            self._groups.setdefault(member.stem, []).append(member)

    @cached_property
    def modalities(self) -> tuple[str, ...]:
        """The modalities of all rows, exactly; never empty."""
        found = {self.modality(member) for member in self._members() if not self.is_json(member) and not member.is_label}
        if any(teller.has_texts for teller in self.tellers) or ("text" not in found and any(self._has_texts(group) for group in self._groups.values())):
            found.add("text")
        return shards.ordered(found) or (self._reading.hint or "text",)

    @cached_property
    def _common(self) -> str | None:
        counts = Counter(member.modality for member in self._members() if member.modality and not self.is_json(member) and not member.is_label)
        return max(MODALITIES, key=lambda modality: counts[modality]) if counts else None

    def named(self, identity: str | int) -> str:
        """The id of a sample that its record names, unique in the shard."""
        self._num_named += 1
        return self._names.of(identity, self._num_named)

    def is_json(self, member: Member) -> bool:
        """Whether the member describes its sample."""
        if self._reading.settings.json_extensions == ("json",):
            return member.is_json
        # An extension of a person's choice says nothing to `sniff`.
        return member.extension in self._reading.settings.json_extensions and member.modality in (None, "text") and member.fault is None

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
        return any(item.modality == "text" for member in group if self.is_json(member) for item in _Sample(self, self._reading, [member]).json_texts())

    def items(self) -> Iterator[RawItem]:
        """The rows of all samples, then the faults of the shard."""
        for group in self._groups.values():
            yield from _Sample(self, self._reading, group).items()
        for teller in self.tellers:
            yield from teller.rest()
        for fault in self._faults:
            yield fault.but(modality=self.home, role="document" if self.home == "text" else "media")


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
        self._told = [teller.tell(members[0].stem, members) for teller in samples.tellers]
        for told in self._told:
            self._metadata = {**told.metadata, **self._metadata}

    def _read_metadata(self) -> None:
        for at, member in enumerate(self._members):
            try:
                if self._samples.is_json(member):
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
        for name in (self._settings.texts_field, self._settings.images_field):
            if isinstance(fields.get(name), list):
                used.add(name)
        used.update(self._media_lists(fields))
        if self._settings.per_image_fields or self._settings.per_text_fields:
            lists = (self._settings.per_image_fields, self._image_tokens(fields)), (self._settings.per_text_fields, self._list(fields, self._settings.texts_field))
            used.update(name for name in {*lists[0][0], *lists[1][0]} if is_spread(fields, name, [tokens for names, tokens in lists if name in names]))
        rest = record_fields.without(fields, used)
        if len(self._records) == 1:
            self._metadata = {**rest, **self._metadata}
        elif rest:
            self._metadata.setdefault(member.name.rpartition("/")[2], rest)
        self._licence = self._licence or licence_field(fields, self._settings)

    def _rename(self) -> None:
        """Call the sample by the field that the settings name, where its record has it; by its stem, still unlike all others, where not."""
        if name := self._settings.sample_id_field:
            given = (fields.get(name) for fields in self._records.values())
            usable = (identity for identity in given if isinstance(identity, (str, int)) and not isinstance(identity, bool) and str(identity))
            self._id = self._samples.named(next(usable, printable(self._members[0].stem)))

    def _read(self, member: Member, limit_bytes: int) -> bytes:
        assert member.content is not None  # only members without a fault are read
        data = member.content.head(limit_bytes + 1)
        if len(data) > limit_bytes:
            raise UnreadableItem(1008, f"size_bytes={member.size_bytes} not in [0, {limit_bytes}]")
        return data

    def items(self) -> list[RawItem]:
        """The sample's rows, positions counted from 0 in the order of the members; interleaved lists give their own positions."""
        self._rename()
        rows = [*self._listed_texts(), *self._listed_images(), *self._listed_media()]
        behind = max(map(_POSITION, rows), default=-1) + 1
        readers: list[tuple[str, bool, TextReader]] = []  # role, whether it has times, the text
        others: list[RawItem] = []
        for at, member in enumerate(self._members):
            if at in self._broken:
                others.append(self._unread(member, self._broken[at]))
            elif at in self._records:
                others.extend(self._record_texts(at, readers))
                faults = not_lists(self._records[at], per_image=self._settings.per_image_fields, per_text=self._settings.per_text_fields)
                others.extend(self._unread(member, fault) for fault in faults)
            elif not member.is_label and id(member) not in self._placed:
                others.append(self._file(member, readers, position=behind + len(others)))
        others.extend(self._told_texts(readers))
        if not rows and not others:
            others = [self._unread(member, Fault(1003, "metadata without any text or media beside it")) for member in self._members]
        rows.extend(item if item.position == behind + at else item.but(position=behind + at) for at, item in enumerate(others))
        rows.sort(key=_POSITION)
        return [self._with_beside(item, readers) for item in rows] if readers else rows

    def _told_texts(self, readers: list[tuple[str, bool, TextReader]]) -> Iterator[RawItem]:
        """The texts that other files have for the sample."""
        for item in (item for told in self._told for item in told.texts):
            content = item.content
            if item.fault is None and content is not None:
                readers.append((item.role, False, lambda content=content: content.open().read().decode()))  # type: ignore[misc]
            yield item.but(sample_id=self._id, metadata=self._metadata)

    def json_texts(self) -> list[RawItem]:
        """The text rows that come from JSON members alone."""
        found = self._listed_texts()
        for at in self._records:
            found.extend(self._record_texts(at, []))
        return found

    def _blank(self, member: Member, pointer: str = "") -> RawItem:
        own = {"duplicate_member": True} if member.duplicate else {}
        return _BLANK.but(ref=member.locate(pointer), sample_id=self._id, metadata=self._metadata, own=own, licence=self._licence, size_bytes=member.size_bytes)

    def _unread(self, member: Member, fault: Fault) -> RawItem:
        home = self._samples.home
        return self._blank(member).but(modality=home, role="document" if home == "text" else "media", content=member.content, fault=fault)

    def _file(self, member: Member, readers: list[tuple[str, bool, TextReader]], *, position: int = 0) -> RawItem:
        item, kind, modality, fault = self._blank(member), member.kind, self._samples.modality(member), member.fault
        own, (told, extension) = item.own, (kind.content_type, kind.extension) if kind else (None, "bin")
        if self._settings.per_image_fields and member.modality == "image" and id(member) not in self._placed:
            own = {**own, **self._beside_list(member)}
        if fault is None and (kind is None or kind.modality is None):
            reason = f"content is {told}, which no modality takes" if told else f"neither the first {sniff.HEAD_BYTES} bytes nor the extension {member.extension!r} tell a type"
            fault = Fault(1012, f"content is {told}, an archive that is not read as one; unpack it") if told in ARCHIVES else Fault(1005, reason)
        if modality != "text":
            licence = item.licence
            for teller in self._told:
                licence, own = licence or teller.licence, {**own, **teller.media}
            return item.but(modality=modality, licence=licence, own=own, content=member.content, fault=fault, content_type=told, extension=extension, position=position)
        timed = told in _TIMED
        role = "transcript" if timed and self._media else record_fields.role_beside(self._media)
        if fault is None:
            readers.append((role, timed, lambda: self._text_of(member)))
        return item.but(role=role, own=own, content=member.content, fault=fault, content_type=told, extension=extension, position=position)

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
        return item.but(beside=tuple(read for _, _, read in chosen))

    def _listed_texts(self) -> list[RawItem]:
        """The rows of the list `texts`: null skipped, everything else at its index in the list."""
        rows: list[RawItem] = []
        name = self._settings.texts_field
        for at, fields in self._records.items():
            tokens = self._list(fields, name)
            own = spread(fields, self._settings.per_text_fields, tokens)
            for position, value in enumerate(tokens):
                if value is not None:
                    text = value if isinstance(value, str) else canonical_json(value)
                    blank = self._blank(self._members[at], record_fields.pointer(name, position))
                    rows.append(text_item(blank, text, "document", position=position, own={**blank.own, **own[position]} if own[position] else blank.own))
        return rows

    def _listed_images(self) -> list[RawItem]:
        """The rows of the list `images`: null skipped, everything else at its index in the list; frames of a TIFF are counted per file."""
        rows: list[RawItem] = []
        for at, fields in self._records.items():
            frames: Counter[str] = Counter()
            tokens = self._list(fields, self._settings.images_field)
            own = spread(fields, self._settings.per_image_fields, tokens)
            for position, token in enumerate(tokens):
                if token is not None:
                    item = self._image(at, position, token, frames)
                    rows.append(item.but(own={**item.own, **own[position]}) if own[position] else item)
        return rows

    def _image_tokens(self, fields: dict[str, Any]) -> list[Any]:
        """What has a value in a field per image: the entries of the list of images or, without one, the images in the order of the members."""
        listed = self._list(fields, self._settings.images_field)
        return listed or [member for member in self._members if member.modality == "image"]

    def _beside_list(self, member: Member) -> dict[str, Any]:
        """The values of the fields per image for an image that stands in no list."""
        own: dict[str, Any] = {}
        for fields in self._records.values():
            tokens = self._image_tokens(fields)
            at = next((at for at, token in enumerate(tokens) if token is member), None)
            if at is not None:
                own |= spread(fields, self._settings.per_image_fields, tokens)[at]
        return own

    @staticmethod
    def _list(fields: dict[str, Any], name: str) -> list[Any]:
        value = fields.get(name)
        return value if isinstance(value, list) else []

    def _image(self, at: int, position: int, token: Any, frames: Counter[str]) -> RawItem:
        member = None if self._is_absent(token, position) else self._resolve(token)
        if member is None:
            home = self._samples.home
            blank = self._blank(self._members[at], record_fields.pointer(self._settings.images_field, position))
            return blank.but(
                modality=home, role="document" if home == "text" else "media", size_bytes=0, position=position, fault=Fault(1003, "an image is named but the sample has none")
            )
        self._placed.add(id(member))
        item = self._file(member, [], position=position)
        explicit = token.get(self._settings.frame_field) if isinstance(token, dict) else None
        if isinstance(explicit, int) and 0 <= explicit < 1 << 31:
            return item.but(ref=replace(item.ref, frame_index=explicit))
        if item.content_type == "image/tiff":
            item = item.but(ref=replace(item.ref, frame_index=frames[member.name]))
            frames[member.name] += 1
        return item

    def _is_absent(self, token: Any, position: int) -> bool:
        """Whether a token is `<stem>.<position>.<extension>`, as the writers of interleaved rows name a member, and no such member is there: no other may stand in for it."""
        return isinstance(token, str) and token.startswith(f"{self._stem}.{position}.") and token not in self._images

    @property
    def _stem(self) -> str:
        return self._members[0].stem.rpartition("/")[2]

    def _media_lists(self, fields: dict[str, Any]) -> list[str]:
        """Which of the lists `audios` and `videos` name members at their positions, as the writer of interleaved rows leaves them."""
        prefix = self._stem
        return [
            name
            for name in _MEDIA_LISTS
            if any(tokens := self._list(fields, name)) and all(isinstance(one, str) and one.startswith(f"{prefix}.{at}.") for at, one in enumerate(tokens) if one is not None)
        ]

    def _listed_media(self) -> list[RawItem]:
        """The rows of the lists `audios` and `videos`: null skipped, everything else at its index in the list."""
        rows: list[RawItem] = []
        for at, fields in self._records.items():
            for name in self._media_lists(fields):
                by_name = {member.name.rpartition("/")[2]: member for member in self._members}
                for position, token in ((position, token) for position, token in enumerate(fields[name]) if token is not None):
                    member = by_name.get(token)
                    if member is None:
                        blank = self._blank(self._members[at], record_fields.pointer(name, position))
                        home, reason = self._samples.home, f"the member {token[:80]} is named but the sample has none"
                        row = blank.but(modality=home, role="document" if home == "text" else "media", size_bytes=0, fault=Fault(1003, reason))
                    else:
                        self._placed.add(id(member))
                        row = self._file(member, [])
                    rows.append(row.but(position=position))
        return rows

    def _resolve(self, token: Any) -> Member | None:
        """The member that a token names: by its whole name, its file name, or what follows the stem; else the sample's first image, unless the token names a member outright."""
        if isinstance(token, dict) and isinstance(name := token.get(self._settings.member_field), str):
            return self._images.get(name)
        return self._images.get(token if isinstance(token, str) else "", self._images.get(""))

    @cached_property
    def _images(self) -> dict[str, Member]:
        """The sample's images by everything that a token may call them; the first image stands under ""."""
        found: dict[str, Member] = {}
        for member in self._members:
            if member.modality == "image":
                found.setdefault("", member)
                base = member.name.rpartition("/")[2]
                short = base.removeprefix(member.stem.rpartition("/")[2] + ".")
                for name in (member.name, base, base.rpartition(".")[0], short, short.rpartition(".")[0]):
                    found.setdefault(name, member)
        return found

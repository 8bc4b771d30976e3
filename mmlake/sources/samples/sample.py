"""One sample: its members, what its record says, and the rows that follow from both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, Protocol

from mmlake.errors import Fault, UnreadableItem
from mmlake.formats import texts
from mmlake.records import canonical_json
from mmlake.sources.raw_items import TIMED, Member, RawItem, Reading, become_text, licence_field
from mmlake.sources.records import fields as record_fields
from mmlake.sources.records.fields import TextField
from mmlake.sources.records.per_row_lists import is_spread, not_lists, spread
from mmlake.sources.samples.companion import Companion
from mmlake.sources.samples.image_tokens import Pictures, Tokens
from mmlake.sources.samples.plain import BESIDE, Naming, pair

_POSITION = attrgetter("position")


class Surroundings(Naming, Protocol):
    """What a sample knows of its shard."""

    pictures: Pictures
    is_lacking: bool  # whether a sample lacks what its record names, or has nothing but a record

    @property
    def modalities(self) -> tuple[str, ...]:
        """The modalities of all rows."""

    @property
    def home(self) -> str:
        """The modality whose table gets the rows of faults that have none themselves."""

    def is_json(self, member: Member) -> bool:
        """Whether the member describes its sample."""

    def bases_of(self, members: Sequence[Member]) -> set[str]:
        """What the names of one sample's members begin with."""

    def file(self, member: Member, sample_id: str, *, metadata: Mapping[str, Any], licence: str | None) -> RawItem:
        """The row of a member by itself."""


class Sample:
    """The members of one stem."""

    def __init__(
        self, samples: Surroundings, reading: Reading, members: list[Member], companions: Sequence[Companion]
    ) -> None:
        self._samples, self._reading, self._settings = samples, reading, reading.settings
        self._members = members
        self._id = samples.id_of(members[0].stem)
        self._media = {member.modality for member in members if member.is_media and member.modality}
        self._metadata: dict[str, Any] = {}
        self._records: dict[int, dict[str, Any]] = {}  # index of a JSON member -> its object
        self._text_fields: dict[int, list[TextField]] = {}  # index of a JSON member -> the texts in fields of their own
        self._broken: dict[int, Fault] = {}  # index of a JSON or label member -> why it says nothing
        self._licence: str | None = None
        self._placed: set[int] = set()  # ids of members that an interleaved list has given a place
        self._tokens = Tokens(members, samples.bases_of, shard=samples.pictures, settings=self._settings)
        for at, member in enumerate(members):
            if member.is_label or samples.is_json(member):
                self._describe(at, member)
        self._said = [companion.describe(members[0].stem, members) for companion in companions]
        for description in self._said:
            self._metadata = {**description.metadata, **self._metadata}

    def _describe(self, at: int, member: Member) -> None:
        try:
            if self._samples.is_json(member):
                self._read_json(at, member)
            else:
                text = texts.decode_text(
                    self._read(member, self._settings.max_small_member_bytes), settings=self._settings
                )[0]
                self._metadata.setdefault(member.extension, text.strip())
        except UnreadableItem as error:
            self._broken[at] = Fault.of(error)

    def _read_json(self, at: int, member: Member) -> None:
        settings = self._settings
        fields = texts.parse_object(self._read(member, settings.max_text_bytes), settings=settings)
        self._records[at] = fields
        self._text_fields[at] = found = record_fields.text_fields(fields, self._media, settings=settings)
        used = record_fields.taken(found)
        for name in (settings.texts_field, settings.images_field):
            if fields.get(name) is None or isinstance(fields[name], list):
                used.add(name)
        used.update(self._tokens.media_lists(fields))
        if settings.per_image_fields or settings.per_text_fields:
            lists = (
                (settings.per_image_fields, self._image_tokens(fields)),
                (settings.per_text_fields, self._list(fields, settings.texts_field)),
            )
            used.update(
                name
                for name in {*lists[0][0], *lists[1][0]}
                if is_spread(fields, name, [tokens for names, tokens in lists if name in names])
            )
        rest = record_fields.without(fields, used)
        if len(self._records) == 1:
            self._metadata = {**rest, **self._metadata}
        elif rest:
            self._metadata.setdefault(member.name.rpartition("/")[2], rest)
        self._licence = self._licence or licence_field(fields, settings)

    def _rename(self) -> None:
        """Call the sample by the field that the settings name, where its record has it; by its stem, still unlike
        all others, where not."""
        if name := self._settings.sample_id_field:
            given = [fields.get(name) for fields in self._records.values()]
            self._id = self._samples.name_of(self._members[0].stem, given)

    def _read(self, member: Member, limit_bytes: int) -> bytes:
        assert member.content is not None  # only members without a fault are read
        return member.content.whole(limit_bytes, member.size_bytes)

    def items(self) -> list[RawItem]:
        """The sample's rows, positions counted from 0 in the order of the members; interleaved lists give their own
        positions."""
        self._rename()
        rows = [*self._listed_texts(), *self._listed_images(), *self._listed_media()] if self._records else []
        behind = max(map(_POSITION, rows)) + 1 if rows else 0
        others: list[RawItem] = []
        for at, member in enumerate(self._members):
            if at in self._broken:
                others.append(self._unread(member, self._broken[at]))
            elif at in self._records:
                others.extend(self._record_texts(at))
                if self._settings.per_image_fields or self._settings.per_text_fields:
                    faults = not_lists(
                        self._records[at],
                        per_image=self._settings.per_image_fields,
                        per_text=self._settings.per_text_fields,
                    )
                    others.extend(self._unread(member, fault) for fault in faults)
            elif not member.is_label and id(member) not in self._placed:
                others.append(self._file(member))
        said = [item.replace(sample_id=self._id, metadata=self._metadata) for one in self._said for item in one.texts]
        others += said
        if not rows and not others:
            self._samples.is_lacking = True
            others = [
                self._unread(member, Fault(1003, "metadata without any text or media beside it"))
                for member in self._members
            ]
        for at, item in enumerate(others, behind):
            item.position = at
        rows += others
        if behind and len(rows) > 1:
            rows.sort(key=_POSITION)
        if self._media:
            # A dialogue was written for the medium: it is what stands beside it.
            found = [item.replace(role="caption") if item.role == "document" else item for item in said]
            own = others[: len(others) - len(said)]
            beside = [item for item in own if item.modality == "text"] + found
            if readable := [item for item in beside if item.fault is None and item.role in BESIDE]:
                pair(rows, readable, self._settings)
        return rows

    def json_texts(self) -> list[RawItem]:
        """The text rows that come from JSON members alone."""
        found = self._listed_texts()
        for at in self._records:
            found.extend(self._record_texts(at))
        return found

    def _blank(self, member: Member, pointer: str = "") -> RawItem:
        """A row of the sample that says nothing yet, at a place in the member."""
        return RawItem(
            modality="text",
            ref=member.locate(pointer),
            sample_id=self._id,
            metadata=self._metadata,
            own=member.notes,
            licence=self._licence,
            size_bytes=member.size_bytes,
        )

    def _unread(self, member: Member, fault: Fault) -> RawItem:
        home = self._samples.home
        return self._blank(member).replace(
            modality=home, role="document" if home == "text" else "media", content=member.content, fault=fault
        )

    def _absent(self, at: int, pointer: str, position: int, reason: str, *, modality: str) -> RawItem:
        """The row of something of that modality that a record names and the sample does not have."""
        self._samples.is_lacking = True
        home = modality if modality in self._samples.modalities else self._samples.home
        blank = self._blank(self._members[at], pointer)
        return blank.replace(
            modality=home,
            role="document" if home == "text" else "media",
            size_bytes=0,
            position=position,
            fault=Fault(1003, reason),
        )

    def _file(self, member: Member, *, position: int = 0) -> RawItem:
        item = self._samples.file(member, self._id, metadata=self._metadata, licence=self._licence)
        item.position = position
        if self._settings.per_image_fields and member.modality == "image" and id(member) not in self._placed:
            item.own = {**item.own, **self._own_values(member)}
        if item.modality == "text":
            is_timed = item.content_type in TIMED
            item.role = "transcript" if is_timed and self._media else record_fields.text_role(self._media)
            return item
        for said in self._said:
            both = [*item.own.get("objects", ()), *said.media.get("objects", ())]  # of COCO's and of label files
            item.licence = item.licence or said.licence
            item.own = {**item.own, **said.media, **({"objects": both} if both else {})}
        return item

    def _record_texts(self, at: int) -> Iterator[RawItem]:
        for field in self._text_fields[at]:
            if field.index is not None and field.name == self._settings.texts_field:
                continue  # the list has rows with its positions, whatever other lists are called so
            item = become_text(self._blank(self._members[at], field.pointer), field.text, field.role)
            if field.own:
                item.own = {**item.own, **field.own}
            yield item

    def _listed_texts(self) -> list[RawItem]:
        """The rows of the list `texts`: null skipped, everything else at its index in the list."""
        rows: list[RawItem] = []
        name = self._settings.texts_field
        for at, fields in self._records.items():
            member, tokens = self._members[at], self._list(fields, name)
            own = spread(fields, self._settings.per_text_fields, tokens) if self._settings.per_text_fields else ()
            for position, value in enumerate(tokens):
                if value is not None:
                    item = become_text(
                        self._blank(member, record_fields.pointer(name, position)),
                        value if isinstance(value, str) else canonical_json(value),
                        "document",
                    )
                    item.position = position
                    if own and own[position]:
                        item.own = {**item.own, **own[position]}
                    rows.append(item)
        return rows

    def _listed_images(self) -> list[RawItem]:
        """The rows of the list `images`: null skipped, everything else at its index in the list; frames of a TIFF
        are counted per file."""
        rows: list[RawItem] = []
        for at, fields in self._records.items():
            frames: dict[str, int] = {}
            tokens = self._list(fields, self._settings.images_field)
            own = spread(fields, self._settings.per_image_fields, tokens) if self._settings.per_image_fields else ()
            for position, token in enumerate(tokens):
                if token is not None:
                    item = self._image(at, position, token, frames)
                    if own and own[position]:
                        item.own = {**item.own, **own[position]}
                    rows.append(item)
        return rows

    def _image_tokens(self, fields: dict[str, Any]) -> list[Any]:
        """What has a value in a field per image: the entries of the list of images or, without one, the images in
        the order of the members."""
        listed = self._list(fields, self._settings.images_field)
        return listed or [member for member in self._members if member.modality == "image"]

    def _own_values(self, member: Member) -> dict[str, Any]:
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

    def listed_images(self) -> Iterator[Member]:
        """The images that the lists name, whichever sample they belong to."""
        for fields in self._records.values():
            found = (
                self._tokens.image(token, at, fields)
                for at, token in enumerate(self._list(fields, self._settings.images_field))
                if token is not None
            )
            yield from (member for member in found if member is not None)

    def _image(self, at: int, position: int, token: Any, frames: dict[str, int]) -> RawItem:
        member = self._tokens.image(token, position, self._records[at])
        if member is None:
            pointer = record_fields.pointer(self._settings.images_field, position)
            return self._absent(at, pointer, position, "an image is named but the sample has none", modality="image")
        self._placed.add(id(member))
        item = self._file(member, position=position)
        if member.modality is None:
            item.modality, item.role = "image", "media"  # whatever it is, it was listed as one
        explicit = token.get(self._settings.frame_field) if isinstance(token, dict) else None
        if isinstance(explicit, int) and not isinstance(explicit, bool) and 0 <= explicit < 1 << 31:
            item.ref = item.ref._replace(frame_index=explicit)
        elif item.content_type == "image/tiff":
            item.ref = item.ref._replace(frame_index=frames.get(member.name, 0))
            frames[member.name] = frames.get(member.name, 0) + 1
        return item

    def _listed_media(self) -> list[RawItem]:
        """The rows of the lists `audios` and `videos`: null skipped, everything else at its index in the list."""
        rows: list[RawItem] = []
        for at, fields in self._records.items():
            for name in self._tokens.media_lists(fields):
                for position, token in (
                    (position, token) for position, token in enumerate(fields[name]) if token is not None
                ):
                    member = self._tokens.by_file_name.get(token)
                    if member is None:
                        rows.append(
                            self._absent(
                                at,
                                record_fields.pointer(name, position),
                                position,
                                f"the member {token[:80]} is named but the sample has none",
                                modality=name[:-1],
                            )
                        )
                    else:
                        self._placed.add(id(member))
                        rows.append(self._file(member, position=position))
        return rows

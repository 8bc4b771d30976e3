"""One sample: its members, what its record says, and the rows that follow from both.

A million samples pass through here per shard: rows are made of positional arguments, and what few samples have costs
the others nothing; figures in docs/decisions/0024-one-way-from-a-sample-to-its-rows.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from types import NoneType
from typing import Any, NamedTuple

from mmlake.errors import Fault, UnreadableItem
from mmlake.formats import label_files, sniff, texts
from mmlake.formats.label_files import Classes
from mmlake.formats.texts import printable
from mmlake.media_names import PROGRAM_NAMES
from mmlake.records import canonical_json
from mmlake.sources.names import SampleNames
from mmlake.sources.raw_items import NOTHING, TIMED, Member, RawItem, become_text, record_endings, role_of
from mmlake.sources.records import fields as record_fields
from mmlake.sources.records.fields import TextField, first_of, spellings
from mmlake.sources.records.interleaved import is_spread, not_lists, spread
from mmlake.sources.samples.companion import Companion, Description
from mmlake.sources.samples.image_tokens import MEDIA_LISTS, Pictures, Tokens
from mmlake.sources.samples.pairing import ROLES, pair, repeat_captions, role_of_file, texts_of_parts
from mmlake.sources.samples.unread_content import unread_content
from mmlake.sources.settings import SourceSettings

_POSITION = attrgetter("position")
_MAX_SHAPES = 1024  # sets of fields that are kept for the records of one shard


class Shape(NamedTuple):
    """What follows from the names of a record's fields alone."""

    may_hold_texts: bool  # in fields of their own
    may_list_media: bool  # sound and films
    licences: tuple[str, ...]


class Surroundings:
    """What a sample knows of its shard: the names of samples and the shapes of records."""

    pictures = Pictures()
    is_lacking = False  # whether a sample whose rows were given lacks what its record names, or has a record alone

    def __init__(self, key: str, settings: SourceSettings) -> None:
        self.settings, self._key = settings, key
        self.classes: Callable[[str], Classes] = lambda stem: Classes()  # what numbers in labels of a sample mean
        self._names: SampleNames | None = None  # where records name their samples
        self._num_named = 0
        self._shapes: dict[tuple[str, ...], Shape] = {}
        self._extensions = record_endings(settings.json_extensions)
        # whether a member describes its sample
        is_usual = self._extensions == (".json",)
        self.is_json: Callable[[Member], bool] = attrgetter("is_json") if is_usual else self._ends_as_record

    @property
    def modalities(self) -> tuple[str, ...]:
        """The modalities of all rows."""
        raise NotImplementedError

    def modality(self, member: Member) -> str:
        """The modality whose table gets the member's row."""
        raise NotImplementedError

    @property
    def home(self) -> str:
        """The modality whose table gets the rows of faults that have none themselves."""
        return self.modalities[0]

    def _ends_as_record(self, member: Member) -> bool:
        # An extension of a person's choice says nothing to `sniff`.
        is_named = member.name.lower().endswith(self._extensions)
        return is_named and member.modality in (None, "text") and member.fault is None

    def id_of(self, stem: str) -> str:
        """The id of a sample that is called by its stem."""
        return f"{self._key}/{stem if stem.isascii() else printable(stem)}"

    def name_of(self, stem: str, given: Sequence[object]) -> str:
        """The id of a sample that its record names, unique in the shard: by the first usable one that is given, else by
        its stem. Asked for once per sample."""
        usable = (one for one in given if isinstance(one, (str, int)) and not isinstance(one, bool) and str(one))
        self._names = self._names or SampleNames(self._key)
        self._num_named += 1
        return self._names.of(next(usable, printable(stem)), self._num_named)

    def base_of(self, member: Member) -> str:
        """The name of a record without what makes it one."""
        ending = next((one for one in self._extensions if member.name.lower().endswith(one)), "")
        return member.name[: len(member.name) - len(ending)].removeprefix("./")

    def bases_of(self, members: Sequence[Member]) -> set[str]:
        """What the names of one sample's members begin with: its stem, and what its records are called."""
        records = (self.base_of(member).rpartition("/")[2] for member in members if self.is_json(member))
        return {members[0].stem.rpartition("/")[2], *records}

    def shape_of(self, names: tuple[str, ...]) -> Shape:
        """The shape of a record with fields of these names; the records of a shard have few."""
        shape = self._shapes.get(names)
        if shape is None:
            (licences,) = spellings(names, self.settings.licence_fields)
            may_hold_texts = record_fields.may_hold_texts(names, settings=self.settings)
            shape = Shape(may_hold_texts, any(map(names.__contains__, MEDIA_LISTS)), licences)
            if len(self._shapes) < _MAX_SHAPES:
                self._shapes[names] = shape
        return shape


class Sample:
    """The members of one stem."""

    __slots__ = (
        "_broken", "_described_by", "_has_lists", "_id", "_licence", "_media", "_media_lists", "_members", "_metadata",
        "_placed", "_records", "_roles", "_said", "_samples", "_settings", "_text_fields", "_tokens",
    )  # fmt: skip

    def __init__(self, samples: Surroundings, members: list[Member], companions: Sequence[Companion]) -> None:
        self._samples, self._settings, self._members = samples, samples.settings, members
        stem, is_json = members[0].stem, samples.is_json
        self._id = samples.id_of(stem)
        self._metadata: dict[str, Any] = {}
        self._records: dict[int, dict[str, Any]] = {}  # index of a JSON member -> its object
        self._text_fields: dict[int, list[TextField]] = {}  # index of a JSON member -> the texts in fields of their own
        self._media_lists: list[tuple[int, str]] = []  # index of a JSON member, list of its that names sound or films
        self._broken: dict[int, Fault] = {}  # index of a JSON or label member -> why it says nothing
        self._licence: str | None = None
        self._roles: dict[str, str] = {}  # name of a text -> its role, where a record states it
        self._placed: set[int] = set()  # ids of members that an interleaved list has given a place
        self._media: set[str] = set()
        self._described_by: list[int] = []  # indexes of JSON and label members
        self._has_lists = False  # of texts and images
        self._said: list[Description] = []
        for at, member in enumerate(members):
            if member.is_media:
                self._media.add(member.modality or "")
            elif member.is_label or is_json(member):
                self._described_by.append(at)
        if self._media and any(sniff.is_drawing(member.kind) for member in members):
            self._media.add("image")  # whose caption a text next to a recording is
        if self._described_by:
            self._tokens = Tokens(members, samples.bases_of, shard=samples.pictures, settings=samples.settings)
            for at in self._described_by:
                self._describe(at, members[at])
        for companion in companions:
            self._said.append(companion.describe(stem, members))
            self._metadata = {**self._said[-1].metadata, **self._metadata}

    def _describe(self, at: int, member: Member) -> None:
        content, settings = member.content, self._settings
        assert content is not None  # only members without a fault are read
        try:
            if self._samples.is_json(member):
                data = content.whole(settings.max_text_bytes, member.size_bytes)
                named = record_fields.of_medium if self._media else record_fields.refuse_list
                self._records[at] = fields = texts.parse_object(data, settings=settings, named=named)
                self._read_record(at, member, fields)
            elif member.extension in label_files.ENDINGS and not member.is_aside:
                data = content.whole(settings.max_text_bytes, member.size_bytes)
                media, fault = label_files.described(data, member.extension, self._samples.classes(member.stem))
                self._said.append(Description(media=media))
                self._broken |= {} if fault is None else {at: fault}
            else:
                data = content.whole(member.label_limit(settings.max_small_member_bytes), member.size_bytes)
                text, _ = texts.decode_text(data, min_confidence=settings.min_charset_confidence)
                self._metadata.setdefault(member.extension, text.strip())
        except UnreadableItem as error:
            self._broken[at] = Fault.of(error)

    def _read_record(self, at: int, member: Member, fields: dict[str, Any]) -> None:
        settings, shape = self._settings, self._samples.shape_of(tuple(fields))
        found = record_fields.text_fields(fields, self._media, settings=settings) if shape.may_hold_texts else []
        if found and record_fields.is_phrasebook(fields):
            found = []
        used = record_fields.taken(found) if found else set()
        if "parts" in fields:
            self._roles, written = texts_of_parts(fields["parts"], self._members)
            found = [one for one in found if one.text not in written]
        self._text_fields[at] = found
        for name in (settings.texts_field, settings.images_field):
            if name in fields and isinstance(fields[name], (list, NoneType)):
                used.add(name)
                self._has_lists = True
        if shape.may_list_media and (listed := self._tokens.media_lists(fields)):
            self._media_lists += ((at, name) for name in listed)
            used.update(listed)
        if settings.per_image_fields or settings.per_text_fields:
            lists = (
                (settings.per_image_fields, self._image_tokens(fields)),
                (settings.per_text_fields, _list(fields, settings.texts_field)),
            )
            used.update(
                name
                for name in {*lists[0][0], *lists[1][0]}
                if is_spread(fields, name, [tokens for names, tokens in lists if name in names])
            )
        rest = record_fields.without(fields, used)
        if len(self._records) == 1:
            self._metadata = {**rest, **self._metadata} if self._metadata else rest
        elif rest:
            self._metadata.setdefault(member.name.rpartition("/")[2], rest)
        if shape.licences and not self._licence and (licence := first_of(fields, shape.licences)) is not None:
            self._licence = str(fields[licence])

    def items(self) -> list[RawItem]:
        """The sample's rows, positions counted from 0 in the order of the members; interleaved lists give their own
        positions."""
        settings, members = self._settings, self._members
        if settings.sample_id_field:
            # by the field, where its record has it; by its stem, still unlike all others, where not
            given = [fields.get(settings.sample_id_field) for fields in self._records.values()]
            self._id = self._samples.name_of(members[0].stem, given)
        rows: list[RawItem] = [*self._listed_texts(), *self._listed_images()] if self._has_lists else []
        if self._media_lists:
            rows += self._listed_media()
        rows.sort(key=_POSITION)
        behind = rows[-1].position + 1 if rows else 0
        others: list[RawItem] = []
        for at, member in enumerate(members):
            if at not in self._described_by:
                if id(member) not in self._placed:
                    others.append(self._file(member, 0))
            elif at in self._broken:
                others.append(self._unread(member, self._broken[at]))
            elif at in self._records:
                others += self._record_texts(at)
                if settings.per_image_fields or settings.per_text_fields:
                    per_image, per_text = settings.per_image_fields, settings.per_text_fields
                    faults = not_lists(self._records[at], per_image=per_image, per_text=per_text)
                    others += (self._unread(member, fault) for fault in faults)
        num_own = len(others)
        for one in self._said:
            others += (item.replace(sample_id=self._id, metadata=self._metadata) for item in one.texts)
        if self._records and self._media:
            repeat_captions(others)
        if not rows and not others:
            self._samples.is_lacking = True
            fault = Fault(1003, record_fields.why_alone(self._records.values()))
            others = [self._unread(member, fault) for member in members]
        for at, item in enumerate(others, behind):
            item.position = at
        rows += others
        if self._media and others:
            texts_of_it = others
            if len(others) > num_own:
                # A dialogue was written for the medium: it is its caption.
                said = [one.replace(role="caption") if one.role == "document" else one for one in others[num_own:]]
                texts_of_it = [*others[:num_own], *said]
            readable = [item for item in texts_of_it if item.role in ROLES and item.fault is None]
            if readable:
                pair(rows, readable, settings)
        return rows

    def json_texts(self) -> list[RawItem]:
        """The text rows that come from JSON members alone."""
        return [*self._listed_texts(), *(item for at in self._records for item in self._record_texts(at))]

    def listed_images(self) -> Iterator[Member]:
        """The images that the lists name, whichever sample they belong to."""
        for at, position, token, _ in self._entries(self._settings.images_field):
            if (member := self._tokens.image(token, position, self._records[at])) is not None:
                yield member

    def _blank(self, member: Member, pointer: str, position: int = 0) -> RawItem:
        """A row of the sample that says nothing yet, at a place in the member."""
        return RawItem(
            "text", member.locate(pointer), self._id, position, "media", None, "bin", None, member.size_bytes,
            self._metadata, member.notes, self._licence,
        )  # fmt: skip

    def _unread(self, member: Member, fault: Fault) -> RawItem:
        home = self._samples.home
        return self._blank(member, "").replace(modality=home, role=role_of(home), content=member.content, fault=fault)

    def _absent(self, at: int, pointer: str, position: int, reason: str, *, modality: str) -> RawItem:
        """The row of something of that modality that a record names and the sample does not have."""
        self._samples.is_lacking = True
        home = modality if modality in self._samples.modalities else self._samples.home
        blank = self._blank(self._members[at], pointer, position).replace(modality=home, role=role_of(home))
        return blank.replace(size_bytes=0, fault=Fault(1003, reason))

    def _file(self, member: Member, position: int) -> RawItem:
        """The row of a member by itself: a medium, or a document."""
        kind, fault = member.kind, member.fault
        modality = member.modality or self._samples.modality(member)
        if fault is None and member.modality is None:
            fault = unread_content(member)
        role = role_of(modality)
        if modality == "text" and (fault is None or member.modality is not None):  # a PDF is no caption
            media = () if member.extension in PROGRAM_NAMES else self._media
            is_timed = media and kind is not None and kind.content_type in TIMED
            role = "transcript" if is_timed else role_of_file(member.extension, media)
            role = self._roles.get(member.name, role)
        item = RawItem(
            modality, member.locate(""), self._id, position, role, None if kind is None else kind.content_type,
            "bin" if kind is None else kind.extension, member.content, member.size_bytes, self._metadata,
            member.notes, self._licence, fault,
        )  # fmt: skip
        if self._settings.per_image_fields and member.modality == "image" and id(member) not in self._placed:
            item.own = {**item.own, **self._own_values(member)}
        for said in self._said if modality != "text" else ():
            both = [*item.own.get("objects", ()), *said.media.get("objects", ())]  # of COCO's and of label files
            item.licence = item.licence or said.licence
            item.own = {**item.own, **said.media, **({"objects": both} if both else {})}
        return item

    def _record_texts(self, at: int) -> Iterator[RawItem]:
        for field in self._text_fields[at]:
            if field.index is not None and field.name == self._settings.texts_field:
                continue  # the list has rows with its positions, whatever other lists are called so
            item = become_text(self._blank(self._members[at], field.pointer), field.text, field.role)
            item.own = {**item.own, **field.own} if field.own else item.own
            yield item

    def _entries(self, name: str, per_entry: tuple[str, ...] = ()) -> list[tuple[int, int, Any, Mapping[str, Any]]]:
        """(record, position, entry, what the fields per entry say of it) of the lists in the field: null skipped,
        everything else at its index in the list."""
        found: list[tuple[int, int, Any, Mapping[str, Any]]] = []
        for at, fields in self._records.items():
            if isinstance(tokens := fields.get(name), list):
                own = spread(fields, per_entry, tokens) if per_entry else ()
                found += [
                    (at, place, one, own[place] if own else NOTHING)
                    for place, one in enumerate(tokens)
                    if one is not None
                ]
        return found

    def _listed_texts(self) -> Iterator[RawItem]:
        name = self._settings.texts_field
        pointer = record_fields.pointer(name)
        for at, position, value, own in self._entries(name, self._settings.per_text_fields):
            text = value if isinstance(value, str) else canonical_json(value)
            item = become_text(self._blank(self._members[at], f"{pointer}/{position}", position), text, "document")
            if own:
                item.own = {**item.own, **own}
            yield item

    def _listed_images(self) -> Iterator[RawItem]:
        settings = self._settings
        frames: dict[tuple[int, str], int] = {}  # of TIFFs, as far as a record listed them
        for at, position, token, own in self._entries(settings.images_field, settings.per_image_fields):
            member = self._tokens.image(token, position, self._records[at])
            if member is None:
                pointer = record_fields.pointer(settings.images_field, position)
                is_name = isinstance(token, str) and "://" not in token  # an address may hold a password
                name = f"the image {printable(token[:80])}" if is_name else "an image"
                item = self._absent(at, pointer, position, f"{name} is named but the sample has none", modality="image")
            else:
                self._placed.add(id(member))
                item = self._file(member, position)
                if member.modality is None:
                    item.modality, item.role = "image", "media"  # whatever it is, it was listed as one
                explicit = token.get(settings.frame_field) if isinstance(token, dict) else None
                if isinstance(explicit, int) and not isinstance(explicit, bool) and 0 <= explicit < 1 << 31:
                    item.ref = item.ref._replace(frame_index=explicit)
                elif item.content_type == "image/tiff":
                    frame = frames[at, member.name] = frames.get((at, member.name), -1) + 1
                    item.ref = item.ref._replace(frame_index=frame)
            if own:
                item.own = {**item.own, **own}
            yield item

    def _listed_media(self) -> Iterator[RawItem]:
        """The rows of the lists `audios` and `videos`: null skipped, everything else at its index in the list."""
        for at, name in self._media_lists:
            for position, token in enumerate(self._records[at][name]):
                if token is None:
                    continue
                if (member := self._tokens.by_file_name.get(token)) is not None:
                    self._placed.add(id(member))
                    yield self._file(member, position)
                else:
                    pointer = record_fields.pointer(name, position)
                    reason = f"the member {token[:80]} is named but the sample has none"
                    yield self._absent(at, pointer, position, reason, modality=name[:-1])

    def _image_tokens(self, fields: dict[str, Any]) -> list[Any]:
        """What has a value in a field per image: the entries of the list of images or, without one, the images in
        the order of the members."""
        listed = _list(fields, self._settings.images_field)
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


def _list(fields: dict[str, Any], name: str) -> list[Any]:
    value = fields.get(name)
    return value if isinstance(value, list) else []

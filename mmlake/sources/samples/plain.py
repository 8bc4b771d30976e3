"""Samples of the plainest form: what `Sample` makes of them, at a fraction of its cost.

Plain are whole members of known types with at most one record among them, whose lists name texts and members outright.
Whatever is odd in any way is left to `Sample`, which is the rule for both: tests hold the rows of one against those of
the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

from mmlake.errors import UnreadableItem
from mmlake.formats import texts
from mmlake.sources.raw_items import NOTHING, TIMED, Member, RawItem, TextReader, become_text, first_of, spellings
from mmlake.sources.records import fields as record_fields
from mmlake.sources.settings import SourceSettings

_MAX_RECORD_BYTES = 1 << 16  # of a plain record: larger ones are few, and what they cost is reading them
_MAX_SHAPES = 1024  # sets of fields that are kept for the records of one shard
_MEDIA_LISTS = ("audios", "videos")
_POSITION = attrgetter("position")
BESIDE = ("caption", "transcript")  # the roles of texts that belong to media


class _Shape(NamedTuple):
    """What follows from the names of a record's fields alone."""

    is_plain: bool
    has_texts: bool  # whether texts may stand in fields of their own
    licences: tuple[str, ...]


class Naming(Protocol):
    """Gives samples their ids."""

    def id_of(self, stem: str) -> str:
        """The id of a sample that is called by its stem."""

    def name_of(self, stem: str, given: Sequence[object]) -> str:
        """The id of a sample whose record may give it one."""


class PlainSamples:
    """Makes the rows of the plain samples of one shard, and of no others."""

    def __init__(self, naming: Naming, settings: SourceSettings) -> None:
        self._naming, self._settings = naming, settings
        self._is_possible = (
            settings.json_extensions == ("json",) and not settings.per_image_fields and not settings.per_text_fields
        )
        self._shapes: dict[tuple[str, ...], _Shape] = {}

    def of(self, members: list[Member]) -> list[RawItem] | None:
        """The rows of these members, in their order; None where the sample is not plain."""
        if not self._is_possible:
            return None
        record: Member | None = None
        media: set[str] = set()  # not set[str](), which takes ten times as long: once per sample
        for member in members:
            if member.fault is not None or member.modality is None or member.notes or member.is_label:
                return None
            if member.is_media:
                media.add(member.modality)
            elif member.is_json:
                if record is not None:
                    return None
                record = member
        try:
            rows = self._alone(members, media) if record is None else self._described(members, record, media)
        except (_Odd, UnreadableItem):
            return None
        if media and (texts_beside := [row for row in rows if row.role in BESIDE]):
            pair(rows, texts_beside, self._settings)
        return rows

    def _alone(self, members: list[Member], media: set[str]) -> list[RawItem]:
        sample_id = self._naming.id_of(members[0].stem)
        rows = [_file(member, at, media, sample_id, NOTHING, None) for at, member in enumerate(members)]
        return self._renamed(rows, members[0].stem, NOTHING)

    def _described(self, members: list[Member], record: Member, media: set[str]) -> list[RawItem]:
        """The rows of the sample that the record describes."""
        settings = self._settings
        assert record.content is not None
        data = record.content.head(_MAX_RECORD_BYTES + 1)
        if len(data) > _MAX_RECORD_BYTES:
            raise _Odd
        fields = texts.parse_object(data, settings=settings)
        shape = self._shape_of(tuple(fields))
        if not shape.is_plain:
            raise _Odd
        found = record_fields.text_fields(fields, media, settings=settings) if shape.has_texts else []
        used = record_fields.taken(found) if found else set()
        listed_texts, listed_images = (
            _list_of(fields, name, used) for name in (settings.texts_field, settings.images_field)
        )
        licence = first_of(fields, shape.licences) if shape.licences else None
        sample_id = self._naming.id_of(members[0].stem)
        metadata = {name: value for name, value in fields.items() if name not in used}
        licence = None if licence is None else str(fields[licence])

        def text(value: object, pointer: str, position: int, role: str) -> RawItem:
            if type(value) is not str:
                raise _Odd
            row = RawItem(
                "text", record.locate(pointer), sample_id, position, role, None, "txt", None, 0, metadata, NOTHING,
                licence,
            )  # fmt: skip
            if become_text(row, value, role).fault is not None:
                raise _Odd
            return row

        pointer = record_fields.pointer(settings.texts_field)
        rows = [
            text(value, f"{pointer}/{at}", at, "document") for at, value in enumerate(listed_texts) if value is not None
        ]
        placed: set[int] = set()  # ids of members
        for position, member in _listed_images(members, listed_images) if listed_images else ():
            placed.add(id(member))
            rows.append(_file(member, position, media, sample_id, metadata, licence))
        rows.sort(key=_POSITION)
        position = rows[-1].position + 1 if rows else 0
        for member in members:
            if member is record:
                for field in found:
                    # the texts of the list have their positions
                    if field.index is None or field.name != settings.texts_field:
                        rows.append(text(field.text, field.pointer, position, field.role))
                        rows[-1].own = field.own or NOTHING
                        position += 1
            elif id(member) not in placed:
                rows.append(_file(member, position, media, sample_id, metadata, licence))
                position += 1
        if not rows:
            raise _Odd
        return self._renamed(rows, members[0].stem, fields)

    def _renamed(self, rows: list[RawItem], stem: str, fields: Mapping[str, Any]) -> list[RawItem]:
        """The rows under the id that the record gives. Such ids are counted, so that one is asked for once everything
        else is known."""
        if name := self._settings.sample_id_field:
            sample_id = self._naming.name_of(stem, (fields.get(name),))
            for row in rows:
                row.sample_id = sample_id
        return rows

    def _shape_of(self, names: tuple[str, ...]) -> _Shape:
        shape = self._shapes.get(names)
        if shape is None:
            settings = self._settings
            (licences,) = spellings(names, settings.licence_fields)
            shape = _Shape(
                not any(name in names for name in _MEDIA_LISTS),
                record_fields.may_hold_texts(names, settings=settings),
                licences,
            )
            if len(self._shapes) < _MAX_SHAPES:
                self._shapes[names] = shape
        return shape


class _Odd(Exception):
    """The sample is not plain."""


def _list_of(fields: Mapping[str, Any], name: str, used: set[str]) -> Sequence[Any]:
    """The list in the field. The field is added to the used ones where it is a list, or null, which says nothing."""
    listed = fields.get(name)
    if listed is None or isinstance(listed, list):
        used.add(name)
    return listed if isinstance(listed, list) else ()


def _listed_images(members: list[Member], tokens: Sequence[Any]) -> list[tuple[int, Member]]:
    """(position, image) of the tokens that name one."""
    by_name = {member.name: member for member in members}
    found = []
    for position, token in enumerate(tokens):
        if token is not None:
            member = by_name.get(token) if type(token) is str else None
            kind = member.kind if member is not None else None
            if member is None or kind is None or kind.modality != "image" or kind.content_type == "image/tiff":
                raise _Odd
            found.append((position, member))
    return found


def _file(
    member: Member, position: int, media: set[str], sample_id: str, metadata: Mapping[str, Any], licence: str | None
) -> RawItem:
    """The row of a member by itself. media: the modalities of those in the sample."""
    kind, modality = member.kind, member.modality
    assert kind is not None and modality is not None
    role = "media"
    if modality == "text":
        role = "transcript" if media and kind.content_type in TIMED else record_fields.text_role(media)
    return RawItem(
        modality, member.locate(""), sample_id, position, role, kind.content_type, kind.extension, member.content,
        member.size_bytes, metadata, NOTHING, licence,
    )  # fmt: skip


def pair(rows: Iterable[RawItem], readable: Sequence[RawItem], settings: SourceSettings) -> None:
    """Give the media among the rows the texts that came beside them, which are captions and transcripts that can be
    read: images the captions, else the transcripts; sound and films the other way round, those with times first."""
    alone = (partial(_text_of, readable[0], settings),) if len(readable) == 1 else None
    chosen: dict[bool, tuple[TextReader, ...]] = {}  # by whether it is for an image
    for item in rows:
        if item.role == "media" and item.fault is None:
            item.beside = alone or _ranked(readable, item.modality == "image", chosen, settings)


def _ranked(
    readable: Sequence[RawItem], is_image: bool, chosen: dict[bool, tuple[TextReader, ...]], settings: SourceSettings
) -> tuple[TextReader, ...]:
    """Readers of the texts of the role that comes first. chosen: those that were found before."""
    if is_image not in chosen:
        order = BESIDE if is_image else BESIDE[::-1]
        ranked = sorted(readable, key=lambda text: (order.index(text.role), not _has_times(text)))
        chosen[is_image] = tuple(partial(_text_of, text, settings) for text in ranked if text.role == ranked[0].role)
    return chosen[is_image]


def _has_times(item: RawItem) -> bool:
    """Whether the text is a file with times."""
    return item.content_type in TIMED and item.content is not None and item.content.text is None


def _text_of(item: RawItem, settings: SourceSettings) -> str | None:
    """The text of a row; None where it cannot be read, which its own row says."""
    content = item.content
    assert content is not None
    if content.text is not None:
        return content.text
    try:
        return texts.decode_text(content.whole(settings.max_text_bytes), settings=settings)[0]
    except UnreadableItem:
        return None

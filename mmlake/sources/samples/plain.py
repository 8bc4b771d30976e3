"""Samples of the plainest form, all rows of one at once: what `Sample` makes of them item by item, at a fraction of its
cost.

Plain are whole members of known types with at most one record among them, whose lists name texts and members outright.
Whatever is odd in any way is left to `Sample`, which is the rule for both: tests hold the rows of one against those of
the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from mmlake.errors import UnreadableItem
from mmlake.formats import sniff, texts
from mmlake.formats.texts import printable
from mmlake.sources.raw_items import TEXT_EXTENSIONS, TIMED, first_of, holds_no_marks, spellings
from mmlake.sources.records import fields as record_fields
from mmlake.sources.records.fields import TextField
from mmlake.sources.samples.member import Member
from mmlake.sources.settings import SourceSettings

if TYPE_CHECKING:
    from mmlake.sources.samples.shard_samples import Samples

_MAX_RECORD_BYTES = 1 << 16  # of a plain record: larger ones are few, and what they cost is reading them
_MAX_SHAPES = 1024  # sets of fields that are kept for the records of one shard
_MEDIA_LISTS = ("audios", "videos")
_POSITION = itemgetter(0)
_BESIDE = ("caption", "transcript")  # the roles of texts that belong to media
_NOTHING: Mapping[str, Any] = {}

# position, modality, role, content type, extension, locator as JSON, path in the landing zone, text (None: the member's
# bytes tell), size in bytes, member
Row = tuple[int, str, str, str | None, str, str, str, str | None, int, Member]


class Plain:
    """The rows of one sample, in their order."""

    __slots__ = ("licence", "metadata", "ordinal", "path", "rows", "sample_id")

    def __init__(self, sample_id: str, rows: list[Row], *, metadata: Mapping[str, Any], licence: str | None) -> None:
        """metadata: of the whole sample. licence: as the record spells it."""
        self.sample_id, self.rows, self.metadata, self.licence = sample_id, rows, metadata, licence
        self.path = rows[0][6]
        self.ordinal = -1  # of the first row in the whole shard; set by `read`

    @property
    def has_beside(self) -> bool:
        """Whether media may have texts beside them."""
        return len(self.rows) > 1 and any(row[2] in _BESIDE for row in self.rows)

    def beside(self, modality: str, *, settings: SourceSettings) -> str | None:
        """All captions for an image that differ, a line each, or its transcripts where there are none; for sound and
        video the first readable transcript, or caption, one with times first."""
        for role in _BESIDE if modality == "image" else reversed(_BESIDE):
            rows = sorted(
                (row for row in self.rows if row[2] == role), key=lambda row: row[7] is not None or row[3] not in TIMED
            )
            if rows:
                found = (text for row in rows if (text := _read_text(row, settings)) is not None)
                return ("\n".join(dict.fromkeys(found)) or None) if modality == "image" else next(found, None)
        return None


class _Shape(NamedTuple):
    """What follows from the names of a record's fields alone."""

    is_plain: bool
    has_texts: bool  # whether texts may stand in fields of their own
    licences: tuple[str, ...]


class PlainSamples:
    """Tells the plain samples of one shard from the others."""

    def __init__(self, samples: Samples, settings: SourceSettings) -> None:
        self._samples, self._settings = samples, settings
        self._is_possible = (
            settings.json_extensions == ("json",) and not settings.per_image_fields and not settings.per_text_fields
        )
        self._shapes: dict[tuple[str, ...], _Shape] = {}
        self._first_text = record_fields.pointer(settings.texts_field, 0)

    def of(self, members: list[Member]) -> Plain | None:
        """The sample of these members; None where it is not plain."""
        if not self._is_possible:
            return None
        record: Member | None = None
        media: set[str] = set()  # not set[str](), which takes ten times as long: once per sample
        for member in members:
            if member.fault is not None or member.modality is None or member.duplicate or member.is_label:
                return None
            if member.is_media:
                media.add(member.modality)
            elif member.is_json:
                if record is not None:
                    return None
                record = member
        try:
            return self._alone(members, media) if record is None else self._described(members, record, media)
        except (_Odd, UnreadableItem):
            return None

    def _alone(self, members: list[Member], media: set[str]) -> Plain:
        rows = [_file(at, member, media) for at, member in enumerate(members)]
        return Plain(self._id_of(members[0].stem, _NOTHING), rows, metadata=_NOTHING, licence=None)

    def _described(self, members: list[Member], record: Member, media: set[str]) -> Plain:
        """The sample that the record speaks of."""
        settings = self._settings
        assert record.content is not None
        data = record.content.head(_MAX_RECORD_BYTES + 1)
        if len(data) > _MAX_RECORD_BYTES:
            raise _Odd
        fields = texts.parse_object(data, settings=settings)
        shape = self._shape_of(tuple(fields))
        if not shape.is_plain:
            raise _Odd
        is_undoubted = data.isascii() and b"\\u" not in data
        told = record_fields.text_fields(fields, media, settings=settings) if shape.has_texts else []
        if told and any(field.own for field in told):
            raise _Odd
        rows: list[Row] = []
        placed: set[int] = set()  # ids of members
        used = record_fields.taken(told) if told else set()
        texts_listed, images_listed = fields.get(settings.texts_field), fields.get(settings.images_field)
        if texts_listed is None or isinstance(texts_listed, list):  # null says nothing
            used.add(settings.texts_field)
            if texts_listed:
                self._list_texts(rows, record, texts_listed, is_undoubted=is_undoubted)
        if images_listed is None or isinstance(images_listed, list):
            used.add(settings.images_field)
            if images_listed:
                _list_images(rows, placed, members, images_listed)
                rows.sort(key=_POSITION)
        position = rows[-1][0] + 1 if rows else 0
        for member in members:
            if member is record:
                for field in told:
                    # the texts of the list have their positions
                    if field.index is None or field.name != settings.texts_field:
                        rows.append(_field(position, record, field, is_undoubted=is_undoubted))
                        position += 1
            elif id(member) not in placed:
                rows.append(_file(position, member, media))
                position += 1
        if not rows:
            raise _Odd
        licence = first_of(fields, shape.licences) if shape.licences else None
        metadata = {name: value for name, value in fields.items() if name not in used}
        return Plain(
            self._id_of(members[0].stem, fields),
            rows,
            metadata=metadata,
            licence=None if licence is None else str(fields[licence]),
        )

    def _id_of(self, stem: str, fields: Mapping[str, Any]) -> str:
        """The sample's id. Counts those that records name, so that it is asked for once everything else is known."""
        if not self._settings.sample_id_field:
            return self._samples.id_of(stem)
        given = fields.get(self._settings.sample_id_field)
        return self._samples.named(
            given if isinstance(given, (str, int)) and not isinstance(given, bool) and str(given) else printable(stem)
        )

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

    def _list_texts(self, rows: list[Row], record: Member, values: Sequence[Any], *, is_undoubted: bool) -> None:
        ref = record.locate(self._first_text)
        before, _, behind = ref.to_json().partition('0"')  # the member ends so, and what stands before it cannot
        for position, text in enumerate(values):
            if text is not None:
                if type(text) is not str:
                    raise _Odd
                content_type, extension, size_bytes = _told(text, is_undoubted=is_undoubted)
                rows.append(
                    (
                        position,
                        "text",
                        "document",
                        content_type,
                        extension,
                        f'{before}{position}"{behind}',
                        ref.path,
                        text,
                        size_bytes,
                        record,
                    )
                )


class _Odd(Exception):
    """The sample is not plain."""


def _read_text(row: Row, settings: SourceSettings) -> str | None:
    if row[7] is not None:
        return row[7]
    content = row[9].content
    assert content is not None
    try:
        data = content.head(settings.max_text_bytes + 1)
        return texts.decode_text(data, settings=settings)[0] if len(data) <= settings.max_text_bytes else None
    except UnreadableItem:
        return None  # the text's own row says why


def _list_images(rows: list[Row], placed: set[int], members: list[Member], tokens: Sequence[Any]) -> None:
    """Add the rows of the images that the tokens name, and note which those are."""
    by_name = {member.name: member for member in members}
    for position, token in enumerate(tokens):
        if token is not None:
            member = by_name.get(token) if type(token) is str else None
            if (
                member is None
                or member.modality != "image"
                or (kind := member.kind) is None
                or kind.content_type == "image/tiff"
            ):
                raise _Odd
            placed.add(id(member))
            locator, path = member.locator()
            rows.append(
                (
                    position,
                    "image",
                    "media",
                    kind.content_type,
                    kind.extension,
                    locator,
                    path,
                    None,
                    member.size_bytes,
                    member,
                )
            )


def _field(position: int, record: Member, field: TextField, *, is_undoubted: bool) -> Row:
    ref = record.locate(field.pointer)
    content_type, extension, size_bytes = _told(field.text, is_undoubted=is_undoubted)
    return (
        position,
        "text",
        field.role,
        content_type,
        extension,
        ref.to_json(),
        ref.path,
        field.text,
        size_bytes,
        record,
    )


def _file(position: int, member: Member, media: set[str]) -> Row:
    """The row of a member by itself. media: the modalities of those in the sample."""
    (locator, path), kind, modality = member.locator(), member.kind, member.modality
    assert kind is not None and modality is not None
    role = (
        "media"
        if modality != "text"
        else "transcript"
        if media and kind.content_type in TIMED
        else record_fields.role_beside(media)
    )
    return position, modality, role, kind.content_type, kind.extension, locator, path, None, member.size_bytes, member


def _told(text: str, *, is_undoubted: bool) -> tuple[str, str, int]:
    """(content type, extension, size in bytes) of a text. is_undoubted: whether its characters are ASCII and none of
    them a mark of another encoding."""
    if is_undoubted:
        if text[:1].isalpha() and not text.startswith("WEBVTT"):
            return "text/plain", "txt", len(text)
        data = text.encode()
    else:
        try:
            data = text.encode()
        except UnicodeEncodeError:
            raise _Odd from None
        if not holds_no_marks(text):
            raise _Odd
    content_type = sniff.text_content_type(data)
    return content_type, TEXT_EXTENSIONS.get(content_type, "txt"), len(data)

"""Which columns hold media and which texts: by their names, their types, and what Hugging Face data sets write into
their schema.

Media are bytes, the struct {bytes, path} of Hugging Face data sets, or lists of either. A column of addresses is
metadata.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import types

from mmlake.errors import UnreadableItem
from mmlake.formats.columnar.readers import Reader
from mmlake.sources import shard as shards
from mmlake.sources.raw_items import RawItem, Reading
from mmlake.sources.records.fields import with_numbers
from mmlake.sources.records.interleaved import forms
from mmlake.sources.settings import SourceSettings

# types of columns as the library `datasets` names them
_FEATURES = {"Image": "image", "Video": "video", "Audio": "audio"}
_MAX_FEATURES_BYTES = 1 << 20  # of the schema's metadata that are parsed
_WORDS = re.compile(r"[a-z]+")
# words of numbers about media: `image_embedding` holds none
_NUMBERS = frozenset("embedding embeddings vector vectors feature features latent latents hash mask masks".split())
_LISTS = (types.is_list, types.is_large_list, types.is_fixed_size_list, types.is_list_view, types.is_large_list_view)
_TEXTS = (types.is_string, types.is_large_string, types.is_string_view)
_BINARIES = (types.is_binary, types.is_large_binary, types.is_fixed_size_binary, types.is_binary_view)


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns hold media and texts."""

    media: dict[str, str]  # column -> modality, in the file's order
    texts: frozenset[str]
    raw_texts: tuple[str, ...]  # those among them that are binary, in the file's order
    record: str | None = None  # the column that holds further fields of the row
    record_texts: bool = False  # whether texts may be among them
    lists: frozenset[str] = frozenset()  # columns of media that hold a list of them
    # columns of media of which only a word of their name says so: cells that hold none are metadata
    guessed: frozenset[str] = frozenset()
    listed_texts: str | None = None  # the column that holds the texts of an interleaved sample
    listed_images: str | None = None  # the column that names the images between those texts, by their addresses
    other_bytes: tuple[str, ...] = ()  # further columns with bytes in them, in which nobody expects media

    @property
    def modalities(self) -> tuple[str, ...]:
        """Those of all rows, in their order."""
        has_texts = self.texts or self.record_texts or self.listed_texts
        return shards.ordered(
            [*self.media.values(), *(["image"] if self.listed_images else []), *(["text"] if has_texts else [])]
        )


def columns_of(schema: pa.Schema, settings: SourceSettings) -> Columns:
    """Which of the columns hold media and texts, by name and type."""
    by_modality = {"image": settings.image_fields, "video": settings.video_fields, "audio": settings.audio_fields}
    named = {name.lower(): modality for modality, names in by_modality.items() for name in names}
    declared, media, lists, guessed = _declared(schema), dict[str, str](), set[str](), set[str]()
    for field in schema:
        element = _element(field.type)
        sure = named.get(field.name.lower()) or declared.get(field.name)
        modality = sure or _by_word(field.name, named)
        if modality is not None and _holds_bytes(field.type if element is None else element):
            media[field.name] = modality
            lists |= {field.name} if element is not None else set()
            guessed |= {field.name} if sure is None else set()
    captions = (*settings.caption_fields, *with_numbers(schema.names, settings.caption_fields))
    text_names = (*settings.text_fields, *captions, *settings.transcript_fields)
    found = [one for one in _named(schema, text_names) if one.name not in media and _may_be_text(one.type)]
    may_be_record = (field for field in schema if field.name.lower() in settings.record_fields)
    record = next((field for field in may_be_record if _may_be_record(field.type)), None)
    listed, listed_images = _interleaved_columns(schema, media, settings)
    if not (media or found or record or listed):
        found = _dialogue_columns(schema, settings)
    inner_texts = {name.lower() for name in (*text_names, *settings.timed_fields)}
    used = {*media, *(field.name for field in found), listed, listed_images, record and record.name}
    return Columns(
        media,
        frozenset(field.name for field in found if field.name != listed),
        tuple(field.name for field in found if _is_one(field.type, _BINARIES)),
        record.name if record is not None else None,
        record is not None
        and (not types.is_struct(record.type) or any(child.name.lower() in inner_texts for child in record.type)),
        frozenset(lists),
        frozenset(guessed),
        listed,
        listed_images,
        tuple(field.name for field in schema if field.name not in used and _has_bytes_inside(field.type)),
    )


def modalities_of(opened: Callable[[Reading], Reader], reading: Reading) -> tuple[str, ...]:
    """The modalities that the columns of a file can have; those of the path where it does not open."""
    home = (reading.home,)
    try:
        with opened(reading) as file:
            return columns_of(file.schema, reading.settings).modalities or home
    except UnreadableItem:
        return home


def schema_faults(schema: pa.Schema, columns: Columns, reading: Reading) -> Iterator[RawItem]:
    """What is wrong with the columns: that none is to be read, or that some hide others."""
    if not columns.modalities:
        remedy = "name the one that does in sources.text_fields, image_fields, audio_fields or video_fields"
        reason = f"none of the columns {schema.names[:12]} holds a text, image, video or audio; {remedy}"
        yield reading.fault(1003, reason, modality=reading.home)
    elif repeated := sorted(name for name, count in Counter(schema.names).items() if count > 1):
        reason = f"the columns {repeated[:12]} stand in the file more than once; only the last of each is read"
        yield reading.fault(1003, reason, modality=columns.modalities[0], member="columns")


def _named(schema: pa.Schema, names: Collection[str]) -> list[pa.Field]:
    """The columns of these names, compared without regard to case."""
    lower = {name.lower() for name in names}
    return [field for field in schema if field.name.lower() in lower]


def _interleaved_columns(
    schema: pa.Schema, media: Collection[str], settings: SourceSettings
) -> tuple[str | None, str | None]:
    """(the list of texts, the list that names the images between them where it holds none itself)."""
    lists = {field.name for field in schema if _element(field.type) is not None}
    for texts, images in forms(settings):
        if texts in lists and (texts == settings.texts_field or images in lists):
            return texts, images if images in lists and images not in media else None
    return None, None


def _dialogue_columns(schema: pa.Schema, settings: SourceSettings) -> list[pa.Field]:
    """The columns of turns, of prompts and answers, else of bodies, of a file that has no other texts and no media."""
    prompts, answers = _named(schema, settings.prompt_fields), _named(schema, settings.answer_fields)
    turns = [field for field in _named(schema, settings.conversation_fields) if _is_list_of_structs(field.type)]
    pair = [
        [field for field in _named(schema, names) if _may_be_said(field.type)]
        for names in (settings.chosen_fields, settings.rejected_fields)
    ]
    if all(pair):
        return [*turns, *(field for field in prompts if _may_be_said(field.type)), *pair[0], *pair[1]]
    asked, answered = ([field for field in side if _is_text(field.type)] for side in (prompts, answers))
    found = [*turns, *(asked + answered if asked and answered else [])]
    return found or [field for field in _named(schema, settings.body_fields) if _is_text(field.type)]


def _by_word(name: str, named: dict[str, str]) -> str | None:
    """The modality that one word of the name says: `images`, `jpg_0`, `input_image`; None for those of numbers about
    media."""
    words = _WORDS.findall(name.lower())
    if _NUMBERS.intersection(words):
        return None
    return next((named[word] for one in words for word in (one, one.removesuffix("s")) if word in named), None)


def _declared(schema: pa.Schema) -> dict[str, str]:
    """The modalities of columns as the library `datasets` has written them into the schema."""
    written = (schema.metadata or {}).get(b"huggingface", b"")
    if not written or len(written) > _MAX_FEATURES_BYTES:
        return {}
    try:
        features = json.loads(written)["info"]["features"]
        return {str(name): modality for name, feature in features.items() for modality in _featured(feature)}
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return {}  # what was written there is no description of features: names and types decide


def _featured(feature: Any) -> Iterator[str]:
    """The modality of a feature, or of a list of them."""
    if isinstance(feature, list) and len(feature) == 1:
        feature = feature[0]
    elif isinstance(feature, dict) and isinstance(feature.get("feature"), dict):
        feature = feature["feature"]
    if isinstance(feature, dict) and feature.get("_type") in _FEATURES:
        yield _FEATURES[feature["_type"]]


def _is_one(kind: pa.DataType, of: tuple[Callable[[pa.DataType], bool], ...]) -> bool:
    return any(is_one(kind) for is_one in of)


def _element(kind: pa.DataType) -> pa.DataType | None:
    """The type of a list's elements; None for what is no list."""
    return kind.value_type if _is_one(kind, _LISTS) else None


def _is_list_of_structs(kind: pa.DataType) -> bool:
    return _is_one(kind, _LISTS) and bool(types.is_struct(kind.value_type))


def _may_be_said(kind: pa.DataType) -> bool:
    """Whether values may be texts or lists of turns."""
    return _is_text(kind) or _is_list_of_structs(kind)


def _may_be_text(kind: pa.DataType) -> bool:
    is_text_list = _is_one(kind, _LISTS) and not types.is_fixed_size_list(kind) and _is_text(kind.value_type)
    return is_text_list or _is_text(kind) or _is_one(kind, _BINARIES)


def _may_be_record(kind: pa.DataType) -> bool:
    return bool(types.is_struct(kind)) or _is_text(kind) or _is_one(kind, _BINARIES)


def _is_text(kind: pa.DataType) -> bool:
    return _is_text(kind.value_type) if types.is_dictionary(kind) else _is_one(kind, _TEXTS)


def _holds_bytes(kind: pa.DataType) -> bool:
    if not types.is_struct(kind) or kind.get_field_index("bytes") < 0:
        return _is_one(kind, _BINARIES)
    inner = kind.field("bytes").type  # null where every cell has a path alone, and pyarrow chose the type
    return _is_one(inner, _BINARIES) or bool(types.is_null(inner) and kind.get_field_index("path") >= 0)


def _has_bytes_inside(kind: pa.DataType) -> bool:
    return _is_one(kind, _BINARIES) or any(_has_bytes_inside(kind.field(at).type) for at in range(kind.num_fields))

"""Which columns hold media and which texts, told by their names, by their types, and by what Hugging Face data sets
write into their schema.

Media are bytes, the struct {bytes, path} of Hugging Face data sets, or lists of either. A column of addresses is
metadata.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from mmlake.sources import shard as shards
from mmlake.sources.records.interleaved import forms
from mmlake.sources.settings import SourceSettings

# types of columns as the library `datasets` names them
_FEATURES = {"Image": "image", "Video": "video", "Audio": "audio"}
_MAX_FEATURES_BYTES = 1 << 20  # of the schema's metadata that are parsed
_WORDS = re.compile(r"[a-z]+")
# `image_embedding` holds none
_NUMBERS = frozenset(
    (
        "embedding",
        "embeddings",
        "vector",
        "vectors",
        "feature",
        "features",
        "latent",
        "latents",
        "hash",
        "mask",
        "masks",
    )
)


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
        named = ["image"] if self.listed_images else []
        return shards.ordered(
            [*self.media.values(), *named, *(["text"] if self.texts or self.record_texts or self.listed_texts else [])]
        )


def columns_of(schema: pa.Schema, settings: SourceSettings) -> Columns:
    """Which of the columns hold media and texts, by name and type."""
    named = {name.lower(): "image" for name in settings.image_fields}
    named |= {name.lower(): "video" for name in settings.video_fields} | {
        name.lower(): "audio" for name in settings.audio_fields
    }
    declared, media, lists, guessed = _declared(schema), dict[str, str](), set[str](), set[str]()
    for field in schema:
        element = _element(field.type)
        if not _holds_bytes(element if element is not None else field.type):
            continue
        sure = named.get(field.name.lower()) or declared.get(field.name)
        modality = sure or _by_word(field.name, named)
        if modality is not None:
            media[field.name] = modality
            lists |= {field.name} if element is not None else set()
            guessed |= {field.name} if sure is None else set()
    wanted_texts = {
        name.lower() for name in (*settings.text_fields, *settings.caption_fields, *settings.transcript_fields)
    }
    found = [
        field
        for field in schema
        if field.name.lower() in wanted_texts and field.name not in media and _may_be_text(field.type)
    ]
    record = next(
        (field for field in schema if field.name.lower() in settings.record_fields and _may_be_record(field.type)), None
    )
    listed, listed_images = _interleaved_columns(schema, media, settings)
    if not (media or found or record or listed):
        found = _dialogue_columns(schema, settings)
    inner = (
        {child.name.lower() for child in record.type}
        if record is not None and pa.types.is_struct(record.type)
        else None
    )
    used = {
        *media,
        *(field.name for field in found),
        listed,
        listed_images,
        record.name if record is not None else None,
    }
    return Columns(
        media,
        frozenset(field.name for field in found if field.name != listed),
        tuple(field.name for field in found if _is_binary(field.type)),
        record.name if record is not None else None,
        record is not None
        and (inner is None or bool(inner & (wanted_texts | {name.lower() for name in settings.timed_fields}))),
        frozenset(lists),
        frozenset(guessed),
        listed,
        listed_images,
        tuple(field.name for field in schema if field.name not in used and _has_bytes_inside(field.type)),
    )


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
    """The columns of turns, or of prompts and answers, of a file that has no other texts and no media."""
    turns = {name.lower() for name in settings.conversation_fields}
    sides = [
        {name.lower() for name in names}
        for names in (settings.prompt_fields, settings.answer_fields, settings.chosen_fields, settings.rejected_fields)
    ]
    named = [
        field
        for field in schema
        if field.name.lower() in turns and (kind := _element(field.type)) is not None and pa.types.is_struct(kind)
    ]
    pair = [
        [field for field in schema if field.name.lower() in names and _may_be_said(field.type)] for names in sides[2:]
    ]
    if all(pair):
        asked = [field for field in schema if field.name.lower() in sides[0] and _may_be_said(field.type)]
        return [*named, *asked, *pair[0], *pair[1]]
    asked, answered = (
        [field for field in schema if field.name.lower() in names and _is_text(field.type)] for names in sides[:2]
    )
    return [*named, *(asked + answered if asked and answered else [])]


def _may_be_said(kind: pa.DataType) -> bool:
    """Whether values may be texts or lists of turns."""
    element = _element(kind)
    return _is_text(kind) or (element is not None and bool(pa.types.is_struct(element)))


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
        return {}  # what was written there is no description of features: names and types tell


def _featured(feature: Any) -> Iterator[str]:
    """The modality of a feature, or of a list of them."""
    if isinstance(feature, list) and len(feature) == 1:
        feature = feature[0]
    elif isinstance(feature, dict) and isinstance(feature.get("feature"), dict):
        feature = feature["feature"]
    if isinstance(feature, dict) and feature.get("_type") in _FEATURES:
        yield _FEATURES[feature["_type"]]


def _element(kind: pa.DataType) -> pa.DataType | None:
    """The type of a list's elements; None for what is no list."""
    is_one = (
        pa.types.is_list(kind)
        or pa.types.is_large_list(kind)
        or pa.types.is_fixed_size_list(kind)
        or pa.types.is_list_view(kind)
        or pa.types.is_large_list_view(kind)
    )
    return kind.value_type if is_one else None


def _may_be_text(kind: pa.DataType) -> bool:
    return _is_text(kind) or _is_binary(kind) or _is_text_list(kind)


def _may_be_record(kind: pa.DataType) -> bool:
    return bool(pa.types.is_struct(kind)) or _is_text(kind) or _is_binary(kind)


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_text(kind.value_type)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_text_list(kind: pa.DataType) -> bool:
    element = _element(kind)
    return element is not None and not pa.types.is_fixed_size_list(kind) and _is_text(element)


def _is_binary(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or pa.types.is_binary_view(kind)
    )


def _holds_bytes(kind: pa.DataType) -> bool:
    return _is_binary(kind) or (
        pa.types.is_struct(kind) and kind.get_field_index("bytes") >= 0 and _is_binary(kind.field("bytes").type)
    )


def _has_bytes_inside(kind: pa.DataType) -> bool:
    return _is_binary(kind) or any(_has_bytes_inside(kind.field(at).type) for at in range(kind.num_fields))

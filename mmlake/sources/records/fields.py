"""The texts inside a JSON record or a Parquet row: which field is a text, in what role, and what is left over as
metadata."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mmlake.formats.timed_text import transcript_of
from mmlake.sources.raw_items import first_of, spellings
from mmlake.sources.records.dialogues import dialogue_of, may_be_dialogue, preferences_of
from mmlake.sources.settings import SourceSettings


@dataclass(slots=True)  # not frozen, which doubles what it costs to make one: every record has some
class TextField:
    """One text of a record."""

    name: str
    index: int | None  # in the field's list; None where the field is the text
    text: str
    role: str
    own: Mapping[str, Any] = field(default_factory=dict)  # what the record says of this text alone
    # whether the field stays in the metadata: the text is made from it, and it cannot be made again from the text
    is_kept: bool = False

    @property
    def pointer(self) -> str:
        """Where the text stands in the record, as a JSON pointer (RFC 6901)."""
        return pointer(self.name, self.index)


def pointer(name: str, index: int | None = None) -> str:
    """The JSON pointer of a field, or of an element of its list."""
    escaped = name.replace("~", "~0").replace("/", "~1")
    return f"/{escaped}" if index is None else f"/{escaped}/{index}"


def text_fields(fields: Mapping[str, Any], media: Collection[str], *, settings: SourceSettings) -> list[TextField]:
    """Every text of a record: its own, then captions, then transcripts. media: the modalities that stand in the same
    sample.

    A transcript with times is the only one: without them the same words stand in the metadata. A record of nothing else
    may be a dialogue; one about media of its sample is no text of theirs. A record that lists texts and images
    both has said all its texts in their order.
    """
    if is_interleaved(fields, settings=settings):
        return []
    own_names, timed_names, captions, transcripts = spellings(
        tuple(fields), settings.text_fields, settings.timed_fields, settings.caption_fields, settings.transcript_fields
    )
    found: list[TextField] = []
    if not (own_names or timed_names or captions or transcripts):
        return _dialogue(fields, media, settings)
    own = first_of(fields, own_names)
    if own is not None and isinstance(fields[own], str):
        found.append(TextField(own, None, fields[own], role_beside(media)))
    timed_name = first_of(fields, timed_names)
    timed = transcript_of(fields[timed_name]) if timed_name is not None else None
    has_times = timed is not None and timed.num_cues > 0
    for names, role in ((captions, "caption"), (() if has_times else transcripts, "transcript")):
        name = first_of(fields, names)
        value = fields[name] if name is not None else None
        if name is not None and isinstance(value, str):
            found.append(TextField(name, None, value, role))
        elif name is not None and isinstance(value, list) and value and all(isinstance(text, str) for text in value):
            found.extend(TextField(name, at, text, role) for at, text in enumerate(value))
    if timed is not None and timed_name is not None and has_times:
        found.append(TextField(timed_name, None, timed.text, "transcript"))
    return found or _dialogue(fields, media, settings)


def is_interleaved(fields: Mapping[str, Any], *, settings: SourceSettings) -> bool:
    """Whether the record lists texts, of which there are some, and images."""
    listed = fields.get(settings.texts_field)
    return (
        isinstance(listed, list)
        and isinstance(fields.get(settings.images_field), list)
        and any(text is not None for text in listed)
    )


def _dialogue(fields: Mapping[str, Any], media: Collection[str], settings: SourceSettings) -> list[TextField]:
    if media or settings.texts_field in fields:
        return []
    if pair := preferences_of(fields, settings=settings):
        return [
            TextField(name, None, text, "document", own={"preference": preference}, is_kept=True)
            for name, text, preference in pair
        ]
    found = dialogue_of(fields, settings=settings)
    return [TextField(found[0], None, found[1], "document", is_kept=True)] if found is not None else []


def may_hold_texts(names: Collection[str], *, settings: SourceSettings) -> bool:
    """Whether a record with fields of these names may have texts."""
    found = spellings(
        tuple(names), settings.text_fields, settings.timed_fields, settings.caption_fields, settings.transcript_fields
    )
    return any(found) or may_be_dialogue(names, settings=settings)


def taken(found: Iterable[TextField]) -> set[str]:
    """The fields that these texts are the whole of: metadata do not repeat them."""
    return {one.name for one in found if not one.is_kept}


def without(fields: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """The other fields of the record: its metadata."""
    return {name: value for name, value in fields.items() if name not in names}


def role_beside(media: Collection[str]) -> str:
    """The role of a text in a sample of these modalities: a caption for an image, a transcript for sound or video,
    else a document."""
    if "image" in media:
        return "caption"
    return "transcript" if "audio" in media or "video" in media else "document"

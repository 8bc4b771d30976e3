"""Which texts of a sample are the captions and transcripts of its media."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from functools import partial

from mmlake.errors import UnreadableItem
from mmlake.formats import texts
from mmlake.media_names import CAPTION_NAMES
from mmlake.sources.raw_items import TIMED, Member, RawItem, TextReader
from mmlake.sources.records.fields import paired_role, text_role
from mmlake.sources.settings import SourceSettings

ROLES = ("caption", "transcript")  # of texts that belong to media
_TAG = re.compile(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{1,8})*")
_ORIGINAL = "-orig"
_MARGIN_BYTES = 16  # a byte order mark and the end of a line, next to a caption that is repeated


def role_of_file(extension: str, media: Collection[str]) -> str:
    """The role of a text without times that is a file of its own, in a sample of these modalities."""
    return "caption" if media and extension in CAPTION_NAMES else text_role(media)


def texts_of_parts(parts: object, members: Iterable[Member]) -> tuple[dict[str, str], set[str]]:
    """(name -> role of members that are texts, those texts that the record has too), as a record of our own training
    shards states them. parts: the record's."""
    named = {member.name.rpartition("/")[2].partition(".")[2]: member.name for member in members}
    roles, written = dict[str, str](), set[str]()
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, dict) and part.get("modality") == "text" and "digest" in part:
            name, role, text = (part.get(key) for key in ("member", "role", "text"))
            if isinstance(name, str) and name in named and role in ("document", *ROLES):
                roles[named[name]] = role
                written |= {text} if isinstance(text, str) else set()
    return roles, written


def repeat_captions(items: Iterable[RawItem]) -> None:
    """Make captions of those plain texts of one sample that repeat a caption of its record. video2dataset and
    img2dataset write it twice, as a field and as a file; next to a film the file was taken for what is said there."""
    items = list(items)
    written = [text for item in items if item.role == "caption" and (text := _written(item)) is not None]
    captions = {text.strip(): len(text.encode("utf-8", "replace")) for text in written}
    for item in items if captions else ():
        is_plain = item.role == "transcript" and item.fault is None and not _has_times(item)
        if is_plain and item.content is not None and _written(item) is None:
            limit_bytes = max(captions.values()) + _MARGIN_BYTES
            data = item.content.head(limit_bytes + 1)
            if len(data) <= limit_bytes and data.decode("utf-8-sig", "replace").strip() in captions:
                item.role = "caption"


def _written(item: RawItem) -> str | None:
    """The text that stands in a record; None of a file."""
    return None if item.content is None else item.content.text


def pair(rows: Iterable[RawItem], readable: Sequence[RawItem], settings: SourceSettings) -> None:
    """Give the media among the rows the texts that came with them, which are captions and transcripts that can be
    read: images the captions, else the transcripts without times; sound and films the other way round, those with times
    first, and of these the ones in the language that is spoken, where something says which. What describes a film is
    not said in it; but next to an image every text is a caption, so there it may be."""
    readers: dict[bool, tuple[TextReader, ...]] = {}  # by whether they are for an image
    rows = list(rows)
    with_image = any(item.modality == "image" for item in rows if item.role == "media")
    if len(readable) == 1 and not _has_times(readable[0]):
        readers[True] = readers[False] = (partial(_text_of, readable[0], settings),)
    for item in rows:
        if item.role == "media" and item.fault is None:
            is_image = item.modality == "image"
            if is_image not in readers:
                order = ROLES if is_image else ROLES[::-1]
                spoken = _language(readable, item)
                ranked = sorted(
                    readable,
                    key=lambda text: (order.index(text.role), not _has_times(text), *_translated(text, spoken)),
                )
                if is_image:  # a film's picture shows nothing of what is said in it
                    ranked = [text for text in ranked if not _has_times(text)]
                first = [text for text in ranked if text.role == ranked[0].role]
                readers[is_image] = tuple(partial(_text_of, text, settings) for text in first)
            item.paired_texts = readers[is_image]
            item.paired_role = paired_role(is_image, with_image, (text.role for text in readable))


def _language(readable: Sequence[RawItem], item: RawItem) -> str:
    """The language that is spoken: what the record says, else that of the transcript whose name ends in `-orig`, as
    yt-dlp calls the one that nothing was translated from; empty where neither is there."""
    said = item.metadata.get("language")
    if isinstance(said, str) and _TAG.fullmatch(said):
        return _primary(said)
    return next((_primary(tag) for text in readable if (tag := _tag(text)).endswith(_ORIGINAL)), "")


def _translated(text: RawItem, spoken: str) -> tuple[bool, bool]:
    """(whether it is in another language than that, whether it is the one that was made by itself)."""
    tag = _tag(text)
    return bool(spoken and tag) and _primary(tag) != spoken, tag.endswith(_ORIGINAL)


def _tag(text: RawItem) -> str:
    """The language that the name of a file ends in before its extension (BCP 47); empty where it has none."""
    name = (text.ref.member or text.ref.path).rpartition("/")[2].split(".")
    return name[-2].lower() if len(name) > 2 and _TAG.fullmatch(name[-2]) else ""


def _primary(tag: str) -> str:
    return tag.lower().partition("-")[0]


def _has_times(item: RawItem) -> bool:
    """Whether the text has times."""
    return item.content_type in TIMED and item.content is not None


def _text_of(item: RawItem, settings: SourceSettings) -> str | None:
    """The text of a row; None where it cannot be read, which its own row says."""
    content = item.content
    assert content is not None
    if content.text is not None:
        return content.text
    try:
        data = content.whole(settings.max_text_bytes)
        return texts.decode_text(data, min_confidence=settings.min_charset_confidence)[0]
    except UnreadableItem:
        return None

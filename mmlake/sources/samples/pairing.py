"""Which texts of a sample are the captions and transcripts of its media."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from mmlake.errors import UnreadableItem
from mmlake.formats import texts
from mmlake.sources.raw_items import TIMED, RawItem, TextReader
from mmlake.sources.settings import SourceSettings

ROLES = ("caption", "transcript")  # of texts that belong to media


def pair(rows: Iterable[RawItem], readable: Sequence[RawItem], settings: SourceSettings) -> None:
    """Give the media among the rows the texts that came with them, which are captions and transcripts that can be
    read: images the captions, else the transcripts; sound and films the other way round, those with times first."""
    readers: dict[bool, tuple[TextReader, ...]] = {}  # by whether they are for an image
    if len(readable) == 1:
        readers[True] = readers[False] = (partial(_text_of, readable[0], settings),)
    for item in rows:
        if item.role == "media" and item.fault is None:
            is_image = item.modality == "image"
            if is_image not in readers:
                order = ROLES if is_image else ROLES[::-1]
                ranked = sorted(readable, key=lambda text: (order.index(text.role), not _has_times(text)))
                first = [text for text in ranked if text.role == ranked[0].role]
                readers[is_image] = tuple(partial(_text_of, text, settings) for text in first)
            item.paired_texts = readers[is_image]


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
        data = content.whole(settings.max_text_bytes)
        return texts.decode_text(data, min_confidence=settings.min_charset_confidence)[0]
    except UnreadableItem:
        return None

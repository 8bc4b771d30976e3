"""COCO annotation files as shards of their own: a row for what no image took. What they say of images is joined where
these are read (`mmlake.sources.companions.coco`)."""

from __future__ import annotations

from collections.abc import Iterator

from mmlake.errors import UnreadableItem
from mmlake.formats import coco as coco_format
from mmlake.landing import Entry
from mmlake.records import SourceRef
from mmlake.sources.companions import coco
from mmlake.sources.companions.placement import UnpackedPlacement
from mmlake.sources.raw_items import RawItem, Reading
from mmlake.sources.records.rows import text_alone

claims = coco_format.claims
modalities = text_alone


def items(reading: Reading) -> Iterator[RawItem]:
    """A row for everything in the file that no image took."""
    return coco.left_over(reading, _entry(reading), UnpackedPlacement(reading.landing, reading.parsed))


def take(reading: Reading, ref: SourceRef) -> bytes:
    """The UTF-8 of the text that the locator names. Raises UnreadableItem where the file no longer has it."""
    for item in coco.texts_at(reading, _entry(reading), [ref.member or ""]):
        assert item.content is not None
        return item.content.read()
    raise UnreadableItem(1001, f"{ref.path} no longer has the member {ref.member!r}")


def _entry(reading: Reading) -> Entry:
    entry = reading.landing.stat(reading.path)
    if entry is None:
        raise UnreadableItem(1001, "the file is missing")
    return entry

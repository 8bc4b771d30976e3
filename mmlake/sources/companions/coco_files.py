"""Which files are COCO annotations, by their first bytes, whatever they are called."""

from __future__ import annotations

from mmlake.errors import UnreadableItem
from mmlake.formats import sniff
from mmlake.formats.coco import claims
from mmlake.landing import Landing
from mmlake.sources.companions.archives import File, open_file
from mmlake.sources.records.lines import head_reader


def is_coco(landing: Landing, entry: File) -> bool:
    """Whether the file is one of annotations, by its first bytes."""
    if sniff.extension_of(entry.name) != "json":
        return False
    try:
        with open_file(landing, entry) as file:
            head = file.read(sniff.HEAD_BYTES)
        return claims(head_reader(head, lambda: open_file(landing, entry))(sniff.HEAD_BYTES), entry.name)
    except UnreadableItem:
        return False

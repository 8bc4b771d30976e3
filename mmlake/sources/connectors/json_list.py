"""A JSON file that is one list of objects, as instructions and dialogues come (Alpaca, ShareGPT, LLaVA): one text
record per element.

The list is cut at the ends of its elements without being parsed, so that a broken element is a row with its bytes, and
memory holds one at a time. What stands in an element is read as a line of JSON lines is. Lists whose elements name
media are manifests (`companions/manifests.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from mmlake.formats.json_elements import BOM
from mmlake.formats.json_prefixes import shallow_events
from mmlake.sources.companions.siblings import has_no_medium
from mmlake.sources.raw_items import RawItem, Reading
from mmlake.sources.records import fields as record_fields
from mmlake.sources.records.lines import json_elements, rows_of_lines, text_alone
from mmlake.sources.settings import SourceSettings

_START = re.compile(rb"\s*\[\s*\{")
_HEAD_BYTES = 1 << 20  # of the first element, whose names say whether there are texts: a prompt may be a whole book
_MAX_NAMES = 1000  # of them
modalities, is_kept = text_alone, has_no_medium


def claims(head: bytes, name: str) -> bool:
    """Whether these are the first bytes of a list of objects."""
    return _START.match(head.removeprefix(BOM)) is not None


def holds_records(head: Callable[[int], bytes], name: str, settings: SourceSettings) -> bool:
    """Whether the first element of such a file has a text. head: gives so many of its first bytes."""
    return record_fields.may_hold_texts(_first_names(head(_HEAD_BYTES)), settings=settings)


def _first_names(head: bytes) -> list[str]:
    """The names in the first element, as far as the bytes go."""
    names: list[str] = []
    for prefix, event, value in shallow_events(head.removeprefix(BOM), most_deep=2):  # the list, its first element
        if (prefix == "item" and event == "end_map") or len(names) == _MAX_NAMES:
            break
        if prefix == "item" and event == "map_key":
            names.append(value)
    return names


def items(reading: Reading) -> Iterator[RawItem]:
    """The rows of the elements in order. Where the list breaks, a last row says so, with what is there of a record
    that is cut."""
    return rows_of_lines(json_elements(reading), reading, "records")

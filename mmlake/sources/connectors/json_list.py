"""A JSON file that is one list of objects, as instructions and dialogues come (Alpaca, ShareGPT, LLaVA): one text
record per element.

The list is cut at the ends of its elements without being parsed, so that a broken element is a row with its bytes, and
memory holds one at a time. What stands in an element is read as a line of JSON lines is. Lists whose elements name
media are manifests (`manifests.py`).
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from mmlake.errors import UnreadableItem
from mmlake.formats.json_elements import BOM, CutElement, elements_of
from mmlake.sources.connectors.json_lines import rows_of_json, stream_of, with_bytes
from mmlake.sources.names import SampleNames
from mmlake.sources.raw_items import RawItem, Reading
from mmlake.sources.records import fields as record_fields
from mmlake.sources.settings import SourceSettings

if TYPE_CHECKING:
    from mmlake.sources.companions.siblings import Neighbours

_START = re.compile(rb"\s*\[\s*\{")
_LOOK_BYTES = 1 << 20  # of the first element, whose names tell whether there are texts: a prompt may be a whole book
_MAX_NAMES = 1000  # of them


def claims(head: bytes, name: str) -> bool:
    """Whether these are the first bytes of a list of objects."""
    return _START.match(head.removeprefix(BOM)) is not None


def is_told(look: Callable[[int], bytes], name: str, neighbours: Neighbours) -> bool:
    """Whether such a file is a list of records indeed: it lies alone, and its first element has a text."""
    return neighbours.leave_alone(name) and holds_records(look, name, neighbours.settings)


def holds_records(look: Callable[[int], bytes], name: str, settings: SourceSettings) -> bool:
    """Whether the first element of such a file has a text."""
    return record_fields.may_hold_texts(_first_names(look(_LOOK_BYTES)), settings=settings)


def _first_names(head: bytes) -> list[str]:
    """The names in the first element, as far as the bytes go."""
    import ijson

    names: list[str] = []
    try:
        for prefix, event, value in ijson.parse(io.BytesIO(head.removeprefix(BOM)), use_float=True):
            if (prefix == "item" and event == "end_map") or len(names) == _MAX_NAMES:
                break
            if prefix == "item" and event == "map_key":
                names.append(value)
    except (ijson.JSONError, ValueError, OverflowError):
        pass  # the bytes end within the element
    return names


def modalities(reading: Reading) -> tuple[str, ...]:
    """Always text."""
    return ("text",)


def items(reading: Reading) -> Iterator[RawItem]:
    """The rows of the elements in order. Where the list breaks, a last row says so, with what is there of a record
    that is cut."""
    names, number = SampleNames(reading.key), 0
    try:
        with stream_of(reading) as stream:
            for number, element in enumerate(elements_of(stream, reading.settings.max_line_bytes), 1):
                yield from rows_of_json(element, f"row:{number}", number, reading, names)
    except UnreadableItem as error:
        code, reason = 1001 if error.code == 1003 else error.code, f"{error.reason}; {number} records were read"
        if isinstance(error, CutElement) and error.data:
            yield with_bytes(reading.fault(code, reason, modality="text", member=f"row:{number + 1}"), error.data)
        else:
            yield reading.fault(code, reason, modality="text")

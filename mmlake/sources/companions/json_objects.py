"""JSON objects that say something of media by name: `{"a.jpg": "A dog."}`, Kohya's `{"a": {"caption": "A dog."}}`,
MSR-VTT's `{"sentences": [{"video_id": "video0", "caption": "A dog."}]}`.

Enters: the members of an object, and of the lists of objects in it. Leaves: a record for each, with the name of the
medium in `file`, and its words where records have them. Elements that name no medium are records without `file`; other
members that name none describe the file, as in COCO's annotations, and are none.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

from mmlake.errors import Fault, UnreadableItem
from mmlake.formats import coco, texts
from mmlake.formats.json_elements import BOM, CutElement, members_of
from mmlake.sources.companions.file_lists import FILE, is_medium
from mmlake.sources.raw_items import Reading
from mmlake.sources.records.lines import Line, stream_of, to_the_end, too_long

# fields of a record that name its medium, with or without an extension
NAMES = ("image_id", "video_id", "audio_id", "recording_id", "filename", "file_name")
_WORDS = ("caption", "captions", "text", "sentence", "transcript", "transcription")
_SENTENCES = "sentences"  # of ActivityNet; Karpathy's have the words in `raw`
_TAGS = "tags"  # Kohya's, where there is no caption
# keys as names of fields and of languages are, which name no medium: some key of such an object is none
_FIELD = re.compile(r"[a-z_]+|[a-z]{2,3}[-_][A-Za-z]{2,4}")
_MAX_RECORDS = 16


def claims(head: bytes) -> bool:
    """Whether these may be the first bytes of such an object, and are none of COCO's annotations."""
    return head.removeprefix(BOM).lstrip()[:1] == b"{" and not coco.claims(head, "a.json")


def has_form(head: bytes) -> bool:
    """Whether some of the first members name media as such records do; lines of JSON are no such object."""
    pieces, found = members_of(io.BytesIO(head), len(head)), list[dict[str, Any]]()
    try:
        for key, value, is_element in islice(pieces, _MAX_RECORDS):
            with suppress(ValueError, RecursionError):
                if isinstance(key, bytes) and isinstance(value, bytes):
                    name, inner = json.loads(key), json.loads(value)
                    if not isinstance(name, str):
                        return False
                    found.append(record_of(name, inner, is_element=is_element and isinstance(inner, dict)))
    except CutElement:
        pass  # the bytes end within an element
    except UnreadableItem as error:
        if error.code != 1002:
            return False
    names = (record[FILE] for record in found if FILE in record)
    return any(_FIELD.fullmatch(name) is None for name in names)


def record_of(key: str, value: Any, *, is_element: bool) -> dict[str, Any]:
    """The member as a record. is_element: of a list under that key."""
    if is_element:
        name = next((name for name in NAMES if isinstance(value.get(name), str) and _may_name(value[name])), None)
        fields = {one: value[one] for one in value if one != name}
        return {**_with_words(fields), FILE: value[name]} if name is not None else fields
    if isinstance(value, Mapping):
        fields = _with_words(value)
        is_said = any(isinstance(fields.get(name), (str, list)) for name in _WORDS)
        return {**fields, FILE: key} if _may_name(key) and is_said else {key: value}
    is_said = isinstance(value, str) or (isinstance(value, list) and all(isinstance(one, str) for one in value))
    return {FILE: key, "captions": value} if is_medium(key) and is_said else {key: value}


def _may_name(name: str) -> bool:
    return is_medium(name) or (bool(name) and not any(map(str.isspace, name)))


def _with_words(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields, with sentences, or tags where nothing else is said, as captions."""
    if any(name in fields for name in _WORDS):
        return {**fields}
    said = fields.get(_SENTENCES)
    words = [one.get("raw") if isinstance(one, Mapping) else one for one in said] if isinstance(said, list) else []
    if words and all(isinstance(one, str) for one in words):
        return {**{name: fields[name] for name in fields if name != _SENTENCES}, "captions": words}
    is_tagged = isinstance(fields.get(_TAGS), str)
    return {("caption" if is_tagged and name == _TAGS else name): value for name, value in fields.items()}


def lines(reading: Reading) -> Iterator[Line]:
    """A record for each member. Where the object breaks, a last one says so."""
    limit_bytes = reading.settings.max_line_bytes

    def read(reading: Reading) -> Iterator[Line]:
        with stream_of(reading) as stream:
            for number, (key, value, is_element) in enumerate(members_of(stream, limit_bytes), 1):
                label = f"row:{number}"
                if isinstance(key, int) or isinstance(value, int):
                    yield too_long(label, number, value if isinstance(value, int) else 0, reading)
                    continue
                try:
                    fields = texts.parse_object(b"{%b:%b}" % (key, value), settings=reading.settings)
                except UnreadableItem as error:
                    yield Line(label, number, fault=Fault.of(error), data=value)
                    continue
                ((name, inner),) = fields.items()
                record = record_of(name, inner, is_element=is_element and isinstance(inner, dict))
                if FILE in record or is_element or is_medium(name):  # others describe the file
                    yield Line(label, number, record)

    return to_the_end(reading, read)

"""COCO annotation files as a stream: `captions_*.json`, `instances_*.json` and their like.

Enters: a JSON object with the lists images, annotations, licenses and categories in any order, of any size. Leaves: the
elements of these lists. Memory holds one at a time; polygons and key points are passed over unread.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import IO, Any

from mmlake.errors import UnreadableItem
from mmlake.formats import sniff
from mmlake.formats.json_prefixes import shallow_events

SECTIONS = ("images", "annotations", "licenses", "categories")
_ABOUT_THE_FILE = frozenset({"info", "type"})  # known, and without items
# nine tenths of a file of instances, and no part of a row
_UNREAD = frozenset({"segmentation", "keypoints", "counts", "segments_info"})
_BOM = b"\xef\xbb\xbf"
_START = re.compile(rb'\s*\{\s*"(?:info|licenses|images|annotations|categories|type)"\s*:\s*[\[{"]')


def claims(head: bytes, name: str) -> bool:
    """Whether these are the first bytes of a COCO annotation file: its keys at the top, and an element as COCO has
    it."""
    head = head.removeprefix(_BOM)
    if sniff.extension_of(name) != "json" or not _START.match(head):
        return False
    top, inner = _keys(head)
    images, annotations, licenses, categories = (inner.get(section, set()) for section in SECTIONS)
    if {"file_name", "id"} <= images or annotations & {"image_id", "segmentation"}:
        return True
    is_named = licenses & {"url", "name"} or categories & {"supercategory", "name"}
    return len(top & {"info", *SECTIONS}) >= 2 and bool(is_named)


def _keys(head: bytes) -> tuple[set[str], dict[str, set[str]]]:
    """(keys of the object, keys of the elements of its lists by the list's key), as far as the bytes go."""
    top, inner = set[str](), dict[str, set[str]]()
    for prefix, event, value in shallow_events(head, most_deep=3):  # the object, a list in it, an element
        if event == "map_key" and not prefix:
            top.add(value)
        elif event == "map_key" and prefix.endswith(".item") and prefix.count(".") == 1:
            inner.setdefault(prefix[: -len(".item")], set()).add(value)
    return top, inner


class _Source:
    """The stream as the parser reads it; refuses to read on where one element takes more bytes than a text may."""

    def __init__(self, stream: IO[bytes], limit_bytes: int) -> None:
        self._stream, self._limit, self._since, self.num_bytes, self.ended = stream, limit_bytes, 0, 0, False

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self.num_bytes += len(data)
        self._since += len(data)
        self.ended = self.ended or (not data and size != 0)
        if self._since > self._limit:
            raise UnreadableItem(1008, f"element_bytes>={self._since} not in [0, {self._limit}]")
        return data

    def mark(self) -> None:
        """An element ends here."""
        self._since = 0


def elements(stream: IO[bytes], *, max_element_bytes: int, max_depth: int) -> Iterator[tuple[str, int, Any]]:
    """(section, place in it, element) of the file's lists; ("unread", place among the sections, reason) of one that
    is not read. Raises UnreadableItem where it breaks, or an element is larger or deeper."""
    import ijson

    source = _Source(stream, max_element_bytes)
    try:
        yield from _walk(ijson.basic_parse(source, use_float=True), source, max_depth)
    except (ijson.JSONError, ValueError, OverflowError) as error:
        code, what = (1002, "the JSON stops before its end") if source.ended else (1001, "the JSON is damaged")
        raise UnreadableItem(code, f"{what} within the first {source.num_bytes} bytes") from error


def _walk(events: Iterator[tuple[str, Any]], source: _Source, max_depth: int) -> Iterator[tuple[str, int, Any]]:
    if next(events)[0] != "start_map":
        raise UnreadableItem(1003, "the file holds no JSON object")
    seen: set[str] = set()
    for place, (event, key) in enumerate(events):
        if event == "end_map":
            continue
        event, value = next(events)
        is_known, is_first = key in SECTIONS, key not in seen
        if event != "start_array":
            _skip(events, event)
            source.mark()
            if is_known and event != "null":
                yield "unread", place, f"the section {key} is no list and is not read"
            continue
        num_unread = 0
        for number, (event, value) in enumerate(events):
            if event == "end_array":
                break
            if is_known and is_first:
                yield key, number, _built(events, event, value, max_depth)
            else:
                _skip(events, event)
                num_unread += 1
            source.mark()
        if is_known and not is_first:
            reason = f"{key} stands in the file before; the {num_unread} elements of this one are not read"
            yield "unread", place, f"the section {reason}"
        elif not is_known and key not in _ABOUT_THE_FILE:
            reason = f"{key[:60]!r} is none that COCO has; its {num_unread} elements are not read"
            yield "unread", place, f"the section {reason}"
        seen.add(key)


def _skip(events: Iterator[tuple[str, Any]], event: str) -> None:
    """Pass over a value whose first event was taken."""
    if event not in ("start_map", "start_array"):
        return
    depth = 1
    for event, _ in events:
        if event == "number":  # polygons: nearly every event of a file of instances
            continue
        if event in ("start_map", "start_array"):
            depth += 1
        elif event in ("end_map", "end_array"):
            depth -= 1
            if not depth:
                return


def _built(events: Iterator[tuple[str, Any]], event: str, value: Any, depth: int) -> Any:
    """The value whose first event was taken; numbers beyond the range of a float are null."""
    if event == "start_map":
        fields: dict[str, Any] = {}
        for event, key in events:
            if event == "end_map":
                return fields
            event, value = next(events)
            if key in _UNREAD:
                _skip(events, event)
            else:
                fields[key] = _built(events, event, value, _deeper(depth))
    if event == "start_array":
        values: list[Any] = []
        for event, value in events:
            if event == "end_array":
                return values
            values.append(_built(events, event, value, _deeper(depth)))
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _deeper(depth: int) -> int:
    if not depth:
        raise UnreadableItem(1003, "an element is nested deeper than the settings allow")
    return depth - 1

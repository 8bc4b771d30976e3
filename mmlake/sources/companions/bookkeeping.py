"""What the library `datasets` writes for itself next to its Arrow files: names, sizes and fingerprints, and tables that
it computed. None of it is a sample."""

from __future__ import annotations

import json
import re

from mmlake.errors import UnreadableItem
from mmlake.landing import Entry, Landing
from mmlake.sources.companions import places

_INFO, _STATE, _SPLITS = "dataset_info.json", "state.json", "dataset_dict.json"
_ARROW = ".arrow"
# results of `map`, `filter` and `shuffle`: the same samples once more
_COMPUTED = re.compile(r"cache-[0-9a-f]{8,}(?:_\d+_of_\d+)?\.arrow")
_MAX_BYTES = 1 << 16  # of the list of splits


def without_bookkeeping(directory: str, entries: list[Entry], landing: Landing) -> list[Entry]:
    """The files of a directory that are not about others: all of them, but where Arrow files lie next to their
    description."""
    names = {entry.name for entry in entries}
    if _SPLITS in names:
        entries = [entry for entry in entries if entry.name != _SPLITS or not _lists_splits(directory, entry, landing)]
    if _INFO not in names or not any(name.endswith(_ARROW) and not _COMPUTED.fullmatch(name) for name in names):
        return entries
    return [entry for entry in entries if entry.name not in (_INFO, _STATE) and not _COMPUTED.fullmatch(entry.name)]


def _lists_splits(directory: str, entry: Entry, landing: Landing) -> bool:
    """Whether the file names directories next to it that hold Arrow files with their description."""
    try:
        listed = json.loads(landing.head(entry.path, _MAX_BYTES))["splits"]
    except (UnreadableItem, ValueError, KeyError, TypeError, RecursionError):
        return False
    return isinstance(listed, list) and bool(listed) and all(_is_split(directory, one, landing) for one in listed[:100])


def _is_split(directory: str, name: object, landing: Landing) -> bool:
    if not isinstance(name, str) or name in ("", ".", "..") or "/" in name or "\0" in name:
        return False
    names = {entry.name for entry in landing.files(places.join(directory, name))}
    return _INFO in names and any(one.endswith(_ARROW) for one in names)

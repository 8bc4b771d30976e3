"""What the other files of a directory make of one: `a.json` next to `a.jpg` annotates that image, whatever is in it;
what the library `datasets` writes for itself next to its Arrow files is no sample: names, sizes and fingerprints, and
tables that it computed.

By names alone but for a list of splits, so that it changes with the listing.
"""

from __future__ import annotations

import json
import logging
import re
from functools import cached_property

from mmlake.errors import UnreadableItem
from mmlake.formats import sniff
from mmlake.landing import Entry, Landing
from mmlake.sources.companions import file_lists, manifest_forms, places
from mmlake.sources.companions.description_forms import is_parquet_description
from mmlake.sources.names import file_stem_of
from mmlake.sources.parsed_files import ParsedFiles
from mmlake.sources.settings import SourceSettings

_INFO, _STATE, _SPLITS = "dataset_info.json", "state.json", "dataset_dict.json"  # of the library `datasets`
_ARROW = ".arrow"
# results of `map`, `filter` and `shuffle`: the same samples once more
_COMPUTED = re.compile(r"cache-[0-9a-f]{8,}(?:_\d+_of_\d+)?\.arrow")
_MAX_BYTES = 1 << 16  # of the list of splits
# of our own training shards, whose first says so, and of energon; neither has data of its own
_OWN, _OWN_MARK = "index.json", re.compile(rb'"schema":\s*"mmlake\.shards/')
_ENERGON_MARK = re.compile(rb"^__module__:\s*megatron\.energon\b", re.MULTILINE)
_METADATASET = re.compile(r".*metadataset.*\.ya?ml")  # others may be one of each picture, and are not opened here
_NOTES = frozenset([_SPLITS, _OWN, "writer.lock"])
_HEAD_BYTES = 4096
# files; a directory with more has one per image or recording of another directory, and a shard for each would be a lake
# of shards
_MAX_JSON = 256
_log = logging.getLogger(__name__)


class Siblings:
    """The files of one directory. It is listed when they are first asked for, which most directories never are."""

    def __init__(self, landing: Landing, directory: str, settings: SourceSettings, parsed: ParsedFiles) -> None:
        self.settings = settings
        self._landing, self._directory, self._parsed = landing, directory, parsed

    @cached_property
    def names(self) -> tuple[frozenset[str], int]:
        """(stems of files that are media by their names, or have no extension; number of JSON files)."""
        names = [entry.name for entry in self._landing.files(self._directory)]
        num_json = sum(sniff.extension_of(name) == "json" for name in names)
        return frozenset(file_stem_of(name) for name in names if _may_be_medium(name)), num_json

    @cached_property
    def _lists(self) -> frozenset[str]:
        """The texts that may be lists of media: no medium has their name, and they are few."""
        return frozenset(file_lists.among([entry.name for entry in self._landing.files(self._directory)]))

    def have_list(self, name: str) -> bool:
        """Whether the text of that name among them may be a list of media."""
        return name in self._lists

    def have_scp(self) -> bool:
        """Whether a `wav.scp` of Kaldi is among them, whose companions other files may be."""
        entry = self._landing.stat(places.join(self._directory, manifest_forms.SCP))
        return entry is not None and manifest_forms.is_manifest(self._landing, entry, self._parsed)

    def have_description(self, name: str) -> bool:
        """Whether the Parquet file of that name among them describes others, and no other table does."""
        entries = {entry.name: entry for entry in self._landing.files(self._directory)}
        if name not in entries or any(one in entries for one in places.DESCRIPTIONS if one != name):
            return False
        return is_parquet_description(self._landing, entries[name], settings=self.settings, parsed=self._parsed)


def _may_be_medium(name: str) -> bool:
    kind = sniff.kind_of(b"", name)
    return kind.modality != "text" if kind is not None else not sniff.extension_of(name)


def has_no_medium(name: str, siblings: Siblings) -> bool:
    """Whether no medium is called like the file, nor are there so many like it that each is of one medium elsewhere."""
    stems, num_json = siblings.names
    stem = file_stem_of(name)
    if {stem, stem.rpartition(".")[0]} & stems:  # "talk.en.json" belongs to "talk.mp4"
        return False
    return num_json <= _MAX_JSON or sniff.extension_of(name) != "json"


def without_bookkeeping(directory: str, entries: list[Entry], landing: Landing) -> list[Entry]:
    """The files of a directory that are not about others: all of them, but for descriptions of Arrow files and indexes
    of tars next to them, and what our own training shards and energon note of those."""
    names = {entry.name for entry in entries}
    known = {
        entry.name
        for entry in entries
        if (entry.name in _NOTES or entry.name.endswith(".idx") or _METADATASET.fullmatch(entry.name))
        and _is_note(directory, entry, names, landing)
    }
    if _INFO in names and any(name.endswith(_ARROW) and not _COMPUTED.fullmatch(name) for name in names):
        known |= {name for name in names if name in (_INFO, _STATE) or _COMPUTED.fullmatch(name)}
    if known:
        _log.info("%s: %d files are notes on shards, and no data", directory, len(known))
    return [entry for entry in entries if entry.name not in known] if known else entries


def _is_note(directory: str, entry: Entry, names: set[str], landing: Landing) -> bool:
    """Whether the file lists splits, is the index of a tar, a note on our own shards, or names data sets of energon."""
    if entry.name == _SPLITS:
        return _lists_splits(directory, entry, landing)
    if entry.name.endswith(".idx"):
        return not names.isdisjoint((entry.name[:-4], f"{entry.name[:-4]}.tar")) and entry.name[:-4] != ""
    index = places.join(directory, _OWN) if entry.name in _NOTES else entry.path
    try:
        head = landing.head(index, _HEAD_BYTES)
    except UnreadableItem:
        return False
    return (_OWN_MARK if entry.name in _NOTES else _ENERGON_MARK).search(head) is not None


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

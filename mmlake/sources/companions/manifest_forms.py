"""Which files are manifests: JSON lists and JSON lines whose records name media and say something of them, and Kaldi's
`wav.scp`.

Enters: first bytes. Leaves: whether all of the first records have the form, and which files a record names. LLaVA's
instructions, NeMo's manifests and their like have it. Nothing of a file beyond its first records is read here.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

from mmlake.errors import UnreadableItem
from mmlake.formats import sniff
from mmlake.formats.json_elements import BOM, elements_of
from mmlake.landing import Entry, Landing
from mmlake.sources.parsed_files import Kind, ParsedFiles
from mmlake.sources.records import lines as record_lines

SCP = "wav.scp"
COMPANIONS = ("segments", "text", "utt2spk")  # what Kaldi has next to it
_EXTENSIONS = ("json", "jsonl", "ndjson")
MARKS = (".json", ".ndjson", SCP)  # one of them is in every name that a manifest may have, in lower case
_MEDIA = ("image", "images", "video", "videos", "audio", "audios", "audio_filepath")  # fields that name files
_DIALOGUES = ("conversations", "messages")
# fields that say something of them
_WORDS = (*_DIALOGUES, *"text sentence transcription transcript caption question instruction duration".split())
_HINTS = re.compile(rb'"(?:images?|videos?|audios?|audio_filepath|conversations|messages)"')
_HEADS_BYTES = (1 << 16, 1 << 20)  # of the first records: a dialogue may be long
_MAX_RECORDS = 16  # that are read to recognize a manifest
_SCP_LINE = re.compile(rb"[^\s]+[ \t]+[^\s].*")


def may_be(name: str) -> bool:
    """Whether the name is one that a manifest may have. Lists of URLs say what they are by theirs."""
    return name == SCP or (sniff.extension_of(name) in _EXTENSIONS and not name.lower().endswith(record_lines.ENDINGS))


def claims(head: bytes, name: str) -> bool:
    """Whether these may be the first bytes of a manifest."""
    if name == SCP:
        return _is_scp(head)
    first = head.removeprefix(BOM).lstrip()[:1]
    return may_be(name) and first in (b"[", b"{") and _HINTS.search(head) is not None


def has_form(head_of: Callable[[int], bytes], name: str) -> bool:
    """Whether a file that is claimed is one by all of its first whole records. head_of: gives so many of its first
    bytes."""
    if name == SCP:
        return True
    for size_bytes in _HEADS_BYTES:
        head = head_of(size_bytes)
        records = list(islice(_records_in(head, is_whole=len(head) < size_bytes), _MAX_RECORDS))
        if records:
            return all(map(_has_form, records)) and any(map(paths_of, records))
        if len(head) < size_bytes:
            break
    return False


def is_list(head: bytes) -> bool:
    """Whether these are the first bytes of a JSON list, and not of JSON lines."""
    return head.removeprefix(BOM).lstrip()[:1] == b"["


def paths_of(fields: Mapping[str, Any]) -> list[str]:
    """The files that a record names, each once, as they are spelled. Addresses, and names of no medium, are
    none."""
    found: list[str] = []
    for name in names_of(fields):
        value = fields[name]
        for one in value if isinstance(value, list) else [value]:
            path = one.get("path") if isinstance(one, dict) else one
            if isinstance(path, str) and _is_medium(path):
                found.append(path.strip())
    return list(dict.fromkeys(found))


def names_of(fields: Mapping[str, Any]) -> list[str]:
    """The fields of the record that may name files."""
    return [name for name in _MEDIA if fields.get(name) is not None]


def _is_medium(path: str) -> bool:
    if "://" in path:
        return False
    kind = sniff.kind_of(b"", path.strip())
    return kind is not None and kind.modality != "text"


def _has_form(record: Any) -> bool:
    """Whether the record names media and says something of them, or is a dialogue among others that do."""
    if not isinstance(record, dict):
        return False
    is_dialogue = any(isinstance(record.get(name), list) for name in _DIALOGUES)
    return is_dialogue or (bool(paths_of(record)) and any(name in record for name in _WORDS))


def _records_in(head: bytes, *, is_whole: bool) -> Iterator[Any]:
    """The records that can be read, as far as the bytes hold them whole."""
    pieces: Iterable[bytes | int]
    if is_list(head):
        pieces = elements_of(io.BytesIO(head), len(head))
    else:
        pieces = head.removeprefix(BOM).splitlines()[: None if is_whole else -1]
    with suppress(UnreadableItem):  # the bytes end within an element
        for data in pieces:
            with suppress(ValueError, RecursionError):  # a blank line, or no JSON
                if isinstance(data, bytes):
                    yield json.loads(data)


def _is_scp(head: bytes) -> bool:
    first = head.removeprefix(BOM).partition(b"\n")[0].rstrip()
    return sniff.is_textual(head) and _SCP_LINE.fullmatch(first) is not None


_IS_MANIFEST: Kind[bool] = Kind(max_size=10_000)


def is_manifest(landing: Landing, entry: Entry, parsed: ParsedFiles) -> bool:
    """Whether the file is a manifest, by its first records. It is read once per owner of `parsed`, until it changes."""
    if entry.refused is not None or not may_be(entry.name):
        return False
    return parsed.get(_IS_MANIFEST, (landing.location, entry), lambda: _is_manifest(landing, entry))


def _is_manifest(landing: Landing, entry: Entry) -> bool:
    try:
        head = landing.head(entry.path, sniff.HEAD_BYTES)
        head_of = record_lines.head_reader(head, lambda: landing.open(entry.path))
        return claims(head_of(sniff.HEAD_BYTES), entry.name) and has_form(head_of, entry.name)
    except UnreadableItem:
        return False  # its own row says why

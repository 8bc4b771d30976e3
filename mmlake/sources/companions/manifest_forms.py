"""Which files are manifests: JSON lists, JSON lines and separated values whose records name media and say something of
them, and Kaldi's `wav.scp`.

Enters: first bytes. Leaves: whether all of the first records have the form, and which files a record names. LLaVA's
instructions, NeMo's manifests and their like have it, and tables of any name with a column of files and one of words.
Nothing of a file beyond its first records is read here.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple

from mmlake.errors import UnreadableItem
from mmlake.formats import sniff
from mmlake.formats.charsets import UTF_16, decoded_head
from mmlake.formats.json_elements import BOM, elements_of
from mmlake.landing import Entry, Landing
from mmlake.sources.companions import description_forms, file_lists, json_objects, utterances
from mmlake.sources.companions.file_lists import is_medium
from mmlake.sources.parsed_files import Kind, ParsedFiles
from mmlake.sources.records import lines as record_lines
from mmlake.sources.records.fields import with_numbers
from mmlake.sources.records.separated_values import QUOTING

SCP = "wav.scp"
COMPANIONS = ("segments", "text", "utt2spk", "utt2lang", "utt2gender", "spk2gender")  # what Kaldi has next to it
# extension -> what may separate its cells; those of the last row have no line of names
_TABLES = {"csv": (",", ";", "|"), "tsv": ("\t",), **file_lists.EXTENSIONS}
EXTENSIONS = ("json", "jsonl", "ndjson", *_TABLES)
# one of them is in every name that a manifest may have, in lower case
MARKS = (".json", ".ndjson", ".csv", ".tsv", SCP, *file_lists.ENDINGS)
_MEDIA = ("image", "images", "video", "videos", "audio", "audios", "audio_filepath")  # fields that name files
_PARTS = ("image", "video", "audio", "image_url", "video_url", "audio_url", "path")  # fields of a part of a turn
_PATH_CHARS = 4096  # of a name; longer ones are media in base64
_DIALOGUES = ("conversations", "messages")
# fields that say something of them
_WORDS = (
    *_DIALOGUES,
    *"text sentence transcription transcript caption comment".split(),
    *"question instruction prompt query problem duration".split(),
)
_NUMBERED = ("caption",)  # and such a one with a number behind it: Clotho has five
_IDS = ("image_id", "video_id", "audio_id", "recording_id")  # fields that name a medium without an extension
_HINTS = re.compile(
    rb'"(?:(?:image|video|audio|recording)_id|images?|videos?|audios?|audio_filepath|conversations|messages|prompt'
    rb'|supervisions|num_samples)"'
)
_HEADS_BYTES = (1 << 16, 1 << 20)  # of the first records: a dialogue may be long
_MAX_RECORDS = 16  # that are read to recognize a manifest
_SCP_LINE = re.compile(rb"[^\s]+[ \t]+[^\s].*")


class Columns(NamedTuple):
    """How a table is read that names files."""

    delimiter: str
    names: tuple[str, ...]  # of the columns that hold files
    header: tuple[str, ...] = ()  # names of all cells, where no line says so

    @property
    def has_ids(self) -> bool:
        """Whether files are named by ids, which those have as names wherever they lie."""
        return file_lists.ID in self.names and bool(self.header)


class Form(NamedTuple):
    """How a manifest is read: Kaldi's `wav.scp` and JSON lines where nothing else is said."""

    columns: Columns | None = None  # of a table
    is_object: bool = False  # whether it is one JSON object
    is_list: bool = False  # whether it is a JSON list


def may_be(name: str) -> bool:
    """Whether the name is one that a manifest may have. Lists of URLs say what they are by theirs."""
    extension = sniff.extension_of(name)
    is_named = file_lists.is_list(name) if extension in file_lists.EXTENSIONS else extension in EXTENSIONS
    return name == SCP or (is_named and not name.lower().endswith(record_lines.ENDINGS))


def is_table(name: str) -> bool:
    """Whether the name is that of separated values."""
    return sniff.extension_of(name) in _TABLES


def claims(head: bytes, name: str) -> bool:
    """Whether these may be the first bytes of a manifest."""
    if name == SCP:
        return _is_scp(head)
    if description_forms.claims(head, name):
        return False
    if file_lists.is_list(name):
        return file_lists.begins_as_list(head)
    if is_table(name):
        return may_be(name) and b"\n" in head and (sniff.is_textual(head) or head.startswith(UTF_16))
    first = head.removeprefix(BOM).lstrip()[:1]
    if not may_be(name) or first not in (b"[", b"{"):
        return False
    return _HINTS.search(head) is not None or (sniff.extension_of(name) == "json" and json_objects.claims(head))


def form_of(head_of: Callable[[int], bytes], name: str) -> Form | None:
    """How a file that is claimed is read; None where not all of its first whole records are those of a manifest.
    head_of: gives so many of its first bytes."""
    if name == SCP:
        return Form()
    head = head_of(_HEADS_BYTES[0])
    if is_table(name):
        columns = columns_of(head, name)
        return Form(columns) if columns is not None else None
    if sniff.extension_of(name) == "json" and json_objects.claims(head) and json_objects.has_form(head):
        return Form(is_object=True)
    for size_bytes in _HEADS_BYTES:
        head = head_of(size_bytes)
        records = list(islice(_records_in(head, is_whole=len(head) < size_bytes), _MAX_RECORDS))
        if records:
            named = [utterances.as_utterances(one) if isinstance(one, dict) else one for one in records]
            is_manifest = all(map(_has_form, records)) and any(map(paths_of, named))
            return Form(is_list=_is_list(head)) if is_manifest else None
        if len(head) < size_bytes:
            break
    return None


def columns_of(head: bytes, name: str) -> Columns | None:
    """The columns of a table that hold names of media in all of its first rows; None where none does, or no other one
    has the name of words. head: at most `_HEADS_BYTES` of the file."""
    lines = decoded_head(head).splitlines(keepends=True)
    whole = lines if len(head) < _HEADS_BYTES[0] else lines[:-1]
    for delimiter in _TABLES[sniff.extension_of(name)]:
        if header := file_lists.header_of(whole[: 1 + _MAX_RECORDS], delimiter):
            return Columns(delimiter, (header[0] if header[0] == file_lists.ID else file_lists.FILE,), header)
        if file_lists.is_list(name):
            continue
        quoting = QUOTING[delimiter != "\t"]
        reader, rows = csv.reader(whole, delimiter=delimiter, strict=True, quoting=quoting), list[list[str]]()
        with suppress(csv.Error):
            rows.extend(islice(filter(None, reader), 1 + _MAX_RECORDS))
        names = [cell.strip() for cell in rows[0]] if rows else []
        first = [row for row in rows[1:] if len(row) == len(names)]
        given = ([cell for row in first if (cell := row[at].strip())] for at in range(len(names)))
        found = [at for at, cells in enumerate(given) if cells and all(map(is_medium, cells))]
        others = [one for at, one in enumerate(names) if at not in found]
        if found and (any(one.lower() in _WORDS for one in others) or with_numbers(others, _NUMBERED)):
            return Columns(delimiter, tuple(names[at] for at in found))
    return None


def _is_list(head: bytes) -> bool:
    """Whether these are the first bytes of a JSON list, and not of JSON lines."""
    return head.removeprefix(BOM).lstrip()[:1] == b"["


def paths_of(fields: Mapping[str, Any], columns: Columns | None = None, *, has_ids: bool = False) -> list[str]:
    """The files that a record names, each once, as they are spelled. Addresses, and names of no medium, are none.
    columns: of a table, those that hold them. has_ids: whether the field `file` names a medium."""
    found: list[str] = []
    for name in names_of(fields, columns):
        value = fields[name]
        for one in value if isinstance(value, list) else [value]:
            path = one.get("path") if isinstance(one, dict) else one
            path = file_lists.path_in(path) if columns is not None and columns.header and path else path
            if isinstance(path, str) and (is_medium(path) or (columns is not None and columns.has_ids)):
                found.append(path.strip())
    found += () if columns is not None else _paths_in_turns(fields)
    if not found and columns is None:
        ids = (fields.get(name) for name in (file_lists.FILE, *_IDS) if name in _IDS or has_ids)
        found += [one for one in ids if isinstance(one, str) and one][:1]
    return list(dict.fromkeys(found))


def _paths_in_turns(fields: Mapping[str, Any]) -> Iterator[str]:
    """The files that the turns of a dialogue name where they are shown, as Qwen2-VL, TRL and LLaMA-Factory have them:
    {"type": "image", "image": "a.jpg"}; also those of {"type": "image_url", "image_url": {"url": "a.jpg"}}."""
    turns = (turn for name in (*_DIALOGUES, "prompt") if isinstance(fields.get(name), list) for turn in fields[name])
    contents = (turn.get("content", turn.get("value")) for turn in turns if isinstance(turn, dict))
    parts = (part for content in contents if isinstance(content, list) for part in content if isinstance(part, dict))
    for part in parts:
        for name in _PARTS:
            value = part.get(name)
            for one in value if isinstance(value, list) else [value]:
                path = next((one[key] for key in ("url", "path") if key in one), None) if isinstance(one, dict) else one
                if isinstance(path, str) and len(path) <= _PATH_CHARS and is_medium(path):
                    yield path.strip()


def names_of(fields: Mapping[str, Any], columns: Columns | None = None) -> list[str]:
    """The fields of the record that may name files."""
    return [name for name in (_MEDIA if columns is None else columns.names) if fields.get(name) is not None]


def _has_form(record: Any) -> bool:
    """Whether the record names media and says something of them, or is a dialogue, or a cut or recording of Lhotse's,
    among others that do."""
    if not isinstance(record, dict):
        return False
    if utterances.is_cut(record) or utterances.is_recording(record):
        return True
    if any(isinstance(record.get(name), list) for name in _DIALOGUES):
        return True
    return bool(paths_of(record)) and (
        any(name in record for name in (*_WORDS, "segments")) or bool(with_numbers(record, _NUMBERED))
    )


def _records_in(head: bytes, *, is_whole: bool) -> Iterator[Any]:
    """The records that can be read, as far as the bytes hold them whole."""
    pieces: Iterable[bytes | int]
    if _is_list(head):
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


_FORMS: Kind[Form | None] = Kind(max_size=10_000)


def is_manifest(landing: Landing, entry: Entry, parsed: ParsedFiles) -> bool:
    """Whether the file is a manifest, by its first records."""
    return form_in(landing, entry, parsed) is not None


def form_in(landing: Landing, entry: Entry, parsed: ParsedFiles) -> Form | None:
    """How the file is read; None where it is no manifest, or cannot be read, of which its own row says why. Its first
    bytes are read once per owner of `parsed`, until it changes."""
    if entry.refused is not None or not may_be(entry.name):
        return None
    return parsed.get(_FORMS, (landing.location, entry), lambda: form_of_file(landing, entry))


def form_of_file(landing: Landing, entry: Entry) -> Form | None:
    """The same, of a file of a name that a manifest may have, read now."""
    try:
        head = landing.head(entry.path, sniff.HEAD_BYTES)
        head_of = record_lines.head_reader(head, lambda: landing.open(entry.path))
        return form_of(head_of, entry.name) if claims(head_of(sniff.HEAD_BYTES), entry.name) else None
    except UnreadableItem:
        return None

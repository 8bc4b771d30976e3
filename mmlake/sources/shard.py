"""What is known of a shard before it is read: its key, which is a partition key, a relative file path and reversible,
and what the directories around it say of it in `_source.json`, nearest first: {"source", "licence", "priority"}."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any
from urllib.parse import quote_from_bytes, unquote, unquote_to_bytes

from mmlake import landing as zone
from mmlake.errors import SettingsError, UnreadableItem
from mmlake.formats.sniff import RECOGNISED
from mmlake.formats.texts import printable
from mmlake.landing import Entry, Landing
from mmlake.records import UNKNOWN_LICENCE, canonical_json, digest_of
from mmlake.sources.licences import spdx_licence

FILE_NAME = "_source.json"
DEFAULT_PRIORITY = 100
_MAX_BYTES = 1 << 20  # of a `_source.json`
LOOSE = "folder"  # the format of loose files
MANIFEST, COCO = "manifest", "coco"  # of files that describe others whatever they are called
_MARK = "~"  # between the revision of the files and the number of samples; a digest has none
PART_MARK = "~"  # between the key of a directory and that of a part of it; twice before one of what is gathered there
ROOT_KEY = "root"  # the key of the landing zone's own loose files
_SAFE = "/@=+-._"  # next to letters and digits; everything else is percent-encoded byte by byte
_RESERVED = (ROOT_KEY, "ALL")  # "ALL" names the corpus-level tables
_SEGMENT_CHARS = 200  # file systems end at 255 bytes; tables append ".stamp.json"
# paths that are their own keys, where they are short
_PLAIN = re.compile(r"(?:[A-Za-z0-9/@=+_-]|\.(?!\.\.|parquet/|json/))+")
_WORDS = re.compile(r"[a-z]+")
_PARTITION = re.compile(r"([A-Za-z_][^=]*)=(.*)", re.DOTALL)  # a directory of a partitioned table
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_WHOLE_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,17}", re.ASCII)  # of 64 bits, and spelled as it would be again


@dataclass(frozen=True, kw_only=True, slots=True)
class Shard:
    """One unit of the landing zone: a container file, or the loose files of one directory, or a part of them, or those
    of several directories that are gathered."""

    key: str  # partition key and relative path of its tables
    path: str  # of the file or directory, relative to the landing zone; "." is the landing zone itself
    format: str  # name in SOURCES
    modalities: tuple[str, ...]  # those that it may have rows of, in the order of RECOGNISED; never empty
    size_bytes: int
    modified_ns: int  # the latest of its files
    # changes whenever a file's name, size or time does, or those of a file that describes them (`_source.json`,
    # annotations)
    revision: str
    # which of the directory's loose files: those whose names hash to these digits; "": all. With a PART_MARK before
    # the digits: of the directories that are gathered there, those whose paths do
    part: str = ""
    directories: tuple[str, ...] = ()  # that are gathered, sorted; empty: one directory or file is the shard
    # files elsewhere that may describe the members of an archive (`packed_media.py`); those of loose files follow from
    # where these lie
    described_by: tuple[str, ...] = ()
    limit: int | None = None  # number of samples taken from its start; None: all
    num_samples: int | None = None  # how many those are, where a limit on the landing zone made somebody count

    @property
    def homes(self) -> tuple[str, ...]:
        """The directories that its files lie in, each governed by its `_source.json`."""
        return self.directories or (self.path if self.format == LOOSE else self.path.rpartition("/")[0] or ".",)


def each_directory(shard: Shard) -> list[Shard]:
    """The shard; one that gathers directories as those that they would be by themselves."""
    if not shard.directories:
        return [shard]
    return [replace(shard, key=shard_key(path), path=path, part="", directories=()) for path in shard.directories]


def limited(shard: Shard, limit: int) -> Shard:
    """The shard with only its first samples."""
    return replace(shard, limit=limit, revision=f"{shard.revision}{_MARK}{limit}")


def unlimited(shard: Shard) -> Shard:
    """The shard as it was before `limited`; how many samples it has is then not known."""
    return (
        shard
        if shard.limit is None
        else replace(shard, limit=None, num_samples=None, revision=shard.revision.partition(_MARK)[0])
    )


def as_found(shard: Shard | None, limit: int | None) -> Shard | None:
    """A shard from an earlier scan as it is without a limit, where a scan with this limit would find the same
    modalities in the same files; else None."""
    if shard is None:
        return None
    is_whole = (
        shard.limit is None and shard.num_samples is not None and limit is not None and shard.num_samples <= limit
    )
    # The revision of loose files is that of the files that were opened.
    return unlimited(shard) if is_whole or shard.limit == limit or shard.format == LOOSE else None


def shard_key(path: str, part: str = "") -> str:
    """The key of a relative path, or of a part of the directory there: `coco/train2017~a` (no path has a `~` in its
    key).

    Letters, digits and `._/@=+-` stand for themselves. Dagster's range mark `...`, names that tables use, and segments
    too long for a file name are spelled in percent form, so that any two paths have different keys and different table
    files.
    """
    if part:
        return f"{shard_key(path)}{PART_MARK}{part}"
    if path == ".":
        return ROOT_KEY
    # as nearly all are: a scan asks for the key of every file
    if len(path) <= _SEGMENT_CHARS and _PLAIN.fullmatch(path) and path not in _RESERVED:
        return path
    segments = zone.native(path).encode("utf-8", "surrogateescape").split(b"/")
    key = "/".join(_segment(segment, last=at == len(segments) - 1) for at, segment in enumerate(segments))
    return _hex(key[0]) + key[1:] if key in _RESERVED else key


def _segment(segment: bytes, *, last: bool) -> str:
    text = quote_from_bytes(segment, safe=_SAFE).replace("~", "%7E")
    # A directory "a.parquet" would be in the way of the table file of a shard "a".
    if "..." in text or (not last and text.endswith((".parquet", ".json"))):
        text = text.replace(".", "%2E")
    # "%/" occurs in no other place, since a percent sign is always followed by two digits.
    return "%/".join(text[at : at + _SEGMENT_CHARS] for at in range(0, len(text), _SEGMENT_CHARS))


def _hex(character: str) -> str:
    return f"%{ord(character):02X}"


def path_of_key(key: str) -> str:
    """The relative path whose key this is; the directory's, where it is that of a part."""
    key = key.partition(PART_MARK)[0]
    if key == ROOT_KEY:
        return "."
    return zone.portable(unquote_to_bytes(key.replace("%/", "")).decode("utf-8", "surrogateescape"))


def revision_of(entries: Iterable[Entry]) -> str:
    """SHA-256 over the sorted names, sizes and versions of the files, or times where the storage keeps no versions:
    what changes when any of them does."""
    return digest_of(
        canonical_json(
            sorted(
                [entry.path, entry.size_bytes, entry.version or entry.modified_ns, entry.refused] for entry in entries
            )
        ).encode()
    )


def hinted_modality(path: str) -> str | None:
    """The modality that a path names in one of its parts, deepest first: `coco/images/0.bin` -> image."""
    for part in reversed(path.lower().split("/")):
        for word in _WORDS.findall(part):
            for modality in RECOGNISED:
                if word in (modality, f"{modality}s"):
                    return modality
    return None


def partition_fields(directory: str) -> dict[str, Any]:
    """What the names of partitions say of every record below them, as Hive, Spark, DuckDB and Arrow write tables:
    `lang=en/year=2024` -> {"lang": "en", "year": 2024}. Names are percent-encoded; whole numbers are numbers, and what
    stands for null says nothing."""
    found: dict[str, Any] = {}
    for part in directory.split("/"):
        if (match := _PARTITION.fullmatch(part)) and match[2] != _NO_VALUE:
            name, value = (printable(unquote(one)) for one in match.groups())
            found[name] = int(value) if _WHOLE_NUMBER.fullmatch(value) else value
    return found


def ordered(modalities: Iterable[str]) -> tuple[str, ...]:
    """The modalities once each, in the order of RECOGNISED; those that only a connector knows come last, by name."""
    present = set(modalities)
    return (*(modality for modality in RECOGNISED if modality in present), *sorted(present.difference(RECOGNISED)))


@dataclass(frozen=True, slots=True)
class Defaults:
    """What rows get where their record says nothing."""

    source: str
    licence: str
    priority: int


def defaults_of(landing: Landing, directory: str) -> Defaults:
    """The defaults of a directory: of `_source.json` files, then what the landing zone itself knows, then the first
    part of the path ("root" for loose files there)."""
    return _defaults(landing, directory, partial(_source_file, landing))


def _defaults(landing: Landing, directory: str, read: Callable[[str], dict[str, object]]) -> Defaults:
    fields: dict[str, object] = {}
    for path in _source_files(directory):
        for name, value in read(path).items():
            fields.setdefault(name, value)
    for name, value in landing.defaults(directory).items():
        fields.setdefault(name, value)
    # a partition of a table is no source of its own
    first = directory.partition("/")[0]
    source = fields.get("source", "root" if first == "." or _PARTITION.fullmatch(first) else first)
    return Defaults(
        str(source),
        spdx_licence(fields["licence"]) if "licence" in fields else UNKNOWN_LICENCE,
        int(str(fields.get("priority", DEFAULT_PRIORITY))),
    )


def default_files(landing: Landing, directory: str) -> list[Entry]:
    """The `_source.json` files that govern a directory, as far as they exist."""
    return [entry for path in _source_files(directory) if (entry := landing.stat(path)) is not None]


def priorities(landing: Landing | str | os.PathLike[str], directories: Iterable[str] | None = None) -> dict[str, int]:
    """Priority by source name, smaller wins; 100 where nobody said. A source that is given two priorities keeps the
    smaller. directories: that hold files; where they are not known, the whole landing zone is listed."""
    landing = zone.as_landing(landing)
    read = cache(partial(_source_file, landing))
    found: dict[str, int] = {}
    for directory in (name for name, _ in landing.directories()) if directories is None else directories:
        given = _defaults(landing, directory, read)
        found[given.source] = min(found.get(given.source, given.priority), given.priority)
    return dict(sorted(found.items()))


def _source_files(directory: str) -> list[str]:
    parts = [] if directory == "." else directory.split("/")
    return ["/".join([*parts[:depth], FILE_NAME]) for depth in range(len(parts), -1, -1)]


def _source_file(landing: Landing, path: str) -> dict[str, object]:
    if landing.stat(path) is None:
        return {}
    where = f"{landing.location}: {path}"
    try:
        with landing.open(path) as file:
            fields = json.loads(file.read(_MAX_BYTES))
    except UnreadableItem as error:
        raise SettingsError(
            f"{where} cannot be read, and may say whose the files next to it are ({error.reason}); put a file "
            "there, or delete it"
        ) from error
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise SettingsError(
            f"{where} is not a JSON object; write one with the fields source, licence (an SPDX id) and priority "
            "(an integer)"
        )
    if "license" in fields:
        fields.setdefault("licence", fields.pop("license"))
    if unknown := fields.keys() - {"source", "licence", "priority"}:
        raise SettingsError(
            f"{where} has the unknown fields {sorted(unknown)}; it may have source, licence and priority"
        )
    for name, kind in (("source", str), ("licence", str), ("priority", int)):
        if name in fields and (
            not isinstance(fields[name], kind) or isinstance(fields[name], bool) or fields[name] == ""
        ):
            raise SettingsError(
                f"{where}: {name} is {fields[name]!r}, expected {'an integer' if kind is int else 'a non-empty string'}"
            )
    return fields

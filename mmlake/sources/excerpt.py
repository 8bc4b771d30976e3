"""The beginning of a landing zone: its first samples, in the order of shard keys, without opening what comes after
them.

Enters: a landing zone and a number. Leaves: the shards that hold that many samples, the last of them with
`Shard.limit`. A file whose name claims a container format is looked at when its turn comes; where its bytes then say
otherwise it is left out, which only a limit does.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from mmlake.errors import SettingsError, UnreadableItem
from mmlake.landing import Entry, Landing, as_landing
from mmlake.sources.companions.bookkeeping import without_bookkeeping
from mmlake.sources.companions.placement import Placement
from mmlake.sources.companions.places import is_annotation_archive, may_be_annotations
from mmlake.sources.connectors.table import LOOSE, SOURCES, Connectors, directory_of
from mmlake.sources.directory_parts import is_in
from mmlake.sources.first_samples import first_stems, is_named, limited, unlimited
from mmlake.sources.ingestion import read, reading_of
from mmlake.sources.parsed_files import ParsedFiles, owned
from mmlake.sources.scanner import is_other_format, scan
from mmlake.sources.settings import SourceSettings
from mmlake.sources.shard import Shard, default_files, revision_of, shard_key

_LOG = logging.getLogger("mmlake.sources")


def scan_first(
    landing: Landing | str | os.PathLike[str],
    limit: int,
    *,
    settings: SourceSettings,
    known: Mapping[str, Shard] | None = None,
    parsed: ParsedFiles | None = None,
    connectors: Connectors = SOURCES,
) -> list[Shard]:
    """The shards with the landing zone's first samples, sorted by key: at most `limit` samples of each of its parts,
    and nothing behind them opened.

    known: earlier results by key; where files and limit are equal, nothing is opened or counted again. parsed: as for
    `scan`. Raises SettingsError under 1.
    """
    if limit < 1:
        raise SettingsError(f"limit {limit} is no number of samples; give 1 or more, or none to take everything")
    found: list[Shard] = []
    with owned(parsed) as parsed:
        for part in as_landing(landing).parts():
            with part.naming():
                found += _scan_first(
                    part, limit, settings=settings, known=known or {}, parsed=parsed, connectors=connectors
                )
    return sorted(found, key=lambda shard: shard.key)


def _scan_first(
    landing: Landing,
    limit: int,
    *,
    settings: SourceSettings,
    known: Mapping[str, Shard],
    parsed: ParsedFiles,
    connectors: Connectors,
) -> list[Shard]:
    found: dict[str, Shard] = {}
    left, around = limit, Placement(landing, parsed)
    around.is_no_manifest = lambda entry: (
        (old := known.get(shard_key(entry.path))) is not None and is_other_format(old, entry)
    )
    for part in _parts(landing, around, connectors):
        looked_at = left
        listed = (
            _scan_part(part, landing, left, settings=settings, known=known, around=around, connectors=connectors)
            if left
            else ()
        )
        for shard in listed:
            if left and shard.key not in found:
                cut = _cut(
                    shard,
                    left,
                    part,
                    landing,
                    settings=settings,
                    before=known.get(shard.key),
                    looked_at=looked_at,
                    parsed=parsed,
                    connectors=connectors,
                )
                found[shard.key] = _of_part(cut, part, landing, around) if shard.part and cut.limit is not None else cut
                left -= found[shard.key].num_samples or 0
    return list(found.values())


@dataclass(frozen=True, slots=True)
class _Part:
    """What is looked at together: a file that its name calls a container, the other files of a directory, or a
    directory that is one shard."""

    key: str
    files: dict[str, list[Entry]]  # directory -> entries
    is_loose: bool
    is_alone: bool  # whether the directory holds nothing else


def _parts(landing: Landing, around: Placement, connectors: Connectors) -> Iterator[_Part]:
    """The landing zone's parts in the order of their keys; those come last that only speak of images elsewhere,
    whose own rows are what no image took."""
    found: list[_Part] = []
    single: dict[str, dict[str, list[Entry]]] = {}
    for directory, entries in landing.directories():
        if (root := directory_of(directory, landing)) is not None:
            single.setdefault(root, {})[directory] = entries
            continue
        entries = without_bookkeeping(directory, entries, landing)
        around.learn(directory, entries)
        loose = [entry for entry in entries if not is_named(entry, connectors.endings)]
        found += [
            _Part(shard_key(entry.path), {directory: [entry]}, False, True)
            for entry in entries
            if is_named(entry, connectors.endings)
        ]
        if loose:
            found.append(_Part(shard_key(directory), {directory: loose}, True, len(loose) == len(entries)))
    found += [_Part(shard_key(root), files, False, True) for root, files in single.items()]
    yield from sorted(found, key=lambda part: (_speaks_of_others(part), part.key))


def _speaks_of_others(part: _Part) -> bool:
    """Whether all files are annotations by their places and names, or zips of such."""
    return all(
        may_be_annotations(entry.path) or is_annotation_archive(entry.path)
        for entries in part.files.values()
        for entry in entries
    )


def _scan_part(
    part: _Part,
    landing: Landing,
    left: int,
    *,
    settings: SourceSettings,
    known: Mapping[str, Shard],
    around: Placement,
    connectors: Connectors,
) -> list[Shard]:
    files = part.files
    if part.is_loose:
        files = {directory: first_stems(entries, left) for directory, entries in part.files.items()}
    shards = scan(
        _Excerpt(landing, files),
        settings=settings,
        known=known,
        around=around,
        limit=left,
        connectors=connectors,
    )
    if part.is_loose:
        return shards
    if any(shard.format == LOOSE for shard in shards):
        _LOG.warning("%s is left out under a limit: its name says that it is a container, its bytes do not", part.key)
    return [shard for shard in shards if shard.format != LOOSE]


def _num_stems(shard: Shard, part: _Part, looked_at: int) -> int:
    """How many stems of a part of a directory are among the first of the directory: so many of its own first ones
    are read, and are those."""
    entries = (
        entry
        for entries in part.files.values()
        for entry in first_stems(entries, looked_at)
        if is_in(entry, shard.part)
    )
    return len({entry.name.partition(".")[0] for entry in entries})


def _of_part(shard: Shard, part: _Part, landing: Landing, around: Placement) -> Shard:
    """The part of a directory with the revision of the files that are read of it under its limit, and of no others."""
    own = [entry for entries in part.files.values() for entry in entries if is_in(entry, shard.part)]
    read_files = first_stems(own, shard.limit or 0)
    return limited(
        replace(
            shard,
            revision=revision_of([*read_files, *default_files(landing, shard.path), *around.companions_of(shard.path)]),
        ),
        shard.limit or 0,
    )


def _cut(
    shard: Shard,
    left: int,
    part: _Part,
    landing: Landing,
    *,
    settings: SourceSettings,
    before: Shard | None,
    looked_at: int,
    parsed: ParsedFiles,
    connectors: Connectors,
) -> Shard:
    """The shard with its `num_samples`, and with a limit where not all of it is taken."""
    if before is not None and unlimited(before).revision != shard.revision:
        before = None
    if before is not None and before.limit == left == before.num_samples:
        return before
    # under a limit it was counted no further than that
    counted = before.num_samples if before is not None and before.limit is None else None
    all_scanned = not part.is_loose or (
        part.is_alone and all(len(first_stems(entries, looked_at)) == len(entries) for entries in part.files.values())
    )
    if shard.part and not all_scanned:
        left = min(left, _num_stems(shard, part, looked_at))
    # One more than there is room for tells that there are more; where more files lie there anyway, nothing needs to be
    # opened for that.
    count = (
        counted
        if counted is not None
        else _count(
            shard,
            landing,
            left + 1 if all_scanned else left,
            settings=settings,
            parsed=parsed,
            connectors=connectors,
        )
    )
    shard = replace(shard, num_samples=min(count, left))
    return shard if all_scanned and count <= left else limited(shard, left if shard.part else min(count, left))


def _count(
    shard: Shard,
    landing: Landing,
    at_most: int,
    *,
    settings: SourceSettings,
    parsed: ParsedFiles,
    connectors: Connectors,
) -> int:
    """How many samples the shard has, counted no further than that."""
    connector = connectors[shard.format]
    if connector.num_samples is not None:
        try:
            if (told := connector.num_samples(reading_of(landing, shard.path, settings=settings))) is not None:
                return min(told, at_most)
        except UnreadableItem:
            pass  # reading tells of it in a row, which counts as one
    cut = replace(shard, limit=at_most)
    items = read(cut, landing=landing, settings=settings, parsed=parsed, connectors=connectors)
    return len({item.sample_id for item in items})


class _Excerpt(Landing):
    """A landing zone of which only some files are listed; all can be opened."""

    def __init__(self, landing: Landing, files: Mapping[str, list[Entry]]) -> None:
        self._landing, self._files = landing, files
        self.location = landing.location

    def directories(self) -> Iterator[tuple[str, list[Entry]]]:
        yield from sorted(self._files.items())

    def files(self, directory: str) -> list[Entry]:
        return self._landing.files(directory)

    def stat(self, path: str) -> Entry | None:
        return self._landing.stat(path)

    def open(self, path: str) -> IO[bytes]:
        return self._landing.open(path)

    def head(self, path: str, size_bytes: int) -> bytes:
        return self._landing.head(path, size_bytes)

    def has(self, path: str) -> bool:
        return self._landing.has(path)

    def local_path(self, path: str) -> Path | None:
        return self._landing.local_path(path)

    def defaults(self, directory: str = ".") -> dict[str, str]:
        return self._landing.defaults(directory)

    def sparing(self) -> Landing:
        return self._landing.sparing()

    def verify(self, path: str) -> None:
        self._landing.verify(path)

"""The beginning of a landing zone: its first samples, in the order of shard keys, without opening what comes after them.

Enters: a landing zone and a number. Leaves: the shards that hold that many samples, the last of them with `Shard.limit`. A file whose name
claims a container format is looked at when its turn comes; where its bytes then say otherwise it is left out, which only a limit does.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import IO

from mmlake.errors import SettingsError, UnreadableItem
from mmlake.landing import Entry, Landing, as_landing
from mmlake.sources.around import Around
from mmlake.sources.beginning import first_stems, is_named, limited, unlimited
from mmlake.sources.connectors import CONTAINER_NAMES, LOOSE, SOURCES, directory_of
from mmlake.sources.ingesting import read
from mmlake.sources.scanning import reading_of, scan
from mmlake.sources.settings import SourceSettings
from mmlake.sources.shard import Shard, shard_key

_LOG = logging.getLogger("mmlake.sources")


def scan_first(landing: Landing | str | os.PathLike[str], limit: int, *, settings: SourceSettings, known: Mapping[str, Shard] | None = None) -> list[Shard]:
    """The shards with the landing zone's first samples, sorted by key: at most `limit` samples in all, and nothing behind them opened.

    known: earlier results by key; where files and limit are equal, nothing is opened or counted again. Raises SettingsError under 1.
    """
    if limit < 1:
        raise SettingsError(f"limit {limit} is no number of samples; give 1 or more, or none to take everything")
    landing, known = as_landing(landing), known or {}
    whole = {key: unlimited(shard) for key, shard in known.items()}
    found: dict[str, Shard] = {}
    left, around = limit, Around(landing)
    for part in _parts(landing, around):
        for shard in _scan_part(part, landing, left, settings=settings, known=whole, around=around) if left else ():
            if left and shard.key not in found:
                found[shard.key] = _cut(shard, left, part, landing, settings=settings, before=known.get(shard.key))
                left -= found[shard.key].num_samples or 0
    return sorted(found.values(), key=lambda shard: shard.key)


@dataclass(frozen=True, slots=True)
class _Part:
    """What is looked at together: a file that its name calls a container, the other files of a directory, or a directory that is one shard."""

    key: str
    files: dict[str, list[Entry]]  # directory -> entries
    is_loose: bool
    is_alone: bool  # whether the directory holds nothing else


def _parts(landing: Landing, around: Around) -> Iterator[_Part]:
    """The landing zone's parts in the order of their keys."""
    found: list[_Part] = []
    single: dict[str, dict[str, list[Entry]]] = {}
    for directory, entries in landing.directories():
        if (root := directory_of(directory, landing)) is not None:
            single.setdefault(root, {})[directory] = entries
            continue
        around.learn(directory, entries)
        loose = [entry for entry in entries if not is_named(entry, CONTAINER_NAMES)]
        found += [_Part(shard_key(entry.path), {directory: [entry]}, False, True) for entry in entries if is_named(entry, CONTAINER_NAMES)]
        if loose:
            found.append(_Part(shard_key(directory), {directory: loose}, True, len(loose) == len(entries)))
    found += [_Part(shard_key(root), files, False, True) for root, files in single.items()]
    yield from sorted(found, key=lambda part: part.key)


def _scan_part(part: _Part, landing: Landing, left: int, *, settings: SourceSettings, known: Mapping[str, Shard], around: Around) -> list[Shard]:
    if part.is_loose:
        files = {directory: first_stems(entries, left) for directory, entries in part.files.items()}
        return scan(_Excerpt(landing, files), settings=settings, known=known, around=around)
    shards = scan(_Excerpt(landing, part.files), settings=settings, known=known, around=around)
    if any(shard.format == LOOSE for shard in shards):
        _LOG.warning("%s is left out under a limit: its name says that it is a container, its bytes do not", part.key)
    return [shard for shard in shards if shard.format != LOOSE]


def _cut(shard: Shard, left: int, part: _Part, landing: Landing, *, settings: SourceSettings, before: Shard | None) -> Shard:
    """The shard with its `num_samples`, and with a limit where not all of it is taken."""
    if before is not None and unlimited(before).revision != shard.revision:
        before = None
    if before is not None and before.limit == left == before.num_samples:
        return before
    counted = before.num_samples if before is not None and before.limit is None else None  # under a limit it was counted no further than that
    all_scanned = not part.is_loose or (part.is_alone and all(len(first_stems(entries, left)) == len(entries) for entries in part.files.values()))
    # One more than there is room for tells that there are more; where more files lie there anyway, nothing needs to be opened for that.
    count = counted if counted is not None else _count(shard, landing, left + 1 if all_scanned else left, settings=settings)
    shard = replace(shard, num_samples=min(count, left))
    return shard if all_scanned and count <= left else limited(shard, min(count, left))


def _count(shard: Shard, landing: Landing, at_most: int, *, settings: SourceSettings) -> int:
    """How many samples the shard has, counted no further than that."""
    connector = SOURCES[shard.format]
    if connector.num_samples is not None:
        try:
            if (told := connector.num_samples(reading_of(landing, shard.path, settings=settings))) is not None:
                return min(told, at_most)
        except UnreadableItem:
            pass  # reading tells of it in a row, which counts as one
    return len({item.sample_id for item in read(replace(shard, limit=at_most), landing=landing, settings=settings)})


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

    def has(self, path: str) -> bool:
        return self._landing.has(path)

    def defaults(self) -> dict[str, str]:
        return self._landing.defaults()

    def sparing(self) -> Landing:
        return self._landing.sparing()

    def verify(self, path: str) -> None:
        self._landing.verify(path)

"""The beginning of a landing zone: its first samples, in the order of shard keys, without opening what comes after
them.

Enters: a landing zone and a number. Leaves: the shards that hold that many samples, the last of them with
`Shard.limit`. A file whose name claims a container format is opened when its turn comes; where its bytes then say
otherwise it is left out, which only a limit does.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace

from mmlake.errors import SettingsError, UnreadableItem
from mmlake.landing import Entry, Landing, as_landing
from mmlake.sources.companions.current_files import current_files
from mmlake.sources.companions.placement import Placement
from mmlake.sources.companions.places import is_annotation_archive, may_be_annotations
from mmlake.sources.companions.siblings import without_bookkeeping
from mmlake.sources.connectors.table import LOOSE, SOURCES, Connectors, directory_of
from mmlake.sources.directory_parts import first_stems, is_in, is_named
from mmlake.sources.ingestion import Reader
from mmlake.sources.parsed_files import ParsedFiles, owned
from mmlake.sources.scanner import Scan
from mmlake.sources.settings import SourceSettings
from mmlake.sources.shard import Shard, default_files, limited, revision_of, shard_key, unlimited

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
                found += _FirstScan(Reader(part, settings, parsed, connectors), limit, known or {}).shards()
    return sorted(found, key=lambda shard: shard.key)


@dataclass(frozen=True, slots=True)
class _Part:
    """What is scanned together: a file that its name calls a container, the other files of a directory, or a
    directory that is one shard."""

    key: str
    files: dict[str, list[Entry]]  # directory -> entries
    is_loose: bool = False
    is_alone: bool = True  # whether the directory holds nothing else

    @property
    def describes_others(self) -> bool:
        """Whether all files are annotations by their places and names, or zips of such."""
        return all(may_be_annotations(entry.path) or is_annotation_archive(entry.path) for entry in self.entries)

    @property
    def entries(self) -> list[Entry]:
        """All files."""
        return [entry for entries in self.files.values() for entry in entries]

    def first(self, limit: int) -> list[Entry]:
        """The files of the first stems of each directory."""
        return [entry for entries in self.files.values() for entry in first_stems(entries, limit)]


class _FirstScan:
    """One pass over the beginning of a landing zone."""

    def __init__(self, reader: Reader, limit: int, known: Mapping[str, Shard]) -> None:
        self._reader, self._landing, self._known = reader, reader.landing, known
        self._left = limit  # samples that are still wanted
        self._around = Placement(reader.landing, reader.parsed)

    def shards(self) -> list[Shard]:
        """The shards with the first samples."""
        found: dict[str, Shard] = {}
        for part in self._parts():
            num_scanned = self._left  # stems, of loose files
            for shard in self._scanned(part) if self._left else ():
                if self._left and shard.key not in found:
                    cut = self._cut(shard, part, num_scanned)
                    found[shard.key] = self._of_part(cut, part) if shard.part and cut.limit is not None else cut
                    self._left -= found[shard.key].num_samples or 0
        return list(found.values())

    def _parts(self) -> list[_Part]:
        """The landing zone's parts in the order of their keys; those come last that only describe images elsewhere,
        whose own rows are what no image took."""
        found: list[_Part] = []
        single: dict[str, dict[str, list[Entry]]] = {}
        endings = self._reader.connectors.endings
        for directory, entries in self._landing.directories():
            if (root := directory_of(directory, self._landing)) is not None:
                single.setdefault(root, {})[directory] = entries
                continue
            entries = current_files(directory, entries, self._landing, self._reader.parsed, self._reader.settings)
            entries = without_bookkeeping(directory, entries, self._landing)
            self._around.learn(directory, entries)
            loose: list[Entry] = []
            for entry in entries:
                if is_named(entry, endings):
                    found.append(_Part(shard_key(entry.path), {directory: [entry]}))
                else:
                    loose.append(entry)
            if loose:
                is_alone = len(loose) == len(entries)
                found.append(_Part(shard_key(directory), {directory: loose}, is_loose=True, is_alone=is_alone))
        found += [_Part(shard_key(root), files) for root, files in single.items()]
        return sorted(found, key=lambda part: (part.describes_others, part.key))

    def _scanned(self, part: _Part) -> list[Shard]:
        files = part.files
        if part.is_loose:
            files = {directory: first_stems(entries, self._left) for directory, entries in files.items()}
        shards = Scan(self._reader, self._known, self._around, limit=self._left).shards(files)
        if part.is_loose:
            return shards
        if any(shard.format == LOOSE for shard in shards):
            _LOG.warning(
                "%s is left out under a limit: its name says that it is a container, its bytes do not", part.key
            )
        return [shard for shard in shards if shard.format != LOOSE]

    def _of_part(self, shard: Shard, part: _Part) -> Shard:
        """The part of a directory with the revision of the files that are read of it under its limit, and of no
        others."""
        limit = shard.limit or 0
        own = first_stems([entry for entry in part.entries if is_in(entry, shard.part)], limit)
        governing = [*default_files(self._landing, shard.path), *self._around.companions_of(shard.path)]
        return limited(replace(shard, revision=revision_of([*own, *governing])), limit)

    def _cut(self, shard: Shard, part: _Part, num_scanned: int) -> Shard:
        """The shard with its `num_samples`, and with a limit where not all of it is taken."""
        before, left = self._known.get(shard.key), self._left
        if before is not None and unlimited(before).revision != shard.revision:
            before = None
        if before is not None and before.limit == left == before.num_samples:
            return before
        # under a limit it was counted no further than that
        counted = before.num_samples if before is not None and before.limit is None else None
        first = part.first(num_scanned) if part.is_loose else []
        all_scanned = not part.is_loose or (part.is_alone and len(first) == len(part.entries))
        if shard.part and not all_scanned:
            # so many of the stems of the part are among the first of the directory: those are read
            left = min(left, len({entry.name.partition(".")[0] for entry in first if is_in(entry, shard.part)}))
        # One more than there is room for shows that there are more; where more files lie there anyway, nothing needs
        # to be opened for that.
        count = counted if counted is not None else self._count(shard, left + 1 if all_scanned else left)
        shard = replace(shard, num_samples=min(count, left))
        return shard if all_scanned and count <= left else limited(shard, left if shard.part else min(count, left))

    def _count(self, shard: Shard, at_most: int) -> int:
        """How many samples the shard has, counted no further than that."""
        num_samples = self._reader.connectors[shard.format].num_samples
        if num_samples is not None:
            try:
                if (count := num_samples(self._reader.reading(shard.path))) is not None:
                    return min(count, at_most)
            except UnreadableItem:
                pass  # a row will say so, which counts as one
        cut = replace(shard, limit=at_most)
        return len({item.sample_id for item in self._reader.items(cut)})

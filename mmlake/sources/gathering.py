"""Which directories are one shard together: a shard costs what dozens of small texts do, and corpora of speakers,
products or pages have thousands of directories of a handful of files each.

It follows from names and sizes alone, from below: where more than `sources.gather_above` directories of few files lie
in and below one directory, they are gathered there; what they are together counts further above as one, while it has
few files itself. So at most that many directories of few files are shards of their own, whatever the tree is like.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mmlake.landing import native, portable
from mmlake.sources.directory_parts import split
from mmlake.sources.settings import SourceSettings
from mmlake.sources.shard import PART_MARK

FEW_FILES = 1_000  # a directory of as many is a shard of its own: what the shard costs is little next to them
FEW_BYTES = 1 << 30  # the same of a directory of films
# of one shard: of more there are sixteen or so, which cores share, and of which a new directory changes one
MOST_FILES, _MOST_BYTES = 2_000, 4 << 30


class Size(NamedTuple):
    """What the loose files of a directory are."""

    num_files: int
    num_bytes: int

    @property
    def is_few(self) -> bool:
        """Whether a shard of its own would be mostly the cost of a shard."""
        return self.num_files < FEW_FILES and self.num_bytes < FEW_BYTES


@dataclass(frozen=True, slots=True)
class Gathered:
    """Directories that are one shard. path: that lies above them all; part: which of those below it."""

    path: str
    part: str
    directories: tuple[str, ...]  # portable paths, sorted


class _Unit(NamedTuple):
    """One directory, or several that are gathered, further up."""

    path: str  # native
    directories: Sequence[str]
    size: Size


def gathered(sizes: Mapping[str, Size], settings: SourceSettings) -> list[Gathered]:
    """The directories that are one shard together. sizes: of the loose files of each directory, by portable path. Those
    that are in none are shards of their own."""
    own = {native(path): _Unit(native(path), (path,), size) for path, size in sizes.items() if size.is_few}
    found: list[Gathered] = []
    waiting = defaultdict[str, list[_Unit]](list)  # by the directory above, native
    for path in _deepest_first(own):
        here = [*([own[path]] if path in own else ()), *waiting.pop(path, ())]
        if len(here) > settings.gather_above:
            one = _Unit(path, [name for unit in here for name in unit.directories], _sum([unit.size for unit in here]))
            here = [one] if one.size.is_few else []
            found += () if here else _parts(one, sizes, settings)
        if path == ".":
            found += [each for unit in here if len(unit.directories) > 1 for each in _parts(unit, sizes, settings)]
        else:
            waiting[_above(path)] += here
    return found


def _parts(unit: _Unit, sizes: Mapping[str, Size], settings: SourceSettings) -> list[Gathered]:
    """The shards of the directories: several where they have too many files for one. A directory belongs to the part
    that the SHA-256 of its path begins with."""

    def fits(directories: Sequence[str]) -> bool:
        size = _sum([sizes[directory] for directory in directories])
        return size.num_files <= min(MOST_FILES, settings.max_loose_files) and size.num_bytes <= _MOST_BYTES

    hashed = [(hashlib.sha256(path.encode()).hexdigest(), path) for path in unit.directories]
    return [
        Gathered(portable(unit.path), PART_MARK + digits, tuple(sorted(directories)))
        for digits, directories in sorted(split(hashed, fits).items())
    ]


def _sum(sizes: Sequence[Size]) -> Size:
    return Size(sum(size.num_files for size in sizes), sum(size.num_bytes for size in sizes))


def _above(path: str) -> str:
    return path.rpartition("/")[0] or "."


def _deepest_first(paths: Mapping[str, _Unit]) -> list[str]:
    """The directories and all above them."""
    found = {"."}
    for path in paths:
        while path not in found:
            found.add(path)
            path = _above(path)
    return sorted(found, key=lambda path: (path == ".", -path.count("/"), path))

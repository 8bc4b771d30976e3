"""Members of zips and tars as files that tables and manifests next to the archives name, as corpora are published: a
list of dialogues and `images.zip`, `train.tsv` and `audio/train.tar.gz`.

Enters: how the records of one file name files, and the members of an archive near it. Leaves: what each member is
called in the records. The members count as if the archive were unpacked: where it lies, into a directory of its own
name, or into one where corpora have their media.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Protocol

import numpy as np

from mmlake.errors import UnreadableItem
from mmlake.formats.archive_names import names_in
from mmlake.formats.texts import printable
from mmlake.landing import Entry, Landing
from mmlake.sources.companions.file_lists import BASES
from mmlake.sources.companions.places import PACKED, join
from mmlake.sources.names import MemberNames, composed, label_of

_FOLDERS_KEPT = 256
_SPLITS = frozenset("train training val valid validation dev eval test testing".split())
_WORDS = re.compile(r"[^\W\d_]+")
_APART = "*.archives"  # stands for the names of a directory's archives


class Naming(Protocol):
    """A file of records, as far as it names files."""

    bases: tuple[str, ...]  # where its files may lie, as seen from it
    home: str  # the directory that they are seen from
    path: str

    def places(self, directory: str) -> list[str]:
        """What the directory may be called in its records."""

    def keys_of(self, name: str, places: Sequence[str]) -> list[str]:
        """What a file of that name in a directory that is called so may be called in its records."""

    def may_name_in(self, places: Sequence[str]) -> bool:
        """Whether records may name files in a directory that is called so."""

    def names(self, key: str) -> bool:
        """Whether a record has that name of a file."""


def apart(directory: str) -> Entry:
    """What stands among the companions of an archive in the directory where its members may not lie there."""
    return Entry(join(directory, _APART), 0, 0)


def is_apart(companions: Iterable[Entry]) -> bool:
    """Whether such an entry is among them."""
    return any(one.name == _APART for one in companions)


def entries(landing: Landing, paths: Iterable[str]) -> list[Entry]:
    """The companions of an archive again, of which the paths are kept, as far as they are there."""
    found = (Entry(path, 0, 0) if path.endswith(_APART) else landing.stat(path) for path in paths)
    return [one for one in found if one is not None]


def is_plain(archive: str, packed: Sequence[str]) -> bool:
    """Whether members of an archive of that name may lie where it lies, or in any directory of media there, by the
    names of all archives there: it is the only one, one of the parts or splits of one set, or called like a directory
    of media. Of `left.zip` and `right.zip` both may have an `a.jpg`, and nobody says which of these a record means."""
    own = _words_of(archive)
    if len(packed) < 2 or any(word in own for base in BASES for word in _WORDS.findall(base.lower())):
        return True
    return all(_words_of(other) - _SPLITS == own - _SPLITS for other in packed)


def _words_of(path: str) -> set[str]:
    """The words in the name of an archive without its extension, or in that of another file."""
    return set(_WORDS.findall(_stem_of(path).lower()))


def are_of_one_split(archive: str, table: str, home: str) -> bool:
    """Whether the paths of the archive and of the file of records do not say that they are of different splits. home:
    the directory of the file, from which its media are seen."""
    inside = archive.removeprefix(f"{home}/") if home != "." else archive
    theirs, ours = _words_of(inside) & _SPLITS, _words_of(table.rpartition("/")[2].partition(".")[0]) & _SPLITS
    return not theirs or not ours or bool(theirs & ours)


class Unpacking:
    """How the records of one file name the members of an archive: the first member that one of them names says where
    the archive counts as unpacked."""

    def __init__(self, naming: Naming, archive: str, *, is_plain: bool) -> None:
        """archive: path. is_plain: as the function of this name says; else members lie in the directory of the
        archive's name alone."""
        self.root: str | None = None
        self._naming, self._is_plain = naming, is_plain
        here, _, name = archive.rpartition("/")
        self._here, self._stem = here or ".", _stem_of(name)
        named = (join(self._here, base) for base in naming.bases if base != "." and is_plain)
        self._roots = list(dict.fromkeys((self._here, join(self._here, self._stem), *named)))
        self._in = lru_cache(_FOLDERS_KEPT)(self._places_in)

    def keys(self, name: str) -> Sequence[str]:
        """What the member may be called in the records; nothing before one is named."""
        folder, _, base = name.removeprefix("./").rpartition("/")
        for root, places in self._in(folder or "."):
            keys = self._naming.keys_of(composed(printable(base)), places)
            if self.root is None:
                if not any(map(self._naming.names, keys)):
                    continue
                self.root = root
                self._in.cache_clear()
            return keys
        return ()

    def _places_in(self, folder: str) -> list[tuple[str, list[str]]]:
        """(where the archive counts as unpacked, what the folder may be called then)."""
        roots = (
            root
            for root in (self._roots if self.root is None else [self.root])
            if self._is_plain or root != self._here or folder.partition("/")[0] == self._stem
        )
        found = ((root, self._naming.places(join(root, folder) if folder != "." else root)) for root in roots)
        return [(root, places) for root, places in found if self._naming.may_name_in(places)]


def _stem_of(archive: str) -> str:
    """What the archive is called without its extension."""
    ending = max((ending for ending in PACKED if archive.lower().endswith(ending)), key=len, default="")
    return archive[: len(archive) - len(ending)] or archive


def named_in(
    naming: Naming, archives: Iterable[tuple[Entry, bool]], landing: Landing, *, limit_bytes: int
) -> MemberNames:
    """What the members of the archives may be called in the records. archives: each with whether it is plain.
    limit_bytes: up to which a compressed one is expanded."""
    hashes = array("q")
    ours = (one for one in archives if are_of_one_split(one[0].path, naming.path, naming.home))
    for archive, is_plain in ours:
        unpacking = Unpacking(naming, archive.path, is_plain=is_plain)
        with suppress(UnreadableItem), landing.open(archive.path) as file:  # its own rows say why
            for name in names_in(file, limit_bytes=limit_bytes):
                hashes.extend(hash(label_of(key)) for key in unpacking.keys(name))
    return MemberNames(np.array(hashes, np.int64))

"""What samples and their members are called: the sample of a member, the label of a member in locators, which members
there are, the ids of samples that records name."""

from __future__ import annotations

import unicodedata

import numpy as np
from numpy.typing import NDArray

from mmlake.formats.compression import SUFFIXES
from mmlake.formats.texts import printable
from mmlake.records import digest_of

MARKS = "#%\\"  # a name without these, of ASCII alone, is its own label, and that of no other
_EXTENSION_CHARS = 10  # behind a dot more letters are a part of the name; Praat and yt-dlp have longer extensions
PRAAT = frozenset(
    "pitchtier pitch pointprocess intensity intensitytier durationtier klattgrid formantgrid formant harmonicity "
    "manipulation".split()
)
LONG = PRAAT | {"description"}  # extensions of files next to a medium; what yt-dlp writes next to a film
_ID_CHARS = 200  # longer ids are named by their digest


def composed(name: str) -> str:
    """The name with its accents composed (Unicode NFC): macOS spells names with marks of their own, and what lists
    those files seldom does."""
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def stem_of(name: str) -> str:
    """What the sample of a member is called: its path up to the first dot inside the file name, folder included."""
    folder, _, base = composed(name).removeprefix("./").rpartition("/")
    # the dot before a hidden file is no end: else all of a folder would be one sample
    stem = base[:1] + base[1:].partition(".")[0]
    return f"{folder}/{stem}" if folder else stem


def file_stem_of(name: str) -> str:
    """What the sample of a loose file is called: its name without its extension and without that of compression."""
    for suffix in SUFFIXES:
        if name.lower().endswith(suffix):
            name = name[: -len(suffix)]
    return uncompressed_stem_of(name)


def uncompressed_stem_of(name: str) -> str:
    """The same of a name that does not end as those of compressed files do."""
    stem, dot, extension = composed(name).rpartition(".")
    is_extension = len(extension) <= _EXTENSION_CHARS or extension.lower() in LONG
    return stem if dot and stem and is_extension else composed(name)


def label_of(name: str) -> str:
    """What locators call a member whose name no other has."""
    is_own = name.isascii() and not any(map(name.__contains__, MARKS))
    return name if is_own else printable(name).replace("#", "%23")


class MemberNames:
    """Which names an archive, or a directory with those below it, has, as far as hashes of eight bytes each say."""

    def __init__(self, hashes: NDArray[np.int64]) -> None:
        """hashes: of what `label_of` gives for each."""
        self._sorted = np.sort(hashes)

    def __contains__(self, path: str) -> bool:
        if not len(self._sorted):
            return False
        spellings = {path, unicodedata.normalize("NFD", path)}
        wanted = np.array([hash(label_of(f"{start}{one}")) for one in spellings for start in ("", "./")], np.int64)
        at = np.minimum(np.searchsorted(self._sorted, wanted), len(self._sorted) - 1)
        return bool((self._sorted[at] == wanted).any())


class SampleNames:
    """Sample ids of records, unique in their shard: the record's own id, with the record's number behind it where it
    was seen before."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._seen: set[bytes] = set()

    def of(self, identity: object, number: int) -> str:
        """The id of the record with this number, counted from 1."""
        name = (
            str(identity)
            if isinstance(identity, (str, int)) and not isinstance(identity, bool) and str(identity)
            else f"line:{number}"
        )
        name = name.encode("utf-8", "backslashreplace").decode()
        if len(name) > _ID_CHARS:
            name = digest_of(name.encode())
        if not self._add(name):
            name = f"{name}~{number}"
            self._add(name)
        return f"{self._key}/{name}"

    def _add(self, name: str) -> bool:
        # 12 bytes of the digest: a set of ten million ids stays under a gigabyte
        mark = bytes.fromhex(digest_of(name.encode())[:24])
        known = mark in self._seen
        self._seen.add(mark)
        return not known

"""What tables and manifests next to an archive, or above it, say of its members (`packed_media.py`).

Enters: the members' names, and the files around the archive. Leaves: what the files say of each sample. The records
that no member took are rows of the files' own shards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Self

from mmlake.sources.companions import manifest_forms, packed_media
from mmlake.sources.companions.descriptions import tables_among
from mmlake.sources.companions.file_tables import FileTable, FileTables
from mmlake.sources.companions.manifests import Manifest
from mmlake.sources.raw_items import Member, RawItem, Reading
from mmlake.sources.samples.companion import Companion, Description

_FOLDERS_KEPT = 256


class OuterDescriptions(Companion):
    """What files around an archive say of its members."""

    def __init__(self, tables: Sequence[FileTable]) -> None:
        """tables: each with where the archive counts as unpacked."""
        self._tables, self._speaks = tables, [one.speaks() for one in tables]
        self.has_texts = any(self._speaks)
        self._of = lru_cache(_FOLDERS_KEPT)(lambda folder: FileTables(folder, tables, with_texts=self._speaks))

    @classmethod
    def of(cls, reading: Reading, names: Iterable[str]) -> Self | None:
        """None where no file around the archive names one of its members. reading: of the archive. names: of its
        members."""
        found: list[FileTable] = [*tables_among(reading)]
        for entry in reading.around:
            if manifest_forms.is_manifest(reading.landing, entry, reading.parsed):
                found.append(Manifest(reading, entry.path))
        found = [one for one in found if packed_media.are_of_one_split(reading.path, one.path, one.home)]
        is_plain = not packed_media.is_apart(reading.around)
        left = [(one, packed_media.Unpacking(one, reading.path, is_plain=is_plain)) for one in found]
        naming = list[FileTable]()
        for name in names if left else ():
            for table, unpacking in left:
                if unpacking.keys(name):
                    table.root = unpacking.root
                    naming.append(table)
            left = [(table, unpacking) for table, unpacking in left if unpacking.root is None]
            if not left:
                break
        return cls([one for one in found if one in naming]) if naming else None

    def describe(self, stem: str, members: Sequence[Member]) -> Description:
        """The words of the records as texts, everything else as metadata of the sample."""
        media = next((member for member in members if member.is_media), None)
        if media is None:
            return Description()
        return self._of(media.name.removeprefix("./").rpartition("/")[0] or ".").describe(stem, members)

    def rest(self) -> Iterator[RawItem]:
        """Nothing: the files are shards of their own."""
        return iter(())

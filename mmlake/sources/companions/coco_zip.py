"""COCO in zips, as it is published: what is said of the images of a zip, by annotations in it or near it, and what
no image took of those in it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from mmlake.sources.companions import coco
from mmlake.sources.companions.placement import Around
from mmlake.sources.companions.unzipped import Unpacked
from mmlake.sources.companions.zip_entries import Packed
from mmlake.sources.raw_items import Member, RawItem, Reading
from mmlake.sources.samples.companion import Description


class PackedCoco:
    """What annotations say of one zip, and what its own say of nothing."""

    def __init__(self, reading: Reading, own: Mapping[int, Packed], folders: Collection[str] | None) -> None:
        """own: the zip's members that are annotations, by number. folders: those of the zip that hold images; None:
        too many to tell."""
        self._reading, self.own = reading, own
        self._around = Around(reading.landing, unpacked=Unpacked(reading.landing, own=reading.path).files)
        self._above = reading.path.rpartition("/")[0]
        self._told: dict[str, coco.Annotated | None] = {}  # by folder
        # Whether there may be text rows: captions of images in the zip, or what no image took of its own annotations.
        self.has_texts = (
            bool(own)
            or folders is None
            or any(told.has_texts for folder in sorted(folders) if (told := self._of(folder)) is not None)
        )

    @classmethod
    def of(cls, reading: Reading, may_be: Mapping[int, Packed], folders: Collection[str] | None) -> PackedCoco | None:
        """None where no annotations belong to the zip. may_be: its members whose names are like those of
        annotations, by number."""
        own = {at: entry for at, entry in may_be.items() if coco.is_coco(reading.landing, entry)}
        archive = reading.landing.stat(reading.path)
        if not own and (archive is None or not Around(reading.landing).subject(archive)):
            return None
        return cls(reading, own, folders)

    def _of(self, folder: str) -> coco.Annotated | None:
        """What is said of the images in a folder of the archive."""
        if folder not in self._told:
            if len(self._told) == _FOLDERS_KEPT:
                self._told.clear()
            directory = "/".join(part for part in (self._above, folder) if part) or "."
            found = [
                entry
                for entry in self._around.annotations(directory)
                if entry.refused is None and coco.is_coco(self._reading.landing, entry)
            ]
            self._told[folder] = coco.Annotated(self._reading, found) if found else None
        return self._told[folder]

    def describe(self, stem: str, members: Sequence[Member]) -> Description:
        """Captions as texts, everything else as metadata of the image."""
        told = self._of(stem.rpartition("/")[0]) if any(member.is_media for member in members) else None
        return told.describe(stem, members) if told is not None else Description()

    def rest(self) -> Iterator[RawItem]:
        """A row for everything in the zip's own annotations that no image took."""
        for entry in self.own.values():
            yield from coco.rest(self._reading, entry, self._around)

    def named(self, members: Collection[str]) -> Iterator[RawItem]:
        """The texts of the zip's own annotations that these locators name."""
        for entry in self.own.values():
            yield from coco.texts_at(
                self._reading,
                entry,
                [one.removeprefix(entry.member) for one in members if one.startswith(f"{entry.member}#")],
            )


_FOLDERS_KEPT = 1000

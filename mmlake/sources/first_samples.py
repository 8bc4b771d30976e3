"""The beginning of a shard: its first samples, and of loose files as few as can hold them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import TypeVar

from mmlake.landing import Entry
from mmlake.sources.companions import transcripts
from mmlake.sources.raw_items import RawItem
from mmlake.sources.samples.plain import Plain
from mmlake.sources.shard import LOOSE, Shard

_Item = TypeVar("_Item", RawItem, RawItem | Plain)
_MARK = "~"  # between the revision of the files and the number of samples; a digest has none
# Behind the first samples an archive's members are listed on, since those of a sample may lie apart: programs with
# several threads mix a few samples, and the table of transcripts of a LibriSpeech chapter may follow its last
# recording, of a speaker's 25 minutes (some hundred members, 30 MB). Whichever of both is reached first ends it.
_MARGIN_STEMS = 256
_MARGIN_BYTES = 64 << 20


def first_samples(items: Iterator[_Item], limit: int | None) -> Iterator[_Item]:
    """The items up to where the sample after the first `limit` begins; None takes all. Nothing after that is read."""
    return items if limit is None else _first_samples(items, limit)


def _first_samples(items: Iterator[_Item], limit: int) -> Iterator[_Item]:
    seen: set[str] = set()
    for item in items:
        if item.sample_id not in seen:
            if len(seen) == limit:
                return
            seen.add(item.sample_id)
        yield item


def first_stems(entries: Sequence[Entry], limit: int) -> list[Entry]:
    """The files of the first `limit` stems by path; a stem goes to the first dot, so that a sample's files stay
    together.

    Tables of transcripts come last: they are no samples, and speak of the others wherever those end.
    """
    stems: dict[str, list[Entry]] = {}
    for entry in sorted(entries, key=lambda one: (transcripts.prefix_of(one.name) is not None, one.path)):
        stems.setdefault(entry.name.partition(".")[0], []).append(entry)
    return [entry for stem in list(stems)[:limit] for entry in stems[stem]]


class Reach:
    """How far the members of an archive are listed under a limit: up to a new stem behind the first ones and their
    margin."""

    def __init__(self, limit: int, *, times: int) -> None:
        """limit: stems that shall be whole. times: so many margins follow them."""
        self._limit, self._margin_stems, self._margin_bytes = limit, times * _MARGIN_STEMS, times * _MARGIN_BYTES
        self._seen: set[int] = set()
        self._margin_at = 0  # where it begins

    def anew(self) -> Reach:
        """The same from the archive's start."""
        other = copy(self)
        other._seen = set()
        return other

    def num_within(self, stems: Iterable[int], offsets: Iterable[int]) -> int:
        """How many of the next members are still listed. stems: hashes. offsets: where in the archive their bytes
        lie."""
        within = 0
        for stem, offset in zip(stems, offsets, strict=True):
            if stem not in self._seen:
                behind = len(self._seen) - self._limit
                if behind == 0:
                    self._margin_at = offset
                # One sample behind the limit is whole as well, so that the last one before it is told to be.
                if behind > 0 and (behind > self._margin_stems or offset - self._margin_at > self._margin_bytes):
                    return within
                self._seen.add(stem)
            within += 1
        return within


def is_named(entry: Entry, endings: tuple[str, ...]) -> bool:
    """Whether the file's name alone claims one of the container formats with these endings."""
    return entry.name.lower().endswith(endings)


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
    """A shard from an earlier look as it is without a limit, where a look with this limit would find the same
    modalities in the same files; else None."""
    if shard is None:
        return None
    is_whole = (
        shard.limit is None and shard.num_samples is not None and limit is not None and shard.num_samples <= limit
    )
    # The revision of loose files is that of the files that were looked at.
    return unlimited(shard) if is_whole or shard.limit == limit or shard.format == LOOSE else None

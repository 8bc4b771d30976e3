"""The beginning of a shard: its first samples, and of loose files as few as can hold them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from mmlake.landing import Entry
from mmlake.sources.companions import transcripts
from mmlake.sources.raw_items import RawItem
from mmlake.sources.shard import LOOSE, Shard

_MARK = "~"  # between the revision of the files and the number of samples; a digest has none


def first_samples(items: Iterator[RawItem], limit: int | None) -> Iterator[RawItem]:
    """The items up to where the sample after the first `limit` begins; None takes all. Nothing after that is read."""
    if limit is None:
        yield from items
        return
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

    Tables of transcripts come last: they are no samples, and describe the others wherever those end.
    """
    stems: dict[str, list[Entry]] = {}
    for entry in sorted(entries, key=lambda one: (transcripts.prefix_of(one.name) is not None, one.path)):
        stems.setdefault(entry.name.partition(".")[0], []).append(entry)
    return [entry for stem in list(stems)[:limit] for entry in stems[stem]]


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
    """A shard from an earlier scan as it is without a limit, where a scan with this limit would find the same
    modalities in the same files; else None."""
    if shard is None:
        return None
    is_whole = (
        shard.limit is None and shard.num_samples is not None and limit is not None and shard.num_samples <= limit
    )
    # The revision of loose files is that of the files that were opened.
    return unlimited(shard) if is_whole or shard.limit == limit or shard.format == LOOSE else None

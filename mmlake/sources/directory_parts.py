"""Which files and samples one shard has: a directory of very many loose files becomes several shards, so that a run
that stops loses one part and not the directory, and under a limit only the beginning is read.

A file belongs to the part that its name hashes to. Parts are named by the first hexadecimal digits of that hash; a part
that has more files than the settings allow is split sixteenfold, and no other part notices. So a new file touches one
part, the parts follow from the listing alone, and up to 160,000 files of a 10,000-file limit the names of the parts
never change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TypeVar

from mmlake.landing import Entry, Landing, files_ahead, listed_ahead
from mmlake.sources.companions import transcripts
from mmlake.sources.names import composed
from mmlake.sources.raw_items import BlobOf, RawItem
from mmlake.sources.shard import Shard, each_directory

Part = TypeVar("Part")
_MAX_DIGITS = 8  # files of one stem always share a part: where they alone are too many, splitting must end


def part_of(entry: Entry) -> str:
    """The hash that places a file: hexadecimal digits that files of one stem have in common."""
    # Up to the first dot, so that `talk.mp4`, `talk.en.srt` and `talk.normalized.txt` are never parted.
    return hashlib.sha256(composed(entry.name).partition(".")[0].encode("utf-8", "surrogateescape")).hexdigest()


def is_in(entry: Entry, part: str) -> bool:
    """Whether the file belongs to the part of its directory; the part "" is the whole of it."""
    return not part or part_of(entry).startswith(part)


def parts_of(entries: Sequence[Entry], *, max_files: int) -> dict[str, list[Entry]]:
    """The files by part, in order of the parts; the one part "" where they are few enough."""
    if len(entries) <= max_files:
        return {"": list(entries)}
    hashed = [(part_of(entry), entry) for entry in entries]
    return dict(sorted(split(hashed, lambda few: len(few) <= max_files).items()))


def split(
    hashed: list[tuple[str, Part]], fits: Callable[[Sequence[Part]], bool], prefix: str = ""
) -> dict[str, list[Part]]:
    """What each part holds, by the digits that the hashes in it begin with. fits: whether so much may be one part."""
    here = [one for _, one in hashed]
    if len(prefix) == _MAX_DIGITS or fits(here):
        return {prefix: here}
    buckets: dict[str, list[tuple[str, Part]]] = {}
    for digits, one in hashed:
        buckets.setdefault(digits[: len(prefix) + 1], []).append((digits, one))
    parts: dict[str, list[Part]] = {}
    for longer, bucket in buckets.items():
        parts.update(split(bucket, fits, longer))
    return parts


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
        stems.setdefault(composed(entry.name).partition(".")[0], []).append(entry)
    return [entry for stem in list(stems)[:limit] for entry in stems[stem]]


def is_named(entry: Entry, endings: tuple[str, ...]) -> bool:
    """Whether the file's name alone claims one of the container formats with these endings."""
    return entry.name.lower().endswith(endings)


def loose_files_ahead(
    shard: Shard,
    landing: Landing,
    endings: tuple[str, ...],
    blob_of: BlobOf | None,
    listed: Sequence[Entry] | None = None,
) -> AbstractContextManager[Landing]:
    """The landing zone, for one who will read all loose files of the shard in their order. endings: of names that claim
    a container. blob_of: files that have a blob here are not read to their end. listed: the files, where they are known
    already."""

    def wanted(entry: Entry) -> int:
        if is_named(entry, endings):
            return 0
        return 1 if blob_of is not None and blob_of(entry) is not None else max(1, entry.size_bytes)

    if listed is not None:
        return files_ahead(landing.part_of(shard.path), listed, wanted)
    directories = (one.path for one in each_directory(shard))
    return listed_ahead(landing.part_of(shard.path), directories, wanted)

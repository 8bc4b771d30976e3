"""Loose files: those of one directory are one shard, and files with one stem are one sample (a medium and its sidecars)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import IO

from mmlake.errors import UnreadableItem
from mmlake.landing import Entry
from mmlake.records import SourceRef
from mmlake.sources import sniff
from mmlake.sources.members import Member, look
from mmlake.sources.rows import Fault, RawItem, Reading
from mmlake.sources.samples import Samples

_SIDECARS = ("txt", "srt", "vtt", "json", "caption", "transcript")


def modalities(reading: Reading) -> tuple[str, ...]:
    """The modalities that the directory's rows have, exactly: the first bytes of every file are read."""
    return _samples(reading).modalities


def items(reading: Reading) -> Iterator[RawItem]:
    """The rows of the directory's loose files."""
    return _samples(reading).items()


def _samples(reading: Reading) -> Samples:
    members = [_member(entry, reading) for entry in sorted(reading.entries, key=lambda entry: entry.path)]
    media = {member.stem for member in members if member.is_media}
    for member in members:
        # "talk.en.srt" belongs to "talk.mp4" although its stem is longer.
        shorter = member.stem.rpartition(".")[0]
        if member.stem not in media and shorter in media and member.extension in _SIDECARS and not member.is_media:
            member.stem = shorter
    return Samples(members, reading)


def _member(entry: Entry, reading: Reading) -> Member:
    def open_raw() -> IO[bytes]:
        return reading.landing.open(entry.path)

    name, locate = entry.name, _locator(entry.path)
    stem = _stem(name)
    if entry.refused is not None:
        return Member(name=name, stem=stem, size_bytes=0, kind=None, content=None, locate=locate, fault=Fault(1007, entry.refused))
    if entry.size_bytes > reading.settings.max_item_bytes:
        reason = f"size_bytes={entry.size_bytes} not in [0, {reading.settings.max_item_bytes}]"
        return Member(name=name, stem=stem, size_bytes=entry.size_bytes, kind=sniff.kind_of(b"", name), content=None, locate=locate, fault=Fault(1008, reason))
    try:
        kind, content, fault = look(open_raw, name, entry.size_bytes, reading)
    except UnreadableItem as error:
        return Member(name=name, stem=stem, size_bytes=entry.size_bytes, kind=None, content=None, locate=locate, fault=Fault.of(error))
    return Member(name=name, stem=stem, size_bytes=entry.size_bytes, kind=kind, content=content, locate=locate, fault=fault)


def _stem(name: str) -> str:
    lower = name.lower()
    for suffix in (".gz", ".zst"):
        if lower.endswith(suffix):
            name = name[: -len(suffix)]
    stem, dot, extension = name.rpartition(".")
    return stem if dot and stem and len(extension) <= 10 else name


def _locator(path: str) -> Callable[[str], SourceRef]:
    return lambda pointer: SourceRef(path=path, member=f"#{pointer}" if pointer else None)

"""Loose files: those of one directory are one shard, and files with one stem are one sample (a medium and its sidecars)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import IO

from mmlake.errors import UnreadableItem
from mmlake.landing import Entry
from mmlake.records import SourceRef
from mmlake.sources import coco, sniff, transcripts
from mmlake.sources.beside import Teller, Transcripts, tables_among, without
from mmlake.sources.members import ARCHIVES, Member, look
from mmlake.sources.rows import Content, Fault, Opener, RawItem, Reading
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
    tables = tables_among(members)
    others = without(members, tables)
    tellers: list[Teller] = []
    here = {entry.path for entry in reading.entries}
    borrowed = [_member(entry, reading) for entry in reading.around if entry.path not in here and transcripts.prefix_of(entry.name) is not None]
    if tables or borrowed:
        stems = frozenset([*(member.stem for member in others), *(_stem(entry.name) for entry in reading.siblings)])
        tellers.append(Transcripts(tables, reading, stems=stems, speakers=_speakers(reading), borrowed=tables_among([*borrowed, *others])))
    if (annotated := coco.annotated(reading)) is not None:
        tellers.append(annotated)
    return Samples(others, reading, tellers=tellers)


def _speakers(reading: Reading) -> Opener | None:
    for entry in reading.around:
        if entry.name == transcripts.SPEAKERS and entry.refused is None:
            return lambda: reading.landing.open(entry.path)
    return None


def _member(entry: Entry, reading: Reading) -> Member:
    def open_raw() -> IO[bytes]:
        return reading.landing.open(entry.path)

    name, locate = entry.name, _locator(entry.path)
    stem = _stem(name)
    if entry.refused is not None:
        return Member(name=name, stem=stem, size_bytes=0, kind=None, content=None, locate=locate, fault=Fault(1007, entry.refused))
    if entry.size_bytes > reading.settings.max_item_bytes and (packed := _packed(open_raw)) is not None:
        return Member(name=name, stem=stem, size_bytes=entry.size_bytes, kind=packed, content=None, locate=locate)
    if entry.size_bytes > reading.settings.max_item_bytes:
        reason = f"size_bytes={entry.size_bytes} not in [0, {reading.settings.max_item_bytes}]"
        return Member(name=name, stem=stem, size_bytes=entry.size_bytes, kind=sniff.kind_of(b"", name), content=None, locate=locate, fault=Fault(1008, reason))
    try:
        kind, content, fault = look(Content(open_raw), name, entry.size_bytes, reading, head=reading.heads.pop(entry.path, None))
    except UnreadableItem as error:
        return Member(name=name, stem=stem, size_bytes=entry.size_bytes, kind=None, content=None, locate=locate, fault=Fault.of(error))
    return Member(name=name, stem=stem, size_bytes=entry.size_bytes, kind=kind, content=content, locate=locate, fault=fault)


def _packed(open_raw: Opener) -> sniff.Kind | None:
    """The kind of a file that is an archive: what to do about it is to unpack it, however large it is."""
    try:
        with open_raw() as file:
            kind = sniff.kind_by_magic(file.read(sniff.HEAD_BYTES))
    except UnreadableItem:
        return None
    return kind if kind is not None and kind.content_type in ARCHIVES else None


def _stem(name: str) -> str:
    lower = name.lower()
    for suffix in (".gz", ".zst"):
        if lower.endswith(suffix):
            name = name[: -len(suffix)]
    stem, dot, extension = name.rpartition(".")
    return stem if dot and stem and len(extension) <= 10 else name


def _locator(path: str) -> Callable[[str], SourceRef]:
    return lambda pointer: SourceRef(path=path, member=f"#{pointer}" if pointer else None)

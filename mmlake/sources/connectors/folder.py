"""Loose files: those of one directory are one shard, and files with one stem are one sample (a medium and its
sidecars).

Samples follow from the names alone, so that a file is opened when its sample's turn comes, and a small one only once.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import IO

from mmlake.errors import Fault, UnreadableItem
from mmlake.formats import sniff
from mmlake.formats.compression import SUFFIXES
from mmlake.landing import Entry, Landing
from mmlake.records import SourceRef
from mmlake.sources.companions import coco, descriptions, label_files, manifest_media, transcripts
from mmlake.sources.companions.companion import Teller, Transcripts, tables_among, without
from mmlake.sources.raw_items import Content, Opener, RawItem, Reading
from mmlake.sources.samples.member import ARCHIVES, Member, look
from mmlake.sources.samples.plain import Plain
from mmlake.sources.samples.shard_samples import Samples, record_endings
from mmlake.streams import read_up_to

_SIDECARS = ("txt", "srt", "vtt", "json", "caption", "transcript")
# files up to here are read whole when they are looked at: to open a file again costs as much as to read this
_ONCE_BYTES = 1 << 15


def modalities(reading: Reading) -> tuple[str, ...]:
    """The modalities that the directory's rows have, exactly: the first bytes of every file are read."""
    return _samples(reading).modalities


def items(reading: Reading) -> Iterator[RawItem | Plain]:
    """The rows of the directory's loose files."""
    return _samples(reading).items()


def _samples(reading: Reading) -> Samples:
    entries = sorted(reading.entries, key=attrgetter("path"))
    labelling = label_files.labelling(reading, entries) if reading.around else None
    if labelling is not None:
        entries = [entry for entry in entries if entry.path not in labelling.taken]
    names = [entry.name for entry in entries]
    joined = "\0".join(names).lower()  # what none of very many names holds is soon told
    stems = _stems(entries, names, joined, reading)
    is_mixed = any(ending in joined for ending in record_endings(reading.settings)) and _is_mixed(
        entries, stems, reading
    )
    has_tables = transcripts.SUFFIX in joined and any(transcripts.prefix_of(name) is not None for name in names)
    here = {entry.path for entry in entries} if reading.around else set[str]()
    borrowed = [
        entry for entry in reading.around if entry.path not in here and transcripts.prefix_of(entry.name) is not None
    ]
    speaking = (
        (
            coco.annotated(reading),
            descriptions.described(reading),
            manifest_media.manifested(reading),
            label_files.labelled(reading),
            labelling,
        )
        if reading.around
        else ()
    )
    tellers: list[Teller] = [teller for teller in speaking if teller is not None]
    if not has_tables and not borrowed:
        return Samples(
            lambda: _groups(entries, stems, reading, is_listed=is_mixed), reading, tellers=tellers, is_mixed=is_mixed
        )
    # What a table says is looked up by stem, and what is a table by what the others are: all are looked at first.
    members = sorted(
        (member for group in _groups(entries, stems, reading, is_listed=True) for member in group),
        key=lambda member: member.name,
    )
    found = tables_among(members)
    groups: dict[str, list[Member]] = {}
    for member in without(members, found):
        groups.setdefault(member.stem, []).append(member)
    told = tables_among(
        [*_looked_at(borrowed, reading, is_listed=True), *(member for group in groups.values() for member in group)]
    )
    if found or borrowed:
        all_stems = frozenset([*groups, *(stem_of(entry.name) for entry in reading.siblings)])
        tellers.insert(0, Transcripts(found, reading, stems=all_stems, speakers=_speakers(reading), borrowed=told))
    return Samples(lambda: iter(groups.values()), reading, tellers=tellers, is_mixed=is_mixed)


def _stems(entries: Sequence[Entry], names: Sequence[str], joined: str, reading: Reading) -> list[str]:
    """What the sample of each file is called. joined: the names in lower case."""
    stems = (
        [stem_of(name) for name in names]
        if any(suffix in joined for suffix in SUFFIXES)
        else [_uncompressed_stem(name) for name in names]
    )
    by_stem: dict[str, list[Entry]] | None = None
    for at, name in enumerate(names) if "." in "\0".join(stems) else ():
        # "talk.en.srt" belongs to "talk.mp4" although its stem is longer.
        if "." not in stems[at] or sniff.extension_of(name) not in _SIDECARS:
            continue
        shorter = stems[at].rpartition(".")[0]
        if by_stem is None:
            by_stem = {}
            for stem, one in zip(stems, entries, strict=True):
                by_stem.setdefault(stem, []).append(one)
        if (
            shorter in by_stem
            and _holds_media(by_stem[shorter], reading)
            and not _holds_media(by_stem[stem_of(name)], reading)
        ):
            stems[at] = shorter
    return stems


def _is_mixed(entries: Sequence[Entry], stems: Sequence[str], reading: Reading) -> bool:
    """Whether some samples have a record and others none, or some have several, by their names."""
    endings = record_endings(reading.settings)
    counts = Counter(stem for stem, entry in zip(stems, entries, strict=True) if entry.path.lower().endswith(endings))
    return bool(counts) and (len(counts) < len(set(stems)) or max(counts.values()) > 1)


def _holds_media(entries: Iterable[Entry], reading: Reading) -> bool:
    return any(member.is_media for member in _looked_at(entries, reading, is_listed=False))


def _groups(
    entries: Sequence[Entry], stems: Sequence[str], reading: Reading, *, is_listed: bool
) -> Iterator[list[Member]]:
    groups: dict[str, list[Entry]] = {}
    for entry, stem in zip(entries, stems, strict=True):
        if stem in groups:
            groups[stem].append(entry)
        else:
            groups[stem] = [entry]
    for stem, group in groups.items():
        if len(group) == 1:
            if (member := _member(group[0], stem, reading, is_listed=is_listed)) is not None:
                yield [member]
        elif members := list(_looked_at(group, reading, stem=stem, is_listed=is_listed)):
            yield members


def _looked_at(
    entries: Iterable[Entry], reading: Reading, *, stem: str | None = None, is_listed: bool
) -> Iterator[Member]:
    """The files that are loose indeed; containers are shards of their own. is_listed: whether all are kept, so that
    none may hold its bytes."""
    for entry in entries:
        member = _member(entry, stem_of(entry.name) if stem is None else stem, reading, is_listed=is_listed)
        if member is not None:
            yield member


def _speakers(reading: Reading) -> Opener | None:
    for entry in reading.around:
        if entry.name == transcripts.SPEAKERS and entry.refused is None:
            return lambda: reading.landing.open(entry.path)
    return None


class _File(Content):
    """A file of a directory, with its first bytes."""

    __slots__ = ("_head", "_is_whole", "_landing", "_path")
    raw = stored = text = None

    def __init__(self, landing: Landing, entry: Entry) -> None:
        self._landing, self._path = landing, entry.path
        asked = min(entry.size_bytes, _ONCE_BYTES) + sniff.HEAD_BYTES
        self._head = landing.head(entry.path, asked)
        self._is_whole = len(self._head) < asked

    def forget(self) -> None:
        """Let the first bytes go."""
        self._head, self._is_whole = b"", False

    def open(self) -> IO[bytes]:
        """The file's bytes."""
        return io.BytesIO(self._head) if self._is_whole else self._landing.open(self._path)

    def first(self, size_bytes: int) -> bytes:
        """So many of its first bytes."""
        if self._is_whole or size_bytes <= len(self._head):
            return self._head if size_bytes >= len(self._head) else self._head[:size_bytes]
        with self._landing.open(self._path) as file:
            return read_up_to(file, size_bytes)


def _member(entry: Entry, stem: str, reading: Reading, *, is_listed: bool) -> Member | None:
    """The file by its first bytes; None for a container."""
    name, size, locate, limit = entry.name, entry.size_bytes, _Place(entry.path).locate, reading.settings.max_item_bytes
    if entry.refused is not None:
        return Member(
            name, stem, size_bytes=0, kind=None, content=None, locate=locate, fault=Fault(1007, entry.refused)
        )
    try:
        file = _File(reading.landing, entry)
        head = file.first(sniff.HEAD_BYTES)
        # a medium, which no shard begins like
        if (
            size <= limit
            and (number := sniff.prefix_number(head)) >= 0
            and sniff.PREFIX_KINDS[number].modality is not None
        ):
            if is_listed:
                file.forget()
            return Member(name, stem, size_bytes=size, kind=sniff.PREFIX_KINDS[number], content=file, locate=locate)
        if reading.is_container is not None and reading.is_container(head, name, file.open):
            return None
        if size > limit:
            packed = sniff.kind_by_magic(head)
            # what to do about an archive is to unpack it, however large it is
            if packed is not None and packed.content_type in ARCHIVES:
                return Member(name, stem, size_bytes=size, kind=packed, content=None, locate=locate)
            fault: Fault | None = Fault(1008, f"size_bytes={size} not in [0, {limit}]")
            return Member(
                name, stem, size_bytes=size, kind=sniff.kind_of(b"", name), content=None, locate=locate, fault=fault
            )
        extension = sniff.extension_of(name)
        kind, content, fault = look(file, name, size, reading, head=head, extension=extension)
        if is_listed:
            file.forget()
    except UnreadableItem as error:
        return Member(name, stem, size_bytes=size, kind=None, content=None, locate=locate, fault=Fault.of(error))
    return Member(
        name, stem, size_bytes=size, kind=kind, content=content, locate=locate, fault=fault, extension=extension
    )


def stem_of(name: str) -> str:
    """What the sample of a file is called: its name without its extension and what says that it is compressed."""
    for suffix in SUFFIXES:
        if name.lower().endswith(suffix):
            name = name[: -len(suffix)]
    return _uncompressed_stem(name)


def _uncompressed_stem(name: str) -> str:
    stem, dot, extension = name.rpartition(".")
    return stem if dot and stem and len(extension) <= 10 else name


class _Place:
    """Where a loose file lies."""

    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path = path

    def locate(self, pointer: str) -> SourceRef:
        """The locator of the file, or of a text inside it."""
        return SourceRef(self._path, f"#{pointer}" if pointer else None)

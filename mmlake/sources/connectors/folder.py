"""Loose files: those of one directory are one shard, and files with one stem are one sample (a medium and its
sidecars).

Samples follow from the names alone, so that a file is opened when its sample's turn comes, and a small one only once.
"""

from __future__ import annotations

import io
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from operator import attrgetter
from typing import IO

from mmlake.errors import Fault, UnreadableItem
from mmlake.formats import sniff
from mmlake.formats.compression import SUFFIXES
from mmlake.landing import Entry
from mmlake.media_names import is_media_name
from mmlake.sources.companions import coco, descriptions, labels, manifests, parallel_texts, transcripts
from mmlake.sources.companions.file_tables import FileTables
from mmlake.sources.names import composed, file_stem_of, uncompressed_stem_of
from mmlake.sources.raw_items import ARCHIVES, Member, RawItem, Reading, record_endings
from mmlake.sources.samples.companion import Companion
from mmlake.sources.samples.shard_samples import Samples
from mmlake.sources.stored_files import LARGE_BYTES

_SIDECARS = frozenset(["txt", "srt", "vtt", "json", "caption", "transcript", *sniff.TIMED_NAMES])


def modalities(reading: Reading) -> tuple[str, ...]:
    """The modalities that the directory's rows have, exactly: the first bytes of every file are read."""
    return _samples(reading).modalities


def items(reading: Reading) -> Iterator[RawItem]:
    """The rows of the directory's loose files."""
    return _samples(reading).items()


def _samples(reading: Reading) -> Samples:
    samples = _grouped(reading)
    if reading.around:  # what classes mean, too
        known = cache(lambda: labels.classes_of(reading, reading.path))
        samples.classes = lambda stem: known()
    return samples


def _grouped(reading: Reading) -> Samples:
    entries = sorted(reading.entries, key=attrgetter("path"))
    labelling = labels.label_files_among(entries, reading) if reading.around else None
    if labelling is not None:
        entries = [entry for entry in entries if entry.path not in labelling.taken]
    entries = parallel_texts.without_taken(entries, reading) if reading.around else entries
    names = [entry.name for entry in entries]
    joined = "\0".join(names).lower()  # what none of very many names holds is soon known
    stems = _stems(entries, names, joined, reading)
    is_mixed = any(ending in joined for ending in record_endings(reading.settings.json_extensions)) and _is_mixed(
        entries, stems, reading
    )
    has_tables = transcripts.SUFFIX in joined and any(transcripts.prefix_of(name) is not None for name in names)
    here = {entry.path for entry in entries} if reading.around else set[str]()
    borrowed = [
        entry for entry in reading.around if entry.path not in here and transcripts.prefix_of(entry.name) is not None
    ]
    given: Sequence[Companion | None] = ()
    if reading.around:
        others: tuple[Callable[[Reading], Companion | None], ...] = (
            coco.annotations_of,
            descriptions.descriptions_of,
            manifests.manifests_of,
            parallel_texts.texts_of,
            labels.labels_of,
        )
        given = (*(companions_of(reading) for companions_of in others), labelling)
    companions = [companion for companion in given if companion is not None]
    for companion in companions:
        stems = _apart(entries, stems, companion) if isinstance(companion, FileTables) else stems
    if not has_tables and not borrowed:
        return Samples(
            lambda: _groups(entries, stems, reading, is_listed=is_mixed),
            reading,
            companions=companions,
            is_mixed=is_mixed,
        )
    groups, spoken = transcripts.with_transcripts(
        sorted(_listed(entries, stems, reading), key=attrgetter("name")),
        reading,
        borrowed=_listed(borrowed, [file_stem_of(entry.name) for entry in borrowed], reading),
    )
    return Samples(lambda: iter(groups), reading, companions=[*spoken, *companions], is_mixed=is_mixed)


def _stems(entries: Sequence[Entry], names: Sequence[str], joined: str, reading: Reading) -> list[str]:
    """What the sample of each file is called. joined: the names in lower case."""
    is_compressed = any(suffix in joined for suffix in SUFFIXES)
    stems = list(map(file_stem_of if is_compressed else uncompressed_stem_of, names))
    # "talk.en.srt" belongs to "talk.mp4" although its stem is longer.
    longer = [at for at, stem in enumerate(stems) if "." in stem and sniff.extension_of(names[at]) in _SIDECARS]
    groups = _by_stem(entries, stems) if longer else {}
    for at in longer:
        # and so does "a.jpg.supplemental-metadata.json", as Google Takeout has it, to "a.jpg"
        once = stems[at].rpartition(".")[0]
        for stem in (once, once.rpartition(".")[0]):
            if stem and _holds_media(groups.get(stem, []), reading) and not _holds_media(groups[stems[at]], reading):
                stems[at] = stem
                break
    return stems


def _by_stem(entries: Sequence[Entry], stems: Sequence[str]) -> dict[str, list[Entry]]:
    """The files of each sample."""
    groups = defaultdict[str, list[Entry]](list)
    for entry, stem in zip(entries, stems, strict=True):
        groups[stem].append(entry)
    return groups


def _apart(entries: Sequence[Entry], stems: list[str], tables: FileTables) -> list[str]:
    """The stems, but where records name each file of one alone: those are samples of their own (LLaMA-Factory has
    `1.jpg`, `1.mp4` and `1.wav`, of three dialogues), called like their files."""
    is_any = len(set(stems)) < len(stems)
    groups = {stem: [one.name for one in group] for stem, group in _by_stem(entries, stems).items()} if is_any else {}
    several = {stem: names for stem, names in groups.items() if len(names) > 1 and all(map(is_media_name, names))}
    apart = {stem for stem, names in several.items() if tables.name_each_alone(names)}
    return [composed(entry.name) if stem in apart else stem for entry, stem in zip(entries, stems, strict=True)]


def _is_mixed(entries: Sequence[Entry], stems: Sequence[str], reading: Reading) -> bool:
    """Whether some samples have a record and others none, or some have several, by their names."""
    endings = record_endings(reading.settings.json_extensions)
    counts = Counter(stem for stem, entry in zip(stems, entries, strict=True) if entry.path.lower().endswith(endings))
    return bool(counts) and (len(counts) < len(set(stems)) or max(counts.values()) > 1)


def _holds_media(entries: Iterable[Entry], reading: Reading) -> bool:
    members = (_member(entry, "", reading, is_listed=False) for entry in entries)
    return any(member.is_media for member in members if member is not None)


def _listed(entries: Sequence[Entry], stems: Sequence[str], reading: Reading) -> list[Member]:
    """All of the files, which hold none of their bytes."""
    return [member for group in _groups(entries, stems, reading, is_listed=True) for member in group]


def _groups(
    entries: Sequence[Entry], stems: Sequence[str], reading: Reading, *, is_listed: bool
) -> Iterator[list[Member]]:
    """The files of each sample that are loose indeed; containers are shards of their own. is_listed: whether all are
    kept, so that none may hold its bytes."""
    for stem, group in _by_stem(entries, stems).items():
        members = [_member(entry, stem, reading, is_listed=is_listed) for entry in group]
        if loose := [member for member in members if member is not None]:
            yield loose


class _File(Member):
    """A file of a directory. file: the landing zone."""

    __slots__ = ("stored",)

    def open(self) -> IO[bytes]:
        return io.BytesIO(self.known) if self.is_whole else self.file.open(self.path)


def _member(entry: Entry, stem: str, reading: Reading, *, is_listed: bool) -> Member | None:
    """The file by its first bytes; None for a container."""
    member = _File(entry.name, stem, entry.size_bytes, entry.path, None, reading.landing)
    member.stored = reading.blob_of(entry) if reading.blob_of is not None else None
    if entry.refused is not None:
        member.size_bytes = 0
        return member.classify(None, Fault(1007, entry.refused), is_readable=False)
    try:
        return _classified(member, reading)
    except UnreadableItem as error:
        return member.classify(None, Fault.of(error), is_readable=False)
    finally:
        if is_listed:
            member.forget()


def _classified(member: _File, reading: Reading) -> Member | None:
    size, limit = member.size_bytes, reading.settings.max_item_bytes
    asked = min(size, LARGE_BYTES) + sniff.HEAD_BYTES
    member.known = reading.landing.head(member.path, asked)
    member.is_whole = len(member.known) < asked
    head = member.first(sniff.HEAD_BYTES)
    # a medium, which no shard begins like
    number = sniff.prefix_number(head) if size <= limit else -1
    if number >= 0 and sniff.PREFIX_KINDS[number].modality is not None:
        return member.classify(sniff.PREFIX_KINDS[number])
    if reading.is_container is not None and reading.is_container(head, member.name, member.open):
        return None
    if size <= limit:
        return member.classify_by(head, reading.settings)
    packed = sniff.kind_by_magic(head)
    # what to do about an archive is to unpack it, however large it is
    if packed is not None and packed.content_type in ARCHIVES:
        return member.classify(packed, is_readable=False)
    fault = Fault(1008, f"size_bytes={size} not in [0, {limit}]")
    return member.classify(sniff.kind_of(b"", member.name), fault, is_readable=False)

"""What is kept of one directory's listing: which files may describe others, by place and name alone, and which they may
describe."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from mmlake.formats.label_files import CLASS_FILES
from mmlake.landing import Entry
from mmlake.media_names import MEDIA_NAMES
from mmlake.sources import shard as shards
from mmlake.sources.companions import file_lists, labels, manifest_forms, parallel_texts, places, transcripts
from mmlake.sources.companions.archives import File
from mmlake.sources.companions.places import is_annotation_archive

MAX_ANNOTATIONS = 256  # JSON files; a directory with more has one for each image, and none annotates a whole corpus
# zips; of a directory with more only those are read whose names say that they hold annotations
_MAX_ARCHIVES = 64


@dataclass(frozen=True, slots=True)
class ListedNames:
    """What is kept of a directory's listing."""

    holds_images: bool
    names_digest: str
    num_files: int
    annotations: tuple[File, ...]  # JSON files that may annotate images elsewhere, by place and name
    other_json: tuple[Entry, ...]  # that do so where their first bytes say it
    transcripts: tuple[Entry, ...]  # tables of transcripts
    speakers: tuple[Entry, ...]  # the table of speakers of those below
    descriptions: tuple[Entry, ...]  # the tables that describe files here and below
    manifests: tuple[Entry, ...]  # files that may be manifests, and the companions of `wav.scp`
    holds_media: bool
    # ending of files that may be labels of images, or texts of media, elsewhere -> the revision of all of those
    revisions: Mapping[str, str]
    may_hold_labels: bool  # next to images here
    classes: tuple[Entry, ...]  # files that may say what classes mean
    archives: tuple[Entry, ...]  # zips that may hold images which files elsewhere annotate, or the other way round
    packed: tuple[Entry, ...]  # zips and tars, by their names, whose members manifests may name

    @classmethod
    def of(cls, directory: str, entries: Sequence[File]) -> Self:
        names = [entry.name for entry in entries]
        lower = [name.lower() for name in names]
        joined = "\0".join(lower)  # what none of very many names holds is soon known
        own = [(entry, name) for entry, name in zip(entries, names, strict=True) if isinstance(entry, Entry)]
        good = [(entry, name) for entry, name in own if entry.refused is None]
        is_home = directory.rpartition("/")[2] == places.HOME
        may_annotate = (places.is_annotation_name(name, is_home=is_home) for name in lower)
        annotations = [entry for entry, may_be in zip(entries, may_annotate, strict=True) if may_be]
        archives = [entry for entry, name in good if name.lower().endswith(places.ARCHIVE)]
        if len(archives) > _MAX_ARCHIVES:
            archives = [entry for entry in archives if is_annotation_archive(entry.path)]
        packed = [entry for entry, name in good if name.lower().endswith(places.PACKED)]
        endings = {ending for _, ending in labels.image_directories(directory)}
        endings |= {parallel_texts.ENDING} if parallel_texts.media_directories(directory) else set()
        described = {ending: [entry for entry, name in own if name.endswith(ending)] for ending in endings}
        may_be_manifests = good if any(mark in joined for mark in manifest_forms.MARKS) else []
        may_be_classes = good if any(mark in joined for mark in CLASS_FILES) else []
        return cls(
            holds_images=any(name.endswith(places.IMAGES) for name in lower),
            names_digest=hashlib.sha256("\0".join(sorted(names)).encode("utf-8", "surrogateescape")).hexdigest(),
            num_files=len(names),
            annotations=tuple(annotations) if len(annotations) <= MAX_ANNOTATIONS else (),
            other_json=_may_be_coco(may_be_manifests, lower, is_home=is_home) if ".json" in joined else (),
            transcripts=tuple(entry for entry, name in own if transcripts.prefix_of(name) is not None),
            speakers=tuple(entry for entry, name in own if name == transcripts.SPEAKERS),
            descriptions=describing([entry for entry, name in own if name in places.TABLES]),
            manifests=_may_be_manifests(may_be_manifests),
            holds_media=any(name.rpartition(".")[2] in MEDIA_NAMES for name in lower),
            revisions={ending: shards.revision_of(files) for ending, files in described.items() if files},
            may_hold_labels=".txt" in joined and any(name.endswith(places.IMAGES) for name in lower),
            classes=tuple(entry for entry, name in may_be_classes if name in CLASS_FILES),
            archives=tuple(archives),
            packed=tuple(packed) if len(packed) <= MAX_ANNOTATIONS else (),
        )


def describing(tables: list[Entry]) -> tuple[Entry, ...]:
    """Those of a directory's tables that count: the first that any corpus may have, else all of those that one
    corpus has several of."""
    known = places.DESCRIPTIONS  # in the order in which they count: Parquet last, which may be a table of its own
    common = sorted((one for one in tables if one.name in known), key=lambda entry: known.index(entry.name))
    return tuple(common[:1] or sorted(tables, key=lambda entry: entry.name))


def _may_be_manifests(good: list[tuple[Entry, str]]) -> tuple[Entry, ...]:
    """Those of the files, with their names, that may be manifests; tables, lists, or others, are none where there are
    so many that each is of one medium."""
    lists = frozenset(file_lists.among([name for _, name in good]))
    may_be = [entry for entry, name in good if manifest_forms.may_be(name) and not file_lists.is_list(name)]
    tables = [entry for entry in may_be if manifest_forms.is_table(entry.name)]
    others = [entry for entry in may_be if not manifest_forms.is_table(entry.name)]
    found = [entry for each in (others, tables) if len(each) <= MAX_ANNOTATIONS for entry in each]
    found += [entry for entry, name in good if name in lists]
    has_scp = any(entry.name == manifest_forms.SCP for entry in found)
    return (*found, *(entry for entry, name in good if has_scp and name in manifest_forms.COMPANIONS))


def _may_be_coco(good: list[tuple[Entry, str]], lower: list[str], *, is_home: bool) -> tuple[Entry, ...]:
    """Those of the files, with their names, that may be COCO annotations under a name that says nothing: no medium has
    it, and there are not so many that each is of one. lower: the names of all files."""
    stems = {name.rpartition(".")[0] for name in lower if name.rpartition(".")[2] in MEDIA_NAMES}
    found = [
        entry
        for entry, name in good
        if name.lower().endswith(places.JSON)
        and not places.is_annotation_name(name.lower(), is_home=is_home)
        and name.lower().partition(".json")[0] not in stems
    ]
    return tuple(found) if len(found) <= MAX_ANNOTATIONS else ()

"""Archives as shards: members with one stem are one sample, whatever the archive's format.

Enters: the numbered members of a tar or a zip. Leaves: `Samples`. An archive is walked twice: first for the names and
places of its members, of which few bytes each are noted, then sample by sample. So memory holds one sample, however
many the archive has, and members of one sample may lie apart.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from functools import cache
from typing import Final

import numpy as np

from mmlake.errors import UnreadableItem
from mmlake.formats.label_files import CLASS_FILES, LABEL_NAMES, Classes, classes_in
from mmlake.formats.tar import CutMember
from mmlake.formats.texts import printable
from mmlake.sources.companions import labels, manifest_forms, parallel_texts, transcripts
from mmlake.sources.companions.inner_descriptions import MAX_TABLES, InnerDescriptions, may_describe
from mmlake.sources.companions.inner_texts import InnerTexts
from mmlake.sources.companions.outer_descriptions import OuterDescriptions
from mmlake.sources.companions.places import TABLES, join
from mmlake.sources.names import MARKS, MemberNames, label_of, stem_of
from mmlake.sources.raw_items import Member, RawItem, Reading, record_endings
from mmlake.sources.samples.companion import Companion
from mmlake.sources.samples.shard_samples import Samples

# of files that may describe others, sought in all names at once: whole names, and what others end with
_TABLE_NAMES = sorted(TABLES)
_MANIFEST_ENDS = frozenset(f".{extension}" for extension in manifest_forms.EXTENSIONS)
_MOST_CLASS_FILES = 256  # that are sought for what classes mean
_REPEATED: Final = {"duplicate_member": True}  # what the row of a member says whose name the archive had before


def connector(
    open_samples: Callable[[Reading], AbstractContextManager[Samples]],
) -> tuple[Callable[[Reading], tuple[str, ...]], Callable[[Reading], Iterator[RawItem]]]:
    """(modalities, items) of the shards whose samples are opened so, as the table of connectors asks for them."""

    def modalities(reading: Reading) -> tuple[str, ...]:
        """The modalities that the rows have, exactly; members are read as far as that takes."""
        with open_samples(reading) as samples:
            return samples.modalities

    def items(reading: Reading) -> Iterator[RawItem]:
        """The shard's rows. Their bytes can be read until the next item is taken."""
        with open_samples(reading) as samples:
            yield from samples.items()

    return modalities, items


class Archive:
    """The members of an archive by their numbers. faults: why it ends before its time, or is damaged as a whole."""

    def __init__(self, reading: Reading) -> None:
        self.reading, self.faults = reading, list[RawItem]()
        self.may_hold_transcripts = False
        self._endings = record_endings(reading.settings.json_extensions)
        # of each member the hashes of its stem and of its name in locators, and whether it is called a record
        self._stems, self._names, self._records = array("q"), array("q"), array("b")
        # members that may be labels of images in another folder, each with a hash of the stem of such an image
        self._labels, self._labelled = array("q"), array("q")
        self._lonely = np.zeros(0, np.int64)  # those of them of which no image is listed
        self._class_files: dict[str, int] = {}  # what may say what classes mean, by its name
        self._describing = dict[str, list[int]]()  # members that are called like files which describe others, by kind
        self._manifest_ends = set(_MANIFEST_ENDS)  # of those that are not too many yet
        self._texts = array("q")  # members that may be texts of media in another folder
        self.is_whole = True  # whether all members are noted
        self.order: list[int] | None = None  # the members in the order of their samples; None: as they lie
        self.repeated: dict[int, tuple[str, bool]] = {}  # label, whether the name stood before, of names that meet

    def name_at(self, at: int) -> str:
        """What the member is called."""
        raise NotImplementedError

    def members(self, order: Iterable[int] | None, *, is_listed: bool) -> Iterator[Member]:
        """The members in that order; None: as they lie. What they hold can be read as long as the file is open.
        is_listed: whether all are kept, so that none may hold its first bytes."""
        raise NotImplementedError

    def note(self, names: Sequence[str], joined: str) -> None:
        """Keep what samples follow from of some more members. joined: their names with a zero between each two."""
        first = len(self._stems)
        self._stems.extend(map(hash, stems_of(names, joined)))
        self._names.extend(map(hash, labels_of(names, joined)))
        lower = joined.lower()
        self._records.extend(
            [name.lower().endswith(self._endings) for name in names]
            if any(map(lower.__contains__, self._endings))
            else bytes(len(names))
        )
        if any(map(joined.__contains__, CLASS_FILES)) and len(self._class_files) < _MOST_CLASS_FILES:
            self._class_files |= {
                name.removeprefix("./"): at
                for at, name in enumerate(names, first)
                if name.rpartition("/")[2] in CLASS_FILES
            }
        ended = f"{lower}\0"
        if any(f"{ending}\0" in ended for ending in self._manifest_ends) or any(map(joined.__contains__, _TABLE_NAMES)):
            self._note_describing(names, first)
        if any(map(joined.__contains__, parallel_texts.FOLDERS)) and parallel_texts.ENDING in joined:
            self._texts.extend(at for at, name in enumerate(names, first) if parallel_texts.may_be_of_others(name))
        # few archives have such folders at all
        for at, name in enumerate(names, first) if any(map(joined.__contains__, labels.LABEL_FOLDERS)) else ():
            for stem in labels.image_stems(name) if name.endswith(LABEL_NAMES) else ():
                self._labels.append(at)
                self._labelled.append(hash(stem))
        if not self.may_hold_transcripts and transcripts.SUFFIX in lower:
            self.may_hold_transcripts = any(transcripts.prefix_of(name) is not None for name in names)

    def _note_describing(self, names: Sequence[str], first: int) -> None:
        """Keep which of some more members may describe others. first: the number of the first of them."""
        ends = (*self._manifest_ends, *_TABLE_NAMES)
        for at, name in enumerate(names, first):
            if name.lower().endswith(ends) and (kind := may_describe(name)) is not None:
                found = self._describing.setdefault(kind, [])
                if len(found) <= MAX_TABLES:
                    found.append(at)
                else:
                    self._manifest_ends.discard(f".{kind}")

    @property
    def may_hold_labels(self) -> bool:
        """Whether members may be labels of images in another folder, by their names."""
        return bool(self._labels)

    def forget(self) -> None:
        """Begin anew with the members."""
        for column in (self._stems, self._names, self._records, self._labels, self._labelled, self._texts):
            del column[:]
        self._class_files.clear()
        self._describing.clear()
        self._manifest_ends = set(_MANIFEST_ENDS)

    def settle(self) -> None:
        """Find the order of the samples and the names that meet, once all members are noted."""
        if self.may_hold_labels:
            at, stems = np.frombuffer(self._labels, np.int64), np.array(self._stems, np.int64)
            labelled = np.frombuffer(self._labelled, np.int64)
            known, counts = np.unique(stems, return_counts=True)
            # what shares its own stem with others, a record of it for one, stays with these
            is_there = np.isin(labelled, known) & np.isin(stems[at], known[counts == 1])
            stems[at[is_there][::-1]] = labelled[is_there][::-1]  # of several the first
            self._lonely = np.setdiff1d(at[np.isin(stems[at], known[counts == 1])], at[is_there])
            self._stems = array("q", stems.tobytes())
        self.order = by_first(np.frombuffer(self._stems, np.int64))
        self.repeated = _repeated(np.frombuffer(self._names, np.int64), self.name_at)

    def lacks_images(self, limit: int) -> bool:
        """Whether one of so many first samples may be the labels of an image that is not among the members: archives of
        Pascal VOC begin with thousands of them."""
        if not len(self._lonely):
            return False
        firsts = np.unique(np.frombuffer(self._stems, np.int64), return_index=True)[1]
        return bool(self._lonely.min() <= np.sort(firsts)[:limit].max())

    def mark(self, at: int, member: Member) -> None:
        """Give a member that may be the label of an image in another folder the stem of that, and one whose name meets
        others the label that no other has."""
        if self.may_hold_labels and member.name.endswith(LABEL_NAMES) and hash(member.stem) != self._stems[at]:
            stems = (stem for stem in labels.image_stems(member.name) if hash(stem) == self._stems[at])
            member.stem, member.is_apart = next(stems, member.stem), True
        if at in self.repeated:
            member.label, is_repeated = self.repeated[at]
            member.notes = _REPEATED if is_repeated else member.notes

    def fail(self, error: UnreadableItem) -> None:
        """Note a fault of the archive, which has a row of its own."""
        member = printable(error.member) if isinstance(error, CutMember) else None
        self.faults.append(self.reading.fault(error.code, error.reason, modality="text", member=member))

    def samples(
        self,
        companions: Sequence[Companion] = (),
        *,
        left_out: Collection[int] = (),
        wanted: Collection[str] | None = None,
    ) -> Samples:
        """The samples of the members that are not left out. wanted: labels of members, with what locators have behind
        them; only samples that they may be in, as far as these can be distinguished."""
        if self.reading.around and wanted is None:  # what is said elsewhere is read there
            outer = OuterDescriptions.of(self.reading, map(self.name_at, range(len(self._stems))))
            companions = [*companions, outer] if outer is not None else companions
        if self._texts and wanted is None and (texts := self._inner_texts()) is not None:
            companions, left_out = [*companions, texts], {*left_out, *texts.own}
        described = self._descriptions(left_out, wanted)
        if described is not None:
            companions, left_out = [*companions, described], {*left_out, *described.own}
            if wanted is not None and any(one.partition("#")[0] in described.labels for one in wanted):
                wanted = None  # what a table says is read with the sample of which it says it
        is_mixed, order = self._is_mixed(left_out), self.order
        if not self.may_hold_transcripts:
            if wanted is not None and not is_mixed:
                order = self._holding(wanted)
            if left_out:
                order = [at for at in (range(len(self._stems)) if order is None else order) if at not in left_out]

            def groups() -> Iterator[list[Member]]:
                return by_sample(self.members(order, is_listed=is_mixed))

        else:
            kept = [at for at in range(len(self._stems)) if at not in left_out] if left_out else None
            members = list(self.members(kept, is_listed=True))
            found, spoken = transcripts.with_transcripts(members, self.reading)
            companions = [*spoken, *companions]

            def groups() -> Iterator[list[Member]]:
                return iter(found)

        samples = Samples(
            groups, self.reading, faults=self.faults, companions=companions, is_mixed=is_mixed, is_archive=True
        )
        known = cache(self._classes)
        samples.classes = lambda stem: known(stem.rpartition("/")[0])
        return samples

    def _descriptions(self, left_out: Collection[int], wanted: Collection[str] | None) -> InnerDescriptions | None:
        """What tables and manifests among the members say of the others. wanted: where some members are wanted, only
        manifests among these are opened."""
        found = [at for few in self._describing.values() if len(few) <= MAX_TABLES for at in few if at not in left_out]
        if wanted is not None:
            named = {one.partition("#")[0] for one in wanted}
            tables = set(self._describing.get("", ()))
            found = [at for at in found if at in tables or label_of(self.name_at(at)) in named]
        if not (found := self._single(found)):
            return None
        return InnerDescriptions.of(
            self.reading,
            sorted(found),
            lambda at: next(iter(self.members([at], is_listed=False))),
            names=lambda: MemberNames(np.frombuffer(self._names, np.int64)),
            is_whole=self.is_whole,
        )

    def _inner_texts(self) -> InnerTexts | None:
        """What texts say of media in another folder."""
        return InnerTexts.of(
            self.reading,
            self._texts,
            map(self.name_at, range(len(self._stems))),
            name_at=self.name_at,
            member_at=lambda at: next(iter(self.members([at], is_listed=False))),
        )

    def _single(self, found: Sequence[int]) -> list[int]:
        """Those that are the only member of their sample: what lies next to a medium of its name is of that alone."""
        if not found:
            return []
        stems = np.frombuffer(self._stems, np.int64)
        known, counts = np.unique(stems, return_counts=True)
        is_alone = counts[np.searchsorted(known, stems[np.array(found)])] == 1
        return [at for at, alone in zip(found, is_alone.tolist(), strict=True) if alone]

    def _classes(self, folder: str) -> Classes:
        """What the numbers of classes mean of labels of images in the folder: the nearest file says it."""
        for place in labels.class_directories(folder or "."):
            for name in CLASS_FILES:
                at = self._class_files.get(join(place, name))
                with suppress(UnreadableItem):  # its own row says so
                    for member in self.members([at], is_listed=True) if at is not None else ():
                        found = classes_in(member.first(labels.MAX_BYTES), name) if member.fault is None else None
                        if found is not None:
                            return found
        return Classes()

    def _is_mixed(self, left_out: Collection[int]) -> bool:
        """Whether some samples have a record and others none, or some have several."""
        stems, records = np.frombuffer(self._stems, np.int64), np.frombuffer(self._records, np.int8)
        if left_out:
            kept = np.ones(len(stems), bool)
            kept[list(left_out)] = False
            stems, records = stems[kept], records[kept]
        counts = np.bincount(np.unique(stems, return_inverse=True)[1], weights=records)
        return bool(np.any(counts > 1) or (np.any(counts == 1) and np.any(counts == 0)))

    def _holding(self, wanted: Collection[str]) -> list[int]:
        """The members of the samples that members with these labels may be in."""
        names = {name for one in wanted for name in (one, one.partition("#")[0])}
        stems = {hash(stem) for name in names for stem in (stem_of(name), *labels.image_stems(name))}
        # Labels are names but for those that could meet or that tables cannot hold: where one of these is wanted, all
        # are read.
        is_odd = any("%" in one or "\\" in one or not one.isascii() for one in wanted)
        order = range(len(self._stems)) if self.order is None else self.order
        return [at for at in order if is_odd or self._stems[at] in stems]


def stems_of(names: Sequence[str], joined: str) -> list[str]:
    """What the samples of many members are called. joined: the names with a zero between each two."""
    if "/" in joined or joined[:1] == "." or "\0." in joined or not joined.isascii():
        return [stem_of(name) for name in names]
    return [name.partition(".")[0] for name in names]


def labels_of(names: Sequence[str], joined: str) -> Sequence[str]:
    """What locators call many members, were each the only one of its name."""
    is_own = joined.isascii() and not any(map(joined.__contains__, MARKS))
    return names if is_own else [label_of(name) for name in names]


def _repeated(hashes: np.ndarray, name_at: Callable[[int], str]) -> dict[int, tuple[str, bool]]:
    """(label, whether the name stood before) by number of all members whose labels may meet: a repetition has
    `#dup=<n>` behind it, unique in the archive.

    hashes: of what `label_of` gives for each.
    """
    _, places, counts = np.unique(hashes, return_inverse=True, return_counts=True)
    found: dict[int, tuple[str, bool]] = {}
    seen: dict[str, int] = {}
    labels: set[str] = set()
    for at in np.flatnonzero(counts[places] > 1).tolist():
        name = name_at(at)
        num_before = seen.get(name, 0)
        seen[name] = num_before + 1
        base = label_of(name)
        label = f"{base}#dup={num_before}" if num_before else base
        number = num_before
        while label in labels:
            number += 1
            label = f"{base}#dup={number}"
        labels.add(label)
        found[at] = (label, num_before > 0)
    return found


def by_first(stems: np.ndarray) -> list[int] | None:
    """The members in the order of their samples' first members; None where they lie so already, as in nearly every
    archive. stems: hashes."""
    starts = stems[np.flatnonzero(np.diff(stems, prepend=stems[:1] - 1))] if len(stems) else stems
    if len(np.unique(starts)) == len(starts):
        return None
    _, firsts, samples = np.unique(stems, return_index=True, return_inverse=True)
    order: list[int] = np.argsort(firsts[samples], kind="stable").tolist()
    return order


def by_sample(members: Iterable[Member]) -> Iterator[list[Member]]:
    """The members of each sample, where those of one sample follow one another."""
    group: list[Member] = []
    for member in members:
        if group and member.stem != group[0].stem:
            yield group
            group = []
        group.append(member)
    if group:
        yield group

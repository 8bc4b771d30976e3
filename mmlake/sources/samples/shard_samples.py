"""Files that belong together: the members of a tar or the files of a directory, grouped by stem and turned into rows.

Enters: classified members, sample by sample. Leaves: `RawItem`s in the order of the samples'
first members. The same code serves tars and directories, so that a tar of a directory gives the rows of the directory.
One sample is in memory at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice

from mmlake.errors import UnreadableItem
from mmlake.formats import sniff, texts
from mmlake.formats.label_files import LABEL_NAMES, begins_as_labels
from mmlake.sources import shard as shards
from mmlake.sources.names import stem_of
from mmlake.sources.raw_items import InnerTable, Member, RawItem, Reading, home_of_unknown, role_of
from mmlake.sources.samples.companion import Companion
from mmlake.sources.samples.image_tokens import Pictures, separated
from mmlake.sources.samples.sample import Sample, Surroundings

# of members of archives that may be tables, and of those that may be tables where their stem has other members
TABLE_EXTENSIONS = frozenset(("parquet", "arrow", "arrows", "feather", "ipc", "jsonl", "ndjson", "json", "csv", "tsv"))
_SOCIABLE = TABLE_EXTENSIONS - {"json"}

# the members of each sample, in the order of first members; as often as it is called
Groups = Callable[[], Iterator[list[Member]]]


class Samples(Surroundings):
    """The samples of one shard."""

    def __init__(
        self,
        groups: Groups,
        reading: Reading,
        *,
        faults: Iterable[RawItem] = (),
        companions: Sequence[Companion] = (),
        is_mixed: bool = False,
        is_archive: bool = False,
    ) -> None:
        """faults: what else went wrong while its members were listed, reported after everything else. companions: files
        that describe the samples.

        is_mixed: whether some samples have a record and others none, or some have several, by their names: then records
        may name images of other samples, or describe samples of their own. All members are listed for that, so that
        they must not hold their bytes.
        is_archive: whether members that are tables are read as such; those of a directory are shards of their own.
        """
        super().__init__(reading.key, reading.settings)
        self._groups: Groups = lambda: (one for group in groups() for one in _with_labels(group))
        self._reading, self._faults, self.companions = reading, list(faults), companions
        self._num_claimed, self._is_archive = 0, is_archive
        if is_mixed:
            self._settle([part for group in self._groups() for part in self._apart(group)])

    @cached_property
    def modalities(self) -> tuple[str, ...]:
        """The modalities of all rows, or of those of the first samples under a limit, exactly; never empty."""
        found, has_records = set[str](), False
        for group in self._first_groups():
            tables, members = self._tables_apart(group)
            has_records = has_records or any(self.is_json(member) for member in members)
            found.update(modality for table in tables for modality in table.modalities)
            found.update(
                self.modality(member) for member in members if not self.is_json(member) and not member.is_label
            )
        found |= {"image"} if self._num_claimed else set()
        found |= {modality for fault in self._faults if (modality := _named_modality(fault.ref.member)) is not None}
        if any(companion.has_texts for companion in self.companions) or (
            has_records and "text" not in found and any(self._has_texts(group) for group in self._first_groups())
        ):
            found.add("text")
        return shards.ordered(found) or (self._reading.home,)

    def _first_groups(self) -> Iterator[list[Member]]:
        """Those that are taken, each of which becomes one sample."""
        return islice(self._groups(), self._reading.limit)

    def _tables_apart(self, group: list[Member]) -> tuple[list[InnerTable], list[Member]]:
        """(those of the members that are tables, the others)."""
        if not self._is_archive or not may_be_tables(group):
            return [], group
        table_of = self._reading.inner_table
        found = [(member, table_of and table_of(member, group, self._reading)) for member in group]
        return [table for _, table in found if table is not None], [member for member, table in found if table is None]

    def _apart(self, group: list[Member]) -> list[list[Member]]:
        """The group, or one per record where several list texts or images: ids with dots, written as they are, make
        stems that end too early."""
        records = {self.base_of(member): member for member in group if self.is_json(member) and not member.notes}
        if len(records) < 2 or sum(map(self._lists, records.values())) < 2:
            return [group]
        return separated(group, list(records))

    def _lists(self, member: Member) -> bool:
        """Whether the record lists texts or images."""
        settings = self.settings
        try:
            assert member.content is not None
            fields = texts.parse_object(member.content.head(settings.max_text_bytes), settings=settings)
        except UnreadableItem:
            return False  # its sample says so
        return any(isinstance(fields.get(name), list) for name in (settings.texts_field, settings.images_field))

    def _settle(self, groups: list[list[Member]]) -> None:
        """Give records the images that they name. One whose own sample has no record is then a row of theirs alone."""
        described = [group for group in groups if any(self.is_json(member) for member in group)]
        if 0 < len(described) < len(groups):
            self.pictures = Pictures(member for group in groups for member in group)
            known = {id(member) for group in described for member in group}
            claimed = {
                id(member)
                for group in described
                for member in Sample(self, group, ()).listed_images()
                if id(member) not in known
            }
            self._num_claimed = len(claimed)
            groups = [left for group in groups if (left := [member for member in group if id(member) not in claimed])]
        self._groups = lambda: iter(groups)

    @cached_property
    def _common(self) -> str | None:
        members = (member for group in self._first_groups() for member in group)
        counts = Counter(
            member.modality
            for member in members
            if member.modality and not self.is_json(member) and not member.is_label
        )
        return max(sniff.RECOGNISED, key=lambda modality: counts[modality]) if counts else None

    def modality(self, member: Member) -> str:
        """The modality whose table gets the member's row. A drawing, which none takes, is searched for among pictures
        before it is among what its shard has most of."""
        if member.modality is not None:
            return member.modality
        named = sniff.kind_of(b"", member.name)
        if named and named.modality:
            return named.modality
        common = "image" if sniff.is_drawing(member.kind) else self._common
        return home_of_unknown(member.name, hint=self._reading.hint, common=common)

    def _has_texts(self, group: list[Member]) -> bool:
        described = (member for member in self._tables_apart(group)[1] if self.is_json(member))
        return any(
            item.modality == "text"
            for member in described
            for item in Sample(self, [member], self.companions).json_texts()
        )

    def items(self) -> Iterator[RawItem]:
        """The rows of all samples, then the faults of the shard."""
        for group in self._groups():
            if self._is_archive and may_be_tables(group):
                tables, group = self._tables_apart(group)
                for table in tables:
                    yield from table.items()
                if not group:
                    continue
            yield from Sample(self, group, self.companions).items()
        for companion in self.companions:
            yield from companion.rest()
        for fault in self._faults:
            modality = _named_modality(fault.ref.member) or self.home
            yield fault.replace(modality=modality, role=role_of(modality))


def _with_labels(group: list[Member]) -> Iterable[list[Member]]:
    """The group, in which texts next to an image that say where objects lie in it are marked as labels, and so are
    texts next to a medium that are written for programs; those of another folder that say nothing of the kind are
    samples of their own. Every sample asks, so that names go first."""
    if len(group) == 1:
        return (group,)
    apart: list[Member] = []
    for member in group:
        if member.modality == "text" and member.fault is None and not member.is_json:
            try:
                if member.is_aside:
                    member.is_label = any(one.is_media for one in group)
                elif member.name.endswith(LABEL_NAMES):
                    member.is_label = _begins_as_labels(member) and any(one.modality == "image" for one in group)
            except UnreadableItem:
                pass  # its own row says so
        if member.is_apart and not member.is_label:
            member.stem = stem_of(member.name)
            apart.append(member)
    if not apart:
        return (group,)
    rest = [member for member in group if member not in apart]
    return [one for one in (rest, *([member] for member in apart)) if one]


def _begins_as_labels(member: Member) -> bool:
    head = member.first(sniff.HEAD_BYTES)
    return begins_as_labels(head, member.extension, is_whole=len(head) == member.size_bytes)


def may_be_tables(group: list[Member]) -> bool:
    """Whether one of the members is called like a table, and nothing next to it says that it is none. Every sample of
    every archive asks."""
    extensions = TABLE_EXTENSIONS if len(group) == 1 else _SOCIABLE
    for member in group:  # noqa: SIM110 - a generator takes twice as long
        if not member.is_media and member.extension in extensions:
            return True
    return False


def _named_modality(name: str | None) -> str | None:
    """The modality of a member that the archive ends in, as its name has it; None where there is none."""
    kind = sniff.kind_of(b"", name) if name else None
    return None if kind is None else kind.modality

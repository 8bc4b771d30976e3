"""What a step is, and what the tables that it reads were when it read them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mmlake import sources
from mmlake.border import Runner
from mmlake.engine.sorting import is_among
from mmlake.errors import MmlakeError
from mmlake.lake import Lake
from mmlake.modalities import Modality
from mmlake.progress import Advance
from mmlake.records import canonical_json
from mmlake.schemas import ITEMS
from mmlake.schemas.table import TableSchema
from mmlake.sources.shard import DEFAULT_PRIORITY
from mmlake.tables import ALL, Slot, Stamp, joint_version

_PRIORITIES = "landing/priorities"  # an input of steps that read them


def _as_they_are(rows: pa.Table) -> pa.Table:
    return rows


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """One table to make: what a step's function is given."""

    lake: Lake
    modality: str
    shard: str
    advance: Advance
    runner: Runner  # where items are decoded
    # rows that are finished -> the same, once they are where a run that goes on from here finds them
    keep: Callable[[pa.Table], pa.Table] = _as_they_are

    @property
    def row(self) -> Modality:
        """What the lake does with the modality."""
        return self.lake.parts.modality(self.modality)

    def read(self, table: str, columns: list[str] | None = None) -> pa.Table:
        """An input table of the same partition; `MODALITY/TABLE` is that of another modality."""
        return self.lake.tables.read(input_slot(table, self.modality, self.shard), columns=columns)

    def parts(self, table: str, columns: list[str] | None = None) -> Iterator[pa.Table]:
        """The same rows in their order, some at a time: what a shard of millions of rows is read by."""
        return self.lake.tables.parts(input_slot(table, self.modality, self.shard), columns=columns)

    def read_held(self, tables: Iterable[str], columns: list[str] | None = None) -> list[pa.Table]:
        """Those of the input tables that the partition has: a shard need not hold every modality."""
        names = each_modality(tables, self.lake.parts.modalities)
        slots = (input_slot(table, self.modality, self.shard) for table in names)
        return [self.lake.tables.read(slot, columns=columns) for slot in slots if self.lake.tables.stamp(slot)]


@dataclass(slots=True)
class Before:
    """The rows that a table takes over or makes again, as they stand: some are in memory at a time."""

    tables: Callable[[list[str] | None], Iterable[pa.Table]]  # columns or None for all -> the rows, more than once
    column: str  # that has their keys
    keys: frozenset[str]  # of the rows that are made, in place of those that stand
    num_kept: int = 0  # rows of other keys, once they were read
    made: pa.Array = field(init=False)  # the same keys, sorted

    def __post_init__(self) -> None:
        self.made = pa.array(sorted(self.keys), pa.string())

    def kept(self) -> Iterator[pa.Table]:
        """The rows that nobody makes again."""
        self.num_kept = 0
        for part in self.tables(None):
            part = part.filter(pc.invert(self.is_made(part)))
            self.num_kept += part.num_rows
            yield part

    def replaced(self) -> pa.Table:
        """Those in whose place others come."""
        return pa.concat_tables(part.filter(self.is_made(part)) for part in self.tables(None))

    def is_made(self, part: pa.Table) -> pa.ChunkedArray:
        """Of each row whether it is one that is made."""
        return is_among(part[self.column], self.made)


# (job, what stands) -> the table with rows made again among them, or parts of it in the order of its key
Remake = Callable[[Job, Before], pa.Table | Iterable[pa.Table]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One row of the table of steps."""

    name: str  # of the table and of the asset
    stage: str  # of the package, the docs page and the tag of the asset
    description: str  # what an engineer reads on the asset's page
    schema: TableSchema
    code_version: str  # counted up when the same input would give other rows
    # the table; or parts of it in the order of its key, which are written as they are made
    make: Callable[[Job], pa.Table | Iterable[pa.Table]]
    check: Callable[[Job, pa.Table], int]  # rows accounted for at the border; raises ContractBroken
    checked: tuple[str, ...] = ()  # of a table that is made in parts: the columns that are checked
    # makes rows that failed, or whose inputs changed, without making the others; None where only a whole table can be
    # made
    remake: Remake | None = None
    remade_by: str = "digest"  # the column of the table that has the keys which `Before` names
    # tables of the same shard for row steps, of all shards for corpus steps; of the same modality, or of the one that
    # `MODALITY/TABLE` names, where the shard has it; `*/TABLE` is that of every modality
    inputs: tuple[str, ...] = ()
    # a column of Modality: the step, or the input, is only there for modalities that have something in it
    column: str | None = None
    input_columns: Mapping[str, str] = field(default_factory=dict)
    corpus_inputs: tuple[str, ...] = ()  # tables that another corpus step made
    settings: tuple[str, ...] = ()  # sections of Settings that steer it
    # (lake, modality, shard) -> what the stamp says of the rows of parts that steer it, besides its inputs
    parts: Callable[[Lake, str, str], Mapping[str, str]] | None = None
    kinds: tuple[str, ...] = ()  # technologies, shown as badges on the asset
    over_shards: bool = False  # a corpus step: one table per modality, from those of all shards
    # reads items, and the priorities of their sources in the landing zone's `_source.json` files, which no table holds
    reads_priorities: bool = False
    in_workers: bool = False  # its items go through worker processes, so several shards at once keep all cores busy
    gpu: bool = False  # runs a model: takes a slot of the pool "gpu"
    unit: str = "rows"
    counts: Callable[[pa.Table], Mapping[str, int]] | None = None  # rows by something else than their status

    @property
    def is_made_by_rows(self) -> bool:
        """Whether some of its rows can be made where only some of its inputs changed."""
        return self.remake is not None and bool(self.inputs)

    def is_for(self, row: Modality) -> bool:
        """Whether the modality has this step."""
        return self.column is None or getattr(row, self.column) is not None

    def inputs_of(self, row: Modality | None) -> tuple[str, ...]:
        """The inputs that the modality has, those of other modalities included. row: None for a table over all
        modalities."""
        return tuple(
            name
            for name in self.inputs
            if (column := self.input_columns.get(name)) is None or getattr(row, column, None) is not None
        )


def each_modality(names: Iterable[str], modalities: Iterable[str]) -> Iterator[str]:
    """The names of inputs, `*/TABLE` once for each of the modalities."""
    known = list(modalities)
    for name in names:
        if name.startswith("*/"):
            yield from (f"{modality}{name[1:]}" for modality in known)
        else:
            yield name


def input_slot(name: str, modality: str, shard: str) -> Slot:
    """The table that an input of a step means, for the step's modality and shard."""
    other, _, table = name.rpartition("/")
    return Slot(table, other or modality, shard)


def input_versions(step: Step, lake: Lake, modality: str, shard: str) -> dict[str, str]:
    """Data version of every input that is there. Raises MmlakeError where one of the same modality has not been made;
    another modality need not have the shard."""
    versions: dict[str, str] = {}
    if not step.inputs and not step.corpus_inputs:
        known = lake.registry.get(shard)
        versions[f"landing/{shard}"] = known.revision
        if known.format == sources.URL_LIST:
            versions["web/reach"] = lake.settings.web.reach
            if turn := lake.downloads.generation(shard, modality, rules=lake.settings.sources):
                versions["web/turn"] = str(turn)
    for name in each_modality(step.inputs_of(lake.parts.modalities.get(modality)), lake.parts.modalities):
        slot = input_slot(name, modality, shard)
        if shard == ALL:
            versions[str(slot)] = joint_version(lake.tables.stamps(slot.table, slot.modality))
        elif slot.modality == modality or lake.tables.stamp(slot) is not None:
            versions[f"{slot.modality}/{slot.table}"] = _stamp(lake, slot).data_version
    if step.reads_priorities:
        before = lake.tables.stamp(Slot(step.name, modality, shard))
        versions[_PRIORITIES] = _priorities(lake, modality, versions, {} if before is None else before.inputs)
    if step.parts is not None:
        versions |= step.parts(lake, modality, shard)
    for name in step.corpus_inputs:
        versions[f"{modality}/{name}"] = _stamp(lake, Slot(name, modality)).data_version
    return versions


def _priorities(lake: Lake, modality: str, versions: Mapping[str, str], before: Mapping[str, str]) -> str:
    """The priorities of the sources that the modality has rows of, as JSON: a new folder of pictures makes no cluster
    of texts again. before: the inputs of the table as it is, which name these sources as long as no items changed."""
    items = f"{modality}/{ITEMS.name}"
    held = _object(before.get(_PRIORITIES, "")) if before.get(items) == versions[items] else None
    if held is None:
        sources_of = (rows["source"] for rows in lake.tables.scan_parts(ITEMS.name, modality, columns=["source"]))
        held = dict.fromkeys(source for column in sources_of for source in column.unique().to_pylist())
    given = sources.priorities(lake.landing, lake.registry.directories())
    return canonical_json({source: given.get(source, DEFAULT_PRIORITY) for source in sorted(held)})


def _object(text: str) -> dict[str, Any] | None:
    """The JSON object that the text is; None where it is none, such as what an earlier release wrote."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _stamp(lake: Lake, slot: Slot) -> Stamp:
    stamp = lake.tables.stamp(slot)
    if stamp is None:
        raise MmlakeError(f"table {slot} has not been made in {lake.root}; materialize it first")
    return stamp

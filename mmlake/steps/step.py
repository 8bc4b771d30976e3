"""What a step is, when its table is up to date, and how it is run: inputs checked, rows accounted for, table
stamped."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mmlake import contracts, sources
from mmlake.border import Runner
from mmlake.errors import MmlakeError, TableCorrupt
from mmlake.lake import Lake
from mmlake.modalities import Modality
from mmlake.progress import Advance, silent
from mmlake.records import canonical_json
from mmlake.schemas import ITEMS, conform
from mmlake.schemas.table import TableSchema
from mmlake.sources.shard import DEFAULT_PRIORITY
from mmlake.steps import row_versions
from mmlake.steps.former import former_tables, kept_path
from mmlake.steps.row_versions import RowVersions
from mmlake.tables import ALL, Slot, Stamp, Stopwatch, check_key, joint_version
from mmlake.workers import Meter, WorkerPool

# DEBUG when a table is begun, INFO when it is done; `extra={"slot": ...}` lets a progress bar follow
_LOG = logging.getLogger("mmlake.steps")
_LEAST_TAKEN_OVER = 0.1  # of the keys: below it the rows that stand are not worth reading
_PRIORITIES = "landing/priorities"  # an input of steps that read them


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """One table to make: what a step's function is given."""

    lake: Lake
    modality: str
    shard: str
    advance: Advance
    runner: Runner  # where items are decoded

    @property
    def row(self) -> Modality:
        """What the lake does with the modality."""
        return self.lake.parts.modality(self.modality)

    def read(self, table: str, columns: list[str] | None = None) -> pa.Table:
        """An input table of the same partition; `MODALITY/TABLE` is that of another modality."""
        return self.lake.tables.read(input_slot(table, self.modality, self.shard), columns=columns)

    def read_held(self, tables: Iterable[str], columns: list[str] | None = None) -> list[pa.Table]:
        """Those of the input tables that the partition has: a shard need not hold every modality."""
        names = each_modality(tables, self.lake.parts.modalities)
        slots = (input_slot(table, self.modality, self.shard) for table in names)
        return [self.lake.tables.read(slot, columns=columns) for slot in slots if self.lake.tables.stamp(slot)]


# (job, the table as it is, keys of rows) -> the table with those rows tried again
Remake = Callable[[Job, pa.Table, frozenset[str]], pa.Table]


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One row of the table of steps."""

    name: str  # of the table and of the asset
    stage: str  # of the package, the docs page and the tag of the asset
    description: str  # what an engineer reads on the asset's page
    schema: TableSchema
    code_version: str  # counted up when the same input would give other rows
    make: Callable[[Job], pa.Table]
    check: Callable[[Job, pa.Table], int]  # rows accounted for at the border; raises ContractBroken
    # makes rows that failed, or whose inputs changed, without making the others; None where only a whole table can be
    # made
    remake: Remake | None = None
    remade_by: str = "digest"  # the column of the table that has the keys which `remake` takes
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


@dataclass(frozen=True, slots=True)
class Made:
    """What running a step gave."""

    slot: Slot
    stamp: Stamp
    reused: bool  # nothing had changed, nothing was done
    inputs: Mapping[str, str]
    num_taken_over: int = 0  # rows of the table before that stand, where some were made anew


@dataclass(frozen=True, slots=True)
class _Part:
    """What is made of a table of which the rest stands."""

    rows: pa.Table  # that the table has
    keys: frozenset[str]  # of the rows that are made, in place of those that it has of them
    seconds: float  # what the rows that it takes over cost
    cpu_seconds: float


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
        sources_of = (rows.column("source") for _, rows in lake.tables.scan(ITEMS.name, modality, columns=["source"]))
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


def is_current(step: Step, lake: Lake, modality: str, shard: str = ALL) -> bool:
    """Whether the table exists and code, settings, schema and all inputs are what they were when it was made."""
    stamp = lake.tables.stamp(Slot(step.name, modality, shard))
    if stamp is None:
        return False
    try:
        inputs = input_versions(step, lake, modality, shard)
    except MmlakeError:
        return False
    return _same(step, lake, stamp, inputs) and not lake.retries.pending(Slot(step.name, modality, shard))


def run_step(
    step: Step,
    lake: Lake,
    modality: str,
    shard: str = ALL,
    *,
    advance: Advance = silent,
    run_id: str = "",
    force: bool = False,
) -> Made:
    """The table of the step for this partition, made now unless it is up to date. force: make it even then."""
    slot = Slot(step.name, modality, shard)
    inputs = input_versions(step, lake, modality, shard)
    before, wanted = lake.tables.stamp(slot), lake.retries.pending(slot)
    same = before is not None and not force and _same(step, lake, before, inputs)
    if before is not None and same and not wanted:
        _LOG.info("%s: unchanged, %d rows", slot, before.num_rows, extra={"slot": slot})
        return Made(slot, before, True, inputs)
    _LOG.debug("%s: begun", slot, extra={"slot": slot})
    started, runner, meter = Stopwatch(of_thread=step.in_workers), lake.runner, Meter()
    if step.gpu:
        lake.executor.taken_cpu_s()  # what was for another table
    if isinstance(runner, WorkerPool):
        runner = runner.metered(meter)
    job = Job(lake=lake, modality=modality, shard=shard, advance=_logged(slot, advance), runner=runner)
    versions = _row_versions(step, job, inputs) if step.is_made_by_rows else None
    part = None
    if before is not None and same:
        part = _retried(step, job, before, wanted)
    elif versions is not None and not force:
        part = _changed(step, job, inputs, versions, wanted)
    with lake.naming_blobs():
        with lake.store.batch():  # small blobs share a pack, durable before the stamp names them
            table = step.make(job) if part is None or step.remake is None else step.remake(job, part.rows, part.keys)
        accounted = step.check(job, table)
        helped_s = lake.executor.taken_cpu_s() if step.gpu and step.in_workers else 0.0
        spent = started.fields(workers_cpu_s=meter.cpu_s + helped_s)
        stamp = lake.tables.write(
            slot,
            step.schema,
            table,
            code_version=step.code_version,
            settings_digest=lake.settings.digest(step.settings),
            inputs=inputs,
            counts={**(step.counts or _counts)(table), "accounted": accounted},
            media_bytes=_media_bytes(table),
            run_id=run_id,
            device=lake.executor.device if step.gpu else "cpu",
            **(spent if part is None else _with_taken_over(spent, part)),
        )
    if versions is not None:
        row_versions.keep(kept_path(lake, slot, "rows"), versions, _made_for(lake, slot, stamp))
    lake.retries.fulfilled(slot, None if part is None else _tried(step, table, part, wanted), at=stamp.written_at)
    _LOG.info("%s: %d rows in %.2f s", slot, stamp.num_rows, spent["seconds"], extra={"slot": slot})
    return Made(slot, stamp, False, inputs, 0 if part is None else _num_standing(step, part))


def _row_versions(step: Step, job: Job, inputs: Mapping[str, str]) -> RowVersions:
    tables = {name: inputs[f"{job.modality}/{name}"] for name in step.inputs_of(job.row)}
    return row_versions.of_tables(tables, job.read, job.lake.row_hashes)


def _num_standing(step: Step, part: _Part) -> int:
    made = pc.is_in(part.rows[step.remade_by], value_set=pa.array(sorted(part.keys), pa.string()))
    return int(part.rows.num_rows - (pc.sum(made).as_py() or 0))


def _retried(step: Step, job: Job, before: Stamp, wanted: frozenset[str]) -> _Part | None:
    """The rows that were asked for; None where the whole table has to be made."""
    if step.remake is None:
        return None
    rows = job.lake.tables.read(Slot(step.name, job.modality, job.shard))
    share = 1 - len(wanted) / max(len(wanted), rows.num_rows)
    return _Part(rows, wanted, share * before.seconds, share * before.cpu_seconds)


def _changed(
    step: Step, job: Job, inputs: Mapping[str, str], versions: RowVersions, wanted: frozenset[str]
) -> _Part | None:
    """The rows whose inputs changed, and those that were asked for; None where the whole table has to be made: for
    other code, settings, schema or parts, where nothing was kept, and where hardly anything stands."""
    left, parts, seconds, cpu_seconds = versions, list[pa.Table](), 0.0, 0.0
    for former in former_tables(job.lake, Slot(step.name, job.modality, job.shard)):
        known = row_versions.kept(
            kept_path(job.lake, former.slot, "rows"), _made_for(job.lake, former.slot, former.stamp)
        )
        if known is None or not _is_made_alike(step, job, former.stamp, inputs):
            continue
        stand = left.same_as(known)
        if not (num_standing := pc.sum(stand).as_py()):  # a shard of as many bytes that was another
            continue
        try:
            rows = former.tables.read(former.slot)
        except TableCorrupt:  # it is replaced
            continue
        parts.append(rows.filter(pc.is_in(rows[step.remade_by], value_set=left.keys.filter(stand))))
        share = num_standing / len(known.keys)
        seconds, cpu_seconds = seconds + share * former.stamp.seconds, cpu_seconds + share * former.stamp.cpu_seconds
        left = left.filter(pc.invert(stand))
    num, num_left = len(versions.keys), len(left.keys)
    if not parts or num - num_left < _LEAST_TAKEN_OVER * max(num, 1):
        return None
    job.advance(num - num_left)
    return _Part(pa.concat_tables(parts), wanted.union(left.keys.to_pylist()), seconds, cpu_seconds)


def _is_made_alike(step: Step, job: Job, stamp: Stamp, inputs: Mapping[str, str]) -> bool:
    """Whether all is the same that a table is made with, but for the tables that its rows are made from."""
    of_rows = {f"{job.modality}/{name}" for name in step.inputs_of(job.row)}
    before, now = ({name: known[name] for name in known.keys() - of_rows} for known in (stamp.inputs, inputs))
    return before == now and _same(step, job.lake, stamp, stamp.inputs)


def _tried(step: Step, table: pa.Table, part: _Part, wanted: frozenset[str]) -> frozenset[str] | None:
    """The keys of rows that were asked for, or were made and fail; None where no row fails, so that nobody counts."""
    if "error_code" not in table.schema.names:
        return wanted or None
    failed = table.filter(pc.is_valid(table["error_code"]))[step.remade_by].to_pylist()
    return wanted | part.keys.intersection(failed) if wanted or failed else None


def _with_taken_over(spent: Mapping[str, Any], part: _Part) -> dict[str, Any]:
    """What all rows of the table cost, those that it takes over included."""
    return {
        **spent,
        "seconds": round(spent["seconds"] + part.seconds, 4),
        "cpu_seconds": round(spent["cpu_seconds"] + part.cpu_seconds, 4),
    }


def _made_for(lake: Lake, slot: Slot, stamp: Stamp) -> dict[str, str]:
    return {"slot": str(slot), "table": stamp.data_version, "hashes": lake.row_hashes.release}


def _logged(slot: Slot, advance: Advance) -> Advance:
    """The Advance, which also logs each count for a progress bar."""
    if not _LOG.isEnabledFor(logging.DEBUG):
        return advance

    def logged(count: int) -> None:
        advance(count)
        _LOG.debug("", extra={"slot": slot, "num_items": count})

    return logged


def _same(step: Step, lake: Lake, stamp: Stamp, inputs: dict[str, str]) -> bool:
    made_with = (stamp.code_version, stamp.schema_version, stamp.settings_digest, stamp.inputs)
    return made_with == (step.code_version, step.schema.version, lake.settings.digest(step.settings), inputs)


def _stamp(lake: Lake, slot: Slot) -> Stamp:
    stamp = lake.tables.stamp(slot)
    if stamp is None:
        raise MmlakeError(f"table {slot} has not been made in {lake.root}; materialize it first")
    return stamp


def _counts(table: pa.Table) -> dict[str, int]:
    return contracts.counts_by_status(table) if "status" in table.column_names else {}


def _media_bytes(table: pa.Table) -> int:
    if "size_bytes" not in table.column_names:
        return 0
    return sum(value or 0 for value in table.column("size_bytes").to_pylist())


def recheck(step: Step, lake: Lake, modality: str, *, shards: list[str] | None = None) -> tuple[int, int]:
    """(tables, rows accounted for) of the step's tables as they are on disk now. shards: which of them; None for
    all. Raises MmlakeError where one is wrong."""
    keys = [ALL] if step.over_shards else lake.tables.shards(step.name, modality) if shards is None else shards
    rows = 0
    for key in keys:
        slot = Slot(step.name, modality, key)
        table = conform(step.schema, lake.tables.read(slot))
        check_key(slot, step.schema, table)
        rows += step.check(Job(lake=lake, modality=modality, shard=key, advance=silent, runner=lake.runner), table)
    return len(keys), rows

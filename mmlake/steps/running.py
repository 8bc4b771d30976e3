"""When the table of a step is up to date, and how it is made: inputs checked, rows accounted for, table stamped."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mmlake import contracts
from mmlake.engine.sorting import is_among
from mmlake.errors import MmlakeError, TableCorrupt
from mmlake.lake import Lake
from mmlake.progress import Advance, silent
from mmlake.schemas import conform, empty
from mmlake.steps import row_versions
from mmlake.steps.begun import Begun
from mmlake.steps.former import Former, begun_tables, former_tables, keep_versions
from mmlake.steps.row_versions import RowVersions
from mmlake.steps.step import Before, Job, Step, input_versions
from mmlake.table_files import check_key, in_order, narrowed
from mmlake.tables import ALL, Slot, Stamp, Stopwatch
from mmlake.workers import Meter, WorkerPool

# DEBUG when a table is begun, INFO when it is done; `extra={"slot": ...}` lets a progress bar follow
_LOG = logging.getLogger("mmlake.steps")
_LEAST_TAKEN_OVER = 0.1  # of the keys: below it the rows that stand are not worth reading


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

    before: Before
    seconds: float  # what the rows that it takes over cost
    cpu_seconds: float


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
    started, meter = Stopwatch(of_thread=step.in_workers), Meter()
    if step.gpu:
        lake.executor.taken_cpu_s()  # what was for another table
    runner = lake.runner.metered(meter) if isinstance(lake.runner, WorkerPool) else lake.runner
    job = Job(lake=lake, modality=modality, shard=shard, advance=_logged(slot, advance), runner=runner)
    versions = _row_versions(step, job, inputs) if step.is_made_by_rows else None
    part = None
    if before is not None and same:
        part = _retried(step, job, before, wanted)
    elif versions is not None and not force:
        part = _changed(step, job, inputs, versions, wanted)
    begun = None if same or versions is None else Begun(step, job, inputs, versions, partial(_spent, started, meter))
    with ExitStack() as stack:
        stack.enter_context(lake.naming_blobs())
        with _batch(job, begun) as job:
            made = step.make(job) if part is None or step.remake is None else step.remake(job, part.before)
            made = made if isinstance(made, pa.Table) else _whole_or_parts(step, made)
            if not isinstance(made, pa.Table):
                made = stack.enter_context(lake.tables.written(slot, step.schema, made))  # made as they are written
        table = made if isinstance(made, pa.Table) else made.read(_checked(step))
        accounted = step.check(job, table)
        helped_s = lake.executor.taken_cpu_s() if step.gpu and step.in_workers else 0.0
        spent = _spent(started, meter, helped_s)
        stamp = (lake.tables.write if isinstance(made, pa.Table) else lake.tables.name)(
            slot,
            step.schema,
            made,
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
        keep_versions(lake, slot, stamp, versions)
    lake.retries.fulfilled(slot, None if part is None else _tried(step, table, part, wanted), at=stamp.written_at)
    _LOG.info("%s: %d rows in %.2f s", slot, stamp.num_rows, spent["seconds"], extra={"slot": slot})
    return Made(slot, stamp, False, inputs, 0 if part is None else part.before.num_kept)


@contextmanager
def _batch(job: Job, begun: Begun | None) -> Iterator[Job]:
    """Within it small blobs share a pack, durable before the stamp names them. The job's rows are kept."""
    with job.lake.store.batch(), nullcontext(job) if begun is None else begun.keeping() as kept:
        yield kept


def _spent(started: Stopwatch, meter: Meter, helped_s: float = 0.0) -> dict[str, Any]:
    return started.fields(workers_cpu_s=meter.cpu_s + helped_s)


def _whole_or_parts(step: Step, parts: Iterable[pa.Table]) -> pa.Table | Iterator[pa.Table]:
    """The table, where it is one part: most shards are small, and a file more costs half of what writing their tables
    does. And where all columns of it are checked at once."""
    if not step.checked:
        return pa.concat_tables([empty(step.schema), *parts])
    rest = iter(parts)
    begun = list(islice(rest, 2))
    if len(begun) > 1:
        return chain(begun, rest)
    return begun[0] if begun else empty(step.schema)


def _checked(step: Step) -> list[str]:
    """The columns of a table in parts that are read again once it is made."""
    return [name for name in step.schema.arrow.names if name in {*step.checked, "status", "size_bytes"}]


def _row_versions(step: Step, job: Job, inputs: Mapping[str, str]) -> RowVersions:
    tables = {name: inputs[f"{job.modality}/{name}"] for name in step.inputs_of(job.row)}
    found = row_versions.of_tables(tables, job.parts, job.lake.row_hashes)
    _LOG.debug("", extra={"slot": Slot(step.name, job.modality, job.shard), "num_all": len(found.keys)})
    return found


def _retried(step: Step, job: Job, before: Stamp, wanted: frozenset[str]) -> _Part | None:
    """The rows that were asked for; None where the whole table has to be made."""
    if step.remake is None:
        return None
    slot = Slot(step.name, job.modality, job.shard)
    share = 1 - len(wanted) / max(len(wanted), before.num_rows)
    rows = Before(lambda columns: job.lake.tables.parts(slot, columns=columns), step.remade_by, wanted)
    return _Part(rows, share * before.seconds, share * before.cpu_seconds)


def _changed(
    step: Step, job: Job, inputs: Mapping[str, str], versions: RowVersions, wanted: frozenset[str]
) -> _Part | None:
    """The rows whose inputs changed, and those that were asked for; None where the whole table has to be made: for
    other code, settings, schema or parts, where nothing was kept, and where hardly anything stands of a table that was
    finished."""
    left, stands, seconds, cpu_seconds = versions, list[_Stands](), 0.0, 0.0
    slot = Slot(step.name, job.modality, job.shard)
    for former in (*begun_tables(job.lake, slot), *former_tables(job.lake, slot)):
        known = row_versions.kept(former.versions, former.made_for(job.lake))
        if known is None or not _is_made_alike(step, job, former.stamp, inputs):
            continue
        stand = left.same_as(known)
        if not (num_standing := pc.sum(stand).as_py()):  # a shard of as many bytes that was another
            continue
        one = _Stands(former, step.remade_by, pc.array_take(keys := left.keys.filter(stand), pc.sort_indices(keys)))
        if not one.is_sound():  # it is replaced
            continue
        stands.append(one)
        share = num_standing / len(known.keys)
        seconds, cpu_seconds = seconds + share * former.stamp.seconds, cpu_seconds + share * former.stamp.cpu_seconds
        left = left.filter(pc.invert(stand))
    num, num_left = len(versions.keys), len(left.keys)
    is_begun = any(one.former.is_begun for one in stands)
    if not stands or (num - num_left < _LEAST_TAKEN_OVER * max(num, 1) and not is_begun):
        return None
    job.advance(num - num_left)
    rows = Before(
        lambda columns: chain.from_iterable(one.tables(columns) for one in stands),
        step.remade_by,
        wanted.union(left.keys.to_pylist()),
    )
    return _Part(rows, seconds, cpu_seconds)


@dataclass(frozen=True, slots=True)
class _Stands:
    """Rows of a former table that stand."""

    former: Former
    column: str
    keys: pa.Array  # sorted

    def tables(self, columns: list[str] | None) -> Iterator[pa.Table]:
        for part in self.former.tables.parts(self.former.slot, columns=columns):
            yield part.filter(is_among(part[self.column], self.keys))

    def is_sound(self) -> bool:
        """Whether the table can be read, which is found out before its first rows are."""
        try:
            next(self.tables([self.column]))
        except TableCorrupt:
            return False
        return True


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
    return wanted | part.before.keys.intersection(failed) if wanted or failed else None


def _with_taken_over(spent: Mapping[str, Any], part: _Part) -> dict[str, Any]:
    """What all rows of the table cost, those that it takes over included."""
    return {
        **spent,
        "seconds": round(spent["seconds"] + part.seconds, 4),
        "cpu_seconds": round(spent["cpu_seconds"] + part.cpu_seconds, 4),
    }


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


def _counts(table: pa.Table) -> dict[str, int]:
    return contracts.counts_by_status(table) if "status" in table.column_names else {}


def _media_bytes(table: pa.Table) -> int:
    if "size_bytes" not in table.column_names:
        return 0
    return pc.sum(table.column("size_bytes")).as_py() or 0


def recheck(step: Step, lake: Lake, modality: str, *, shards: list[str] | None = None) -> tuple[int, int]:
    """(tables, rows accounted for) of the step's tables as they are on disk now. shards: which of them; None for
    all. Raises MmlakeError where one is wrong."""
    keys = [ALL] if step.over_shards else lake.tables.shards(step.name, modality) if shards is None else shards
    rows = 0
    for key in keys:
        slot = Slot(step.name, modality, key)
        table = _rechecked(step, lake, slot)
        rows += step.check(Job(lake=lake, modality=modality, shard=key, advance=silent, runner=lake.runner), table)
    return len(keys), rows


def _rechecked(step: Step, lake: Lake, slot: Slot) -> pa.Table:
    """The rows of the table as the schema says, or of a table in parts what is checked of them. Raises SchemaMismatch
    where they are not what the schema says."""
    if not step.checked:
        table = conform(step.schema, lake.tables.read(slot))
        check_key(str(slot), step.schema, table)
        return table
    parts = (narrowed(part, _checked(step)) for part in in_order(step.schema, lake.tables.parts(slot), str(slot)))
    return pa.concat_tables([narrowed(step.schema.arrow.empty_table(), _checked(step)), *parts]).unify_dictionaries()

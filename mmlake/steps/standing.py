"""What decides which of several duplicates stays, of every compared unit of a modality: one row each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mmlake import contracts, preprocess, sources
from mmlake.dedup import Criterion
from mmlake.engine import Engine
from mmlake.engine.digest_index import DigestIndex
from mmlake.errors import SchemaMismatch
from mmlake.records import ADMITTED, LEADING_ROLES
from mmlake.schemas.table import TableSchema
from mmlake.sources.shard import DEFAULT_PRIORITY
from mmlake.steps.step import Job

PRINTS = ["digest", "method", "hashes", "status"]  # columns of fingerprints that are compared
_NODES = pa.schema(  # the columns that every modality has of its compared units
    [
        ("digest", pa.string()),
        ("parent_digest", pa.string()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("priority", pa.int32()),
        ("is_clean", pa.bool_()),
        ("num_occurrences", pa.int32()),
    ]
)
_OF_UNIT = ["digest", "parent_digest", "start", "end"]
INPUTS = ("items", "measures", "tracks", "units", "verdicts")  # what the rows are made of


@dataclass(frozen=True)
class Fingerprints:
    """The fingerprints of a modality, a row group of a shard at a time and as often as they are asked for."""

    job: Job

    def __iter__(self) -> Iterator[pa.Table]:
        yield from self.job.lake.tables.scan_parts("fingerprints", self.job.modality, columns=PRINTS)


def engine(job: Job) -> Engine:
    """The memory that a step over all shards takes. What does not fit lies in `scratch` of the lake while it runs."""
    return Engine(job.lake.root / "scratch", job.lake.settings.engine)


def in_order(job: Job, schema: TableSchema, parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Rows that come in any order as parts of a table, in the order of its key. Raises SchemaMismatch where two of them
    have the same key."""
    num = [0, 0]

    def counted(tables: Iterable[pa.Table], at: int) -> Iterator[pa.Table]:
        for table in tables:
            num[at] += table.num_rows
            yield table

    yield from counted(engine(job).sorted_here(counted(parts, 0), schema.key), 1)
    if num[0] != num[1]:
        raise SchemaMismatch(
            f"table {job.modality}/{schema.name}[{job.shard}]: {num[0] - num[1]} of {num[0]} rows repeat a key "
            f"{schema.key}; correct the step that made it"
        )


def compared(job: Job) -> pa.Array:
    """Every admitted unit that leads a sample, sorted. Captions and transcripts are no documents: one that many
    pictures have is no duplicate."""
    admitted = _digests_where(job, "verdicts", "status", ADMITTED)
    return engine(job).relations.distinct(admitted, _digests_where(job, "units", "role", LEADING_ROLES))


def _digests_where(job: Job, table: str, column: str, values: Sequence[str]) -> Iterator[pa.Table]:
    """The digests of rows that have one of the values in the column, a row group at a time."""
    for part in job.lake.tables.scan_parts(table, job.modality, columns=["digest", column]):
        yield part.filter(pc.is_in(part[column], value_set=pa.array(values, pa.string()))).select(["digest"])


def nodes(job: Job) -> pa.Table:
    """A row per compared unit, sorted: its digest and that of its item, its place in it in microseconds, the priority
    of its source, whether its verdict is clean, the number of its occurrences, and a column for each of the modality's
    criteria."""
    tables = job.lake.tables
    digests = compared(job)
    criteria = [one for one in job.row.survivors if one.is_of_column]
    if not len(digests):  # three steps would read four tables for it
        return pa.schema([*_NODES, *(pa.field(one.name, pa.float64()) for one in criteria)]).empty_table()
    index = DigestIndex(digests)
    units = index.in_order(_units(job), "digest")
    items = DigestIndex(pc.unique(units["parent_digest"]))
    of_item = pa.array(items.find(units["parent_digest"]))
    occurrences = items.in_order([_occurrences(job)], "digest").take(of_item)
    columns = {
        "digest": digests,
        "parent_digest": units["parent_digest"],
        "start": units["start"],
        "end": units["end"],
        "priority": occurrences["least"],
        "is_clean": _are_clean(job, index, len(digests)),
        "num_occurrences": occurrences["num"].cast(pa.int32()),
    }
    measured = _measured(job, index, len(digests), {one.column for one in criteria if one.table == "measures"})
    tracked = sorted({one.column for one in criteria if one.table == "tracks"})
    tracks = tables.scan_parts("tracks", job.modality, columns=["digest", *tracked])
    of_items = items.in_order(tracks, "digest")
    for one in criteria:
        columns[one.name] = (
            _of_unit(one, of_items[one.column].take(of_item).cast(pa.float64()), units)
            if one.table == "tracks"
            else measured[one.column]
        )
    return pa.table(columns)


def _units(job: Job) -> Iterator[pa.Table]:
    """digest, parent_digest, is_whole, start, end."""
    for part in job.lake.tables.scan_parts("units", job.modality, columns=[*_OF_UNIT, "kind"]):
        yield part.select(_OF_UNIT).append_column("is_whole", pc.equal(part["kind"], preprocess.WHOLE))


def _are_clean(job: Job, index: DigestIndex, num: int) -> NDArray[np.bool_]:
    """Whether the verdict of each of so many units is clean, in one of the shards that have it."""
    clean = np.zeros(num, np.bool_)
    verdicts = job.lake.tables.scan_parts("verdicts", job.modality, columns=["digest", "status"])
    for at, _ in index.places(map(contracts.made, verdicts), "digest"):
        clean[at] = True
    return clean


def _occurrences(job: Job) -> pa.Table:
    """digest of an item, least (the priority that counts), num: over all of its sources."""
    priorities = sources.priorities(job.lake.landing, job.lake.registry.directories())

    def rows() -> Iterator[pa.Table]:
        yield pa.table({"digest": pa.array([], pa.string()), "priority": pa.array([], pa.int32())})
        for items in job.lake.tables.scan_parts("items", job.modality, columns=["digest", "source"]):
            items = items.filter(pc.is_valid(items["digest"]))
            known = pc.unique(items["source"])
            of_source = pa.array([priorities.get(one, DEFAULT_PRIORITY) for one in known.to_pylist()], pa.int32())
            priority = of_source.take(pc.index_in(items["source"], value_set=known))
            yield pa.table({"digest": items["digest"], "priority": priority})

    return engine(job).relations.least_and_count(rows())


def _measured(job: Job, index: DigestIndex, num: int, names: set[str]) -> dict[str, pa.Array]:
    """Name of a measure -> its value of each unit, null where there is none; of several shards that of the first."""
    values = {name: np.full(num, np.nan) for name in names}
    known = {name: np.zeros(num, np.bool_) for name in names}
    for at, rows in index.places(_rows_of_measures(job, names), "digest"):
        for name in pc.unique(rows["measure"]).to_pylist():
            is_new = pc.and_(pc.equal(rows["measure"], name), pc.is_valid(rows["value"])).to_numpy()
            is_new &= ~known[name][at]
            places = at[is_new][::-1]  # of one that comes twice in a part the first is written last
            values[name][places], known[name][places] = rows["value"].filter(pa.array(is_new)).to_numpy()[::-1], True
    return {name: pa.array(values[name], mask=~known[name]) for name in names}


def _rows_of_measures(job: Job, names: set[str]) -> Iterator[pa.Table]:
    """The rows of MEASURES of these names, a row group at a time."""
    wanted = pa.array(sorted(names), pa.string())
    for part in job.lake.tables.scan_parts("measures", job.modality, columns=["digest", "measure", "value"]):
        yield part.filter(pc.is_in(part["measure"], value_set=wanted))


def _of_unit(criterion: Criterion, values: pa.ChunkedArray, units: pa.Table) -> pa.ChunkedArray:
    """What holds for an item holds for a span of it, but for its length."""
    if criterion.column != "duration_s":
        return values
    span_s = pc.divide(pc.subtract(units["end"], units["start"]).cast(pa.float64()), 1e6)
    return pc.if_else(units["is_whole"], values, span_s)


def first_per_key(table: pa.Table, key: list[str]) -> pa.Table:
    """The table without the repeats that arise when one blob lies in several shards; which one stays does not
    matter, they are equal."""
    if not table.num_rows:
        return table
    indexed = table.select(key).append_column("row", pa.array(np.arange(table.num_rows)))
    rows = indexed.group_by(key).aggregate([("row", "min")]).column("row_min")
    return table.take(pc.take(rows, pc.sort_indices(rows)))

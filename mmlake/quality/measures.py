"""The measures step: tracks of units, and blobs where a track does not hold enough, to one row per unit and measure."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake import contracts, schemas
from mmlake.border import IN_PROCESS, Failure, Runner
from mmlake.errors import ContractBroken
from mmlake.progress import Advance, silent
from mmlake.quality.measurement import Measurement, Measures, Scorer, Subject
from mmlake.quality.rule import NUM_FAILURES, UNMEASURED
from mmlake.quality.transcript import TRANSCRIPT_MATCH
from mmlake.records import signed
from mmlake.spans import SPAN_COLUMNS, Shared, by_parent, map_units, rows_of
from mmlake.store import Blobs

_SLICE_ROWS = 256  # tracks held as Python objects at once
_COUNTED = ("measures", "1")  # producer and revision of the number of failures: this step


class _Taken:
    """The numbers that one measurement gave: an object for each would be ten times as large."""

    def __init__(self, producer: str, revision: str, names: Sequence[str]) -> None:
        self._taker, self._names = (producer, revision), tuple(names)
        # U units, M measures
        self._units_U, self._values_UM = array("q"), array("d")

    def add(self, unit: int, measures: Measures) -> None:
        """Take the numbers of one more unit, whose number is given; nan stands for null."""
        self._units_U.append(unit)
        self._values_UM.extend(math.nan if (value := measures[name]) is None else value for name in self._names)

    def rows(self, digests: pa.Array) -> Iterator[pa.Table]:
        """Rows of MEASURES, a table per measure. digests: of all units, by their numbers."""
        of_units = digests.take(pa.array(np.array(self._units_U, np.int64)))
        values_UM = np.array(self._values_UM, np.float64).reshape(len(self._units_U), len(self._names))
        for name, values_U in zip(self._names, values_UM.T, strict=True):
            yield _rows(of_units, name, pa.array(values_U, from_pandas=True), self._taker)


def measure(
    tracks: pa.Table,
    measurements: Sequence[Measurement],
    *,
    store: Blobs,
    alignments: pa.Table | None = None,
    scorers: Iterable[Scorer] = (),
    runner: Runner = IN_PROCESS,
    advance: Advance = silent,
) -> pa.Table:
    """The MEASURES table of the units that decoded; null where a measure makes no sense on a unit.

    Thresholds are not read: measures never depend on them. num_failures of a unit counts the measurements that cannot
    be taken of it; it has status, code and reason of the first of them, and their measures are missing. Raises for a
    failing machine or store, and ContractBroken where a measurement gives other measures than its row says.
    tracks: of units, those of one item next to each other; its file is opened and decoded once for all of them.
    alignments: those of the items; None where nothing is spoken. runner: where measures are taken.
    """
    decoded = _with_match(tracks.filter(pc.equal(tracks.column("status"), "ok")), alignments)
    advance(tracks.num_rows - decoded.num_rows)
    digests = pc.unique(decoded.column("digest"))
    units = {digest: number for number, digest in enumerate(digests.to_pylist())}
    taken, failures = list[_Taken](), dict[int, list[Failure]]()
    taken_by = [*measurements, *(scorer.as_measurement() for scorer in scorers)]
    for at, measurement in enumerate(taken_by, 1):
        name = signed(measurement.name, measurement.plugin)
        taken.append(_Taken(name, measurement.revision, measurement.measures))
        for digest, made in _taken(measurement, decoded, store, runner, f"measurement {name!r}"):
            if isinstance(made, Failure):
                failures.setdefault(units[digest], []).append(made)
            elif made.keys() == set(measurement.measures):
                taken[-1].add(units[digest], made)
            else:
                raise ContractBroken(
                    f"measurement {name!r} gave {sorted(made)} for {digest}, its row says "
                    f"{sorted(measurement.measures)}; correct the row or the function"
                )
            if at == len(taken_by):
                advance(1)
    return _table(digests, taken, failures)


def with_measures(measures: pa.Table, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """The MEASURES table with more numbers of its units: digest, measure, value, note, producer and revision of
    each."""
    added = schemas.from_rows(schemas.MEASURES, [dict(row) | {"status": "ok"} for row in rows])
    return pa.concat_tables([measures, added]).sort_by([(name, "ascending") for name in schemas.MEASURES.key])


def _taken(
    measurement: Measurement, tracks: pa.Table, store: Blobs, runner: Runner, name: str
) -> Iterator[tuple[str, Measures | Failure]]:
    """(digest, what became of it) of every unit."""
    of_sound = ["audio_digest"] if measurement.needs_sound else []
    columns = dict.fromkeys(["digest", "role", *SPAN_COLUMNS, *of_sound, *measurement.columns])
    rows = rows_of(tracks.select(list(columns)), most_rows=_SLICE_ROWS)
    with Shared() as shared:
        found = map_units(
            runner,
            partial(_numbers, measurement.take, measurement.take_spans),
            by_parent(rows) if measurement.is_by_parent else ([row] for row in rows),
            opened=partial(measurement.subjects, store=store, shared=shared),
            code=UNMEASURED,
            what=f"{name} cannot be taken of this item",
        )
        yield from ((row["digest"], made) for row, made in found)


def _with_match(tracks: pa.Table, alignments: pa.Table | None) -> pa.Table:
    """The tracks with how sure it is that the transcripts of their items match; null where nobody judged."""
    confidence: dict[str, float | None] = {}
    if alignments is not None:
        confidence = dict(zip(*(alignments.column(name).to_pylist() for name in ("digest", "confidence")), strict=True))
    values = [confidence.get(digest) for digest in tracks.column("parent_digest").to_pylist()]
    return tracks.append_column(TRANSCRIPT_MATCH, pa.array(values, pa.float64()))


def _numbers(
    take: Callable[[Subject], Measures],
    take_spans: Callable[[Sequence[Subject]], Iterable[Measures]] | None,
    subjects: Sequence[Subject],
) -> Iterator[Measures]:
    """The measures of units of one item, those null that are no numbers. A `map` goes on behind a raise."""
    if take_spans is None or subjects[0].span_s is None:
        return map(_finite, map(take, subjects))
    return map(_finite, take_spans(subjects))


def _finite(measures: Measures) -> Measures:
    return {
        name: None if value is None or not math.isfinite(value) else float(value) for name, value in measures.items()
    }


def _table(digests: pa.Array, taken: Sequence[_Taken], failures: Mapping[int, Sequence[Failure]]) -> pa.Table:
    """A row per unit and measure; why measures are missing stands in the row of the number of failures."""
    numbers = range(len(digests))
    counts = pa.array(np.fromiter((len(failures.get(unit, ())) for unit in numbers), np.float64, len(digests)))
    first = [failures[unit][0] if unit in failures else None for unit in numbers]
    counted = _rows(digests, NUM_FAILURES, counts, _COUNTED, contracts.failure_columns(first))
    rows = pa.concat_tables([counted, *(part for one in taken for part in one.rows(digests))])
    return schemas.conform(schemas.MEASURES, rows)


def _rows(
    digests: pa.Array,
    measure: str,
    values: pa.Array,
    taker: tuple[str, str],
    failing: Mapping[str, Sequence[Any]] | None = None,
) -> pa.Table:
    """Rows of one measure. failing: status, error_code and error of them; None where none fails."""
    num = len(digests)
    named = {"measure": measure, "producer": taker[0], "revision": taker[1]} | ({} if failing else {"status": "ok"})
    same = {name: pa.repeat(text, num) for name, text in named.items()}
    return schemas.from_columns(schemas.MEASURES, {"digest": digests, "value": values, **same, **(failing or {})})

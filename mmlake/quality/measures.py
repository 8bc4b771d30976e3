"""The measures step: tracks, and blobs where a track does not hold enough, to one row per digest and measure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mmlake import contracts, schemas
from mmlake.border import IN_PROCESS, Failure, Runner, map_opened
from mmlake.errors import ContractBroken
from mmlake.progress import Advance, silent
from mmlake.quality.measurement import Measurement, Measures, Scorer, Subject
from mmlake.quality.rule import NUM_FAILURES, UNMEASURED
from mmlake.quality.transcript import TRANSCRIPT_MATCH
from mmlake.records import signed
from mmlake.store import Blobs

_SLICE_ROWS = 256  # tracks held as Python objects at once
_COUNTED = ("measures", "1")  # producer and revision of the number of failures: this step


@dataclass(slots=True)
class _Measured:
    """What became of one item."""

    measures: Measures = field(default_factory=dict)
    takers: list[tuple[str, str]] = field(default_factory=list)  # (producer, revision) of each measure
    failures: list[Failure] = field(default_factory=list)


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
    """The MEASURES table of the tracks that decoded; null where a measure makes no sense on an item.

    Thresholds are not read: measures never depend on them. num_failures of an item counts the measurements that cannot
    be taken of it; it has status, code and reason of the first of them, and their measures are missing. Raises for a
    failing machine or store, and ContractBroken where a measurement gives other measures than its row says.
    alignments: those of the tracks; None where nothing is spoken. runner: where measures are taken.
    """
    decoded = _with_match(tracks.filter(pc.equal(tracks.column("status"), "ok")), alignments)
    advance(tracks.num_rows - decoded.num_rows)
    items = {digest: _Measured() for digest in decoded.column("digest").to_pylist()}
    taken_by = [*measurements, *(scorer.as_measurement() for scorer in scorers)]
    for at, measurement in enumerate(taken_by, 1):
        name = signed(measurement.name, measurement.plugin)
        found = map_opened(
            runner,
            partial(_numbers, measurement.take),
            _rows(decoded.select(list(dict.fromkeys(["digest", "role", *measurement.columns])))),
            opened=partial(measurement.subject, store=store),
            code=UNMEASURED,
            what=f"measurement {name!r} cannot be taken of this item",
            advance=advance if at == len(taken_by) else silent,
        )
        for track, made in found:
            if isinstance(made, Failure):
                items[track["digest"]].failures.append(made)
            elif made.keys() == set(measurement.measures):
                items[track["digest"]].measures |= made
                items[track["digest"]].takers += [(name, measurement.revision)] * len(made)
            else:
                raise ContractBroken(
                    f"measurement {name!r} gave {sorted(made)} for {track['digest']}, its row says "
                    f"{sorted(measurement.measures)}; correct the row or the function"
                )
    return _table(items)


def _with_match(tracks: pa.Table, alignments: pa.Table | None) -> pa.Table:
    """The tracks with how sure it is that their transcripts match; null where nobody judged."""
    confidence: dict[str, float | None] = {}
    if alignments is not None:
        confidence = dict(zip(*(alignments.column(name).to_pylist() for name in ("digest", "confidence")), strict=True))
    values = [confidence.get(digest) for digest in tracks.column("digest").to_pylist()]
    return tracks.append_column(TRANSCRIPT_MATCH, pa.array(values, pa.float64()))


def _rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    for start in range(0, table.num_rows, _SLICE_ROWS):
        yield from table.slice(start, _SLICE_ROWS).to_pylist()


def _numbers(take: Callable[[Subject], Measures], subject: Subject) -> Measures:
    """The measures, those null that are no numbers."""
    return {
        name: None if value is None or not math.isfinite(value) else float(value)
        for name, value in take(subject).items()
    }


def _table(items: dict[str, _Measured]) -> pa.Table:
    """A row per item and measure; why measures are missing stands in the row of the number of failures."""
    digests: list[str] = []
    names: list[str] = []
    values: list[float | None] = []
    takers: list[tuple[str, str]] = []
    failures: list[Failure | None] = []
    for digest, item in items.items():
        digests += [digest] * (1 + len(item.measures))
        names += [NUM_FAILURES, *item.measures]
        values += [float(len(item.failures)), *item.measures.values()]
        takers += [_COUNTED, *item.takers]
        failures += [item.failures[0] if item.failures else None, *[None] * len(item.measures)]
    columns: dict[str, Sequence[Any]] = {
        "digest": digests,
        "measure": names,
        "value": values,
        "producer": [producer for producer, _ in takers],
        "revision": [revision for _, revision in takers],
        **contracts.failure_columns(failures),
    }
    return schemas.conform(schemas.MEASURES, schemas.from_columns(schemas.MEASURES, columns))

"""The measures step: tracks, and blobs where a track does not hold enough, to one row per digest and measure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mmlake import contracts, schemas
from mmlake.border import IN_PROCESS, Failure, Runner, map_opened
from mmlake.errors import SettingsError
from mmlake.progress import Advance, silent
from mmlake.quality.audio import AUDIO_TAKING
from mmlake.quality.image import IMAGE_TAKING
from mmlake.quality.rule import NUM_FAILURES, UNMEASURED
from mmlake.quality.settings import QualitySettings
from mmlake.quality.subject import Measures, Subject, Taking
from mmlake.quality.text import TEXT_TAKING
from mmlake.quality.video import VIDEO_TAKING
from mmlake.store import Blobs

_SLICE_ROWS = 256  # tracks held as Python objects at once
_TAKINGS: Mapping[str, Taking] = {
    "text": TEXT_TAKING,
    "image": IMAGE_TAKING,
    "video": VIDEO_TAKING,
    "audio": AUDIO_TAKING,
}


def measure(
    tracks: pa.Table,
    modality: str,
    *,
    store: Blobs,
    settings: QualitySettings | None = None,
    runner: Runner = IN_PROCESS,
    advance: Advance = silent,
) -> pa.Table:
    """The MEASURES table of the tracks that decoded; null where a measure makes no sense on an item.

    settings are not read: measures never depend on thresholds. An item whose measures cannot be taken has one row,
    num_failures=1, with status, code and reason. Raises only for a failing machine or store. runner: where measures are
    taken.
    """
    if modality not in _TAKINGS:
        raise SettingsError(f"modality {modality!r} is not one of {tuple(_TAKINGS)}; correct the call")
    taking, columns = _TAKINGS[modality], _Columns()
    decoded = tracks.filter(pc.equal(tracks.column("status"), "ok"))
    advance(tracks.num_rows - decoded.num_rows)
    measured = map_opened(
        runner,
        partial(_measured, taking.measures),
        _rows(decoded.select(["digest", "role", *taking.columns])),
        opened=partial(taking.subject, store=store),
        code=UNMEASURED,
        what=f"the measures of this {modality} item cannot be taken",
        advance=advance,
    )
    for track, found in measured:
        columns.add(track["digest"], found)
    return schemas.conform(schemas.MEASURES, columns.table())


def _rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    for start in range(0, table.num_rows, _SLICE_ROWS):
        yield from table.slice(start, _SLICE_ROWS).to_pylist()


def _measured(measures: Callable[[Subject], Measures], subject: Subject) -> Measures:
    """The measures, those null that are no numbers."""
    return {
        name: None if value is None or not math.isfinite(value) else float(value)
        for name, value in measures(subject).items()
    }


class _Columns:
    """The table's columns as they grow: one row per measure, or one for an item that failed."""

    def __init__(self) -> None:
        self._digests: list[str] = []
        self._names: list[str] = []
        self._values: list[float | None] = []
        self._failures: list[Failure | None] = []

    def add(self, digest: str, found: Measures | Failure) -> None:
        """Take in what became of one item."""
        failure = found if isinstance(found, Failure) else None
        measures: Measures = {NUM_FAILURES: 1.0} if isinstance(found, Failure) else {NUM_FAILURES: 0.0, **found}
        self._digests += [digest] * len(measures)
        self._names += measures.keys()
        self._values += measures.values()
        self._failures += [failure] * len(measures)

    def table(self) -> pa.Table:
        """The rows so far."""
        return schemas.from_columns(
            schemas.MEASURES,
            {
                "digest": self._digests,
                "measure": self._names,
                "value": self._values,
                **contracts.failure_columns(self._failures),
            },
        )

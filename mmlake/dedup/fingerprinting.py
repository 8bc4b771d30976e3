"""Prints of units: what the tiers of a modality make of each, a batch at a time, failures included."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake import contracts, schemas
from mmlake.border import IN_PROCESS, Failure, Runner
from mmlake.dedup.settings import DedupSettings
from mmlake.dedup.tiers import Prints, Tier
from mmlake.progress import Advance, silent
from mmlake.records import signed
from mmlake.spans import SPAN_COLUMNS, Row, Shared, Span, by_parent, map_units, rows_of, span_of
from mmlake.store import Blobs

_FINGERPRINT_FAILED = 5001
_SLICE_ROWS = 1_024  # tracks held as Python objects at once


def fingerprint(
    tracks: pa.Table,
    tiers: Sequence[Tier],
    *,
    store: Blobs,
    settings: DedupSettings,
    runner: Runner = IN_PROCESS,
    advance: Advance = silent,
) -> pa.Table:
    """FINGERPRINTS of the rows: as many per digest as the tiers have methods, with no hashes where the unit says
    nothing.

    A unit of which a tier can make none has one row of that tier, under its first method, with status, code and
    reason. Raises only for a failing machine or store. tracks: of units, those of one item next to each other; it is
    decoded once for all of them. runner: where media are decoded.
    """
    columns: dict[str, list[Any]] = {name: [] for name in ("digest", "method", "hashes", "times_s")}
    failures: list[Failure | None] = []
    for tier in tiers:
        for row, found in _prints(tier, tracks, store, settings, runner):
            prints, failure = ({}, found) if isinstance(found, Failure) else (found, None)
            for method in tier.methods if failure is None else tier.methods[:1]:
                columns["digest"].append(row["digest"])
                columns["method"].append(signed(method, tier.plugin))
                columns["hashes"].append(prints.get(method, np.empty(0, np.uint64)))
                columns["times_s"].append(
                    prints.get("times_s", np.empty(0, np.float32)) if method == tier.method else np.empty(0, np.float32)
                )
                failures.append(failure)
            if tier is tiers[-1]:
                advance(1)
    table = schemas.from_columns(schemas.FINGERPRINTS, {**columns, **contracts.failure_columns(failures)})
    return schemas.conform(schemas.FINGERPRINTS, table)


def _prints(
    tier: Tier, tracks: pa.Table, store: Blobs, settings: DedupSettings, runner: Runner
) -> Iterator[tuple[Row, Prints | Failure]]:
    """What became of each row, in no order that counts."""
    tracks = tracks.select(list(dict.fromkeys(["digest", *SPAN_COLUMNS, *tier.columns])))
    attempted = partial(
        map_units, runner, code=_FINGERPRINT_FAILED, what=f"no fingerprint can be made of this {tier.modality} item"
    )
    if tier.of_spans is not None:
        is_cut = pc.is_valid(tracks["span_start_s"])
        spans, tracks = tracks.filter(is_cut), tracks.filter(pc.invert(is_cut))
        with Shared() as shared:
            yield from attempted(
                partial(_cut, tier.of_spans, settings),
                by_parent(rows_of(spans, most_rows=_SLICE_ROWS)),
                opened=partial(_parent, tier, store, settings, shared),
            )
    yield from attempted(
        partial(_fingerprinted, tier.fingerprint, settings),
        _batches(tracks, tier.batch_rows),
        opened=partial(_opened, tier, store, settings),
    )


def _fingerprinted(
    fingerprint: Callable[[Sequence[Any], DedupSettings], list[Prints]], settings: DedupSettings, batch: Sequence[Any]
) -> list[Prints]:
    """The kernel of a tier: its prints of a batch of units."""
    return fingerprint(batch, settings)


def _cut(
    of_spans: Callable[[Any, Sequence[Span], DedupSettings], Iterable[Prints]],
    settings: DedupSettings,
    batch: Sequence[tuple[Any, Span]],
) -> Iterable[Prints]:
    """The kernel of a tier for spans of one item, each with what was opened for all of them."""
    return of_spans(batch[0][0], [span for _, span in batch], settings)


def _batches(tracks: pa.Table, size: int) -> Iterator[list[Row]]:
    for batch in tracks.to_batches(max_chunksize=_SLICE_ROWS):
        rows = batch.to_pylist()
        yield from (rows[at : at + size] for at in range(0, len(rows), size))


@contextmanager
def _opened(tier: Tier, store: Blobs, settings: DedupSettings, rows: list[Row]) -> Iterator[list[Any]]:
    with ExitStack() as stack:
        yield [stack.enter_context(_open(tier, store, settings, row)) for row in rows]


@contextmanager
def _parent(tier: Tier, store: Blobs, settings: DedupSettings, shared: Shared, rows: list[Row]) -> Iterator[list[Any]]:
    with shared.one(rows[0]["parent_digest"], partial(_open, tier, store, settings, rows[0])) as item:
        yield [(item, span_of(row)) for row in rows]


def _open(tier: Tier, store: Blobs, settings: DedupSettings, row: Row) -> AbstractContextManager[Any]:
    """What the prints of the unit are made of: what was kept of its item, else its bytes."""
    found = None if tier.kept is None else tier.kept(row, store, settings)
    return tier.opened(row, store) if found is None else found

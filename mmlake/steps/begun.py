"""Rows of a table that was begun: who stopped a run after hours loses a minute of it, or the slice in hand.

What a step has made is written now and then as a table of its own, below `kept/begun`, with a stamp and the versions of
its rows, so that it is a former table as any other (`former.py`): the next run takes over those of its rows whose
inputs are what they were. All of it is gone once the whole table is there, and may be deleted like all that is kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mmlake import schemas
from mmlake.errors import MmlakeError
from mmlake.steps import row_versions
from mmlake.steps.former import all_begun, begun_folder, begun_former
from mmlake.steps.row_versions import RowVersions
from mmlake.steps.step import Job, Step
from mmlake.tables import Slot, Tables

_EVERY_S = 60.0  # of work that may be lost
_SOONEST_S = 15.0  # between two tables, or writing them would be a good part of the work
_HELD_BYTES = 64 << 20  # of rows that wait; those that come faster are made again as fast
_ITEMS_PER_WORKER = 8  # of a slice: at its end workers wait for the last one
_SLICE_S = 3_600.0  # of sound or film


Spent = Callable[[], Mapping[str, Any]]  # `seconds`, `cpu_seconds` and `written_at` of a stamp, as of now


class Begun:
    """The rows of one table, kept as they are made."""

    def __init__(self, step: Step, job: Job, inputs: Mapping[str, str], versions: RowVersions, spent: Spent) -> None:
        """versions: of the whole table's rows. spent: what a stamp says that its rows cost, from the beginning on."""
        self._step, self._job, self._inputs = step, job, dict(inputs)
        self._lake, self._slot = job.lake, Slot(step.name, job.modality, job.shard)
        self._versions, self._spent, self._said = versions, spent, {"seconds": 0.0, "cpu_seconds": 0.0}
        self._held, self._held_bytes, self._since = list[pa.Table](), 0, time.monotonic()

    def keep(self, rows: pa.Table) -> pa.Table:
        """The same rows, which will be there for the next run: all that there are of their keys."""
        waited_s = time.monotonic() - self._since
        if self._held_bytes > _HELD_BYTES and waited_s < _SOONEST_S:
            self._held, self._held_bytes, self._since = [], 0, time.monotonic()
        if rows.num_rows:
            self._held.append(rows)
            self._held_bytes += rows.nbytes
        if waited_s >= _EVERY_S or (self._held_bytes > _HELD_BYTES and waited_s >= _SOONEST_S):
            self.write()
        return rows

    def write(self) -> None:
        """Make a table of what is held."""
        held, self._held, self._held_bytes = self._held, [], 0
        if held:
            rows = schemas.conform(self._step.schema, pa.concat_tables(held))
            self._lake.store.flush()  # what the rows name is durable before they are
            self._write(rows, self._unused())
        self._since = time.monotonic()

    @contextmanager
    def keeping(self) -> Iterator[Job]:
        """The job, whose rows are kept. Where an error or an interrupt ends it, those that are held are written, if
        there is anything to lose."""
        try:
            yield replace(self._job, keep=self.keep)
        except BaseException:
            if time.monotonic() - self._since >= _SOONEST_S:
                with suppress(OSError, MmlakeError):  # the first error is the one to report
                    self.write()
            raise

    def _write(self, rows: pa.Table, tables: Tables) -> None:
        now = self._spent()
        cost = {name: max(0.0, round(now[name] - said, 4)) for name, said in self._said.items()}
        self._said = {name: now[name] for name in self._said}
        stamp = tables.write(
            self._slot,
            self._step.schema,
            rows,
            code_version=self._step.code_version,
            settings_digest=self._lake.settings.digest(self._step.settings),
            inputs=self._inputs,
            written_at=now["written_at"],
            **cost,
        )
        keys = pc.unique(rows[self._step.remade_by])
        known = self._versions.filter(pc.is_in(self._versions.keys, value_set=keys))
        former = begun_former(tables, self._slot, stamp)
        row_versions.keep(former.versions, known, former.made_for(self._lake))

    def _unused(self) -> Tables:
        known = all_begun(self._lake)
        return next(
            (tables for tables in known if tables.stamp(self._slot) is None), begun_folder(self._lake, len(known))
        )


def in_slices(job: Job, make: Callable[..., pa.Table], tracks: pa.Table, **how: object) -> pa.Table:
    """The rows that `make` gives of these tracks of units, or of items: of some items at a time, each time kept. It is
    also given the lake's store and the Advance. The rows of one track may not depend on the others."""
    make = partial(make, store=job.lake.store, advance=job.advance, **how)
    return pa.concat_tables(job.keep(make(part)) for part in _slices(tracks, num_workers=job.runner.workers))


def _slices(tracks: pa.Table, *, num_workers: int) -> Iterator[pa.Table]:
    """Tracks of so many items that all workers are busy and of an hour at least, those of one item together."""
    if "duration_s" not in tracks.column_names or tracks["duration_s"].null_count == tracks.num_rows:
        yield tracks  # a row group of texts or pictures, or less; or nothing
        return
    item = "parent_digest" if "parent_digest" in tracks.column_names else "digest"
    start = at = num_items = 0
    seconds = 0.0
    each = zip(tracks[item].to_pylist(), pc.fill_null(tracks["duration_s"], 0.0).to_pylist(), strict=True)
    for _, rows in groupby(each, key=lambda row: row[0]):
        lengths = [length for _, length in rows]
        at, num_items, seconds = at + len(lengths), num_items + 1, seconds + sum(lengths)
        if num_items >= _ITEMS_PER_WORKER * num_workers and seconds >= _SLICE_S:
            yield tracks.slice(start, at - start)
            start, num_items, seconds = at, 0, 0.0
    if start < tracks.num_rows:
        yield tracks.slice(start)

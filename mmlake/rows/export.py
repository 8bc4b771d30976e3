"""From batches of rows to files: read what is wanted, filter, write; and the one account of where every row went."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from mmlake.border import IN_PROCESS, Runner
from mmlake.compute import Executor
from mmlake.embed import EmbedSettings
from mmlake.errors import SettingsError
from mmlake.progress import Advance, silent
from mmlake.rows.batch import RowBatch
from mmlake.rows.filter import Filter
from mmlake.rows.filters import Dropped, apply_filters, check_needs
from mmlake.rows.materialize import Places, iter_materialized, materialize
from mmlake.rows.order import cut
from mmlake.rows.row_writer import WriteSettings, Written, write_rows

# when bytes of media get into the rows: before the filters, after them, or not at all
MOMENTS: Final = ("read", "write", "never")
_EXAMPLES = 10


@dataclass(frozen=True, slots=True)
class Exported:
    """What an export did: `num_rows_in` = `written.num_rows` + the sum of `dropped`; nothing was read where
    `written.is_ignored`."""

    num_rows_in: int
    dropped: Mapping[str, int]  # filter, or reason of the writer -> rows
    examples: tuple[str, ...]  # the first reasons that filters gave
    written: Written

    def to_dict(self) -> dict[str, Any]:
        """The account as JSON has it."""
        return {
            **self.written.to_dict(),
            "num_rows_in": self.num_rows_in,
            "dropped": dict(self.dropped),
            "examples": list(self.examples),
        }


def export_rows(
    batches: Iterable[RowBatch],
    out: str | Path,
    *,
    to: str,
    places: Places,
    filters: Sequence[Filter] = (),
    moment: str = "write",
    settings: WriteSettings | None = None,
    models: EmbedSettings | None = None,
    executor: Executor | None = None,
    runner: Runner = IN_PROCESS,
    about: Mapping[str, Any] | None = None,
    advance: Advance = silent,
) -> Exported:
    """What was written under `out`, and what was not. places: where bytes are read from; filters that inspect pictures
    read them whatever the moment.

    moment: one of MOMENTS. runner: where filters decode pictures. advance: called with counts
    of rows. Raises as `write_rows` does, and MissingExtra or
    ModelMissing for filters that lack something.
    """
    if moment not in MOMENTS:
        raise SettingsError(f"materialize={moment!r} is not one of {list(MOMENTS)}; correct the setting")
    settings = settings or WriteSettings()
    check_needs(filters, models)
    chain = _Chain(places, filters, moment, settings.part_bytes, models, executor, runner)
    fill = functools.partial(materialize, places=places) if moment == "write" else None
    record = {
        **(about or {}),
        "filters": [{"filter": one.name, "low": one.low, "high": one.high} for one in filters],
        "materialize": moment,
    }
    written = write_rows(
        chain.left(batches, advance),
        out,
        to=to,
        settings=settings,
        fill=fill,
        about=lambda: {**record, **chain.account()},
    )
    return Exported(
        chain.dropped.num_rows, dict(Counter(chain.dropped.counts) + Counter(written.dropped)), chain.examples, written
    )


class _Chain:
    """The filters over a stream, and their count."""

    def __init__(
        self,
        places: Places,
        filters: Sequence[Filter],
        moment: str,
        part_bytes: int,
        models: EmbedSettings | None,
        executor: Executor | None,
        runner: Runner,
    ) -> None:
        self._runner = runner
        self._places, self._filters, self._moment, self._part_bytes, self._models = (
            places,
            filters,
            moment,
            part_bytes,
            models,
        )
        self._executor = executor or (Executor("auto") if any(one.kind == "pair" for one in filters) else None)
        self.dropped = Dropped()

    def left(self, batches: Iterable[RowBatch], advance: Advance) -> Iterator[RowBatch]:
        """What the filters leave of the batches, in parts whose bytes fit in memory."""
        for batch in batches:
            for part in cut(batch, max_samples=batch.num_rows + 1, max_bytes=self._part_bytes):
                if self._moment == "read":
                    part = materialize(part, self._places)
                kept, dropped = apply_filters(
                    part,
                    self._filters,
                    pictures=self._pictures,
                    models=self._models,
                    executor=self._executor,
                    runner=self._runner,
                )
                self.dropped += dropped
                yield kept
                advance(part.num_rows)

    def _pictures(self, batch: RowBatch, mask: np.ndarray) -> Iterator[tuple[int, bytes | None]]:
        return iter_materialized(batch, mask.tolist(), self._places)

    @property
    def examples(self) -> tuple[str, ...]:
        """The first reasons, with the row that each is about."""
        rows = self.dropped.rows.slice(0, _EXAMPLES).to_pylist()
        return tuple(
            f"{row['sample_id']} at position {row['position']}: {row['filter']}: {row['reason']}" for row in rows
        )

    def account(self) -> dict[str, Any]:
        """For the provenance: what the filters were given and what each took."""
        return {"num_rows_read": self.dropped.num_rows, "filtered": dict(self.dropped.counts)}

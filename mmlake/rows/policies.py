"""What is done about rows whose bytes could not be had: `materialize_error` says why, a policy says what follows."""

from __future__ import annotations

import logging
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake.errors import RowsUnreadable, SettingsError
from mmlake.rows.batch import RowBatch
from mmlake.rows.order import filter_rows, sample_numbers

POLICIES: Final = ("error", "warn", "drop_row", "drop_sample")
_EXAMPLES = 3

_log = logging.getLogger(__name__)


def check_policy(policy: str) -> str:
    """The policy, which is one of POLICIES. Raises SettingsError."""
    if policy not in POLICIES:
        raise SettingsError(f"on_error={policy!r} is not one of {list(POLICIES)}; correct the setting")
    return policy


def apply_policy(batch: RowBatch, policy: str) -> RowBatch:
    """The batch as the policy leaves it; the very batch where no row has a `materialize_error`.

    error: raises RowsUnreadable with the number of such rows and the first of them. warn: keeps them and logs the
    number. drop_row:
    without them, positions anew, as `filter_rows` does it. drop_sample: without every row of a sample that has one.
    """
    check_policy(policy)
    failed = failed_rows(batch.to_arrow())
    if not failed.any():
        return batch
    if policy == "drop_row":
        return filter_rows(batch, ~failed)
    if policy == "drop_sample":
        samples = sample_numbers(batch.to_arrow())
        return filter_rows(batch, ~np.isin(samples, np.unique(samples[failed])))
    summary = (
        f"{int(failed.sum())} of {batch.num_rows} rows have no bytes, the first: "
        f"{'; '.join(_examples(batch.to_arrow(), failed))}"
    )
    if policy == "error":
        raise RowsUnreadable(
            f"{summary}. Repair their source, or choose the policy warn, drop_row or drop_sample (`mmlake rows "
            "--on-error`)"
        )
    _log.warning("%s", summary)
    return batch


def failed_rows(table: pa.Table) -> np.ndarray:
    """Which rows have a `materialize_error`; none where the column is missing."""
    if "materialize_error" not in table.column_names:
        return np.zeros(table.num_rows, dtype=bool)
    return np.array(pc.is_valid(table["materialize_error"]).to_numpy(), dtype=bool)


def _examples(table: pa.Table, failed: np.ndarray) -> list[str]:
    first = table.select(["sample_id", "position", "materialize_error"]).take(
        pa.array(np.flatnonzero(failed)[:_EXAMPLES])
    )
    return [
        f"{row['sample_id']} at position {row['position']}: {row['materialize_error']}" for row in first.to_pylist()
    ]

"""The order of rows: which rows are one sample, what is left of samples when rows go, and where a batch may be cut.

Everything here is done on whole columns; a loop over rows would take minutes where this takes a second.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake.errors import ContractBroken, SchemaMismatch
from mmlake.rows.batch import RowBatch
from mmlake.rows.columns import is_null
from mmlake.rows.schema import METADATA, METADATA_POSITION, REQUIRED

_SHIFT = np.int64(1) << 32  # positions are int32: a sample's number above them makes one sortable integer


def filter_rows(batch: RowBatch, keep: Any) -> RowBatch:
    """The rows that `keep` marks, in their order, with positions from 0 without gaps in every sample.

    keep: one truth value per row (Arrow, numpy, pandas or a sequence); null means no. Rows that shared a position share
    one afterwards. A metadata row goes with the last content row of its sample; samples that never had content go too.
    Raises SchemaMismatch for a batch without the columns of `REQUIRED`.
    """
    if not batch.num_rows:
        return batch
    marked = as_mask(keep, batch.num_rows)
    table = batch.to_arrow()
    check_columns(table)
    samples, content = sample_numbers(table), content_mask(table)
    has_content = np.bincount(samples[marked & content], minlength=int(samples.max()) + 1) > 0
    marked &= content | has_content[samples]
    positions = _positions(table, content)
    moved = np.flatnonzero(marked & content)
    positions[moved] = dense_positions(samples[moved], positions[moved])
    if not marked.all():
        table, positions = table.filter(pa.array(marked)), positions[marked]
    at = table.schema.get_field_index("position")
    return batch.replace(table.set_column(at, table.schema.field(at), pa.array(positions, table.schema.field(at).type)))


def dense_positions(samples: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """The rank of each position among the distinct positions of its sample, from 0."""
    keys = samples * _SHIFT + positions
    ordered = bool((np.diff(keys) >= 0).all())
    order = np.arange(len(keys)) if ordered else np.argsort(keys, kind="stable")
    ranked, owners = keys[order], samples[order]
    steps = np.cumsum(np.diff(ranked, prepend=ranked[:1]) != 0)
    firsts = np.flatnonzero(np.diff(owners, prepend=-1))
    starts = np.repeat(steps[firsts], np.diff(firsts, append=len(owners)))
    out = np.empty(len(keys), np.int64)
    out[order] = steps - starts
    return out


def as_mask(keep: Any, num_rows: int) -> np.ndarray:
    """The truth values as a numpy array of that length, null as False. Raises ContractBroken for another length."""
    if isinstance(keep, (pa.Array, pa.ChunkedArray)):
        keep = (
            pc.fill_null(keep, False).to_numpy(zero_copy_only=False)
            if isinstance(keep, pa.Array)
            else pc.fill_null(keep, False).to_numpy()
        )
    is_plain = getattr(keep, "dtype", None) == np.dtype(bool)
    # NaN would count as true
    mask = (
        np.array(keep, dtype=bool)
        if is_plain
        else np.array([not is_null(one) and bool(one) for one in keep], dtype=bool)
    )
    if mask.shape != (num_rows,):
        raise ContractBroken(
            f"a mask of shape {mask.shape} was given for {num_rows} rows; give one truth value per row"
        )
    return mask


def check_columns(table: pa.Table) -> None:
    """Raises SchemaMismatch where a column is missing that says which sample a row is of, and where in it."""
    if missing := [name for name in REQUIRED if name not in table.column_names]:
        raise SchemaMismatch(
            f"a batch of rows lacks the required columns {missing}; expected {list(REQUIRED)}, add them "
            "(`RowBatch.problems` reports such things beforehand)"
        )


def sample_numbers(table: pa.Table) -> np.ndarray:
    """The number of each row's sample, counted from 0 in the order of first rows; rows without an id are one sample."""
    encoded = table["sample_id"].combine_chunks().dictionary_encode(null_encoding="encode")
    chunks = encoded.chunks if isinstance(encoded, pa.ChunkedArray) else [encoded]
    return chunks[0].indices.to_numpy(zero_copy_only=False).astype(np.int64) if chunks else np.empty(0, np.int64)


def content_mask(table: pa.Table) -> np.ndarray:
    """Which rows are content: all but metadata rows."""
    return as_mask(pc.fill_null(pc.not_equal(table["modality"], METADATA), True), table.num_rows)


def _positions(table: pa.Table, content: np.ndarray) -> np.ndarray:
    positions = np.array(pc.fill_null(pc.cast(table["position"], pa.int64()), _SHIFT - 1).to_numpy(), dtype=np.int64)
    # Content without a position sorts behind the rest of its sample.
    return np.where(positions < _SHIFT - 1, positions, np.where(content, np.iinfo(np.int32).max, METADATA_POSITION))


def by_sample(table: pa.Table) -> tuple[pa.Table, np.ndarray]:
    """(the table with the rows of each sample together, the first row of each sample and the end). Tables that are
    in that order already stay as they are."""
    if not table.num_rows:
        return table, np.zeros(1, np.int64)
    samples = sample_numbers(table)
    if (np.diff(samples) < 0).any():
        order = np.argsort(samples, kind="stable")
        table, samples = table.take(pa.array(order)), samples[order]
    return table, np.append(np.flatnonzero(np.diff(samples, prepend=-1)), table.num_rows)


def cut(batch: RowBatch, *, max_samples: int, max_bytes: int) -> Iterator[RowBatch]:
    """The batch in parts of whole samples that stay within the limits where a sample does.

    A row counts with `size_bytes`, which is known before its bytes are read, or with what it holds.
    """
    check_columns(batch.to_arrow())
    weights = _weights(batch.to_arrow())
    if weights.sum() <= max_bytes and batch.num_samples <= max_samples:
        yield batch
        return
    table, bounds = by_sample(batch.to_arrow())
    ends = np.append(0, np.cumsum(_weights(table)))
    first = 0
    while first < len(bounds) - 1:
        last = int(np.searchsorted(ends[bounds], ends[bounds[first]] + max_bytes, side="right")) - 1
        last = min(max(last, first + 1), first + max_samples, len(bounds) - 1)
        yield batch.replace(table.slice(int(bounds[first]), int(bounds[last] - bounds[first])))
        first = last


def _weights(table: pa.Table) -> np.ndarray:
    total = np.zeros(table.num_rows, np.int64)
    for name in ("text_content", "binary_content"):
        if name in table.column_names:
            total += np.array(
                pc.fill_null(pc.cast(pc.binary_length(table[name]), pa.int64()), 0).to_numpy(), dtype=np.int64
            )
    if "size_bytes" in table.column_names:
        total = np.maximum(total, np.array(pc.fill_null(table["size_bytes"], 0).to_numpy(), dtype=np.int64))
    return total

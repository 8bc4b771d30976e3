"""The hash of a catalog row, over all that it holds: what was written, and whether it is still that."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mmlake.catalog.join import METADATA, is_vector
from mmlake.records import canonical_json

_BATCH_ROWS = 4_096


def row_hashes(rows: pa.Table) -> list[str]:
    """SHA-256 of each row's content. Nulls are left out, so a new column or source field changes only the rows that
    have a value in it."""
    plain = rows.select([name for name in rows.column_names if name != "row_hash" and not is_vector(name)])
    vectors = {name: list(_vector_bytes(rows[name])) for name in sorted(rows.column_names) if is_vector(name)}
    hashes = []
    for index, row in enumerate(_dicts(plain)):
        hasher = hashlib.sha256(
            canonical_json(_said(row | ({METADATA: _said(row.get(METADATA) or {}) or None}))).encode(
                "utf-8", "surrogatepass"
            )
        )
        for name, values in vectors.items():
            if (data := values[index]) is not None:
                hasher.update(f"\n{name}:".encode())
                hasher.update(data)
        hashes.append(hasher.hexdigest())
    return hashes


def _said(cells: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in cells.items() if value is not None}


def _dicts(table: pa.Table) -> Iterator[dict[str, Any]]:
    for batch in table.to_batches(max_chunksize=_BATCH_ROWS):
        # most columns are those of other modalities, and no row says anything in them
        said = [name for name, column in zip(batch.schema.names, batch.columns, strict=True) if _is_said(column)]
        yield from batch.select(said).to_pylist() if said else ({} for _ in range(batch.num_rows))


def _is_said(column: pa.Array) -> bool:
    return bool(len(column) > column.null_count)


def _vector_bytes(column: pa.ChunkedArray) -> Iterator[bytes | None]:
    for chunk in column.chunks:
        matrix_ND = (
            pc.fill_null(chunk.flatten(), 0.0)
            .to_numpy(zero_copy_only=False)
            .astype("<f4")
            .reshape(-1, chunk.type.list_size)
        )
        present, position = chunk.is_valid().to_pylist(), 0
        for valid in present:  # flatten() leaves null vectors out
            yield matrix_ND[position].tobytes() if valid else None
            position += int(valid)


def version_of(rows: pa.Table) -> str:
    """The data version of these rows. rows: digest and row_hash, sorted by digest."""
    hasher = hashlib.sha256()
    for digest, row_hash in zip(rows["digest"].to_pylist(), rows["row_hash"].to_pylist(), strict=True):
        hasher.update(f"{digest} {row_hash}\n".encode())
    return hasher.hexdigest()

"""From catalog rows to the items of a version, and for every other row the cause that kept it out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from mmlake.errors import ContractBroken
from mmlake.versions.recipe import Recipe

_STRINGS = pa.list_(pa.string())
VERSION_ITEMS = pa.schema(
    [
        ("digest", pa.string()),
        ("modality", pa.string()),
        ("role", pa.string()),
        ("content_type", pa.string()),
        ("size_bytes", pa.int64()),
        ("weight", pa.float64()),
        ("status", pa.string()),
        ("licences", _STRINGS),
        ("sources", _STRINGS),
        ("sample_ids", _STRINGS),
    ]
)
EXCLUDED = pa.schema(
    [
        ("digest", pa.string()),
        ("modality", pa.string()),
        ("size_bytes", pa.int64()),
        ("cause", pa.string()),
        ("detail", pa.string()),
    ]
)
_READ = [*VERSION_ITEMS.names, "rule", "reason", "tier", "survivor"]
_BATCH_ROWS = 16_384


@dataclass(frozen=True, slots=True)
class Selection:
    """The rows of a version and the rows left out; together every catalog row, once."""

    items: pa.Table  # VERSION_ITEMS, sorted by digest
    # EXCLUDED, sorted by digest; cause is rule:<name>, status:<name>, role:<name>, licence:<id> or tier:<name>
    excluded: pa.Table


def select(catalog_rows: pa.Table, recipe: Recipe) -> Selection:
    """The items that the recipe admits and the excluded ones with their first cause, in the order status, role,
    licence, tier.

    Raises ContractBroken where a digest occurs twice, for then the two tables could not add up.
    """
    items: list[dict[str, Any]] = []
    excluded: list[dict[str, Any]] = []
    previous = None
    for batch in catalog_rows.select(_READ).sort_by("digest").to_batches(max_chunksize=_BATCH_ROWS):
        for row in batch.to_pylist():
            if row["digest"] == previous:
                raise ContractBroken(f"catalog rows name {previous} twice; run `Catalog.verify_unique`")
            previous = row["digest"]
            cause, detail = _exclusion(row, recipe)
            if cause is None:
                items.append(
                    {name: row[name] for name in VERSION_ITEMS.names} | {"weight": round(row["weight"] or 0.0, 6)}
                )
            else:
                excluded.append(
                    {
                        "digest": row["digest"],
                        "modality": row["modality"],
                        "size_bytes": row["size_bytes"],
                        "cause": cause,
                        "detail": detail,
                    }
                )
    return Selection(pa.Table.from_pylist(items, schema=VERSION_ITEMS), pa.Table.from_pylist(excluded, schema=EXCLUDED))


def _exclusion(row: dict[str, Any], recipe: Recipe) -> tuple[str | None, str | None]:
    if row["status"] not in recipe.statuses:
        return (f"rule:{row['rule']}" if row["rule"] else f"status:{row['status']}"), row["reason"]
    if row["role"] not in recipe.roles:
        return f"role:{row['role']}", None
    if (licence := recipe.denied_licence(row["licences"] or [])) is not None:
        return f"licence:{licence}", ", ".join(row["sources"] or [])
    if row["tier"] in recipe.drop_tiers:
        return f"tier:{row['tier']}", row["survivor"]
    return None, None

"""How the catalog answers a query: full text, vector, SQL filter, and both ranks fused."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from mmlake.catalog.condition import objection
from mmlake.catalog.join import CATALOG_SCHEMA, METADATA, is_vector, vector_column
from mmlake.errors import SettingsError
from mmlake.recipes import near

_FUSION_K = 60  # Cormack, Clarke, Buettcher 2009: the constant of reciprocal rank fusion
_SCORE = pa.field("score", pa.float64())
# what the planner says of a name that it does not know
_UNKNOWN = re.compile(r"No field named (?P<column>[^\s]+?)\. |Field (?P<field>.+?) not found in struct")


@dataclass(frozen=True, kw_only=True, slots=True)
class Query:
    """One question to the catalog."""

    text: str | None
    vector: np.ndarray | list[float] | None
    encoder: str | None
    where: str | None
    modality: str | None
    limit: int
    depth: int


def no_rows() -> pa.Table:
    """A search result without rows."""
    return _result_schema(CATALOG_SCHEMA).empty_table()


def readable(table: Any) -> list[str]:
    """The columns that a person reads: all but vectors and the row hash."""
    return [name for name in table.schema.names if not is_vector(name) and name != "row_hash"]


def filterable(table: Any) -> list[str]:
    """What a condition may name, the source fields behind the columns."""
    columns = [name for name in readable(table) if name != METADATA]
    fields = table.schema.field(METADATA).type if METADATA in table.schema.names else ()
    return columns + [
        f"{METADATA}.{field.name if field.name.isidentifier() else f'`{field.name}`'}" for field in fields
    ]


def run(table: Any, query: Query) -> pa.Table:
    """The query's rows with a `score`, best first. Raises SettingsError where the filter cannot be evaluated."""
    try:
        return _found(table, query)
    except RuntimeError as error:
        if query.where is None or "filter expression" not in str(error):
            raise
        raise SettingsError(
            f"the filter {query.where[:200]!r} cannot be evaluated on the rows; correct its patterns and casts"
        ) from None


def _found(table: Any, query: Query) -> pa.Table:
    where = checked(table, query.where)
    if query.modality is not None:
        where = f"modality = '{query.modality}'" + (f" AND ({where})" if where else "")
    has_text, has_vector = query.text is not None, query.vector is not None
    depth = max(query.depth, 4 * query.limit) if has_text and has_vector else query.limit
    sides = []
    if has_text:
        sides.append(_by_text(table, query.text or "", where, depth))
    if has_vector:
        sides.append(_by_vector(table, query, where, depth))
    if not sides:
        return _by_filter(table, where, query.limit)
    rows = {row["digest"]: row for side in sides for row in side}
    scores = _fused(sides) if len(sides) == 2 else {row["digest"]: row["_similarity"] for row in sides[0]}
    return _ranked(rows, scores, query.limit, _shape(table))


def checked(table: Any, where: str | None) -> str | None:
    """The condition, once the planner accepts it by itself and in brackets. Raises SettingsError in our own words."""
    if where is None:
        return None
    if not where.strip():
        raise SettingsError("the filter is empty; leave it out, or give a SQL condition such as modality = 'image'")
    if (reason := objection(where)) is not None:
        raise SettingsError(f"the filter {where[:200]!r} {reason}; give one SQL condition over columns of the catalog")
    # in brackets too: the parser ignores what follows the condition
    for spelling in (where, f"({where})"):
        try:
            table.search().where(spelling).limit(1).explain_plan()
        except (RuntimeError, ValueError) as error:
            known = filterable(table)
            reason = "is not a SQL condition over the catalog"
            if (unknown := _UNKNOWN.search(str(error))) is not None:
                name = unknown["column"] or f"{METADATA}.{unknown['field']}"
                reason = f"names the column {name[:80]!r}, which the catalog does not have{near(name, known)}"
            raise SettingsError(
                f"the filter {where[:200]!r} {reason}; its columns are {', '.join(known)}; text stands in single quotes"
            ) from None
    return where


def encoder_column(table: Any, encoder: str | None) -> str:
    """The vector column of the encoder; the only one there is, where no encoder is named."""
    columns: list[str] = [name for name in table.schema.names if is_vector(name)]
    if encoder is None and len(columns) == 1:
        return str(columns[0])
    known = ", ".join(name.removeprefix("vector_") for name in sorted(columns)) or "none"
    if encoder is None:
        raise SettingsError(f"a vector search needs `encoder`; the catalog has: {known}")
    if (column := vector_column(encoder)) not in columns:
        raise SettingsError(f"the catalog has no vectors of encoder '{encoder}'; it has: {known}")
    return column


def _by_text(table: Any, text: str, where: str | None, depth: int) -> list[dict[str, Any]]:
    words = " ".join(re.findall(r"\w+", text))
    if not words:
        return []
    if not any("text" in index.columns for index in table.list_indices()):
        raise SettingsError(
            "the catalog has no full-text index, its last write was cut off; materialize the catalog again"
        )
    search = table.search(words, query_type="fts", fts_columns="text").select([*readable(table), "_score"])
    rows = (search.where(where, prefilter=True) if where else search).limit(depth).to_arrow().to_pylist()
    return _best_first([row | {"_similarity": float(row["_score"])} for row in rows])


def _by_vector(table: Any, query: Query, where: str | None, depth: int) -> list[dict[str, Any]]:
    column = encoder_column(table, query.encoder)
    dimension = table.schema.field(column).type.list_size
    vector_D = np.asarray(query.vector, dtype=np.float32)
    if vector_D.shape != (dimension,) or not np.isfinite(vector_D).all() or not vector_D.any():
        raise SettingsError(
            f"the query vector has shape {vector_D.shape}, expected ({dimension},) finite numbers that are not all zero"
        )
    search = (
        table.search(vector_D, vector_column_name=column)
        .distance_type("cosine")
        .select([*readable(table), "_distance"])
    )
    rows = (search.where(where, prefilter=True) if where else search).limit(depth).to_arrow().to_pylist()
    return _best_first([row | {"_similarity": 1.0 - float(row["_distance"])} for row in rows])


def _by_filter(table: Any, where: str | None, limit: int) -> pa.Table:
    """The first rows by digest; only digests are read for the rows that are not returned."""
    search = table.search().select(["digest"])
    digests = sorted((search.where(where) if where else search).limit(None).to_arrow()["digest"].to_pylist())[:limit]
    if not digests:
        return _result_schema(_shape(table)).empty_table()
    among = "digest IN (" + ", ".join(f"'{digest}'" for digest in digests) + ")"
    found = table.search().select(readable(table)).where(among).limit(None).to_arrow().to_pylist()
    rows = {row["digest"]: row for row in found}
    return _table([_shown(rows[digest], None) for digest in digests], _shape(table))


def _best_first(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (-row["_similarity"], row["digest"]))


def _fused(sides: list[list[dict[str, Any]]]) -> dict[str, float]:
    scores: dict[str, float] = {}
    for side in sides:
        for rank, row in enumerate(side, start=1):
            scores[row["digest"]] = scores.get(row["digest"], 0.0) + 1.0 / (_FUSION_K + rank)
    return scores


def _ranked(rows: dict[str, dict[str, Any]], scores: dict[str, float], limit: int, shape: pa.Schema) -> pa.Table:
    best = sorted(scores, key=lambda digest: (-scores[digest], digest))[:limit]
    return _table([_shown(rows[digest], scores[digest]) for digest in best], shape)


def _shown(row: dict[str, Any], score: float | None) -> dict[str, Any]:
    """The row as a search shows it: `score` is the search's, the catalog's own becomes `cluster_score`."""
    return row | {"cluster_score": row["score"], "score": score}


def _shape(table: Any) -> pa.Schema:
    return pa.schema([table.schema.field(name).with_metadata({}) for name in readable(table)])


def _result_schema(shape: pa.Schema) -> pa.Schema:
    return pa.schema(
        [pa.field("cluster_score", field.type) if field.name == "score" else field for field in shape] + [_SCORE]
    )


def _table(rows: list[dict[str, Any]], shape: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=_result_schema(shape))

"""Catalog rows of one modality, joined from its stage tables. Pure: tables in, table out, independent of the order of
rows.

The same digest may come from several partitions. One row of each stage table is kept: best status first, then the
smallest shard (where the table has a `shard` column), then the remaining columns, so that arrival order never shows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake.catalog.settings import DEFAULTS, CatalogSettings
from mmlake.catalog.source_fields import metadata_column
from mmlake.contracts import made
from mmlake.error_codes import CODES
from mmlake.errors import ContractBroken, SettingsError
from mmlake.records import ADMITTED, STATUSES
from mmlake.schemas.cross import ALIKE

NOT_JUDGED = "not_judged"  # the rule of rows that no verdict covers yet: visible, and kept out of every version
METADATA = "metadata"  # the column of the source's own fields
_STRINGS = pa.list_(pa.string())
CATALOG_SCHEMA = pa.schema(
    [
        pa.field("digest", pa.string(), nullable=False),
        pa.field("parent_digest", pa.string()),
        pa.field("kind", pa.string()),
        pa.field("span_start_s", pa.float64()),
        pa.field("span_end_s", pa.float64()),
        pa.field("modality", pa.string(), nullable=False),
        pa.field("role", pa.string()),
        pa.field("sources", _STRINGS),
        pa.field("licences", _STRINGS),
        pa.field("shards", _STRINGS),
        pa.field("sample_ids", _STRINGS),
        pa.field("content_type", pa.string()),
        pa.field("size_bytes", pa.int64()),
        pa.field("text", pa.large_string()),
        pa.field("status", pa.string()),
        pa.field("rule", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("severity", pa.string()),
        pa.field("error_code", pa.int32()),
        pa.field("weight", pa.float32()),
        pa.field("width_px", pa.int32()),
        pa.field("height_px", pa.int32()),
        pa.field("duration_s", pa.float64()),
        pa.field("num_words", pa.int64()),
        pa.field("survivor", pa.string()),
        pa.field("is_survivor", pa.bool_()),
        pa.field("cluster_size", pa.int32()),
        pa.field("tier", pa.string()),
        pa.field("score", pa.float64()),
        pa.field("num_occurrences", pa.int32()),
        pa.field("preview_digest", pa.string()),
        pa.field("keyframe_digests", _STRINGS),
        pa.field("contaminated", pa.bool_()),
        pa.field("eval_sets", _STRINGS),
        pa.field("carried_by", _STRINGS),
        pa.field("caption", pa.string()),
        pa.field("event_tags", _STRINGS),
        pa.field("caption_score", pa.float64()),
    ]
)


def vector_column(encoder: str) -> str:
    """The catalog column that holds this encoder's vectors."""
    return "vector_" + re.sub(r"[^a-z0-9]+", "_", encoder.lower()).strip("_")


def is_vector(column: str) -> bool:
    """Whether the catalog column holds an encoder's vectors."""
    return column.startswith("vector_")


def rows(
    items: pa.Table,
    tracks: pa.Table,
    verdicts: pa.Table,
    clusters: pa.Table,
    embeddings: pa.Table,
    *,
    modality: str,
    measures: pa.Table | None = None,
    contamination: pa.Table | None = None,
    cross_pairs: pa.Table | None = None,
    captions: pa.Table | None = None,
    caption_scores: pa.Table | None = None,
    measure_columns: Iterable[str] = (),
    source_fields: pa.StructType | None = None,
    settings: CatalogSettings = DEFAULTS,
) -> pa.Table:
    """One row per distinct unit of the items, sorted by digest: CATALOG_SCHEMA, the measures by name, `metadata`
    where there are source fields, and one vector column per encoder, in order of their names.

    tracks: those of units (`preprocess.unit_tracks`); a span has what its item has of sources and fields.
    measures: digest, measure and value; of the measures named by `measure_columns`, each is a column. An item that
    several partitions measured has the smallest number.
    contamination: digest, eval_set. cross_pairs: digest, component, carrier, relation. captions: digest, caption,
    event_tags of described clips. caption_scores: digest, cosine. None: there are none.
    Digests without a verdict are quarantined under the rule `not_judged`. Raises ContractBroken where tracks or
    verdicts name digests that no item has, or a vector is not finite.
    """
    items = items.filter(pc.is_valid(items["digest"]))
    items = items.append_column("shard", pc.replace_substring_regex(items["item_id"], r"#\d+$", ""))
    items = _per_unit(items, tracks)
    item, track, verdict, cluster = (_one_per_digest(table) for table in (items, tracks, verdicts, clusters))
    digests = item["digest"].combine_chunks()
    for name, table in (("tracks", track), ("verdicts", verdict)):
        _no_strangers(name, table, digests, modality)
    columns = _of_items(items, digests) | {"digest": digests, "modality": pa.repeat(modality, len(digests))}
    columns["parent_digest"] = pc.coalesce(_aligned(track, digests, "parent_digest"), digests)
    columns["kind"] = pc.coalesce(_aligned(track, digests, "kind"), "whole")
    columns |= {name: _aligned(track, digests, name) for name in ("span_start_s", "span_end_s")}
    columns["role"], columns["text"] = _aligned(item, digests, "role"), _text(item, track, digests, settings.text_chars)
    for name in ("content_type", "size_bytes"):
        columns[name] = pc.coalesce(_aligned(track, digests, name), _aligned(item, digests, name))
    for name in ("width_px", "height_px", "duration_s", "num_words"):
        columns[name] = _finite(_aligned(track, digests, name))
    columns |= _judged(item, track, verdict, digests)
    columns |= _clustered(cluster, digests, columns["status"]) | _pictures(track, digests, modality)
    columns |= _contaminated(contamination, digests) | _described(captions, caption_scores, digests)
    columns["carried_by"] = _carried_by(cross_pairs, digests)
    table = pa.table(
        {field.name: pa.chunked_array([_flat(columns[field.name])]).cast(field.type) for field in CATALOG_SCHEMA},
        schema=CATALOG_SCHEMA,
    )
    for name, numbers in _measured(measures, digests, sorted(measure_columns)).items():
        table = table.append_column(name, numbers)
    if source_fields is not None:
        cells = metadata_column(item["metadata_json"].to_pylist(), source_fields, max_chars=settings.text_chars)
        table = table.append_column(METADATA, cells)
    for name, vectors in _vectors(embeddings, digests).items():
        table = table.append_column(name, vectors)
    return table


def _flat(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _one_per_digest(table: pa.Table) -> pa.Table:
    """The best row of each digest, sorted by digest."""
    if "status" in table.column_names:
        table = table.append_column("_rank", pc.index_in(table["status"], value_set=pa.array(STATUSES)))
    first = [name for name in ("digest", "_rank", "shard") if name in table.column_names]
    rest = [field.name for field in table.schema if field.name not in first and not pa.types.is_nested(field.type)]
    if pc.count_distinct(table["digest"]).as_py() == table.num_rows:
        rest, first = [], ["digest"]
    table = table.take(pc.sort_indices(table, sort_keys=[(name, "ascending") for name in first + rest]))
    digests = np.asarray(table["digest"].to_pylist(), dtype=object)
    fresh = np.ones(len(digests), dtype=bool)
    fresh[1:] = digests[1:] != digests[:-1]
    return table.filter(pa.array(fresh))


def _no_strangers(name: str, table: pa.Table, digests: pa.Array, modality: str) -> None:
    known = pc.is_in(table["digest"], value_set=digests)
    if not pc.all(known, min_count=0).as_py():
        strangers = table["digest"].filter(pc.invert(known))
        raise ContractBroken(
            f"{modality}/{name}: {len(strangers)} digests come from no item, the first is {strangers[0].as_py()}; "
            "pass the tables of the same partitions"
        )


def _per_unit(items: pa.Table, tracks: pa.Table) -> pa.Table:
    """The items, those that are cut to spans once for each of them."""
    spans = tracks.filter(pc.not_equal(tracks["digest"], tracks["parent_digest"]))
    if not spans.num_rows:
        return items
    units: dict[str, list[str]] = {}
    for digest, parent in zip(*(spans[name].to_pylist() for name in ("digest", "parent_digest")), strict=True):
        if digest not in (known := units.setdefault(parent, [])):
            known.append(digest)
    places, digests = [], []
    for at, digest in enumerate(items["digest"].to_pylist()):
        for unit in units.get(digest, (digest,)):
            places.append(at)
            digests.append(unit)
    rows = items.take(pa.array(places, pa.int64()))
    return rows.set_column(rows.column_names.index("digest"), "digest", pa.array(digests, pa.string()))


def _aligned(table: pa.Table, digests: pa.Array, column: str) -> pa.Array:
    """The column in the order of the digests, null where the table has no row."""
    return _flat(_flat(table[column]).take(pc.index_in(digests, value_set=_flat(table["digest"]))))


def _finite(column: pa.Array) -> pa.Array:
    return pc.if_else(pc.is_finite(column), column, None) if pa.types.is_floating(column.type) else column


def _of_items(items: pa.Table, digests: pa.Array) -> dict[str, pa.Array]:
    """Sources, licences, shards, sample ids (sorted, distinct) and the number of occurrences per digest."""
    names = {"source": "sources", "licence": "licences", "shard": "shards", "sample_id": "sample_ids"}
    grouped = items.group_by("digest").aggregate([(name, "distinct") for name in names] + [("item_id", "count")])
    columns = {
        plural: pa.array(
            [sorted(values) for values in _aligned(grouped, digests, f"{name}_distinct").to_pylist()], _STRINGS
        )
        for name, plural in names.items()
    }
    columns["num_occurrences"] = _aligned(grouped, digests, "item_id_count")
    return columns


def _text(item: pa.Table, track: pa.Table, digests: pa.Array, max_chars: int) -> pa.Array:
    """What full-text search reads: the normalized text, else the transcript, else the caption next to the item. Of a
    span only what is said in it: the other two are about all of its item."""
    is_span = pc.is_valid(_aligned(track, digests, "span_start_s"))
    parts = [
        _aligned(track, digests, "text"),
        _aligned(track, digests, "transcript"),
        pc.if_else(is_span, None, _aligned(item, digests, "sample_text")),
        pc.if_else(is_span, None, _aligned(item, digests, "text_content")),
    ]
    return pc.utf8_slice_codeunits(pc.coalesce(*(part.cast(pa.large_string()) for part in parts)), 0, max_chars)


def _judged(item: pa.Table, track: pa.Table, verdict: pa.Table, digests: pa.Array) -> dict[str, pa.Array]:
    """Status and its reasons: the verdict's, else the failure that came before any verdict, else `not_judged`."""
    names = ("status", "rule", "reason", "severity", "error_code", "weight")
    judged = [
        dict(zip(names, values, strict=True))
        for values in zip(*(_aligned(verdict, digests, name).to_pylist() for name in names), strict=True)
    ]
    sides = [
        (track, "status"),
        (track, "error_code"),
        (track, "error"),
        (item, "status"),
        (item, "error_code"),
        (item, "materialize_error"),
    ]
    before = zip(*(_aligned(table, digests, name).to_pylist() for table, name in sides), strict=True)
    for row, (track_status, track_code, track_error, item_status, item_code, item_error) in zip(
        judged, before, strict=True
    ):
        if row["status"] is None:
            if track_status == "unreadable":
                row |= _unreadable(track_code, track_error)
            elif item_status == "unreadable":
                row |= _unreadable(item_code, item_error)
            else:
                row |= {
                    "status": "quarantined",
                    "rule": NOT_JUDGED,
                    "reason": "no verdict covers this item yet",
                    "severity": "P1",
                    "weight": 0.0,
                }
        row["weight"] = round(float(row["weight"] or 0.0), 6)
    kinds = {name: CATALOG_SCHEMA.field(name).type for name in names}
    return {name: pa.array([row[name] for row in judged], kinds[name]) for name in names}


def _unreadable(code: int | None, reason: str | None) -> dict[str, Any]:
    entry = CODES.get(code) if code is not None else None
    return {
        "status": "unreadable",
        "rule": entry.name if entry else "unreadable",
        "reason": reason,
        "severity": entry.severity if entry else "P0",
        "error_code": code,
        "weight": 0.0,
    }


def _clustered(cluster: pa.Table, digests: pa.Array, status: pa.Array) -> dict[str, pa.Array]:
    """Who stands for the item. Admitted items that no cluster names stand for themselves; the others have no
    survivor."""
    alone = pc.and_(pc.is_in(status, value_set=pa.array(ADMITTED)), pc.is_null(_aligned(cluster, digests, "survivor")))
    kept = pc.coalesce(_aligned(cluster, digests, "is_survivor"), alone)
    size = pc.if_else(alone, pa.scalar(1, pa.int32()), _aligned(cluster, digests, "cluster_size"))
    columns = {
        "survivor": pc.if_else(alone, digests, _aligned(cluster, digests, "survivor")),
        "is_survivor": kept,
        "cluster_size": size,
    }
    return columns | {"tier": _aligned(cluster, digests, "tier"), "score": _finite(_aligned(cluster, digests, "score"))}


def _pictures(track: pa.Table, digests: pa.Array, modality: str) -> dict[str, pa.Array]:
    frames = [
        [frame["digest"] for frame in sorted(value or [], key=lambda frame: frame["time_s"])]
        for value in _aligned(track, digests, "keyframes").to_pylist()
    ]
    previews = (
        digests if modality == "image" else pa.array([frame[0] if frame else None for frame in frames], pa.string())
    )
    return {"keyframe_digests": pa.array(frames, _STRINGS), "preview_digest": previews}


def _contaminated(contamination: pa.Table | None, digests: pa.Array) -> dict[str, pa.Array]:
    """Whether the item is in an eval set, and in which ones."""
    sets: dict[str, set[str]] = {}
    for row in [] if contamination is None else contamination.select(["digest", "eval_set"]).to_pylist():
        sets.setdefault(row["digest"], set()).add(row["eval_set"])
    found = [sorted(sets.get(digest, ())) for digest in digests.to_pylist()]
    return {"contaminated": pa.array([bool(one) for one in found]), "eval_sets": pa.array(found, _STRINGS)}


def _carried_by(cross_pairs: pa.Table | None, digests: pa.Array) -> pa.Array:
    """`component:digest` of the units that carry each unit and say all that it says, sorted."""
    found: dict[str, list[str]] = {}
    for row in [] if cross_pairs is None else cross_pairs.to_pylist():
        if row["relation"] in ALIKE:
            found.setdefault(row["digest"], []).append(f"{row['component']}:{row['carrier']}")
    return pa.array([sorted(found.get(digest, ())) for digest in digests.to_pylist()], _STRINGS)


def _described(captions: pa.Table | None, scores: pa.Table | None, digests: pa.Array) -> dict[str, pa.Array]:
    """What a model says of the clip, and its event tags; of the cosines with captions that came along the highest."""
    columns = {
        "caption": pa.nulls(len(digests), pa.string()),
        "event_tags": pa.nulls(len(digests), _STRINGS),
        "caption_score": pa.nulls(len(digests), pa.float64()),
    }
    if captions is not None:
        said = _one_per_digest(captions.select(["digest", "caption", "event_tags"]))
        columns |= {name: _aligned(said, digests, name) for name in ("caption", "event_tags")}
    if scores is not None:
        best = scores.group_by("digest").aggregate([("cosine", "max")])
        columns["caption_score"] = _aligned(best, digests, "cosine_max")
    return columns


def _measured(measures: pa.Table | None, digests: pa.Array, names: list[str]) -> dict[str, pa.Array]:
    """A column per measure, null where the item has none of that name."""
    columns = {name: pa.nulls(len(digests), pa.float64()) for name in names}
    if measures is None:
        return columns
    least = measures.group_by(["digest", "measure"]).aggregate([("value", "min")])
    for name in set(names).intersection(pc.unique(least["measure"]).to_pylist()):
        columns[name] = _finite(_aligned(least.filter(pc.equal(least["measure"], name)), digests, "value_min"))
    return columns


def _vectors(embeddings: pa.Table, digests: pa.Array) -> dict[str, pa.Array]:
    """A fixed-size list column per encoder, null where the item has no vector; none of an encoder that made no
    vector."""
    columns: dict[str, pa.Array] = {}
    embeddings = made(embeddings)
    for encoder in sorted(pc.unique(embeddings["encoder"]).to_pylist()):
        mine = _one_per_digest(embeddings.filter(pc.equal(embeddings["encoder"], encoder)))
        if (name := vector_column(encoder)) in columns:
            raise SettingsError(f"encoders share the catalog column '{name}', the second is '{encoder}'; rename one")
        dimensions = (
            pc.unique(mine["dimension"]).to_pylist() + pc.unique(pc.list_value_length(mine["vector"])).to_pylist()
        )
        if len(set(dimensions)) != 1:
            raise ContractBroken(
                f"embeddings of '{encoder}' have the dimensions {sorted(set(dimensions))}, expected one; embed "
                "the modality again with one revision"
            )
        values = pc.list_flatten(_flat(mine["vector"]))
        if not np.isfinite(values.to_numpy(zero_copy_only=False)).all():
            raise ContractBroken(f"embeddings of '{encoder}' hold values that are not finite; embed the modality again")
        fixed = pa.FixedSizeListArray.from_arrays(values, dimensions[0])
        columns[name] = fixed.take(pc.index_in(digests, value_set=_flat(mine["digest"])))
    return columns

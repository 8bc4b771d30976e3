"""One versioned Arrow schema per stage table: the contract at each border between stages.

What a schema says is checked on every write; what rows must fulfil between two tables is in `contracts.py`.
Units are in the column name, and in the field metadata where a name cannot carry them.
Every table but `items` has one row per distinct digest of its partition (or several where `key` has more columns).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mmlake.border import Failure
from mmlake.errors import SchemaMismatch


@dataclass(frozen=True, kw_only=True, slots=True)
class TableSchema:
    """The contract of one stage table."""

    name: str
    version: int  # counted up when a column changes meaning; part of the stamp, so older tables are rebuilt
    key: tuple[str, ...]  # unique and not null; rows are sorted by it
    arrow: pa.Schema


def _field(name: str, kind: pa.DataType, note: str = "", *, nullable: bool = True) -> pa.Field:
    return pa.field(name, kind, nullable=nullable, metadata={"note": note} if note else None)


def _must(name: str, kind: pa.DataType, note: str = "") -> pa.Field:
    return _field(name, kind, note, nullable=False)


_STRINGS = pa.list_(pa.string())

ITEMS = TableSchema(
    name="items",
    version=1,
    key=("item_id",),
    arrow=pa.schema(
        [
            _must("item_id", pa.string(), "'<shard>#<ordinal in the shard, 6 digits or more>': one per occurrence"),
            _field("digest", pa.string(), "SHA-256 of the item's bytes; null only where no bytes could be had"),
            _must("sample_id", pa.string(), "what belongs together; unique within a shard and prefixed by it"),
            _must("position", pa.int32(), "order within the sample, from 0; -1 for metadata rows"),
            _must("modality", pa.string(), "text, image, video, audio or metadata"),
            _must("role", pa.string(), "document, caption, transcript or media"),
            _field(
                "content_type",
                pa.string(),
                "MIME type told from the bytes; where they are silent, what the name claims",
            ),
            _field("text_content", pa.large_string(), "the text of a text row; null for media"),
            _field("binary_content", pa.large_binary(), "lazy: always null in stage tables, filled by materialization"),
            _field(
                "sample_text",
                pa.large_string(),
                "on media rows: the caption or transcript that came in the same sample (plain, SRT or VTT)",
            ),
            _must("source_ref", pa.string(), "JSON {path, member, byte_offset, byte_size, frame_index}"),
            _field("parent_digest", pa.string(), "for derived items: what they were made from"),
            _field("span_start_s", pa.float64(), "for derived items"),
            _field("span_end_s", pa.float64(), "for derived items"),
            _must("source", pa.string(), "name of the corpus"),
            _must("licence", pa.string(), "SPDX id, or NOASSERTION"),
            _must("size_bytes", pa.int64()),
            _field("metadata_json", pa.large_string(), "every other field that the source gave, as one JSON object"),
            _must("status", pa.string(), "ok or unreadable"),
            _field("error_code", pa.int32(), "key of the error catalogue"),
            _field("materialize_error", pa.string(), "reason, where status is unreadable"),
        ]
    ),
)

BLOBS = TableSchema(
    name="blobs",
    version=1,
    key=("digest",),
    arrow=pa.schema(
        [
            _must("digest", pa.string()),
            _must("size_bytes", pa.int64()),
            _must("num_occurrences", pa.int32(), "rows of this partition's items that hold these bytes"),
            _must("status", pa.string(), "ok, or unreadable where the store lost the bytes"),
            _field("error_code", pa.int32()),
        ]
    ),
)

_KEYFRAME = pa.struct(
    [
        _must("time_s", pa.float64()),
        _must("digest", pa.string(), "a JPEG blob"),
        _must("shot", pa.int32(), "index into shots"),
    ]
)
_SHOT = pa.struct(
    [
        _must("start_s", pa.float64()),
        _must("end_s", pa.float64()),
        _must("transition", pa.string(), "how it begins: start, cut, fade, dissolve"),
    ]
)
_SIGNAL = pa.struct(
    [
        _must("time_s", pa.float32()),
        _must("luma", pa.float32(), "mean, 0..255"),
        _must("luma_std", pa.float32(), "standard deviation over the frame, 0..128"),
        _must("sharpness", pa.float32(), "variance of the Laplacian on the luma plane at the analysis size"),
        _must(
            "change",
            pa.float32(),
            "mean absolute luma difference to the frame analysed before, 0..255; 0 for the first",
        ),
    ]
)
_WORD = pa.struct(
    [
        _must("word", pa.string()),
        _must("start_s", pa.float64()),
        _must("end_s", pa.float64()),
        _field("score", pa.float32(), "the aligner's confidence, where it gives one"),
    ]
)

TRACKS = TableSchema(
    name="tracks",
    version=1,
    key=("digest",),
    arrow=pa.schema(
        [
            _must("digest", pa.string()),
            _must("modality", pa.string()),
            _must("role", pa.string()),
            _must("status", pa.string(), "ok or unreadable"),
            _field("error_code", pa.int32()),
            _field("error", pa.string(), "reason, where status is unreadable"),
            _field("content_type", pa.string()),
            _must("size_bytes", pa.int64()),
            _field(
                "text",
                pa.large_string(),
                "normalized text: NFC, one newline kind, markup and boilerplate of HTML removed",
            ),
            _field("num_chars", pa.int64()),
            _field("num_words", pa.int64()),
            _field("width_px", pa.int32(), "after orientation is applied"),
            _field("height_px", pa.int32(), "after orientation is applied"),
            _field("orientation", pa.int32(), "EXIF 1..8; 1 where none is given"),
            _field(
                "num_frames", pa.int32(), "frames of an image file (TIFF, GIF, WebP, APNG) or decoded frames of a video"
            ),
            _field("duration_s", pa.float64(), "of the decoded stream"),
            _field("container_duration_s", pa.float64(), "what the header claims"),
            _field("frame_rate", pa.float64(), "average, frames per second"),
            _field("video_codec", pa.string()),
            _field("audio_codec", pa.string()),
            _field("sample_rate_hz", pa.int32(), "of the source"),
            _field("num_channels", pa.int32(), "of the source"),
            _field("num_decode_errors", pa.int32(), "packets that did not decode"),
            _field(
                "audio_digest",
                pa.string(),
                "blob: mono 16 kHz FLAC, sample 0 at time 0 of the item, gaps filled with silence",
            ),
            _must("shots", pa.list_(_SHOT)),
            _must("keyframes", pa.list_(_KEYFRAME)),
            _must("signals", pa.list_(_SIGNAL), "video: one per analysed frame"),
            _field(
                "transcript", pa.large_string(), "plain words, where the source gave a transcript or a recognizer ran"
            ),
            _must("transcript_source", pa.string(), "source, asr:<name>@<revision>, or none"),
            _must(
                "words", pa.list_(_WORD), "word times by forced alignment of the transcript; empty where there is none"
            ),
        ]
    ),
)


def _failing(none_made: str) -> list[pa.Field]:
    """The columns of a table that says of an item why nothing could be made of it, in one row."""
    return [
        _must("status", pa.string(), f"ok, or unreadable where {none_made}"),
        _field("error_code", pa.int32(), "key of the error catalogue, where status is unreadable"),
        _field("error", pa.string(), "reason, where status is unreadable"),
    ]


MEASURES = TableSchema(
    name="measures",
    version=2,
    key=("digest", "measure"),
    arrow=pa.schema(
        [
            _must("digest", pa.string()),
            _must("measure", pa.string(), "its unit is in the name"),
            _field("value", pa.float64(), "null where it makes no sense on this item"),
            *_failing("measures of the item cannot be taken: its row num_failures says how many and why"),
        ]
    ),
)

_FINDING = pa.struct(
    [
        _must("rule", pa.string()),
        _must("severity", pa.string()),
        _must("error_code", pa.int32()),
        _must("reason", pa.string()),
    ]
)

VERDICTS = TableSchema(
    name="verdicts",
    version=1,
    key=("digest",),
    arrow=pa.schema(
        [
            _must("digest", pa.string()),
            _must("status", pa.string(), "ok, flagged, quarantined or unreadable"),
            _field("severity", pa.string(), "of the gravest finding"),
            _field("error_code", pa.int32(), "of the gravest finding"),
            _field("rule", pa.string(), "name of the gravest finding's rule"),
            _field("reason", pa.string(), "`measure=value unit not in [low, high]` of the gravest finding"),
            _must(
                "weight",
                pa.float32(),
                "sample weight that reaches the loader: 1 ok, less when flagged, 0 when not admitted",
            ),
            _must("findings", pa.list_(_FINDING), "every broken rule, gravest first"),
        ]
    ),
)

FINGERPRINTS = TableSchema(
    name="fingerprints",
    version=2,
    key=("digest", "method"),
    arrow=pa.schema(
        [
            _must("digest", pa.string()),
            _must("method", pa.string()),
            _must("hashes", pa.list_(pa.uint64()), "meaning depends on the method"),
            _must("times_s", pa.list_(pa.float32()), "one per hash where the method is a sequence, else empty"),
            *_failing("no fingerprint could be made: the item's only row, under the tier's first method"),
        ]
    ),
)

PAIRS = TableSchema(
    name="pairs",
    version=1,
    key=("left", "right", "method"),
    arrow=pa.schema(
        [
            _must("left", pa.string()),
            _must("right", pa.string()),
            _must("tier", pa.string(), "near or semantic"),
            _must("method", pa.string()),
            _must("score", pa.float64(), "similarity 0..1, verified by the exact measure"),
            _must("bound", pa.float64(), "smallest score that counts"),
        ]
    ),
)

EMBEDDINGS = TableSchema(
    name="embeddings",
    version=2,
    key=("digest", "encoder"),
    arrow=pa.schema(
        [
            _must("digest", pa.string()),
            _must("encoder", pa.string(), "name of the row in ENCODERS"),
            _must("revision", pa.string(), "of the weights or of the code"),
            _must("dimension", pa.int32(), "0 where status is unreadable"),
            _must("vector", pa.list_(pa.float32()), "unit L2 norm; empty where status is unreadable"),
            *_failing("no vector could be made"),
        ]
    ),
)

CLUSTERS = TableSchema(
    name="clusters",
    version=1,
    key=("digest",),
    arrow=pa.schema(
        [
            _must("digest", pa.string()),
            _must(
                "survivor", pa.string(), "digest kept for the whole cluster; the item itself where it has no duplicates"
            ),
            _must("is_survivor", pa.bool_()),
            _must("cluster_size", pa.int32(), "distinct digests"),
            _must("num_occurrences", pa.int32(), "rows of all shards with this digest"),
            _field(
                "tier",
                pa.string(),
                "cheapest tier that ties a duplicate to its cluster: near or semantic; null for survivors",
            ),
            _field("method", pa.string()),
            _field("score", pa.float64()),
        ]
    ),
)

DEAD_LETTERS = TableSchema(
    name="dead_letters",
    version=2,
    key=("letter",),
    arrow=pa.schema(
        [
            _must("letter", pa.string(), "'<modality>/<table>/<shard>/<key>': the same for every attempt"),
            _must("stage", pa.string(), "where it failed: sources, store, preprocess, quality, dedup or embed"),
            _must("modality", pa.string()),
            _must("shard", pa.string()),
            _must("key", pa.string(), "item_id of failures in sources, digest of later ones"),
            _field("digest", pa.string(), "null where no bytes could be had"),
            _field("source", pa.string()),
            _field("source_ref", pa.string()),
            _must("error_code", pa.int32()),
            _must("name", pa.string(), "of the error code"),
            _must("severity", pa.string()),
            _must("reason", pa.string()),
            _must("is_transient", pa.bool_(), "whether trying again may help although nothing was changed"),
            _must("attempts", pa.int32(), "runs that tried it and failed"),
            _must("first_failed_at", pa.string(), "ISO 8601, UTC"),
            _must("last_failed_at", pa.string(), "ISO 8601, UTC"),
        ]
    ),
)

TABLES: dict[str, TableSchema] = {
    schema.name: schema
    for schema in (ITEMS, BLOBS, TRACKS, MEASURES, VERDICTS, FINGERPRINTS, PAIRS, EMBEDDINGS, CLUSTERS)
}


def empty(schema: TableSchema) -> pa.Table:
    """A table of that schema without rows."""
    return schema.arrow.empty_table()


def from_rows(schema: TableSchema, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """The rows as a table that keeps the contract: absent keys are null, list columns that are absent are empty,
    sorted by key."""
    if unknown := set().union(*rows) - set(schema.arrow.names):
        raise SchemaMismatch(
            f"{schema.name}: a row has the columns {sorted(unknown)}, which schema v{schema.version} does not "
            "have; correct the stage that made it"
        )
    columns = []
    for field in schema.arrow:
        name = field.name  # taken once: the field makes a new text each time
        values = [row.get(name) for row in rows]
        if pa.types.is_list(field.type):
            values = [[] if value is None else value for value in values]
        columns.append(pa.array(values, field.type))
    return conform(schema, pa.Table.from_arrays(columns, schema=schema.arrow))


def from_columns(schema: TableSchema, columns: Mapping[str, Sequence[Any]]) -> pa.Table:
    """The columns as a table of the schema, absent ones null; not yet sorted or checked, which `conform` does."""
    num_rows = len(next(iter(columns.values())))
    arrays = [
        pa.array(columns[field.name], field.type) if field.name in columns else pa.nulls(num_rows, field.type)
        for field in schema.arrow
    ]
    return pa.Table.from_arrays(arrays, schema=schema.arrow)


def failure_columns(failures: Sequence[Failure | None]) -> dict[str, list[Any]]:
    """The columns status, error_code and error of rows that failed, or did not (None)."""
    return {
        "status": ["ok" if failure is None else "unreadable" for failure in failures],
        "error_code": [None if failure is None else failure.code for failure in failures],
        "error": [None if failure is None else failure.reason for failure in failures],
    }


def made(table: pa.Table) -> pa.Table:
    """The rows of a table of results that are one, without those that say why there is none."""
    return table.filter(pc.equal(table.column("status"), "ok"))


def conform(schema: TableSchema, table: pa.Table) -> pa.Table:
    """The table with exactly the schema's columns, types and order, sorted by key. Raises SchemaMismatch where it
    cannot be."""
    if missing := [name for name in schema.arrow.names if name not in table.column_names]:
        raise SchemaMismatch(
            f"{schema.name}: columns {missing} are missing (schema v{schema.version}); re-materialize the table "
            "with this release"
        )
    table = table.select(schema.arrow.names)
    try:
        table = table.cast(schema.arrow)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        differing = [
            f"'{field.name}' is {table.schema.field(field.name).type}, expected {field.type}"
            for field in schema.arrow
            if table.schema.field(field.name).type != field.type
        ]
        raise SchemaMismatch(
            f"{schema.name}: {'; '.join(differing) or 'a required column holds nulls'} (schema "
            f"v{schema.version}); re-materialize the table"
        ) from error
    for field in schema.arrow:
        if not field.nullable and table.column(field.name).null_count:
            raise SchemaMismatch(
                f"{schema.name}: required column '{field.name}' holds {table.column(field.name).null_count} "
                "nulls; correct the stage that made the table"
            )
    return (
        table
        if _is_sorted(table.column(schema.key[0]))
        else table.sort_by([(name, "ascending") for name in schema.key])
    )


def _is_sorted(column: pa.ChunkedArray) -> bool:
    """Whether each value is greater than the one before it: then the rows are in the order of any key that begins with
    the column.

    To look costs a tenth of sorting, and sorting copies every text.
    """
    return len(column) < 2 or bool(pc.all(pc.less(column[:-1], column[1:]), skip_nulls=False).as_py())

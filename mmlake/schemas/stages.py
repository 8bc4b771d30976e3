"""One versioned Arrow schema per stage table: the contract at each border between stages.

What a schema says is checked on every write; what rows must fulfil between two tables is in `contracts.py`.
Units are in the column name, and in the field metadata where a name cannot carry them.
Every table from `units` on has one row per distinct unit (or several where `key` has more columns).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from mmlake.schemas.caption_scores import CAPTION_SCORES
from mmlake.schemas.captions import CAPTIONS
from mmlake.schemas.cross import COMPONENT_FINGERPRINTS, CROSS_PAIRS
from mmlake.schemas.samples import SAMPLES
from mmlake.schemas.speakers import SPEAKERS
from mmlake.schemas.table import TableSchema, optional, required
from mmlake.schemas.tracks import ALIGNMENTS, TRACKS, UNITS

_STRINGS = pa.list_(pa.string())

ITEMS = TableSchema(
    name="items",
    version=2,
    key=("item_id",),
    arrow=pa.schema(
        [
            required("item_id", pa.string(), "'<shard>#<ordinal in the shard, 6 digits or more>': one per occurrence"),
            optional("digest", pa.string(), "SHA-256 of the item's bytes; null only where no bytes could be had"),
            required("sample_id", pa.string(), "what belongs together; unique within a shard and prefixed by it"),
            required("position", pa.int32(), "order within the sample, from 0; -1 for metadata rows"),
            required("modality", pa.string(), "text, image, video, audio or metadata"),
            required("role", pa.string(), "document, caption, transcript or media"),
            optional(
                "content_type",
                pa.string(),
                "MIME type detected from the bytes; where they are silent, what the name claims",
            ),
            optional("text_content", pa.large_string(), "the text of a text row; null for media"),
            optional(
                "binary_content", pa.large_binary(), "lazy: always null in stage tables, filled by materialization"
            ),
            optional(
                "sample_text",
                pa.large_string(),
                "on media rows: the caption or transcript that came in the same sample (plain, SRT or VTT)",
            ),
            optional(
                "sample_text_role", pa.string(), "caption where it says what is shown, transcript where what is said"
            ),
            required("source_ref", pa.string(), "JSON {path, member, byte_offset, byte_size, frame_index}"),
            optional("parent_digest", pa.string(), "for derived items: what they were made from"),
            optional("span_start_s", pa.float64(), "for derived items"),
            optional("span_end_s", pa.float64(), "for derived items"),
            required("source", pa.string(), "name of the corpus"),
            required("licence", pa.string(), "SPDX id, or NOASSERTION"),
            required("size_bytes", pa.int64()),
            optional("metadata_json", pa.large_string(), "every other field that the source gave, as one JSON object"),
            required("status", pa.string(), "ok or unreadable"),
            optional("error_code", pa.int32(), "key of the error catalogue"),
            optional("materialize_error", pa.string(), "reason, where status is unreadable"),
        ]
    ),
)

BLOBS = TableSchema(
    name="blobs",
    version=1,
    key=("digest",),
    arrow=pa.schema(
        [
            required("digest", pa.string()),
            required("size_bytes", pa.int64()),
            required("num_occurrences", pa.int32(), "rows of this partition's items that hold these bytes"),
            required("status", pa.string(), "ok, or unreadable where the store lost the bytes"),
            optional("error_code", pa.int32()),
        ]
    ),
)


def _failing(none_made: str) -> list[pa.Field]:
    """The columns of a table that says of an item why nothing could be made of it, in one row."""
    return [
        required("status", pa.string(), f"ok, or unreadable where {none_made}"),
        optional("error_code", pa.int32(), "key of the error catalogue, where status is unreadable"),
        optional("error", pa.string(), "reason, where status is unreadable"),
    ]


MEASURES = TableSchema(
    name="measures",
    version=4,
    key=("digest", "measure"),
    arrow=pa.schema(
        [
            required("digest", pa.string()),
            required("measure", pa.string(), "its unit is in the name"),
            optional("value", pa.float64(), "null where it makes no sense on this item"),
            required("producer", pa.string(), "measurement or scorer that took it, with its plugin where it has one"),
            required("revision", pa.string(), "of the code or weights that took it"),
            optional("note", pa.string(), "why the value is null, where the producer says so"),
            *_failing("measures of the item cannot be taken: its row num_failures says how many and why"),
        ]
    ),
)

_FINDING = pa.struct(
    [
        required("rule", pa.string()),
        required("severity", pa.string()),
        required("error_code", pa.int32()),
        required("reason", pa.string()),
    ]
)

VERDICTS = TableSchema(
    name="verdicts",
    version=1,
    key=("digest",),
    arrow=pa.schema(
        [
            required("digest", pa.string()),
            required("status", pa.string(), "ok, flagged, quarantined or unreadable"),
            optional("severity", pa.string(), "of the gravest finding"),
            optional("error_code", pa.int32(), "of the gravest finding"),
            optional("rule", pa.string(), "name of the gravest finding's rule"),
            optional("reason", pa.string(), "`measure=value unit not in [low, high]` of the gravest finding"),
            required(
                "weight",
                pa.float32(),
                "sample weight that reaches the loader: 1 ok, less when flagged, 0 when not admitted",
            ),
            required("findings", pa.list_(_FINDING), "every broken rule, gravest first"),
        ]
    ),
)

FINGERPRINTS = TableSchema(
    name="fingerprints",
    version=2,
    key=("digest", "method"),
    arrow=pa.schema(
        [
            required("digest", pa.string()),
            required("method", pa.string()),
            required("hashes", pa.list_(pa.uint64()), "meaning depends on the method"),
            required("times_s", pa.list_(pa.float32()), "one per hash where the method is a sequence, else empty"),
            *_failing("no fingerprint could be made: the item's only row of the tier, under its first method"),
        ]
    ),
)

PAIRS = TableSchema(
    name="pairs",
    version=2,
    key=("left", "right", "method"),
    arrow=pa.schema(
        [
            required("left", pa.string(), "what stays, or the better one of two that only overlap"),
            required("right", pa.string(), "what goes for it"),
            required("tier", pa.string(), "near or semantic"),
            required("method", pa.string()),
            required(
                "relation",
                pa.string(),
                "same, inside (right lies inside left), across (right lies in left and what is next to it in its "
                "item), overlaps or apart (both stay)",
            ),
            required("score", pa.float64(), "similarity 0..1, verified by the exact measure"),
            required("bound", pa.float64(), "smallest score that counts by the tier's first method"),
            *(
                optional(f"{side}_{end}_s", pa.float64(), "of the common part; null where whole meets whole")
                for side in ("left", "right")
                for end in ("start", "end")
            ),
        ]
    ),
)

EMBEDDINGS = TableSchema(
    name="embeddings",
    version=2,
    key=("digest", "encoder"),
    arrow=pa.schema(
        [
            required("digest", pa.string()),
            required("encoder", pa.string(), "name of the row in ENCODERS"),
            required("revision", pa.string(), "of the weights or of the code"),
            required("dimension", pa.int32(), "0 where status is unreadable"),
            required("vector", pa.list_(pa.float32()), "unit L2 norm; empty where status is unreadable"),
            *_failing("no vector could be made"),
        ]
    ),
)

CLUSTERS = TableSchema(
    name="clusters",
    version=2,
    key=("digest",),
    arrow=pa.schema(
        [
            required("digest", pa.string()),
            required(
                "survivor", pa.string(), "digest kept for the whole cluster; the item itself where it has no duplicates"
            ),
            required("is_survivor", pa.bool_()),
            required("cluster_size", pa.int32(), "distinct digests"),
            required("num_occurrences", pa.int32(), "rows of all shards with this digest"),
            optional(
                "tier",
                pa.string(),
                "cheapest tier that ties a duplicate to its cluster: near or semantic; null for survivors",
            ),
            optional("method", pa.string()),
            optional("score", pa.float64(), "of a duplicate with its survivor"),
            optional("relation", pa.string(), "of a duplicate to its survivor: same, inside or across"),
            optional("reason", pa.string(), "why the survivor stays and the duplicate goes"),
            required(
                "radius", pa.float64(), "1 - the smallest score of a duplicate of the cluster; 0 where there is none"
            ),
        ]
    ),
)

CONTAMINATION = TableSchema(
    name="contamination",
    version=2,
    key=("digest", "eval_set", "eval_digest"),
    arrow=pa.schema(
        [
            required("digest", pa.string(), "unit of the corpus"),
            required("eval_set", pa.string(), "its name in [decontaminate]"),
            required("eval_digest", pa.string(), "unit of the eval set"),
            required("eval_key", pa.string(), "sample of the eval set that has the unit, and its span"),
            required("tier", pa.string(), "the cheapest that finds it: exact, near or semantic"),
            required("method", pa.string()),
            required("relation", pa.string(), "of the unit to the eval unit: same, inside, holds or overlaps"),
            required("score", pa.float64(), "similarity 0..1, verified by the exact measure"),
            *(
                optional(f"{side}{end}_s", pa.float64(), "of the common part; null where whole meets whole")
                for side in ("", "eval_")
                for end in ("start", "end")
            ),
            optional("component", pa.string(), "keyframe, sound or transcript of the unit; null where it is the unit"),
            optional("time_s", pa.float64(), "of a keyframe, on the clock of the unit"),
        ]
    ),
)

DEAD_LETTERS = TableSchema(
    name="dead_letters",
    version=2,
    key=("letter",),
    arrow=pa.schema(
        [
            required("letter", pa.string(), "'<modality>/<table>/<shard>/<key>': the same for every attempt"),
            required("stage", pa.string(), "where it failed: sources, store, preprocess, quality, dedup or embed"),
            required("modality", pa.string()),
            required("shard", pa.string()),
            required("key", pa.string(), "item_id of failures in sources, digest of later ones"),
            optional("digest", pa.string(), "null where no bytes could be had"),
            optional("source", pa.string()),
            optional("source_ref", pa.string()),
            required("error_code", pa.int32()),
            required("name", pa.string(), "of the error code"),
            required("severity", pa.string()),
            required("reason", pa.string()),
            required("is_transient", pa.bool_(), "whether trying again may help although nothing was changed"),
            required("attempts", pa.int32(), "runs that tried it and failed"),
            required("first_failed_at", pa.string(), "ISO 8601, UTC"),
            required("last_failed_at", pa.string(), "ISO 8601, UTC"),
        ]
    ),
)

TABLES: dict[str, TableSchema] = {
    schema.name: schema
    for schema in (
        ITEMS,
        BLOBS,
        TRACKS,
        ALIGNMENTS,
        SPEAKERS,
        UNITS,
        CAPTIONS,
        MEASURES,
        VERDICTS,
        FINGERPRINTS,
        PAIRS,
        EMBEDDINGS,
        CLUSTERS,
        CONTAMINATION,
        COMPONENT_FINGERPRINTS,
        CROSS_PAIRS,
        CAPTION_SCORES,
        SAMPLES,
    )  # fmt: skip
}


def contamination_of(row: Mapping[str, Any]) -> str:
    """What a row of CONTAMINATION says, in words."""
    where = f" at {row['start_s']:.1f}-{row['end_s']:.1f} s" if row["start_s"] is not None else ""
    meets = {"same": "the same as", "inside": "inside", "holds": "a holder of", "overlaps": "in part"}[row["relation"]]
    if row["component"] is not None:
        time = f" at {row['time_s']:.1f} s" if row["time_s"] is not None else ""
        meets = f"by its {row['component']}{time} {meets}"
    measured = f"{row['tier']}, {row['method']} {row['score']:.2f}"
    return f"{meets} {row['eval_key']} of {row['eval_set']}{where} ({measured})"

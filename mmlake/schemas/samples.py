"""The contract of the table of samples: what belongs together in a source, as one row."""

from __future__ import annotations

import pyarrow as pa

from mmlake.schemas.table import TableSchema, optional, required

_STRINGS = pa.list_(pa.string())

PART = pa.struct(
    [
        required("position", pa.int32(), "order within the sample, as in items"),
        required("role", pa.string(), "document, caption, transcript or media"),
        required("modality", pa.string(), "of the items table that holds the part"),
        optional("digest", pa.string(), "null only where no bytes could be had"),
        required("item_id", pa.string(), "row of items, in the occurrence that comes first in sample_ids"),
        optional("content_type", pa.string()),
        required("size_bytes", pa.int64()),
        required("licence", pa.string(), "SPDX id, or NOASSERTION"),
        optional("fields_json", pa.large_string(), "fields of the part that the sample's lack or that differ"),
    ]
)

SAMPLES = TableSchema(
    name="samples",
    version=1,
    key=("sample",),
    arrow=pa.schema(
        [
            required("sample", pa.string(), "SHA-256 of its fields and of role, digest and own fields of its parts"),
            optional("modality", pa.string(), "of the leading part, interleaved where several lead, null where none"),
            required("sample_ids", _STRINGS, "of all occurrences in the source, sorted"),
            required("num_occurrences", pa.int32(), "samples of the shard with these parts and fields"),
            required("source", pa.string(), "name of the corpus"),
            required("licences", _STRINGS, "of the items of all occurrences, sorted"),
            optional("fields_json", pa.large_string(), "metadata of the first leading part, else of the first part"),
            required("parts", pa.list_(PART), "in order of position, then of the items in the source"),
        ]
    ),
)

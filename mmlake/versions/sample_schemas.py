"""The tables that versions are made of, and those that they are made from."""

from __future__ import annotations

import pyarrow as pa

_STRINGS = pa.list_(pa.string())
PART = pa.struct(
    [
        ("position", pa.int32()),
        ("role", pa.string()),
        ("modality", pa.string()),
        ("digest", pa.string()),
        ("content_type", pa.string()),
        ("size_bytes", pa.int64()),
        ("fields_json", pa.string()),
        ("parent_digest", pa.string()),  # the blob that holds it: the digest itself where the part is whole
        ("start_us", pa.int64()),  # in the item, of a transcript in its recording; null where whole
        ("end_us", pa.int64()),
    ]
)
VERSION_SAMPLES = pa.schema(
    [
        ("sample", pa.string()),
        ("lead", pa.string()),  # digest of its first leading part
        ("modality", pa.string()),  # of the leading part; INTERLEAVED where several parts lead
        ("weight", pa.float64()),
        ("sources", _STRINGS),
        ("licences", _STRINGS),
        ("sample_ids", _STRINGS),
        ("num_occurrences", pa.int32()),
        ("shard", pa.string()),  # key of its source shard; of several, the first by name. Null in older versions
        ("fields_json", pa.string()),
        ("parts", pa.list_(PART)),  # those that are kept, in order
    ]
)
EXCLUDED = pa.schema(
    [
        ("sample", pa.string()),
        ("digest", pa.string()),  # null where no bytes could be had
        ("modality", pa.string()),  # of the part
        ("role", pa.string()),
        ("size_bytes", pa.int64()),
        ("is_whole", pa.bool_()),  # the sample is out with all of its parts; else this part alone is masked
        ("cause", pa.string()),
        ("detail", pa.string()),
        ("shard", pa.string()),  # of the sample, as in VERSION_SAMPLES
    ]
)
CATALOG_COLUMNS = (
    "digest", "modality", "status", "severity", "rule", "reason", "weight", "licences", "sources", "tier", "survivor",
)  # fmt: skip

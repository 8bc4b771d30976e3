"""The contract of the table of what models say of units: transcripts corrected, clips described."""

from __future__ import annotations

import pyarrow as pa

from mmlake.schemas.table import TableSchema, optional, required

CORRECTION, DESCRIPTION = "correction", "description"
LINE = pa.struct(
    [
        optional("start_s", pa.float64(), "of the transcript, as it was; null where it has no times"),
        optional("end_s", pa.float64(), "of the transcript, as it was; null where it has no times"),
        required("text", pa.string(), "as it was"),
        optional("corrected", pa.string(), "null where the line stays as it was"),
    ]
)
EVENT = pa.struct(
    [
        required("start_s", pa.float64(), "from the unit's beginning"),
        required("end_s", pa.float64(), "from the unit's beginning"),
        required("text", pa.string()),
    ]
)

CAPTIONS = TableSchema(
    name="captions",
    version=1,
    key=("digest", "kind"),
    arrow=pa.schema(
        [
            required("digest", pa.string(), "the unit"),
            required("kind", pa.string(), "correction or description"),
            required("producer", pa.string(), "row of MODELS that was asked, or glossary"),
            required("model", pa.string(), "its name; empty for a glossary"),
            required("revision", pa.string(), "of the weights or the sampling, and of the instructions"),
            required("question_digest", pa.string(), "SHA-256 of all that was asked; equal questions are asked once"),
            required("answers", pa.list_(pa.large_string()), "as they came; empty where none did"),
            required("status", pa.string(), "ok; flagged where parts of the answer were refused; unreadable"),
            optional("error_code", pa.int32(), "key of the error catalogue, where status is not ok"),
            optional("error", pa.string(), "reason, where status is not ok"),
            required("lines", pa.list_(LINE), "of a correction: all lines of the transcript, in their order"),
            optional("caption", pa.string(), "of a description: what the clip shows"),
            required("event_tags", pa.list_(pa.string()), "of a description, from the vocabulary, sorted"),
            required("events", pa.list_(EVENT), "of a description: what happens when, in order of time"),
        ]
    ),
)

"""The schema of who speaks when."""

from __future__ import annotations

import pyarrow as pa

from mmlake.schemas.table import TableSchema, optional, required

TURN = pa.struct(
    [
        required("start_s", pa.float64()),
        required("end_s", pa.float64()),
        required("speaker", pa.string(), "a name within this recording only, such as S1"),
        optional("confidence", pa.float32(), "0..1, that it is this speaker; null where the diarizer does not say"),
    ]
)

SPEAKERS = TableSchema(
    name="speakers",
    version=1,
    key=("digest",),
    arrow=pa.schema(
        [
            required("digest", pa.string(), "the recording or film"),
            required("method", pa.string(), "row of DIARIZERS"),
            required("revision", pa.string(), "of the row"),
            required("status", pa.string(), "ok, or unreadable where the diarizer failed"),
            optional("error_code", pa.int32(), "key of the error catalogue, where status is unreadable"),
            optional("error", pa.string(), "reason, where status is unreadable"),
            optional("num_speakers", pa.int32(), "null where status is unreadable"),
            optional(
                "confidence",
                pa.float64(),
                "mean of the turns, weighted by their length; null where the diarizer does not say, or nobody speaks",
            ),
            required("turns", pa.list_(TURN), "in order of time; those of two speakers may overlap"),
        ]
    ),
)

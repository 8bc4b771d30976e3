"""The contract of the table of caption scores: how well captions say what their pictures, films and recordings show."""

from __future__ import annotations

import pyarrow as pa

from mmlake.schemas.table import TableSchema, optional, required

CAPTION_SCORES = TableSchema(
    name="caption_scores",
    version=1,
    key=("digest", "caption"),
    arrow=pa.schema(
        [
            required("digest", pa.string(), "unit of this modality that leads a sample"),
            required("caption", pa.string(), "text with the role caption in the same sample"),
            optional("cosine", pa.float64(), "of both vectors, to four digits; null where status is unreadable"),
            required("encoder", pa.string(), "name of the row in ENCODERS that made both vectors"),
            required("revision", pa.string(), "of the weights"),
            required("status", pa.string(), "ok, or unreadable where one of the two has no vector"),
            optional("error_code", pa.int32(), "key of the error catalogue, where status is unreadable"),
            optional("error", pa.string(), "reason, where status is unreadable"),
        ]
    ),
)

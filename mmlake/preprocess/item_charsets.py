"""The encodings of texts that sources know of: from a header of a download or a crawl, which no byte repeats."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.compute as pc

from mmlake.formats.charsets import web_charset

_SAID_IN = "metadata_json"
_KEY = '"charset":"'  # as canonical JSON has it


def with_charsets(items: pa.Table) -> pa.Table:
    """Items with the column `charset` in place of `metadata_json`: of texts Python's name of the encoding that they
    are in, where their source noted another one than UTF-8; null of all others."""
    said = items[_SAID_IN]
    has_one = pc.and_(pc.equal(items["modality"], "text"), pc.match_substring(said, _KEY))
    at = pc.indices_nonzero(pc.fill_null(has_one, False)).to_pylist()
    charsets: list[str | None] = [None] * items.num_rows if at else []
    for row in at:
        charset = json.loads(said[row].as_py()).get("charset")
        charsets[row] = web_charset(charset) if isinstance(charset, str) else None
    column = pa.array(charsets, pa.string()) if at else pa.nulls(items.num_rows, pa.string())
    return items.drop_columns(_SAID_IN).append_column("charset", column)

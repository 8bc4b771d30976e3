"""Fields of samples: what a source said of a sample, in one spelling, and what it said of one part alone.

Enters: columns of JSON objects as `items` has them. Leaves: columns of JSON objects.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake.records import canonical_json

_ESCAPE = "\\u"  # `items` escapes what is long and would take more memory otherwise


def one_spelling(texts: pa.Array) -> pa.Array:
    """The objects in canonical JSON; null where an object is empty. Lone surrogates, which no table holds, stay
    escaped.

    `items` writes canonical JSON already, but for texts that it escapes: only those are parsed.
    """
    texts = pc.if_else(pc.equal(texts, "{}"), pa.scalar(None, texts.type), texts)
    escaped = pc.fill_null(pc.match_substring(texts, _ESCAPE), False)
    if not pc.any(escaped).as_py():
        return texts
    spelled = [_spelled(json.loads(text)) for text in texts.filter(escaped).to_pylist()]
    return pc.replace_with_mask(texts, escaped, pa.array(spelled, texts.type))


def own_fields(parts: pa.Array, common: pa.Array) -> pa.Array:
    """For each part the entries of its object that `common` lacks or has with another value; null where there are
    none. Both in one spelling, as long as one another."""
    differing = pc.and_kleene(pc.is_valid(parts), pc.fill_null(pc.not_equal(parts, common), True))
    rows = pa.array(np.flatnonzero(differing.to_numpy(zero_copy_only=False)))
    own: list[str | None] = []
    last: str | None = None
    shared: dict[str, Any] = {}
    for part, said in zip(parts.take(rows).to_pylist(), common.take(rows).to_pylist(), strict=True):
        if said != last:  # parts of one sample follow one another: parsed once
            last, shared = said, json.loads(said) if said else {}
        rest = {name: value for name, value in json.loads(part).items() if not _is_said(shared, name, value)}
        own.append(_spelled(rest) if rest else None)
    return pc.replace_with_mask(pa.nulls(len(parts), parts.type), differing, pa.array(own, parts.type))


def _is_said(shared: dict[str, Any], name: str, value: Any) -> bool:
    """Whether the object has that entry with that value, as JSON: 1, 1.0 and true are equal in Python."""
    if name not in shared:
        return False
    said = shared[name]
    if type(value) in (str, int, bool):
        return type(said) is type(value) and bool(said == value)
    return canonical_json(said) == canonical_json(value)


def _spelled(value: Any) -> str:
    text = canonical_json(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, sort_keys=True, separators=(",", ":"))
    return text

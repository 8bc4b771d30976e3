"""JSON objects that carry the SHA-256 of their own text as their first field: for small files whose name is no hash.

    {"checksum":"<64 hex>", and the rest of the object}

The checksum stands inside the file, so that one atomic write puts both in place. Files of earlier releases have none
and are read as they are.
"""

from __future__ import annotations

import json
from typing import Any

from mmlake.records import digest_of

_HEAD = b'{"checksum":"'
_HEX = 64
# a head that differs from ours in no more bytes is a damaged one, not the beginning of a file without a checksum
_MAX_DAMAGED_BYTES = 2


class ChecksumMismatch(ValueError):
    """The text is not what was written."""


def dumps(document: dict[str, Any]) -> bytes:
    """The object's text, with sorted keys and its checksum. Raises ValueError where it has a field of that name."""
    if "checksum" in document:
        raise ValueError("the object has a field 'checksum' of its own; give that another name")
    # ASCII: names of files may hold what is no Unicode
    plain = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    rest = plain[1:] if document else b"}"
    return b"".join((_HEAD, digest_of(plain).encode(), b'",' if document else b'"', rest))


def loads(data: bytes) -> dict[str, Any]:
    """The object without its checksum. Raises ValueError where the text is no JSON object, or its checksum is
    wrong."""
    document = json.loads(data)
    if not isinstance(document, dict):
        raise ValueError("the text is no JSON object")
    if not has_checksum(data):
        return document
    rest = data[len(_HEAD) + _HEX :].removeprefix(b'"').removeprefix(b",")
    stated = document.pop("checksum", None)
    if stated != digest_of(b"{" + rest) or data[: len(_HEAD)] != _HEAD:
        raise ChecksumMismatch("the text does not hash to its checksum")
    return document


def has_checksum(data: bytes) -> bool:
    """Whether the text was written by `dumps`, damaged or not."""
    head = data[: len(_HEAD)]
    return len(head) == len(_HEAD) and sum(a != b for a, b in zip(head, _HEAD, strict=True)) <= _MAX_DAMAGED_BYTES

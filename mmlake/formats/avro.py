"""Records of Avro object container files, as far as table formats write them.

Source: Apache Avro 1.12 specification, "Object Container Files" and "Binary Encoding". Blocks may be plain, or
compressed with deflate or Zstandard. Logical types are the numbers and bytes that they are stored as.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from io import BytesIO
from typing import Any

from mmlake.errors import UnreadableItem
from mmlake.formats.compression import expanded

_MAGIC, _SYNC_BYTES, _META = b"Obj\x01", 16, {"type": "map", "values": "bytes"}
_STRUCTS = {"boolean": "<?", "float": "<f", "double": "<d"}


def avro_records(data: bytes, *, limit_bytes: int) -> Iterator[dict[str, Any]]:
    """The records of a file. limit_bytes: of what one block expands to. Raises UnreadableItem 1003 where the file is
    cut, damaged, beyond the limit, or compressed otherwise."""
    source = BytesIO(data)
    try:
        if source.read(len(_MAGIC)) != _MAGIC:
            raise ValueError
        meta = _value(_META, source)
        schema, codec = json.loads(meta["avro.schema"]), meta.get("avro.codec", b"null")
        sync = _taken(source, _SYNC_BYTES)
        while source.tell() < len(data):
            count, packed = _number(source), _taken(source, _number(source))
            if _taken(source, _SYNC_BYTES) != sync:
                raise ValueError
            block = BytesIO(_unpacked(packed, codec, limit_bytes))
            yield from (_value(schema, block) for _ in _each(count, block))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError, zlib.error):
        raise UnreadableItem(1003, f"Avro is damaged before byte {source.tell()}") from None


def _unpacked(packed: bytes, codec: bytes, limit_bytes: int) -> bytes:
    if codec == b"zstandard":
        return expanded(BytesIO(packed), "zstd", limit_bytes=limit_bytes).read()
    decoder = zlib.decompressobj(-zlib.MAX_WBITS)
    found = packed if codec == b"null" else decoder.decompress(packed, limit_bytes)
    if codec not in (b"null", b"deflate") or decoder.unconsumed_tail:
        raise ValueError
    return found


def _taken(source: BytesIO, size: int) -> bytes:
    if size < 0 or len(part := source.read(size)) < size:
        raise ValueError
    return part


def _number(source: BytesIO) -> int:
    found = 0
    for shift in range(0, 64, 7):
        (byte,) = _taken(source, 1)
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (found >> 1) ^ -(found & 1)  # zigzag
    raise ValueError


def _items(source: BytesIO) -> Iterator[None]:
    """As often as the blocks of an array or a map say that there is an item."""
    while count := _number(source):
        if count < 0:  # its bytes follow
            count, _ = -count, _number(source)
        yield from _each(count, source)


def _each(count: int, source: BytesIO) -> Iterator[None]:
    """So many times. What takes no byte each time is refused, else a count alone would go on for years."""
    for _ in range(count):
        at = source.tell()
        yield
        if source.tell() == at:
            raise ValueError


def _value(schema: Any, source: BytesIO) -> Any:
    """The value of that type. Types that are defined once and named later, which no table format writes, are none."""
    if isinstance(schema, list):
        return _value(schema[_number(source)], source)
    kind = schema if isinstance(schema, str) else schema["type"]
    if isinstance(kind, (dict, list)):
        return _value(kind, source)
    if kind == "record":
        return {field["name"]: _value(field["type"], source) for field in schema["fields"]}
    if kind == "array":
        return [_value(schema["items"], source) for _ in _items(source)]
    if kind == "map":
        return {_value("string", source): _value(schema["values"], source) for _ in _items(source)}
    if kind == "fixed":
        return _taken(source, schema["size"])
    if kind in ("bytes", "string"):
        data = _taken(source, _number(source))
        return data.decode() if kind == "string" else data
    if form := _STRUCTS.get(kind):
        return struct.unpack(form, _taken(source, struct.calcsize(form)))[0]
    if kind not in ("null", "int", "long"):
        raise ValueError
    return None if kind == "null" else _number(source)

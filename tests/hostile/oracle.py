"""What rows must be, whatever the bytes were: judged by the standard library and by the schema, and by nothing of the
reader under test.

Every function gives the violations as sentences; none means that all is well.
"""

from __future__ import annotations

import bz2
import csv
import hashlib
import io
import json
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import pyarrow as pa
import zstandard

from mmlake.error_codes import CODES
from mmlake.records import is_digest

_SHARD_FAULTS = {1001, 1002, 1003, 1008}  # codes of a row that says that reading ended before the file did
_PACKINGS = ("", ".gz", ".zst", ".bz2", ".xz")
_METADATA_NAMES = tuple(
    f"{name}{packing}" for name in (".json", ".cls", ".id", ".index") for packing in _PACKINGS
)  # members that may be metadata of their sample and no row of their own


def expand(data: bytes) -> bytes:
    """What stands inside one layer of gzip or Zstandard, as far as it goes; other bytes as they are."""
    if data.startswith(b"\x1f\x8b\x08"):
        return _gunzip(data)
    if data.startswith(b"\x28\xb5\x2f\xfd"):
        return _unzstd(data)
    if data.startswith((b"BZh", b"\xfd7zXZ")):
        return _unpacked(data)
    return data


def _unpacked(data: bytes) -> bytes:
    """bzip2 and xz streams, as far as they go."""
    found, is_bzip2 = b"", data.startswith(b"BZh")
    while data.startswith((b"BZh", b"\xfd7zXZ")) and len(found) < 1 << 24:
        stream: Any = bz2.BZ2Decompressor() if is_bzip2 else lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=1 << 28)
        try:
            found += stream.decompress(data, 1 << 24)
        except (OSError, lzma.LZMAError):
            break
        if not stream.eof:
            break
        data = stream.unused_data.lstrip(b"\0")
    return found


def _gunzip(data: bytes) -> bytes:
    found = b""
    while data.startswith(b"\x1f\x8b") and len(found) < 1 << 24:
        member = zlib.decompressobj(31)
        try:
            found += member.decompress(data, 1 << 24)
        except zlib.error:
            break
        data = member.unused_data.lstrip(b"\0")
    return found


def _unzstd(data: bytes) -> bytes:
    found = []
    try:
        with zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data), read_across_frames=True) as reader:
            while part := reader.read(1 << 16):
                found.append(part)
    except zstandard.ZstdError:
        pass
    return b"".join(found)


def row_faults(rows: list[dict[str, Any]], key: str) -> list[str]:
    """What is wrong with single rows of a shard, given all of them in the order of their ids."""
    wrong = []
    if [row["item_id"] for row in rows] != [f"{key}#{at:06d}" for at in range(len(rows))]:
        wrong.append("item ids do not count from 0 without gaps over all modalities")
    for row in rows:
        name, good = row["item_id"], row["status"] == "ok"
        if (
            row["status"] not in ("ok", "unreadable")
            or good != (row["error_code"] is None)
            or good != (row["materialize_error"] is None)
        ):
            wrong.append(
                f"{name}: status {row['status']!r} beside code {row['error_code']} and reason "
                f"{row['materialize_error']!r}"
            )
        if row["error_code"] is not None and row["error_code"] not in CODES:
            wrong.append(f"{name}: code {row['error_code']} is not in the catalogue")
        if good and not is_digest(row["digest"] or ""):
            wrong.append(f"{name}: an ok row without bytes")
        if not row["sample_id"].startswith(f"{key}/") or row["position"] < 0 or row["size_bytes"] < 0:
            wrong.append(f"{name}: sample {row['sample_id']!r}, position {row['position']}, size {row['size_bytes']}")
        if good and row["modality"] == "text" and row["text_content"] is None:
            wrong.append(f"{name}: an ok text row without its text")
        if not isinstance(json.loads(row["source_ref"]).get("path"), str) or not isinstance(
            json.loads(row["metadata_json"] or "{}"), dict
        ):
            wrong.append(f"{name}: locator or metadata are no objects")
    return wrong


def table_faults(table: pa.Table, schema: pa.Schema) -> list[str]:
    """What breaks the contract of the table itself."""
    if not table.schema.equals(schema):
        return [f"the table's schema is {table.schema.names}"]
    table.validate(full=True)
    return [
        f"column {field.name} holds nulls"
        for field in schema
        if not field.nullable and table.column(field.name).null_count
    ]


def lost(data: bytes, format: str, rows: list[dict[str, Any]]) -> list[str]:
    """What an independent lenient parser still sees in the file and no row reports."""
    if not rows:
        return _unexplained_silence(data, format)
    if any(row["error_code"] in _SHARD_FAULTS and row["sample_id"].endswith("!fault") for row in rows):
        return []  # a row says that reading ended early, and where
    if format == "webdataset":
        return _lost_members(expand(data), rows)
    if format == "zip":
        return _lost_zip_members(data, rows)
    return _lost_lines(expand(data), rows) if format == "jsonl" else []


# the companion files of tables of the seeds, and their lines of names
_DESCRIBED = ("a.wav", "b.wav", "L-1", "L-2", "a.jpg", "b.jpg", "file_name", "sentence", "caption")


def _unexplained_silence(data: bytes, format: str) -> list[str]:
    inner = expand(data)
    if format == "webdataset" and not any(info.isreg() for info in _tar_members(inner)):
        return []
    if format == "zip" and not _zip_members(data):
        return []
    if format == "jsonl" and not inner.strip():
        return []
    if format == "coco" and _all_taken(inner):
        return []
    if format in ("descriptions", "manifest") and _all_described(inner.decode("utf-8", "replace")):
        return []
    return [f"{len(data)} bytes of format {format} gave no row"]


def _all_described(table: str) -> bool:
    """Whether every line of the table, or every record of it that may have several in quotes, names a file that lies
    next to it."""
    records = [" ".join(cells) for cells in csv.reader(io.StringIO(table))] if "\0" not in table else []
    return any(
        all(any(name.lower() in record.lower() for name in _DESCRIBED) for record in found if record.strip())
        for found in (table.split("\n"), records)
        if found
    )


def _all_taken(data: bytes) -> bool:
    """Whether the annotations are sound and all of listed images, whose rows then have them."""
    try:
        record = json.loads(data)
        listed = {image["id"] for image in record["images"]}
        return all(annotation["image_id"] in listed for annotation in record["annotations"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


def _lost_members(data: bytes, rows: list[dict[str, Any]]) -> Iterable[str]:
    shown = {row["digest"] for row in rows}
    named = {(json.loads(row["source_ref"]).get("member") or "").partition("#")[0] for row in rows}
    wrong = []
    for info in _tar_members(data):
        body = data[info.offset_data : info.offset_data + info.size]
        if (
            not info.isreg()
            or (info.name.endswith("/") and not info.size)
            or len(body) < info.size
            or info.name.lower().endswith(_METADATA_NAMES)
        ):
            continue
        name = info.name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace").replace("#", "%23")
        # GNU headers have times where tarfile takes a prefix from
        bare = data[info.offset_data - 512 :][:100].partition(b"\0")[0].decode("utf-8", "backslashreplace")
        if (
            not {hashlib.sha256(body).hexdigest(), hashlib.sha256(expand(body)).hexdigest()} & shown
            and not {name, bare, info.name} & named
        ):
            wrong.append(f"member {info.name!r} of {info.size} bytes is whole and no row reports it")
    return wrong


def _zip_members(data: bytes) -> list[tuple[str, bytes]]:
    """(name, bytes) of all that the standard library reads whole, with the CRC that the archive states."""
    found: list[tuple[str, bytes]] = []
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for info in archive.infolist():
                try:
                    if not info.is_dir() and info.file_size < 1 << 24 and info.compress_size <= len(data):
                        found.append((info.filename, archive.read(info)))
                except _UNREAD:
                    continue
    except _UNREAD:
        pass
    return found


_UNREAD = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    OSError,
    EOFError,
    ValueError,
    NotImplementedError,
    RuntimeError,
    OverflowError,
    struct.error,
    IndexError,
    MemoryError,
)


def _lost_zip_members(data: bytes, rows: list[dict[str, Any]]) -> Iterable[str]:
    shown = {row["digest"] for row in rows}
    named = {(json.loads(row["source_ref"]).get("member") or "").partition("#")[0] for row in rows}
    wrong = []
    for name, body in _zip_members(data):
        if name.lower().endswith(_METADATA_NAMES):
            continue
        label = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace").replace("#", "%23")
        spellings = {label}
        with suppress(UnicodeError):
            spellings.add(name.encode("cp437").decode("utf-8").replace("#", "%23"))
        if (
            not {hashlib.sha256(body).hexdigest(), hashlib.sha256(expand(body)).hexdigest()} & shown
            and not spellings & named
            and body
        ):
            wrong.append(f"member {name!r} of {len(body)} bytes is whole and no row reports it")
    return wrong


def _tar_members(data: bytes) -> list[tarfile.TarInfo]:
    found: list[tarfile.TarInfo] = []
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:", ignore_zeros=False, errors="surrogateescape") as archive:
            for info in archive:
                found.append(info)
                if len(found) > 10_000:
                    break
    except (tarfile.TarError, ValueError, OSError, OverflowError, IndexError, EOFError):
        pass  # it saw what it saw
    return found


def _lost_lines(data: bytes, rows: list[dict[str, Any]]) -> list[str]:
    shown = {(json.loads(row["source_ref"])["member"] or "").partition("#")[0] for row in rows}
    digests = {row["digest"] for row in rows}
    refused = {
        (json.loads(row["source_ref"])["member"] or "").partition("#")[0]
        for row in rows
        if row["error_code"] is not None
    }
    wrong = []
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        if f"line:{number}" not in shown:
            wrong.append(f"line {number} of {len(line)} bytes gave no row")
        if f"line:{number}" in refused:
            continue
        try:
            record = json.loads(line)
            if (
                isinstance(record, dict)
                and list(record)[:2] == ["id", "text"]
                and hashlib.sha256(record["text"].encode()).hexdigest() not in digests
            ):
                wrong.append(f"the text of line {number} is whole and in no row")
        except (ValueError, RecursionError, TypeError, AttributeError):
            continue
    return wrong

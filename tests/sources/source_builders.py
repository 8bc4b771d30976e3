"""Small landing zones, built byte by byte, so that tests say what is in them."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import struct
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from mmlake import sources
from mmlake.records import SourceRef
from mmlake.store import BlobStore
from tests.make import land as land
from tests.make import tar as tar

SETTINGS = sources.SourceSettings()
# items of a shard that are fetched one by one, each of which reads the shard up to it and the files that describe it;
# the others are fetched together
_ALONE = 40


def png(shade: int = 0) -> bytes:
    """A 1x1 grey PNG."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(bytes([0, shade])))
        + chunk(b"IEND", b"")
    )


def wav(num_samples: int = 8) -> bytes:
    """A silent 8 kHz WAV."""
    data = bytes(2 * num_samples)
    return (
        b"RIFF"
        + struct.pack("<I", 36 + len(data))
        + b"WAVEfmt "
        + struct.pack("<IHHIIHH", 16, 1, 1, 8000, 16000, 2, 16)
        + b"data"
        + struct.pack("<I", len(data))
        + data
    )


def box(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", 8 + len(body)) + name + body


def mp4(*handlers: bytes) -> bytes:
    """An mp4 skeleton whose tracks have these handlers: b"vide", b"soun". Its index stands behind the media, as
    cameras write it."""
    tracks = b"".join(box(b"trak", box(b"mdia", box(b"hdlr", bytes(8) + handler + bytes(13)))) for handler in handlers)
    return box(b"ftyp", b"isom\0\0\2\0isom") + box(b"mdat", bytes(100)) + box(b"moov", tracks)


def parquet(columns: dict[str, list], **options: object) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink, write_page_checksum=True, **options)
    return sink.getvalue()


def jsonl(*records: object) -> bytes:
    return b"".join(
        record + b"\n" if isinstance(record, bytes) else json.dumps(record).encode() + b"\n" for record in records
    )


def zst(data: bytes) -> bytes:
    return zstandard.compress(data)


def gz(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


def rows_of(root: Path, *, settings: sources.SourceSettings = SETTINGS) -> list[dict]:
    """All rows of all shards of a landing zone, checked: each item once, in the modality of its row, with bytes that
    hash to its digest."""
    store, rows = BlobStore(root.parent / "store"), []
    for shard in sources.scan(root, settings=settings):
        with store.batch():
            found = [
                row
                for modality in shard.modalities
                for row in sources.ingest(shard, modality, landing=root, store=store, settings=settings).to_pylist()
            ]
        found.sort(key=lambda row: row["item_id"])
        items = list(sources.read(shard, landing=root, settings=settings))
        assert [row["item_id"] for row in found] == [f"{shard.key}#{at:06d}" for at in range(len(items))]
        assert [row["modality"] for row in found] == [item.modality for item in items]
        for row in found:
            assert (row["status"] == "ok") == (row["error_code"] is None) == (row["materialize_error"] is None)
            homes = map(sources.shard_key, shard.directories) if shard.directories else [shard.key]
            assert row["sample_id"].startswith(tuple(f"{home}/" for home in homes))
        held = [row for row in found if row["digest"] is not None]
        refs = [SourceRef.from_json(row["source_ref"]) for row in held]
        again = dict(enumerate(sources.fetch(ref, landing=root, settings=settings) for ref in refs[:_ALONE]))
        for at, data in sources.fetch_many(refs[_ALONE:], landing=root, settings=settings):
            again[_ALONE + at] = data
        for at, row in enumerate(held):
            assert hashlib.sha256(again[at]).hexdigest() == row["digest"], row
            assert store.read(row["digest"]) == again[at]
            assert len(again[at]) == row["size_bytes"]
        rows.extend(found)
    return rows


def texts_and_faults(landing: Path) -> tuple[list[str], list[tuple[int, str]]]:
    """(texts, faults as code and reason) of all shards in their order."""
    items = [
        item
        for shard in sources.scan(landing, settings=SETTINGS)
        for item in sources.read(shard, landing=landing, settings=SETTINGS)
    ]
    texts = [sources.fetch(item.ref, landing=landing).decode() for item in items if item.fault is None]
    return texts, [(item.fault.code, item.fault.reason) for item in items if item.fault is not None]


def brief(rows: list[dict]) -> list[tuple]:
    """(member or path, modality, role, error code) of each row."""
    refs = [SourceRef.from_json(row["source_ref"]) for row in rows]
    return [
        (ref.member or ref.path, row["modality"], row["role"], row["error_code"])
        for ref, row in zip(refs, rows, strict=True)
    ]


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()

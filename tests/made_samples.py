"""Samples of a version made by hand, with their bytes in a store: what the shard writer reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from mmlake.modalities import MODALITIES
from mmlake.records import LEADING_ROLES, canonical_json, digest_of
from mmlake.shards import SAMPLES_READ, ShardIndex, write_shards
from mmlake.store import BlobStore

TYPES = {"image": "image/jpeg", "text": "text/plain", "audio": "audio/flac", "video": "video/mp4"}


def part(
    store: BlobStore, data: bytes, *, modality: str = "image", role: str = "media", fields: dict | None = None, **facts
) -> dict[str, Any]:
    """A part of a sample, its bytes put into the store."""
    digest = store.put(data)
    base = {"role": role, "modality": modality, "digest": digest, "content_type": TYPES.get(modality)}
    base |= {"parent_digest": digest, "start_us": None, "end_us": None}
    return base | {"size_bytes": len(data), "fields_json": fields and canonical_json(fields)} | facts


def text(store: BlobStore, words: str, role: str = "document", **facts) -> dict[str, Any]:
    """A text part."""
    return part(store, words.encode(), modality="text", role=role, **facts)


def sample(parts: list[dict[str, Any]], *, fields: dict | None = None, **facts) -> dict[str, Any]:
    """A sample of these parts, named by its parts and fields."""
    leading = [one["modality"] for one in parts if one["role"] in LEADING_ROLES]
    named = {"parts": [[one["role"], one["digest"]] for one in parts], "fields": fields or {}}
    name = digest_of(canonical_json(named).encode())
    base = {
        "sample": name,
        "modality": leading[0] if len(leading) == 1 else "interleaved",
        "weight": 1.0,
        "sources": ["news"],
        "licences": ["MIT"],
        "sample_ids": [f"s/{name[:6]}"],
        "num_occurrences": 1,
        "fields_json": canonical_json(fields) if fields else None,
        "parts": [{"position": number} | one for number, one in enumerate(parts)],
    }
    return base | facts


def samples_table(rows: list[dict[str, Any]]) -> pa.Table:
    """The rows as the writer reads them, in the given order."""
    return pa.Table.from_pylist(rows, schema=SAMPLES_READ)


def shards_of(rows: list[dict[str, Any]], store: BlobStore, out: Path, **how: Any) -> ShardIndex:
    """The shards of a version of these samples. how: of `write_shards`."""
    named = {"manifest_id": "cd" * 32, "modalities": tuple(MODALITIES)}
    return write_shards(samples_table(rows), store=store, out=out, **(named | how))

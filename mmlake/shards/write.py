"""A version's samples written as shards. Order on disk: tar (aside, synced, renamed) -> its .idx -> index.json.

A run that was broken off is taken up again: a shard whose .idx names the same plan and whose bytes still hash to it is
kept.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from mmlake.errors import SettingsError, ShardCorrupt
from mmlake.formats.tar_writer import Member, TarWriter
from mmlake.locks import exclusive_lock
from mmlake.progress import Advance, silent
from mmlake.records import INTERLEAVED, LEADING_ROLES, canonical_json, digest_of, is_digest
from mmlake.shards.index import INDEX_NAME, ShardEntry, ShardIndex, idx_bytes, read_idx
from mmlake.shards.layout import member_endings
from mmlake.shards.plan import ShardPlan, plan
from mmlake.shards.samples import SampleRows
from mmlake.shards.settings import DEFAULTS, ShardSettings
from mmlake.store import PACKED_BELOW_BYTES, Blobs, sync_directory, write_atomically

_OURS = (".tar", ".idx", ".part")
# what the sample's JSON member repeats of its row
_REPEATED = ("sample", "modality", "weight", "sources", "licences", "sample_ids", "num_occurrences")
_PART_REPEATED = ("position", "role", "modality", "digest", "content_type", "size_bytes")
Texts = Callable[[str], str | None]  # digest of a text item -> its normalized text, or None for "take the blob"


def write_shards(
    samples: pa.Table,
    *,
    store: Blobs,
    out: str | Path,
    manifest_id: str,
    modalities: Sequence[str],
    settings: ShardSettings = DEFAULTS,
    texts: Texts | None = None,
    advance: Advance = silent,
) -> ShardIndex:
    """The finished shards under out/<manifest id>/; equal arguments give equal tar bytes, and what is already there and
    sound is kept.

    samples: SAMPLES_READ. modalities: those of the lake, in whose order shards stand, interleaved ones last. texts:
    normalized text for text items, instead of their raw bytes. Raises BlobMissing, BlobCorrupt (a version promises its
    bytes: a lost one is no row, it is a fault), ContractBroken, LakeLocked.
    """
    if not is_digest(manifest_id):
        raise SettingsError(f"manifest_id is {manifest_id[:80]!r}, expected 64 lower-case hex characters")
    directory, rows = Path(out) / manifest_id, SampleRows(samples)
    shards = plan(rows, modalities=modalities, manifest_id=manifest_id, settings=settings, normalized=texts is not None)
    with exclusive_lock(directory / "writer.lock", what=f"the directory of training shards {directory}"):
        _uncommit_unless(directory, shards)
        entries = []
        for shard in shards:
            entry = _finished(directory, shard) or _write(directory, shard, rows, store, texts, manifest_id)
            entries.append(entry)
            advance(len(shard.rows))
        index = ShardIndex(
            directory=directory, manifest_id=manifest_id, num_items=rows.num_digests(), shards=tuple(entries)
        )
        _remove_others(directory, index)
        text = index.to_json().encode()
        if not (directory / INDEX_NAME).exists() or (directory / INDEX_NAME).read_bytes() != text:
            write_atomically(directory / INDEX_NAME, text)
    return index


def _uncommit_unless(directory: Path, shards: list[ShardPlan]) -> None:
    """Remove an index.json that describes other shards, before the first of them is replaced."""
    try:
        same = [entry.plan for entry in ShardIndex.read(directory).shards] == [shard.digest for shard in shards]
    except ShardCorrupt:
        same = False
    if not same and (directory / INDEX_NAME).exists():
        (directory / INDEX_NAME).unlink()
        sync_directory(directory)


def _finished(directory: Path, shard: ShardPlan) -> ShardEntry | None:
    """The entry of a shard that an earlier run finished, or None where it must be written."""
    try:
        data = (directory / f"{shard.name}.idx").read_bytes()
        _, facts = read_idx(data)
        with (directory / f"{shard.name}.tar").open("rb") as file:
            sound = facts["plan"] == shard.digest and hashlib.file_digest(file, "sha256").hexdigest() == facts["sha256"]
        return _entry(shard, facts, data) if sound else None
    except (FileNotFoundError, ShardCorrupt, KeyError, TypeError):
        return None


def _write(
    directory: Path, shard: ShardPlan, rows: SampleRows, store: Blobs, texts: Texts | None, manifest_id: str
) -> ShardEntry:
    part, target = directory / f"{shard.name}.tar.part", directory / f"{shard.name}.tar"
    samples: list[tuple[str, float, list[Member]]] = []
    try:
        with part.open("wb", buffering=0) as file:
            tar = TarWriter(file)
            for batch in rows.taken(shard.rows):
                for row in batch.to_pylist():
                    samples.append((row["sample"], row["weight"], _add(tar, row, store, texts)))
            sha256 = tar.finish()
            os.fsync(file.fileno())
        os.replace(part, target)
        sync_directory(directory)
    finally:
        part.unlink(missing_ok=True)
    num_members = sum(len(members) for _, _, members in samples)
    facts = {
        "plan": shard.digest,
        "manifest": manifest_id,
        "sha256": sha256,
        "size_bytes": tar.size_bytes,
        "num_samples": len(samples),
        "num_members": num_members,
    }
    data = idx_bytes(samples, facts)
    write_atomically(directory / f"{shard.name}.idx", data)
    return _entry(shard, facts, data)


def _add(tar: TarWriter, row: dict[str, Any], store: Blobs, texts: Texts | None) -> list[Member]:
    """The members of one sample: its parts, and the JSON that describes them."""
    key, parts = row["sample"], row["parts"]
    endings = member_endings(
        tuple((part["role"], part["modality"], part["content_type"]) for part in parts),
        is_interleaved=row["modality"] == INTERLEAVED,
        is_normalized=texts is not None,
    )
    members = []
    for number, ending in endings.items():
        name, digest = f"{key}.{ending}", parts[number]["digest"]
        is_text = parts[number]["modality"] == "text"
        members.append(_add_text(tar, name, digest, store, texts) if is_text else _add_blob(tar, name, digest, store))
    described = [_described(part, endings.get(number), store, texts) for number, part in enumerate(parts)]
    facts: dict[str, Any] = {name: row[name] for name in _REPEATED}
    facts["fields"] = json.loads(row["fields_json"] or "{}")
    for role in ("caption", "transcript"):
        facts[f"{role}s"] = [part["text"] for part in described if part["role"] == role]
    facts["parts"] = described
    return [*members, tar.add(f"{key}.json", canonical_json(facts).encode("utf-8", "replace"))]


def _described(part: dict[str, Any], ending: str | None, store: Blobs, texts: Texts | None) -> dict[str, Any]:
    """What the JSON member says of a part. The text of a leading part is in its member, and not a second time here."""
    is_repeated = part["modality"] == "text" and part["role"] not in LEADING_ROLES
    return {name: part[name] for name in _PART_REPEATED} | {
        "member": ending,
        "text": _text_of(part["digest"], store, texts) if is_repeated else None,
        "fields": json.loads(part["fields_json"] or "null"),
    }


def _add_text(tar: TarWriter, name: str, digest: str, store: Blobs, texts: Texts | None) -> Member:
    normalized = texts(digest) if texts is not None else None
    if normalized is None:
        return _add_blob(tar, name, digest, store)
    return tar.add(name, normalized.encode("utf-8", "replace"))


def _text_of(digest: str, store: Blobs, texts: Texts | None) -> str:
    normalized = texts(digest) if texts is not None else None
    return store.read(digest).decode("utf-8", "replace") if normalized is None else normalized


def _add_blob(tar: TarWriter, name: str, digest: str, store: Blobs) -> Member:
    size_bytes = store.size(digest)
    if size_bytes < PACKED_BELOW_BYTES:
        return tar.add(name, store.read(digest))
    with store.open(digest) as stream:
        return tar.add_stream(name, size_bytes, stream, digest=digest)


def _entry(shard: ShardPlan, facts: dict[str, Any], data: bytes) -> ShardEntry:
    counts = {name: int(facts[name]) for name in ("size_bytes", "num_samples", "num_members")}
    return ShardEntry(
        name=shard.name,
        modality=shard.modality,
        endings=shard.endings,
        sha256=facts["sha256"],
        idx_bytes=len(data),
        idx_sha256=digest_of(data),
        plan=shard.digest,
        **counts,
    )


def _remove_others(directory: Path, index: ShardIndex) -> None:
    """Remove what an earlier plan or a killed run left; files that are not ours stay."""
    wanted = {f"{entry.name}{ending}" for entry in index.shards for ending in (".tar", ".idx")}
    for path in sorted(directory.iterdir()):
        if path.suffix in _OURS and path.name not in wanted:
            path.unlink()

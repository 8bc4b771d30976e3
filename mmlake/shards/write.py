"""A version's items written as shards. Order on disk: tar (aside, synced, renamed) -> its .idx -> index.json.

A run that was broken off is taken up again: a shard whose .idx names the same plan and whose bytes still hash to it is
kept.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from mmlake.errors import SettingsError, ShardCorrupt
from mmlake.formats.tar_writer import Member, TarWriter
from mmlake.locks import exclusive_lock
from mmlake.progress import Advance, silent
from mmlake.records import canonical_json, digest_of, is_digest
from mmlake.shards.index import INDEX_NAME, ShardEntry, ShardIndex, idx_bytes, read_idx
from mmlake.shards.plan import Sample, ShardPlan, extension, plan
from mmlake.shards.settings import DEFAULTS, ShardSettings
from mmlake.store import PACKED_BELOW_BYTES, Blobs, sync_directory, write_atomically

_OURS = (".tar", ".idx", ".part")
Texts = Callable[[str], str | None]  # digest of a text item -> its normalized text, or None for "take the blob"


def write_shards(
    items: pa.Table,
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

    items: the columns of `plan.COLUMNS`. modalities: those of the lake, in whose order shards stand. texts: normalized
    text for text items, instead of their raw bytes. Raises BlobMissing, BlobCorrupt (a version promises its bytes: a
    lost one is no row, it is a fault), LakeLocked.
    """
    if not is_digest(manifest_id):
        raise SettingsError(f"manifest_id is {manifest_id[:80]!r}, expected 64 lower-case hex characters")
    directory = Path(out) / manifest_id
    shards = plan(
        items, modalities=modalities, manifest_id=manifest_id, settings=settings, normalized=texts is not None
    )
    with exclusive_lock(directory / "writer.lock", what=f"the directory of training shards {directory}"):
        _uncommit_unless(directory, shards)
        entries = []
        for shard in shards:
            entry = _finished(directory, shard) or _write(directory, shard, store, texts, manifest_id)
            entries.append(entry)
            advance(len(shard.samples))
        held = {digest for shard in shards for sample in shard.samples for digest in sample.digests}
        index = ShardIndex(directory=directory, manifest_id=manifest_id, num_items=len(held), shards=tuple(entries))
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


def _write(directory: Path, shard: ShardPlan, store: Blobs, texts: Texts | None, manifest_id: str) -> ShardEntry:
    part, target = directory / f"{shard.name}.tar.part", directory / f"{shard.name}.tar"
    samples: list[tuple[str, float, list[Member]]] = []
    try:
        with part.open("wb", buffering=0) as file:
            tar = TarWriter(file)
            for sample in shard.samples:
                samples.append((sample.key, sample.row["weight"], _add(tar, sample, store, texts)))
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


def _add(tar: TarWriter, sample: Sample, store: Blobs, texts: Texts | None) -> list[Member]:
    """The members of one sample: the item, the texts next to it, and the JSON that describes both."""
    row = sample.row
    if row["modality"] == "text":
        members = [_add_text(tar, sample.key, extension(row["content_type"]), row["digest"], store, texts)]
    else:
        members = [_add_blob(tar, f"{sample.key}.{extension(row['content_type'])}", row["digest"], store)]
    for role, digest in sample.texts:
        members.append(_add_text(tar, sample.key, f"{role}.txt", digest, store, texts))
    companion_texts = [_text_of(digest, store, texts) for _, digest in sample.texts]
    facts: dict[str, Any] = dict(row) | {
        "text": "\n".join(companion_texts) if companion_texts else None,
        "texts": dict(sample.texts),
    }
    return [*members, tar.add(f"{sample.key}.json", canonical_json(facts).encode("utf-8", "replace"))]


def _add_text(tar: TarWriter, key: str, ending: str, digest: str, store: Blobs, texts: Texts | None) -> Member:
    normalized = texts(digest) if texts is not None else None
    if normalized is None:
        return _add_blob(tar, f"{key}.{ending}", digest, store)
    name = ending if ending.endswith("txt") else "txt"  # normalized text is plain, whatever the blob was
    return tar.add(f"{key}.{name}", normalized.encode("utf-8", "replace"))


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

"""Whether a set of shards is still what was written: truncation, flipped bits, missing and extra files are each a
problem of its own."""

from __future__ import annotations

import hashlib
from pathlib import Path

from mmlake.errors import ShardCorrupt
from mmlake.progress import Advance, silent
from mmlake.records import digest_of
from mmlake.shards.index import ShardEntry, ShardIndex, read_idx
from mmlake.shards.tar import walk

_OURS = (".tar", ".idx", ".part")


def verify_shards(directory: str | Path, *, advance: Advance = silent) -> list[str]:
    """What is wrong with the shards of the folder, one sentence each, sorted by shard; empty when all is well.
    advance counts samples."""
    try:
        index = ShardIndex.read(directory)
    except ShardCorrupt as error:
        return [str(error)]
    problems = []
    for entry in index.shards:
        try:
            _check(index.directory, entry)
        except ShardCorrupt as error:
            problems.append(f"{entry.name}: {error}")
        advance(entry.num_samples)
    wanted = {f"{entry.name}{ending}" for entry in index.shards for ending in (".tar", ".idx")}
    for path in sorted(index.directory.iterdir()):
        if path.suffix in _OURS and path.name not in wanted:
            problems.append(f"{path.name}: the index does not name this file; remove it, or write the shards again")
    return problems


def _check(directory: Path, entry: ShardEntry) -> None:
    """Raises ShardCorrupt at the first difference between the shard and its index."""
    idx, tar = directory / f"{entry.name}.idx", directory / f"{entry.name}.tar"
    for path, size_bytes in ((idx, entry.idx_bytes), (tar, entry.size_bytes)):
        if not path.is_file():
            raise ShardCorrupt(f"{path.name} is missing; write the shards again")
        if path.stat().st_size != size_bytes:
            raise ShardCorrupt(
                f"{path.name} has {path.stat().st_size} bytes, expected {size_bytes}; write the shards again"
            )
    data = idx.read_bytes()
    if digest_of(data) != entry.idx_sha256:
        raise ShardCorrupt(f"{idx.name} does not hash to {entry.idx_sha256[:12]}; write the shards again")
    table, _ = read_idx(data)
    expected = [
        (f"{row['key']}.{extension}", offset, size)
        for row in table.to_pylist()
        for extension, offset, size in zip(row["extensions"], row["offsets"], row["sizes"], strict=True)
    ]
    with tar.open("rb") as file:
        found = list(walk(file, entry.size_bytes))
        if found != expected or len(found) != entry.num_members or table.num_rows != entry.num_samples:
            raise ShardCorrupt(
                f"{tar.name} holds {len(found)} members that differ from the {len(expected)} of its index; write "
                "the shards again"
            )
        file.seek(0)
        if hashlib.file_digest(file, "sha256").hexdigest() != entry.sha256:
            raise ShardCorrupt(f"{tar.name} does not hash to {entry.sha256[:12]}; write the shards again")

"""Whether a set of shards is still what was written: truncation, flipped bits, missing and extra files are each a
problem of its own."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import IO

from mmlake.errors import ShardCorrupt, UnreadableItem
from mmlake.formats.tar import BLOCK, Run, walk
from mmlake.formats.tar_writer import header
from mmlake.progress import Advance, silent
from mmlake.records import canonical_json, digest_of
from mmlake.shards.hashed import HashedFiles, identity
from mmlake.shards.index import OURS, PARQUET, ShardEntry, ShardIndex, read_idx
from mmlake.streams import Window


def verify_shards(
    directory: str | Path, *, hashed: HashedFiles | None = None, only_new: bool = False, advance: Advance = silent
) -> list[str]:
    """What is wrong with the shards of the folder, one sentence each, sorted by shard; empty when all is well.

    hashed: where what is found is noted. only_new: of files that it knows, and that have not changed since, sizes and
    indexes are compared alone. advance counts samples.
    """
    try:
        index = ShardIndex.read(directory)
    except ShardCorrupt as error:
        return [str(error)]
    problems = []
    for entry in index.shards:
        try:
            _check_or_know(index.directory, entry, hashed, only_new=only_new)
        except ShardCorrupt as error:
            problems.append(f"{entry.name}: {error}")
        advance(entry.num_samples)
    if hashed is not None:
        hashed.save()
    wanted = {name for entry in index.shards for name in entry.files}
    for path in sorted(index.directory.iterdir()):
        if path.suffix in OURS and path.name not in wanted:
            problems.append(f"{path.name}: the index does not name this file; remove it, or write the shards again")
    return problems


def _check_or_know(directory: Path, entry: ShardEntry, hashed: HashedFiles | None, *, only_new: bool) -> None:
    """Raises ShardCorrupt where the shard is not what its index says."""
    if hashed is None:
        _check(directory, entry)
        return
    path, name = directory / entry.files[0], f"{entry.plan}.{entry.format}"
    proof = digest_of(canonical_json(asdict(entry) | {"name": ""}).encode())
    before = identity(path)
    is_known = only_new and hashed.proves(name, path, proof)
    try:
        _check(directory, entry, is_known=is_known)
    except ShardCorrupt:
        hashed.forget(name)
        raise
    for one in () if is_known else (proof, entry.sha256):
        hashed.add(name, path, one, before=before)


def _check(directory: Path, entry: ShardEntry, *, is_known: bool = False) -> None:
    """Raises ShardCorrupt at the first difference between the shard and its index. is_known: the file of the samples is
    what the entry says of it."""
    if entry.format == PARQUET:
        _check_size(path := directory / entry.files[0], entry.size_bytes)
        if is_known:
            return
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != entry.sha256:
                raise ShardCorrupt(f"{path.name} does not hash to {entry.sha256[:12]}; write the shards again")
        return
    idx, tar = directory / f"{entry.name}.idx", directory / f"{entry.name}.tar"
    for path, size_bytes in ((idx, entry.idx_bytes), (tar, entry.size_bytes)):
        _check_size(path, size_bytes)
    data = idx.read_bytes()
    if digest_of(data) != entry.idx_sha256:
        raise ShardCorrupt(f"{idx.name} does not hash to {entry.idx_sha256[:12]}; write the shards again")
    if is_known:
        return
    table, _ = read_idx(data, is_hashed=True)
    rows = table.to_pylist()
    if entry.endings is not None and any(row["endings"] != entry.endings for row in rows):
        raise ShardCorrupt(f"{idx.name} has samples without the members {entry.endings}; write the shards again")
    expected = [
        (f"{row['key']}.{ending}", offset, size)
        for row in rows
        for ending, offset, size in zip(row["endings"], row["offsets"], row["sizes"], strict=True)
    ]
    with tar.open("rb") as file:
        found = list(written_members(file))
        if found != expected or len(found) != entry.num_members or table.num_rows != entry.num_samples:
            raise ShardCorrupt(
                f"{tar.name} holds {len(found)} members that differ from the {len(expected)} of its index; write "
                "the shards again"
            )
        file.seek(0)
        if hashlib.file_digest(file, "sha256").hexdigest() != entry.sha256:
            raise ShardCorrupt(f"{tar.name} does not hash to {entry.sha256[:12]}; write the shards again")


def _check_size(path: Path, size_bytes: int) -> None:
    if not path.is_file():
        raise ShardCorrupt(f"{path.name} is missing; write the shards again")
    if path.stat().st_size != size_bytes:
        raise ShardCorrupt(
            f"{path.name} has {path.stat().st_size} bytes, expected {size_bytes}; write the shards again"
        )


def written_members(file: IO[bytes]) -> Iterator[tuple[str, int, int]]:
    """(name, data offset, size) of every member, in file order. Raises ShardCorrupt at the first byte of a header or of
    the end that is not as `TarWriter` writes it: of 2,000 single-bit flips in a shard, `tarfile` reported 3 and lost
    members silently in 1,028."""
    window, position = Window(file), 0
    try:
        for found in walk(window, head_bytes=0):
            if isinstance(found, Run):
                members = list(zip(found.names.split("\0"), found.offsets, found.sizes, strict=True))
            else:
                members = [found[:3]]
            for name, offset, size in members:
                if offset != position + BLOCK or window.read(position, BLOCK) != _header(name, size):
                    raise _damaged(position)
                yield name, offset, size
                position = offset + -(-size // BLOCK) * BLOCK
    except UnreadableItem as error:
        raise ShardCorrupt(f"{error.reason}; write the shard again") from error
    if position + 2 * BLOCK != window.size_bytes:
        raise ShardCorrupt(
            f"the tar's end at byte {position} is not two zero blocks closing a file of {window.size_bytes} bytes; "
            "write the shard again"
        )


def _header(name: str, size_bytes: int) -> bytes | None:
    """The header that the writer writes; None where it writes no such name."""
    try:
        return header(name, size_bytes)
    except ValueError:
        return None


def _damaged(position: int) -> ShardCorrupt:
    return ShardCorrupt(f"the tar header at byte {position} is damaged; write the shard again")

"""Shards by what they hold: one file for all versions that have the same samples with the same contents.

    <out>/objects/<ab>/<plan>.tar               the samples
    <out>/objects/<ab>/<plan>.idx               its index, every weight 1; last: a tar without it is not finished
    <out>/objects/<ab>/<plan>.<16 hex>.idx      the same with the weights of a version, by its own SHA-256
    <out>/objects/<ab>/<plan>.parquet, .json    rows in place of a tar, and their facts in place of an index; last
    <out>/<version>/<modality>-<number>.tar     a hard link, or a relative symbolic link where these are refused

`plan` is the digest of everything that the bytes depend on, so equal names have equal bytes whoever writes them.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mmlake import checked_json
from mmlake.durable import make_directory, put_in_place
from mmlake.errors import ShardCorrupt
from mmlake.records import digest_of
from mmlake.shards.hashed import HashedFiles, identity
from mmlake.shards.index import OURS, PARQUET, TAR, ShardEntry, ShardIndex, idx_bytes, read_idx, weighted
from mmlake.shards.plan import ShardPlan
from mmlake.store import write_atomically
from mmlake.store.files import UNFINISHED

DIRECTORY = "objects"
_KEY_CHARACTERS = 16  # of the SHA-256 of an index with weights


class ShardObjects:
    """The objects under one directory of shards."""

    def __init__(self, out: Path, hashed: HashedFiles | None = None) -> None:
        """hashed: what need not be hashed again."""
        self._root, self._hashed = out / DIRECTORY, hashed

    def data(self, plan: str, form: str = TAR) -> Path:
        """Where the samples of that plan are, or would be."""
        return self._root / plan[:2] / f"{plan}.{form}"

    def facts(self, plan: str) -> Path:
        """Where the facts of a Parquet file are, or would be."""
        return self._root / plan[:2] / f"{plan}.json"

    def idx(self, plan: str, sha256: str | None = None) -> Path:
        """Where its index is, or would be. sha256: of one with weights."""
        key = f".{sha256[:_KEY_CHARACTERS]}" if sha256 is not None else ""
        return self._root / plan[:2] / f"{plan}{key}.idx"

    def idx_of(self, entry: ShardEntry) -> Path:
        """The index that the entry names."""
        alone = self.idx(entry.plan, entry.idx_sha256)
        return alone if alone.exists() else self.idx(entry.plan)

    def finished(self, shard: ShardPlan, weights: np.ndarray) -> ShardEntry | None:
        """The entry of a shard whose object is there and sound, with its index of these weights; None where it must be
        written. Every byte is hashed that was not since it was written."""
        try:
            if shard.format == PARQUET:
                data = self.facts(shard.digest).read_bytes()
                facts = checked_json.loads(data)
            else:
                data = self.idx(shard.digest).read_bytes()
                table, facts = read_idx(data)
            if facts["plan"] != shard.digest or not self._is_sound(shard, facts["sha256"]):
                return None
            return (
                _entry(shard, facts) if shard.format == PARQUET else self._indexed(shard, table, facts, data, weights)
            )
        except (FileNotFoundError, ShardCorrupt, ValueError, KeyError, TypeError):
            return None

    def _is_sound(self, shard: ShardPlan, sha256: str) -> bool:
        """Whether the file that holds the samples hashes to that."""
        path = self.data(shard.digest, shard.format)
        if self._hashed is not None and self._hashed.proves(path.name, path, sha256):
            return True
        before = identity(path)
        with path.open("rb") as file:
            is_sound = hashlib.file_digest(file, "sha256").hexdigest() == sha256
        if is_sound and self._hashed is not None:
            self._hashed.add(path.name, path, sha256, before=before)
        return is_sound

    def part(self, shard: ShardPlan) -> Path:
        """A new name for the tar while it is written."""
        folder = self.data(shard.digest).parent
        make_directory(folder)
        return folder / f"{secrets.token_hex(8)}{UNFINISHED}"

    def commit(
        self, shard: ShardPlan, part: Path, table: pa.Table, facts: dict[str, Any], weights: np.ndarray
    ) -> ShardEntry:
        """The entry of the shard, its synced tar put in its place, its index after it. facts: of the tar."""
        put_in_place(part, self.data(shard.digest))
        facts = facts | {"plan": shard.digest}
        data = idx_bytes(table, facts)
        write_atomically(self.idx(shard.digest), data)
        return self._indexed(shard, table, facts, data, weights)

    def commit_rows(self, shard: ShardPlan, part: Path, facts: dict[str, Any]) -> ShardEntry:
        """The entry of the shard, its synced Parquet file put in its place, its facts after it."""
        put_in_place(part, self.data(shard.digest, PARQUET))
        facts = facts | {"plan": shard.digest}
        write_atomically(self.facts(shard.digest), checked_json.dumps(facts))
        return _entry(shard, facts)

    def link(self, directory: Path, entry: ShardEntry) -> None:
        """Give the version's directory the shard under its name."""
        _link(self.data(entry.plan, entry.format), directory / entry.files[0])
        if entry.format == TAR:
            _link(self.idx_of(entry), directory / f"{entry.name}.idx")

    def all(self) -> list[Path]:
        """Every file that an object is of."""
        return sorted(self._root.glob("??/*"))

    def unnamed(self, living: Collection[str]) -> Iterator[Path]:
        """Every object that no index of the living versions names, and that none of their directories links to: an
        index may be damaged. Not while shards are written."""
        named: set[Path] = set()
        linked: set[tuple[int, int]] = set()
        for id_ in living:
            directory = self._root.parent / id_
            linked |= _inodes(path for path in directory.glob("*") if path.suffix in OURS)
            with suppress(ShardCorrupt):
                for entry in ShardIndex.read(directory).shards:
                    named |= {self.data(entry.plan, entry.format), self.facts(entry.plan)}
                    named |= {self.idx(entry.plan), self.idx(entry.plan, entry.idx_sha256)}
        for path in self.all():
            if path not in named and not _inodes([path]) & linked:
                yield path

    def _indexed(
        self, shard: ShardPlan, table: pa.Table, facts: dict[str, Any], data: bytes, weights: np.ndarray
    ) -> ShardEntry:
        """The entry; its index with these weights is written where it is not there. table, facts, data: of the index
        without."""
        if np.any(weights != 1.0):
            data = idx_bytes(weighted(table, weights), facts)
            path = self.idx(shard.digest, digest_of(data))
            if not path.exists() or path.read_bytes() != data:
                write_atomically(path, data)
        return _entry(shard, facts, idx_bytes=len(data), idx_sha256=digest_of(data))


def _entry(shard: ShardPlan, facts: Mapping[str, Any], *, idx_bytes: int = 0, idx_sha256: str = "") -> ShardEntry:
    """facts: of the file that holds the samples."""
    counts = {name: int(facts[name]) for name in ("size_bytes", "num_samples", "num_members")}
    return ShardEntry(
        name=shard.name,
        modality=shard.modality,
        endings=shard.endings,
        sha256=facts["sha256"],
        idx_bytes=idx_bytes,
        idx_sha256=idx_sha256,
        plan=shard.digest,
        format=shard.format,
        **counts,
    )


def remove_unnamed(
    out: Path, living: Collection[str], *, hashed: HashedFiles | None = None, dry_run: bool = False
) -> int:
    """Bytes freed by removing the objects that no index of the living versions names. out: the directory of all
    shards. hashed: what is known of objects, which forgets those that are gone."""
    freed, objects = 0, ShardObjects(out)
    for path in objects.unnamed(living):
        freed += path.stat().st_size
        if not dry_run:
            path.unlink()
    if hashed is not None and not dry_run:
        hashed.keep_only({path.name for path in objects.all()})
        hashed.save()
    return freed


def name_again(out: Path, ids: Mapping[str, str]) -> int:
    """How many folders of shards can now be had by the new id of their version too, through a relative symbolic link;
    trainers that were given the old folder still find it. ids: old id -> new id."""
    count = 0
    for old, new in ids.items():
        if (out / old).is_dir() and not (out / new).exists():
            os.symlink(old, out / new)
            count += 1
    return count


def _inodes(paths: Iterable[Path]) -> set[tuple[int, int]]:
    """(device, inode) of each file that is there, behind its links."""
    found = set()
    for path in paths:
        with suppress(FileNotFoundError):
            facts = path.stat()
            found.add((facts.st_dev, facts.st_ino))
    return found


def _link(target: Path, name: Path) -> None:
    """Let the name be another one of the target; what stood there is replaced at once."""
    with suppress(FileNotFoundError):
        if os.path.samefile(target, name):
            return
    aside = name.with_name(f"{name.name}.{secrets.token_hex(4)}{UNFINISHED}")
    try:
        try:
            os.link(target, aside)
        except OSError:  # no hard links here, or too many of this file
            os.symlink(os.path.relpath(target, name.parent), aside)
        os.replace(aside, name)
    finally:
        aside.unlink(missing_ok=True)

"""A version's samples written as shards, several at a time. Order on disk: objects (tar aside, synced, renamed, then
its .idx) -> their names in the version's directory -> index.json.

What is there already and sound is not written again, whichever version it was written for.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mmlake.border import Failure
from mmlake.cuts import CutCache
from mmlake.error_codes import CODES
from mmlake.errors import ContractBroken, SettingsError, ShardCorrupt
from mmlake.formats.tar_writer import Member, TarWriter
from mmlake.locks import exclusive_lock
from mmlake.progress import Advance, silent
from mmlake.records import is_digest
from mmlake.shards.contents import Contents, Texts
from mmlake.shards.hashed import HashedFiles
from mmlake.shards.index import INDEX_NAME, OURS, PARQUET, ShardEntry, ShardIndex, idx_table
from mmlake.shards.media import Media
from mmlake.shards.objects import ShardObjects
from mmlake.shards.parquet_writer import MembersOfRow, write_rows
from mmlake.shards.plan import ShardPlan, plan
from mmlake.shards.sample_writer import SampleWriter
from mmlake.shards.samples import SampleRows
from mmlake.shards.settings import DEFAULTS, ShardSettings
from mmlake.shards.unit_facts import Tracks
from mmlake.store import Blobs, sync_directory, write_atomically

# of a sample: by the clock two threads take 1.4 times as long as one at 3 kB, 1.2 at 30 kB, .9 at 100 and .6 at 300
_BYTES_OF_A_THREAD = 48 << 10


def write_shards(
    samples: pa.Table,
    *,
    store: Blobs,
    out: str | Path,
    manifest_id: str,
    modalities: Sequence[str],
    settings: ShardSettings = DEFAULTS,
    texts: Texts | None = None,
    tracks: Tracks | None = None,
    cuts: CutCache | None = None,
    apart: Collection[str] = frozenset(),
    unsaid: Collection[str] = frozenset(),
    workers: int = 1,
    hashed: HashedFiles | None = None,
    advance: Advance = silent,
) -> ShardIndex:
    """The finished shards under out/<manifest id>/; equal arguments give equal bytes, and what any version has already
    and is sound is shared.

    samples: SAMPLES_READ. modalities: those of the lake, in whose order shards stand, interleaved ones last. texts:
    normalized text for text items, instead of their raw bytes. tracks: sound, keyframes and words of films and
    recordings, which their samples then have. cuts: where spans are cut. apart: names of samples that other versions of
    the same data probably leave out. unsaid: names of samples whose transcript is left out, and what repeats its words
    with it. workers: shards that are written at the same time, each by a thread. hashed: what need not be hashed again.
    Raises BlobMissing, BlobCorrupt (a version promises its bytes: a lost one is no row, it is a fault), ContractBroken,
    LakeLocked.
    """
    if not is_digest(manifest_id):
        raise SettingsError(f"manifest_id is {manifest_id[:80]!r}, expected 64 lower-case hex characters")
    directory, rows = Path(out) / manifest_id, SampleRows(samples)
    contents = Contents(texts=texts, tracks=tracks, cuts=cuts, unsaid=unsaid)
    shards = plan(
        rows, modalities=modalities, manifest_id=manifest_id, settings=settings, contents=contents, apart=apart
    )
    writer = _ShardWriter(rows, ShardObjects(Path(out), hashed), contents, Media(store, cuts=cuts, tracks=tracks))
    with exclusive_lock(directory / "writer.lock", what=f"the directory of training shards {directory}"):
        entries = writer.written(shards, workers=workers, advance=advance)
        if hashed is not None:
            hashed.save()
        index = ShardIndex(
            directory=directory, manifest_id=manifest_id, num_items=rows.num_items(), shards=tuple(entries)
        )
        _publish(writer.objects, index)
    return index


def _publish(objects: ShardObjects, index: ShardIndex) -> None:
    """Let the directory be these shards and no others. An index of other shards goes first: no reader ever sees a
    mixture."""
    path = index.directory / INDEX_NAME
    try:
        is_new = ShardIndex.read(index.directory).to_dict() != index.to_dict()  # keys of others stay where it is not
    except ShardCorrupt:
        is_new = True
    if is_new and path.exists():
        path.unlink()
        sync_directory(index.directory)
    for entry in index.shards:
        objects.link(index.directory, entry)
    _remove_others(index)
    sync_directory(index.directory)
    if is_new:
        write_atomically(path, index.to_json())


def _remove_others(index: ShardIndex) -> None:
    """Remove what an earlier plan or a killed run left; files that are not ours stay."""
    wanted = {name for entry in index.shards for name in entry.files}
    for path in sorted(index.directory.iterdir()):
        if path.suffix in OURS and path.name not in wanted:
            path.unlink()


class _ShardWriter:
    """Writes the objects of shards that are not there yet."""

    def __init__(self, rows: SampleRows, objects: ShardObjects, contents: Contents, media: Media) -> None:
        self.objects = objects
        self._rows, self._media = rows, media
        self._samples = SampleWriter(media, contents)
        self._is_over = threading.Event()

    def written(self, shards: list[ShardPlan], *, workers: int, advance: Advance) -> list[ShardEntry]:
        """The entry of every shard, in order; progress is counted in samples."""
        entries = self._each(self._finished, shards, workers=workers, advance=silent)
        missing = [shard for shard in shards if entries[shard.digest] is None]
        advance(sum(len(shard.rows) for shard in shards) - sum(len(shard.rows) for shard in missing))
        rows = np.concatenate([np.zeros(0, np.int64), *(shard.rows for shard in missing)])
        _refuse_uncut(self._media.prepare(self._rows.spans(np.sort(rows))))
        entries |= self._each(self._write, missing, workers=_useful(workers, missing), advance=advance)
        return [entry for shard in shards if (entry := entries[shard.digest]) is not None]

    def _each(
        self,
        make: Callable[[ShardPlan], ShardEntry | None],
        shards: list[ShardPlan],
        *,
        workers: int,
        advance: Advance,
    ) -> dict[str, ShardEntry | None]:
        """What is made of each shard, by its digest. Whatever ends one ends all: none goes on in the background."""
        found: dict[str, ShardEntry | None] = {}
        with ThreadPoolExecutor(workers) as pool:
            futures = {pool.submit(make, shard): shard for shard in shards}
            try:
                for future in as_completed(futures):
                    found[futures[future].digest] = future.result()
                    advance(len(futures[future].rows))
            except BaseException:
                self._is_over.set()
                pool.shutdown(cancel_futures=True)
                raise
        return found

    def _finished(self, shard: ShardPlan) -> ShardEntry | None:
        return self.objects.finished(shard, self._rows.weights(shard.rows))

    def _write(self, shard: ShardPlan) -> ShardEntry | None:
        """The entry of the shard, written now; None where another one failed meanwhile."""
        part = self.objects.part(shard)
        try:
            if shard.format == PARQUET:
                return self.objects.commit_rows(shard, part, write_rows(part, self._sample_rows(shard)))
            samples, facts = self._write_tar(shard, part)
            return self.objects.commit(shard, part, idx_table(samples), facts, self._rows.weights(shard.rows))
        except _Over:
            return None
        finally:
            part.unlink(missing_ok=True)

    def _write_tar(self, shard: ShardPlan, part: Path) -> tuple[list[tuple[str, list[Member]]], dict[str, Any]]:
        """(members of every sample, facts of the tar), which is synced."""
        samples = list[tuple[str, list[Member]]]()
        with part.open("wb", buffering=0) as file:
            tar = TarWriter(file)
            for row in self._taken(shard):
                samples.append((row["sample"], self._samples.add(tar, row)))
            sha256 = tar.finish()
            os.fsync(file.fileno())
        num_members = sum(len(members) for _, members in samples)
        counts = {"size_bytes": tar.size_bytes, "num_samples": len(samples), "num_members": num_members}
        return samples, {"sha256": sha256} | counts

    def _sample_rows(self, shard: ShardPlan) -> Iterator[dict[str, Any]]:
        for row in self._taken(shard):
            self._samples.add(members := MembersOfRow(), row)
            yield members.row(row["weight"])

    def _taken(self, shard: ShardPlan) -> Iterator[dict[str, Any]]:
        """The samples of the shard. Raises _Over where another shard failed meanwhile."""
        for batch in self._rows.taken(shard.rows):
            for row in batch.to_pylist():
                if self._is_over.is_set():
                    raise _Over
                yield row


def _useful(workers: int, shards: list[ShardPlan]) -> int:
    """How many of the threads write these shards faster than fewer would. They hash and write side by side, and wait
    for each other for all else, which takes as long for a small sample as for a large one."""
    num_samples = sum(len(shard.rows) for shard in shards)
    mean_bytes = sum(shard.size_bytes for shard in shards) // max(1, num_samples)
    return max(1, min(workers, mean_bytes // _BYTES_OF_A_THREAD))


def _refuse_uncut(failed: Sequence[tuple[Mapping[str, Any], Failure]]) -> None:
    """Raises ContractBroken where a unit cannot be cut: a version promises the bytes of its samples."""
    if not failed:
        return
    (part, failure), num = failed[0], len({part["digest"] for part, _ in failed})
    raise ContractBroken(
        f"version -> training shards: {num} {'unit' if num == 1 else 'units'} cannot be cut, such as "
        f"{part['digest'][:12]} of item {part['parent_digest'][:12]} ({failure.code} {CODES[failure.code].name}: "
        f"{failure.reason}); publish again, which leaves them out (`mmlake failed` lists them), or raise "
        "`cuts.timeout_s` or `cuts.memory_bytes` where one of these is the reason"
    )


class _Over(Exception):
    """Ends a writer whose shard nobody waits for."""

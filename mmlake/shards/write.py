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

import numpy as np
import pyarrow as pa

from mmlake.cuts import CutCache
from mmlake.errors import SettingsError, ShardCorrupt
from mmlake.formats.tar_writer import Member, TarWriter
from mmlake.locks import exclusive_lock
from mmlake.progress import Advance, silent
from mmlake.records import INTERLEAVED, LEADING_ROLES, canonical_json, digest_of, is_digest
from mmlake.shards.index import INDEX_NAME, ShardEntry, ShardIndex, idx_bytes, read_idx
from mmlake.shards.layout import CUT_TYPES, PART, part_members
from mmlake.shards.media import Media
from mmlake.shards.plan import ShardPlan, plan
from mmlake.shards.samples import SampleRows, kind_of
from mmlake.shards.settings import DEFAULTS, ShardSettings
from mmlake.shards.unit_facts import Tracks
from mmlake.store import Blobs, sync_directory, write_atomically

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
    tracks: Tracks | None = None,
    cuts: CutCache | None = None,
    advance: Advance = silent,
) -> ShardIndex:
    """The finished shards under out/<manifest id>/; equal arguments give equal tar bytes, and what is already there and
    sound is kept.

    samples: SAMPLES_READ. modalities: those of the lake, in whose order shards stand, interleaved ones last. texts:
    normalized text for text items, instead of their raw bytes. tracks: sound, keyframes and words of films and
    recordings, which their samples then have. cuts: where spans are cut. Raises BlobMissing, BlobCorrupt (a version
    promises its bytes: a lost one is no row, it is a fault), ContractBroken, LakeLocked.
    """
    if not is_digest(manifest_id):
        raise SettingsError(f"manifest_id is {manifest_id[:80]!r}, expected 64 lower-case hex characters")
    directory, rows = Path(out) / manifest_id, SampleRows(samples)
    media = Media(store, cuts=cuts, tracks=tracks)
    shards = plan(
        rows,
        modalities=modalities,
        manifest_id=manifest_id,
        settings=settings,
        normalized=texts is not None,
        tracks=tracks,
        cuts=cuts.settings if cuts is not None else None,
    )
    with exclusive_lock(directory / "writer.lock", what=f"the directory of training shards {directory}"):
        _uncommit_unless(directory, shards)
        finished = [_finished(directory, shard) for shard in shards]
        missing = [shard.rows for shard, entry in zip(shards, finished, strict=True) if entry is None]
        media.prepare(rows.spans(np.sort(np.concatenate([np.zeros(0, np.int64), *missing]))))
        entries, writer = [], _SampleWriter(media, texts, cuts is not None and cuts.settings.recordings_sound)
        for shard, entry in zip(shards, finished, strict=True):
            entries.append(entry or _write(directory, shard, rows, writer, manifest_id))
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


def _write(directory: Path, shard: ShardPlan, rows: SampleRows, writer: _SampleWriter, manifest_id: str) -> ShardEntry:
    part, target = directory / f"{shard.name}.tar.part", directory / f"{shard.name}.tar"
    samples: list[tuple[str, float, list[Member]]] = []
    try:
        with part.open("wb", buffering=0) as file:
            tar = TarWriter(file)
            for batch in rows.taken(shard.rows):
                for row in batch.to_pylist():
                    samples.append((row["sample"], row["weight"], writer.add(tar, row)))
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


class _SampleWriter:
    """Writes the members of samples: their parts, and the JSON that describes them."""

    def __init__(self, media: Media, texts: Texts | None, recordings_sound: bool) -> None:
        self._media, self._texts, self._recordings_sound = media, texts, recordings_sound

    def add(self, tar: TarWriter, row: dict[str, Any]) -> list[Member]:
        """The members of one sample."""
        key, parts = row["sample"], row["parts"]
        kinds = tuple(
            kind_of(
                *(part[name] for name in ("role", "modality", "content_type", "digest", "start_us")),
                tracks=self._media.tracks,
                recordings_sound=self._recordings_sound,
            )
            for part in parts
        )
        is_interleaved = row["modality"] == INTERLEAVED
        planned = part_members(kinds, is_interleaved=is_interleaved, is_normalized=self._texts is not None)
        lead = next((part for part in parts if part["role"] in LEADING_ROLES), None)
        members: list[Member] = []
        endings: dict[int, str] = {}
        of_media: dict[int, dict[str, Any]] = {}
        for number, holds, ending in planned:
            part, name = parts[number], f"{key}.{ending}"
            if holds != PART:
                members.append(self._media.add_track(tar, name, part, holds))
            elif part["modality"] == "text":
                members.append(self._add_text(tar, name, part, lead))
            else:
                member, cut = self._media.add(tar, name, part)
                of_media[number] = self._media.described(part, cut)
                if part["start_us"] is not None:  # what the version knows is its share of the item
                    part |= {"size_bytes": member.size_bytes, "content_type": CUT_TYPES[part["modality"]]}
                members.append(member)
            if holds == PART:
                endings[number] = ending
        described = [self._described(part, endings.get(number), lead) for number, part in enumerate(parts)]
        facts: dict[str, Any] = {name: row[name] for name in _REPEATED}
        facts["fields"] = json.loads(row["fields_json"] or "{}")
        for role in ("caption", "transcript"):
            facts[f"{role}s"] = [part["text"] for part in described if part["role"] == role]
        for number, known in of_media.items():
            if is_interleaved and known:
                described[number]["tracks"] = known
            else:
                facts |= known
        facts["parts"] = described
        return [*members, tar.add(f"{key}.json", canonical_json(facts).encode("utf-8", "replace"))]

    def _described(self, part: dict[str, Any], ending: str | None, lead: dict[str, Any] | None) -> dict[str, Any]:
        """What the JSON member says of a part. The text of a leading part is in its member, and not a second time
        here."""
        is_repeated = part["modality"] == "text" and part["role"] not in LEADING_ROLES
        return {name: part[name] for name in _PART_REPEATED} | {
            "member": ending,
            "text": self._text_of(part, lead) if is_repeated else None,
            "fields": json.loads(part["fields_json"] or "null"),
        }

    def _add_text(self, tar: TarWriter, name: str, part: dict[str, Any], lead: dict[str, Any] | None) -> Member:
        if part["start_us"] is None and self._normalized(part["digest"]) is None:
            return self._media.add(tar, name, part)[0]
        return tar.add(name, self._text_of(part, lead).encode("utf-8", "replace"))

    def _text_of(self, part: dict[str, Any], lead: dict[str, Any] | None) -> str:
        """The part's text; of the transcript of a span, what is said there."""
        if part["start_us"] is not None:
            facts = self._media.facts(lead) if lead is not None else None
            return facts.said if facts is not None else ""
        normalized = self._normalized(part["digest"])
        return self._media.store.read(part["digest"]).decode("utf-8", "replace") if normalized is None else normalized

    def _normalized(self, digest: str) -> str | None:
        return self._texts(digest) if self._texts is not None else None


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

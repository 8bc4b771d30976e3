"""What the stage tables hold of one digest: the table rows that name it, each with the stamp of its table.

Enters: a unique prefix of a digest. Leaves: records. Only narrow columns are read, and past `items` only the shards
that hold the digest.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mmlake.errors import BlobMissing, SettingsError
from mmlake.provenance.spans import spans_named
from mmlake.records import Digest, is_digest
from mmlake.tables import ALL, Slot, Stamp, Tables

_MAX_LISTED = 10
_NAMING = ("digest", "left", "right")  # the columns of tables over a corpus that name what a row is of
_ITEM_COLUMNS = [
    "item_id",
    "digest",
    "sample_id",
    "modality",
    "role",
    "source",
    "licence",
    "source_ref",
    "status",
    "error_code",
    "materialize_error",
]
# in data order; the columns that are read: text, signals, words and vectors stay on disk
_ROW_TABLES: dict[str, list[str]] = {
    "blobs": ["digest", "size_bytes", "num_occurrences", "status", "error_code"],
    "tracks": [
        "digest",
        "role",
        "status",
        "error_code",
        "error",
        "content_type",
        "size_bytes",
        "num_words",
        "width_px",
        "height_px",
        "orientation",
        "num_frames",
        "duration_s",
        "frame_rate",
        "video_codec",
        "audio_codec",
        "sample_rate_hz",
        "num_channels",
        "num_decode_errors",
        "audio_digest",
        "frames_digest",
        "transcript_source",
    ],
    "alignments": ["digest", "method", "revision", "status", "error_code", "error", "confidence"],
    "speakers": [
        *("digest", "method", "revision", "status", "error_code", "error", "num_speakers", "confidence"),
    ],
    "units": ["digest", "parent_digest", "position", "kind", "gap", "start", "end", "status", "error_code", "error"],
    "captions": [
        "digest",
        "kind",
        "producer",
        "model",
        "revision",
        "status",
        "error_code",
        "error",
        "caption",
        "event_tags",
        "events",
        "lines",
    ],  # fmt: skip
    "measures": ["digest", "measure", "value", "status", "error_code", "error"],
    "verdicts": ["digest", "status", "severity", "error_code", "rule", "reason", "weight", "findings"],
    "fingerprints": ["digest", "method", "status", "error_code", "error"],
    "embeddings": ["digest", "encoder", "revision", "dimension", "status", "error_code", "error"],
}
_OF_ITEMS = ("blobs", "tracks", "alignments", "speakers")  # the tables before `units`
CORPUS_TABLES = ("near_duplicates", "semantic_duplicates", "duplicate_clusters", "contamination")
CROSS_TABLE = "cross_pairs"  # of a modality, that names units of other modalities too
SCORES_TABLE = "caption_scores"  # likewise


class AmbiguousDigest(SettingsError):
    """More than one digest begins with the prefix; `digests` lists some."""

    def __init__(self, prefix: str, digests: Sequence[Digest]) -> None:
        shown = ", ".join(digests[:_MAX_LISTED]) + (", ..." if len(digests) > _MAX_LISTED else "")
        super().__init__(f"{len(digests)} digests begin with {prefix}: {shown}; give more characters")
        self.digests = tuple(digests)


@dataclass(frozen=True, slots=True)
class Record:
    """The rows of one stage table that name the digest."""

    slot: Slot
    stamp: Stamp
    rows: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Found:
    digest: Digest
    item: Digest  # the digest itself, or the parent of a derived one
    unit: Digest  # what tables behind `units` name it by: a span's own digest, else the item's
    kind: str
    derived_from: dict[str, Any] | None
    records: list[Record]  # of the table items

    @classmethod
    def search(cls, tables: Tables, prefix: str) -> Found:
        slots = [
            Slot("items", modality, shard)
            for modality in _modalities(tables, "items")
            for shard in tables.shards("items", modality)
        ]
        hits: dict[Slot, pa.Table] = {}
        digests: set[Digest] = set()
        for slot in slots:
            parts = tables.parts(slot, columns=_ITEM_COLUMNS)
            part = pa.concat_tables(one.filter(pc.starts_with(one.column("digest"), prefix)) for one in parts)
            if part.num_rows:
                hits[slot] = part
                digests.update(part.column("digest").to_pylist())
        derived: dict[Digest, tuple[str, dict[str, Any]]] = (
            {} if is_digest(prefix) and digests else _derived(tables, prefix) | spans_named(tables, prefix)
        )
        if len(known := sorted(digests | set(derived))) > 1:
            raise AmbiguousDigest(prefix, known)
        if not known:
            raise BlobMissing(
                f"no item, clip, segment, keyframe or audio track in {tables.root} begins with {prefix}; check the "
                "digest, or ingest its shard first"
            )
        digest = known[0]
        if digest in digests:
            return cls(
                digest,
                digest,
                digest,
                "item",
                None,
                [
                    _record(tables, slot, part.filter(pc.equal(part.column("digest"), digest)))
                    for slot, part in hits.items()
                ],
            )
        kind, origin = derived[digest]
        parent = cls.search(tables, origin["digest"])
        unit = digest if "start_s" in origin else parent.digest
        return cls(digest, parent.digest, unit, kind, origin, parent.records)


_SINGLE = {"audio_digest": "audio track", "frames_digest": "small frames"}


def _derived(tables: Tables, prefix: str) -> dict[Digest, tuple[str, dict[str, Any]]]:
    """Keyframes and audio tracks whose digest begins with the prefix: (kind, origin), the first parent by digest."""
    found: dict[Digest, tuple[str, dict[str, Any]]] = {}
    for modality in _modalities(tables, "tracks"):
        for part in tables.scan_parts("tracks", modality, columns=["digest", *_SINGLE, "keyframes"]):
            for name, kind in _SINGLE.items():
                tracks_found = part.filter(pc.fill_null(pc.starts_with(part.column(name), prefix), False))
                for row in tracks_found.select(["digest", name]).to_pylist():
                    _keep_first(found, row[name], kind, {"digest": row["digest"]})
            frames = part.column("keyframes").combine_chunks()
            digests = pc.struct_field(pc.list_flatten(frames), "digest")
            matches = pc.indices_nonzero(pc.fill_null(pc.starts_with(digests, prefix), False)).to_pylist()
            parents = pc.list_parent_indices(frames)
            times = pc.struct_field(pc.list_flatten(frames), "time_s")
            for place in matches:
                _keep_first(
                    found,
                    digests[place].as_py(),
                    "keyframe",
                    {"digest": part.column("digest")[parents[place].as_py()].as_py(), "time_s": times[place].as_py()},
                )
    return found


def _keep_first(
    found: dict[Digest, tuple[str, dict[str, Any]]], digest: Digest, kind: str, origin: dict[str, Any]
) -> None:
    if digest not in found or origin["digest"] < found[digest][1]["digest"]:
        found[digest] = (kind, origin)


def rows_of(tables: Tables, found: Found) -> list[Record]:
    records = list(found.records)
    for name, columns in _ROW_TABLES.items():
        for record in found.records:
            slot = Slot(name, record.slot.modality, record.slot.shard)
            if tables.stamp(slot) is not None:
                key, named = _key(name, found)
                parts = tables.parts(slot, columns=columns, holding=(key, named))
                rows = pa.concat_tables(part.filter(pc.equal(part.column(key), named)) for part in parts)
                records.append(_record(tables, slot, rows))
    return [record for record in records if record.rows]


def _key(table: str, found: Found) -> tuple[str, Digest]:
    """(column, digest) that the rows of the table are found by."""
    if table == "units":
        return "parent_digest", found.item
    return "digest", found.item if table in _OF_ITEMS else found.unit


def corpus_rows(tables: Tables, found: Found) -> list[Record]:
    records = []
    own = sorted({record.slot.modality for record in found.records})
    for name in CORPUS_TABLES:
        for modality in [*own, "all"]:
            slot = Slot(name, modality, ALL)
            if tables.stamp(slot) is None:
                continue
            rows = pa.concat_tables(_naming(part, found.unit) for part in tables.parts(slot))
            records.append(_record(tables, slot, rows))
    for modality in _modalities(tables, CROSS_TABLE):
        slot = Slot(CROSS_TABLE, modality, ALL)
        if tables.stamp(slot) is not None:
            records.append(_record(tables, slot, _cross_rows(tables.read(slot), found)))
    for modality in _modalities(tables, SCORES_TABLE):
        slot = Slot(SCORES_TABLE, modality, ALL)
        if tables.stamp(slot) is not None:
            scores = tables.read(slot)
            sides = (pc.equal(scores.column(name), found.unit) for name in ("digest", "caption"))
            records.append(_record(tables, slot, scores.filter(pc.or_(*sides))))
    return [record for record in records if record.rows]


def _naming(table: pa.Table, digest: Digest) -> pa.Table:
    """The rows that name the digest, on either side of a pair."""
    first, *others = (pc.equal(table.column(key), digest) for key in _NAMING if key in table.column_names)
    return table.filter(functools.reduce(pc.or_, others, first))


def _cross_rows(table: pa.Table, found: Found) -> pa.Table:
    """The rows of the unit on either side; of a keyframe, which is no unit, those about itself."""
    if found.kind == "keyframe":
        return table.filter(pc.equal(table.column("component_digest"), found.digest))
    return table.filter(pc.or_(*(pc.equal(table.column(name), found.unit) for name in ("digest", "carrier"))))


def _record(tables: Tables, slot: Slot, rows: pa.Table) -> Record:
    stamp = tables.stamp(slot)
    assert stamp is not None  # the table was just read
    return Record(slot, stamp, rows.to_pylist())


def _modalities(tables: Tables, table: str) -> list[str]:
    base = tables.root / table
    return sorted(path.name for path in base.iterdir() if path.is_dir()) if base.is_dir() else []

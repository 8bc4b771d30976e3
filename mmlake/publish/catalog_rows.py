"""The catalog's rows joined from stage tables, a share of the items at a time, so that a lake need not fit into memory.

A share has the items whose digests begin alike, with all of their units; every table is read once for each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from mmlake import catalog, preprocess, schemas
from mmlake.engine.digest_index import DigestIndex
from mmlake.lake import Lake
from mmlake.parts import measure_columns
from mmlake.tables import Slot

_READ = ("items", "tracks", "units", "verdicts", "embeddings", "measures")
_PREFIXES = 1 << 16  # of four hexadecimal digits
_TIMES_STORED = 6  # what rows take in memory while they are joined, for each byte of their Parquet files
_MEMORY_SHARE = 2  # of the memory of one step, which may go to that


@dataclass(frozen=True, slots=True)
class Share:
    """Digests from `low` on and below `below`; None: to the last."""

    low: str = ""
    below: str | None = None

    def of(self, table: pa.Table, column: str = "digest") -> pa.Table:
        """The rows whose digest in the column is one of these."""
        if not self.low and self.below is None:
            return table
        is_in = pc.greater_equal(table[column], self.low)
        return table.filter(is_in if self.below is None else pc.and_(is_in, pc.less(table[column], self.below)))


def shares(lake: Lake, modality: str) -> list[Share]:
    """As few as the memory that `[engine] memory_gib` leaves to one step allows."""
    stored = sum(stamp.size_bytes for table in _READ for stamp in lake.tables.stamps(table, modality).values())
    num = int(stored * _TIMES_STORED / (lake.settings.engine.memory_gib * 2**30 / _MEMORY_SHARE)) + 1
    num = min(num, _PREFIXES)
    bounds = [f"{_PREFIXES * at // num:04x}" for at in range(1, num)]
    return [Share(low, below) for low, below in zip(["", *bounds], [*bounds, None], strict=True)]


def joined_rows(lake: Lake, modality: str, share: Share, source_fields: pa.StructType | None) -> pa.Table:
    """The rows of the units of these items. source_fields: the type of the column of the source's own fields."""
    items = _joined(share.of(part) for part in _parts(lake, "items", modality))
    tracks = unit_tracks_of(lake, modality, share)
    units = DigestIndex(pc.unique(pa.chunked_array([*items["digest"].chunks, *tracks["digest"].chunks], pa.string())))

    def of_units(parts: Iterable[pa.Table]) -> pa.Table:
        return _joined(iter(parts) if share == Share() else units.among(parts, "digest"))

    def joined(table: str, columns: list[str] | None = None) -> pa.Table:
        return of_units(_parts(lake, table, modality, columns))

    return catalog.rows(
        items,
        tracks,
        joined("verdicts"),
        of_units([lake.tables.read(Slot("duplicate_clusters", modality))]),
        joined("embeddings"),
        modality=modality,
        measures=joined("measures", ["digest", "measure", "value"]),
        contamination=of_units([lake.tables.read(Slot("contamination", modality), columns=["digest", "eval_set"])]),
        cross_pairs=_of_some(lake, "cross_pairs", modality, ["digest", "component", "carrier", "relation"]),
        caption_scores=_of_some(lake, "caption_scores", modality, ["digest", "cosine"]),
        captions=_descriptions(lake, modality),
        measure_columns=measure_columns(lake.parts.modality(modality)),
        source_fields=source_fields,
    )


def unit_tracks_of(lake: Lake, modality: str, share: Share) -> pa.Table:
    """The tracks of the units of all shards; a shard that has no units yet has none."""
    found = [preprocess.UNIT_TRACKS.empty_table()]
    for shard in lake.tables.shards("units", modality):
        tracks, units = (lake.tables.read(Slot(table, modality, shard)) for table in ("tracks", "units"))
        found.append(preprocess.unit_tracks(share.of(tracks), share.of(units, "parent_digest")))
    return pa.concat_tables(found)


def _parts(lake: Lake, table: str, modality: str, columns: list[str] | None = None) -> Iterator[pa.Table]:
    """The rows of each shard, some at a time; without any, a table of the schema."""
    names = columns or schemas.TABLES[table].arrow.names
    yield schemas.TABLES[table].arrow.empty_table().select(names)
    yield from lake.tables.scan_parts(table, modality, columns=names)


def _joined(parts: Iterator[pa.Table]) -> pa.Table:
    first, *others = parts
    return pa.concat_tables(others) if others else first


def _of_some(lake: Lake, table: str, modality: str, columns: list[str]) -> pa.Table | None:
    """The table over all shards; None for a modality that has none: nothing carries films, texts have no captions."""
    slot = Slot(table, modality)
    return None if lake.tables.stamp(slot) is None else lake.tables.read(slot, columns=columns)


def _descriptions(lake: Lake, modality: str) -> pa.Table | None:
    """What models say of the modality's clips, as far as it can be used."""
    if not lake.tables.stamps("captions", modality):
        return None
    said = lake.tables.concat("captions", modality, columns=["digest", "status", "caption", "event_tags"])
    return said.filter(pc.and_(pc.is_valid(said["caption"]), pc.not_equal(said["status"], "unreadable")))

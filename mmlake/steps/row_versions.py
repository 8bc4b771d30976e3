"""What the rows of a table were made from, kept so that the next table takes over those whose inputs are the same.

Enters: the tables that a step reads of a shard. Leaves: per item, or per unit, a hash of all of their rows that its own
rows are made from; on disk next to the joins that are kept. So a shard that grew costs what is new in it.

A file of them is no input of anything and may be deleted: where it is missing, damaged or of another table, the next
table is made as a whole, with the same rows.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mmlake import checked_json, preprocess
from mmlake.engine.hashing import RowHashes
from mmlake.preprocess.item_charsets import with_charsets
from mmlake.recent_files import RecentValues
from mmlake.records import digest_of
from mmlake.schemas import ITEMS, TRACKS, UNITS
from mmlake.store import write_atomically

_FORMAT = 1
Parts = Callable[
    [str, list[str] | None], Iterable[pa.Table]
]  # (table, columns or None for all) -> rows, some at a time


@dataclass(frozen=True, slots=True)
class RowVersions:
    """Which version of its inputs each row of a table has; rows of one version were made from the same."""

    keys: pa.Array  # digests of units, or of items
    versions: pa.Array  # uint64

    @classmethod
    def of(cls, names: Sequence[str], parts: Parts, hashes: RowHashes) -> RowVersions:
        """Those of the tables of these names: of units where one of them is, else of items."""
        if ITEMS.name in names:
            return cls._of_items(parts(ITEMS.name, list(preprocess.ITEM_COLUMNS)), hashes)
        leads = UNITS.name if UNITS.name in names else TRACKS.name
        others = {name: _hashed(parts(name, None), hashes) for name in names if name != leads}
        keys, versions = list[pa.Array](), list[pa.ChunkedArray]()
        for rows in parts(leads, None):
            item = rows["parent_digest" if leads == UNITS.name else "digest"].combine_chunks()
            for name, (digests, found) in others.items():  # one row per item, or none
                rows = rows.append_column(f"of {name}", found.take(pc.index_in(item, value_set=digests)))
            keys.append(rows["digest"].combine_chunks())
            versions += hashes.of(rows).chunks
        return cls(pa.concat_arrays(keys), pa.concat_arrays(versions))

    @classmethod
    def _of_items(cls, parts: Iterable[pa.Table], hashes: RowHashes) -> RowVersions:
        """Of each digest its occurrences in their order. Their ordinals do not count: all behind a new one differ."""
        each = []
        for items in parts:  # sorted by their ids, as every table is by its key
            items = with_charsets(items.filter(pc.is_valid(items["digest"]))).drop_columns("item_id")
            each.append(pa.table({"key": items["digest"], "occurrence": hashes.of(items)}))
        grouped = pa.concat_tables(each).group_by("key", use_threads=False).aggregate([("occurrence", "list")])
        versions = hashes.of(grouped.select(["occurrence_list"]))
        return cls(grouped["key"].combine_chunks(), versions.combine_chunks())

    def same_as(self, before: RowVersions) -> pa.Array:
        """Of each row whether it has the version that it had."""
        at = pc.index_in(self.keys, value_set=before.keys)
        return pc.fill_null(pc.equal(before.versions.take(at), self.versions), False)

    def filter(self, mask: pa.Array) -> RowVersions:
        """Those of the rows where the mask is true."""
        return RowVersions(self.keys.filter(mask), self.versions.filter(mask))


def _hashed(parts: Iterable[pa.Table], hashes: RowHashes) -> tuple[pa.Array, pa.Array]:
    """(digests of the rows, a hash of each)."""
    found = [(rows["digest"].combine_chunks(), hashes.of(rows).combine_chunks()) for rows in parts]
    digests, versions = ([one for one in column if len(one)] for column in zip(*found, strict=True))
    return pa.concat_arrays([pa.array([], pa.string()), *digests]), pa.concat_arrays(
        [pa.array([], pa.uint64()), *versions]
    )


# Of tables by their data versions: measures, fingerprints and embeddings are made from the same tracks and units
_recent: RecentValues[tuple[tuple[str, str], ...], RowVersions] = RecentValues(max_bytes=64 << 20)


def of_tables(tables: Mapping[str, str], parts: Parts, hashes: RowHashes) -> RowVersions:
    """`RowVersions.of` the tables, kept from the last step that read the same. tables: name -> data version."""
    key = tuple(tables.items())
    if (found := _recent.get(key)) is None:
        found = RowVersions.of(list(tables), parts, hashes)
        _recent.keep(key, found, found.keys.nbytes + found.versions.nbytes)
    return found


def keep(path: Path, rows: RowVersions, made_for: Mapping[str, str]) -> None:
    """Write the file. made_for: which table, and by what rows were hashed."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"key": rows.keys, "version": rows.versions}), sink, compression="zstd")
    data = sink.getvalue()
    header = {**made_for, "format": _FORMAT, "sha256": digest_of(data)}
    write_atomically(path, [checked_json.dumps(header) + b"\n", data])


def kept(path: Path, made_for: Mapping[str, str]) -> RowVersions | None:
    """What was kept of this very table, if it is there and whole."""
    try:
        header, data = _parsed(path)
    except (OSError, ValueError, KeyError):
        return None
    if header != {**made_for, "format": _FORMAT, "sha256": header["sha256"]}:
        return None
    table = pq.read_table(pa.BufferReader(data))
    return RowVersions(table["key"].combine_chunks(), table["version"].combine_chunks())


def _parsed(path: Path) -> tuple[dict[str, object], bytes]:
    """(header, rows as Parquet). Raises ValueError or KeyError where the file is not what was written."""
    line, _, data = path.read_bytes().partition(b"\n")
    header = checked_json.loads(line)
    if header["sha256"] != digest_of(data):
        raise ValueError(f"{path} is not what was written")
    return header, data

"""Samples out of items: what belongs together in one source shard, as one row.

Enters: the items tables of all modalities of one shard. Leaves: a SAMPLES table. No part is judged, left out or read
here. Everything is done on whole columns: a shard may hold a million items.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake import schemas
from mmlake.errors import ContractBroken
from mmlake.records import INTERLEAVED, LEADING_ROLES, canonical_json
from mmlake.samples.fields import one_spelling, own_fields
from mmlake.schemas.samples import PART, SAMPLES

# what is read of an items table: no texts, no bytes
COLUMNS = (
    "item_id", "digest", "sample_id", "position", "modality", "role", "content_type", "source", "licence",
    "size_bytes", "metadata_json",
)  # fmt: skip
_NAMES_PER_BATCH = 1 << 16  # samples whose JSON is in memory at once


def assemble(items: Sequence[pa.Table]) -> pa.Table:
    """The samples of one shard, schema SAMPLES, sorted by name.

    items: the tables of its modalities, in any order, with COLUMNS at least. Samples with the same parts and fields
    are one row. Raises ContractBroken where the parts do not add up to the items.
    """
    rows = pa.concat_tables([table.select(list(COLUMNS)) for table in items]).combine_chunks()
    if not rows.num_rows:
        return schemas.empty(SAMPLES)
    occurrences = _Occurrences.of(_in_order(rows))
    samples = _distinct(occurrences)
    check_samples([rows], samples)
    return schemas.conform(SAMPLES, samples)


def _in_order(rows: pa.Table) -> pa.Table:
    """The rows of each sample together, its parts in order. Beyond a million items the ids grow by a digit: the longer
    one comes later."""
    keyed = rows.append_column("length", pc.binary_length(rows["item_id"]))
    keys = [(name, "ascending") for name in ("sample_id", "position", "length", "item_id")]
    return rows.take(pc.sort_indices(keyed, sort_keys=keys)).combine_chunks()


@dataclass(frozen=True, slots=True)
class _Occurrences:
    """Every sample of the source once, in order of its id."""

    rows: pa.Table  # parts of all occurrences, in order
    bounds: np.ndarray  # first part of each occurrence, and the end
    modality: pa.Array
    fields: pa.Array
    own: pa.Array  # fields of each part
    names: pa.Array  # of each occurrence

    @classmethod
    def of(cls, rows: pa.Table) -> _Occurrences:
        """rows: as `_in_order` gives them."""
        bounds = _bounds(_only(rows, "sample_id"))
        sizes = np.diff(bounds)
        leads = pc.is_in(_only(rows, "role"), value_set=pa.array(LEADING_ROLES)).to_numpy(zero_copy_only=False)
        num_leads = np.add.reduceat(leads.astype(np.int64), bounds[:-1])
        places = np.where(leads, np.arange(rows.num_rows), rows.num_rows)
        heads = pa.array(np.where(num_leads > 0, np.minimum.reduceat(places, bounds[:-1]), bounds[:-1]))
        modality = pc.if_else(
            pa.array(num_leads > 1),
            INTERLEAVED,
            pc.if_else(pa.array(num_leads == 1), _only(rows, "modality").take(heads), pa.scalar(None, pa.string())),
        )
        said = one_spelling(_only(rows, "metadata_json"))
        fields = said.take(heads)
        own = own_fields(said, fields.take(pa.array(np.repeat(np.arange(len(sizes)), sizes))))
        return cls(rows, bounds, modality, fields, own, _names(rows, bounds, fields, own))


def _names(rows: pa.Table, bounds: np.ndarray, fields: pa.Array, own: pa.Array) -> pa.Array:
    """The name of each occurrence: SHA-256 of `{"fields":{...},"parts":[[role,digest],...]}` in canonical JSON; a part
    with fields of its own is [role,digest,{...}]."""
    roles = _only(rows, "role").dictionary_encode()
    quoted = pa.array([canonical_json(role) for role in roles.dictionary.to_pylist()])
    digest = pc.fill_null(_joined('"', _only(rows, "digest"), '"'), "null")
    parts = _joined("[", quoted.take(roles.indices), ",", digest, pc.fill_null(_joined(",", own), ""), "]")
    given = pc.fill_null(fields, "{}")
    names, comma = list[str](), pa.scalar(",", pa.large_string())
    for first in range(0, len(fields), _NAMES_PER_BATCH):
        last = min(first + _NAMES_PER_BATCH, len(fields))
        lists = pa.ListArray.from_arrays(pa.array(bounds[first : last + 1], pa.int32()), parts)
        texts = _joined(
            '{"fields":', given.slice(first, last - first), ',"parts":[', pc.binary_join(lists, comma), "]}"
        )
        names += [hashlib.sha256(text.encode()).hexdigest() for text in texts.to_pylist()]
    return pa.array(names, pa.string())


def _joined(*texts: pa.Array | str) -> pa.Array:
    """The texts of each row behind one another, with 64-bit offsets; null where one of them is."""
    kind = pa.large_string()
    return pc.binary_join_element_wise(
        *(pa.scalar(text, kind) if isinstance(text, str) else text.cast(kind) for text in (*texts, ""))
    )


def _distinct(found: _Occurrences) -> pa.Table:
    """The occurrences of one name as one row; its parts are those of the first sample id."""
    rows, sizes = found.rows, np.diff(found.bounds)
    order = pc.sort_indices(found.names).to_numpy()  # stable: occurrences of one name stay in order of their ids
    names = found.names.take(pa.array(order))
    groups = _bounds(names)
    firsts = order[groups[:-1]]  # the occurrence that stands for each name
    at = pa.array(firsts)
    heads = pa.array(found.bounds[firsts])
    counts = np.diff(groups)
    of_occurrence = np.empty(len(order), np.int64)
    of_occurrence[order] = np.repeat(np.arange(len(counts)), counts)
    parts_at = _ranges(found.bounds[firsts], sizes[firsts])
    ids = _only(rows, "sample_id").take(pa.array(found.bounds[order]))
    columns = {
        "sample": names.take(pa.array(groups[:-1])),
        "modality": found.modality.take(at),
        "sample_ids": _lists(groups, ids, SAMPLES.arrow.field("sample_ids").type),
        "num_occurrences": pa.array(counts, pa.int32()),
        "source": _only(rows, "source").take(heads),
        "licences": _licences(np.repeat(of_occurrence, sizes), _only(rows, "licence"), len(counts)),
        "fields_json": found.fields.take(at),
        "parts": _parts(found, pa.array(parts_at), np.append(0, np.cumsum(sizes[firsts]))),
    }
    return pa.Table.from_arrays([columns[field.name] for field in SAMPLES.arrow], schema=SAMPLES.arrow)


def _parts(found: _Occurrences, rows: pa.Array, bounds: np.ndarray) -> pa.Array:
    taken = found.rows.take(rows).combine_chunks()
    columns = [
        found.own.take(rows) if field.name == "fields_json" else _only(taken, field.name).cast(field.type)
        for field in PART
    ]
    return _lists(bounds, pa.StructArray.from_arrays(columns, fields=list(PART)), pa.list_(PART))


def _licences(samples: np.ndarray, licences: pa.Array, num_samples: int) -> pa.Array:
    """The distinct licences of each sample, sorted. samples: the number of each item's sample, from 0."""
    pairs = pa.table({"sample": samples, "licence": licences}).group_by(["sample", "licence"]).aggregate([])
    pairs = pairs.sort_by([("sample", "ascending"), ("licence", "ascending")]).combine_chunks()
    counts = np.bincount(pairs["sample"].to_numpy(), minlength=num_samples)
    bounds = np.append(0, np.cumsum(counts))
    return _lists(bounds, _only(pairs, "licence"), SAMPLES.arrow.field("licences").type)


def check_samples(items: Sequence[pa.Table], samples: pa.Table) -> int:
    """The number of items, each of which is in exactly one occurrence of one sample. Raises ContractBroken."""
    rows = pa.concat_tables([table.select(["item_id", "sample_id"]) for table in items])
    occurrences, parts = samples["num_occurrences"].to_numpy(), pc.list_flatten(samples["parts"])
    named = int((occurrences.astype(np.int64) * pc.list_value_length(samples["parts"]).to_numpy()).sum())
    in_parts = pc.struct_field(parts, "item_id")
    ids = pc.list_flatten(samples["sample_ids"])
    counts = {
        "items in parts": (rows.num_rows, named),
        "different items": (rows.num_rows, pc.count_distinct(rows["item_id"]).as_py()),
        "known items in parts": (
            len(parts),
            pc.sum(pc.is_in(pc.unique(in_parts), value_set=rows["item_id"].combine_chunks())).as_py() or 0,
        ),
        "sample ids": (
            pc.count_distinct(rows["sample_id"]).as_py(),
            pc.sum(pc.is_in(pc.unique(ids), value_set=rows["sample_id"].combine_chunks())).as_py() or 0,
        ),
        "occurrences": (len(ids), int(occurrences.sum())),
    }
    for name, (expected, found) in counts.items():
        if expected != found:
            raise ContractBroken(
                f"items -> samples: {expected} {name} expected, {found} found, in the shard of "
                f"{(rows['item_id'][0].as_py() if rows.num_rows else 'no item')!r}; correct the stage, or materialize "
                "samples again where the table was changed"
            )
    return int(rows.num_rows)


def _only(table: pa.Table, name: str) -> pa.Array:
    """The column as one array, which it is in a table whose chunks are combined."""
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _bounds(ordered: pa.Array) -> np.ndarray:
    """The first row of each run of equal values, and the end."""
    changes = pc.not_equal(ordered.slice(1), ordered.slice(0, len(ordered) - 1)).to_numpy(zero_copy_only=False)
    return np.concatenate([[0], np.flatnonzero(changes) + 1, [len(ordered)]])


def _ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """start, start + 1, ... of each range, one range after the other."""
    shifts = np.repeat(starts - np.append(0, np.cumsum(lengths)[:-1]), lengths)
    ranges: np.ndarray = shifts + np.arange(len(shifts))
    return ranges


def _lists(bounds: np.ndarray, values: pa.Array, kind: pa.DataType) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), values, type=kind)

"""Which of the samples that came are samples that went, edited: the name of a sample is its content, so that one whose
caption was corrected is another sample, and a difference alone would say that one came and one went."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake.engine.digest_index import piece

EDITS = pa.schema(
    [
        ("sample", pa.string()),  # of the newer version
        ("was", pa.string()),  # of the older one
        ("modality", pa.string()),  # of the newer one
        ("kept", pa.string()),  # LEAD or ID
    ]
)
LEAD = "same medium"  # the first leading part is the same: other captions, parts, fields
ID = "same id"  # the source calls it the same: another medium, or another text


def edits(removed: pa.Table, added: pa.Table) -> pa.Table:
    """EDITS, sorted by sample: pairs of a sample that went and one that came. Each sample is in one pair at most; who
    has the same lead and one of the ids of the source comes first (several samples may ask of one picture), then who
    has the same lead, then who has one of the ids.

    removed, added: of VERSION_SAMPLES, sorted by sample.
    """
    pairs: list[tuple[str, str, str | None, str]] = []
    for kept, columns in ((LEAD, ("lead", "sample_ids")), (LEAD, ("lead",)), (ID, ("sample_ids",))):
        gone: dict[str, list[str]] = {}  # key -> samples that went, the first by name last
        for key, sample, _ in reversed(list(_keyed(removed, added, columns))):
            gone.setdefault(key, []).append(sample)
        went, came = set[str](), set[str]()
        for key, sample, modality in _keyed(added, removed, columns):
            free = gone.get(key, [])
            while free and free[-1] in went:
                free.pop()
            if free and sample not in came:
                went.add(was := free.pop())
                came.add(sample)
                pairs.append((sample, was, modality, kept))
        removed = removed.filter(pc.invert(pc.is_in(removed["sample"], value_set=pa.array(sorted(went), pa.string()))))
        added = added.filter(pc.invert(pc.is_in(added["sample"], value_set=pa.array(sorted(came), pa.string()))))
    return pa.Table.from_pylist([dict(zip(EDITS.names, pair, strict=True)) for pair in sorted(pairs)], schema=EDITS)


def _keyed(table: pa.Table, others: pa.Table, columns: Sequence[str]) -> Iterator[tuple[str, str, str | None]]:
    """(key, sample, modality) of the rows whose key, the values of these columns, the others have too; a list is a row
    for each of its values."""
    (places, keys), (_, theirs) = _keys(table, columns), _keys(others, columns)
    rows = table.select(["sample", "modality"]).take(places)
    shared = pc.and_(pc.is_valid(keys), pc.is_in(keys, value_set=theirs))
    found = rows.append_column("key", keys).filter(shared).to_pydict()
    return zip(found["key"], found["sample"], found["modality"], strict=True)


def _keys(table: pa.Table, columns: Sequence[str]) -> tuple[pa.Array, pa.Array]:
    """Row of the table and key of each; the key is null where one of its values is."""
    places, keys = pa.array(np.arange(table.num_rows)), None
    for column in columns:
        values = piece(table[column]).take(places)
        if pa.types.is_list(values.type):
            parents = pc.list_parent_indices(values)
            places, values = places.take(parents), values.flatten()
            keys = keys.take(parents) if keys is not None else None
        # a lead is a digest of one length, so that no two pairs of values make one key
        keys = values if keys is None else pc.binary_join_element_wise(keys, values, " ")
    return places, keys

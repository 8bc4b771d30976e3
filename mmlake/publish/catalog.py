"""The catalog brought up to date with the stage tables: bulk, idempotent, every distinct digest accounted for.

One LanceDB table with one writer. What is written, and what a stamp stands for, is a modality: its rows follow from its
own tables, but for two things that modalities share. A source field has one type over the lake, and a digest that two
modalities hold has one row. Where one of them touches the rows of another modality, those are brought up to date too.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Collection
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from mmlake import catalog, contracts, preprocess
from mmlake.lake import Lake
from mmlake.progress import Advance, silent
from mmlake.publish.catalog_rows import joined_rows, shares
from mmlake.records import canonical_json
from mmlake.tables import Slot, Stamp, Stopwatch, joint_version

CODE_VERSION = "7"
NAME = "catalog"
FORMER = Slot(NAME, "all")  # the one stamp of earlier releases, over all modalities
_ROW_TABLES = ("items", "verdicts", "embeddings")
_CORPUS_TABLES = ("duplicate_clusters", "contamination", "cross_pairs", "caption_scores")
_OF_SOME = ("captions",)  # row tables that some modalities have
_FIELDS = "catalog/source_fields"  # an input: the types that the modality's fields have over the lake
_TURN = ".catalog"  # of those who write it
_LOG = logging.getLogger(__name__)


def catalog_slot(modality: str) -> Slot:
    """The place of the stamp that stands for the modality's rows."""
    return Slot(NAME, modality)


def catalog_inputs(lake: Lake, modality: str) -> dict[str, str]:
    """Data versions of the tables that the modality's rows are joined from."""
    inputs = {
        f"{modality}/{table}": joint_version(lake.tables.stamps(table, modality))
        for table in (*_ROW_TABLES, "tracks", "units", "measures")
    }
    for table in _OF_SOME:
        if stamps := lake.tables.stamps(table, modality):
            inputs[f"{modality}/{table}"] = joint_version(stamps)
    for table in _CORPUS_TABLES:
        stamp = lake.tables.stamp(Slot(table, modality))
        inputs[f"{modality}/{table}"] = stamp.data_version if stamp else ""
    return inputs


def catalog_is_current(lake: Lake, modality: str | None = None) -> bool:
    """Whether the catalog holds what the stage tables hold now: of the modality, or of all of them."""
    if not lake.catalog.is_sound():
        return False
    types = lake.catalog.source_field_types()
    return all(
        (stamp := lake.tables.stamp(catalog_slot(one))) is not None
        and stamp.code_version == CODE_VERSION
        and stamp.inputs == catalog_inputs(lake, one) | _typed(stamp, types)
        for one in ([modality] if modality else lake.parts.modalities)
    )


def update_catalog(lake: Lake, *modalities: str, advance: Advance = silent, run_id: str = "") -> dict[str, Stamp]:
    """Modality -> the stamp of its rows, one per distinct unit of its items; of all modalities where none is named, and
    of others whose rows were touched. Raises ContractBroken where a row is missing or too many."""
    with lake.turn(_TURN), lake.naming_blobs():  # no garbage is collected, files that are not finished among it
        return _updated(lake, modalities, advance, run_id)


def _updated(lake: Lake, modalities: tuple[str, ...], advance: Advance, run_id: str) -> dict[str, Stamp]:
    if _drop_damaged(lake):
        modalities = ()
    wanted = dict.fromkeys(modalities or lake.parts.modalities)
    own, units = _source_fields(lake), {modality: unit_digests(lake, modality) for modality in lake.parts.modalities}
    struct, left_out = catalog.FieldTypes.joined(own.values()).struct()
    if left_out:
        kept = 0 if struct is None else struct.num_fields
        _LOG.info("catalog: %d source fields are columns, %d are left out (docs/catalog.md)", kept, left_out)
    held = _held(lake, wanted)
    touched = {modality: units[modality] | held[modality] for modality in wanted}
    stamps = {}
    for modality in wanted:
        # what an upsert adds is expected, so that only what was there before it may be absent now
        has_absent = not held[modality] <= units[modality]
        made = _update(lake, modality, own[modality], struct, units[modality], has_absent=has_absent, run_id=run_id)
        stamps[modality] = replace(made, counts=made.counts | {"source_fields_left_out": left_out})
        advance(stamps[modality].num_rows)
    for other in _retyped(lake, wanted):
        stamps[other] = _update(lake, other, own[other], struct, units[other], run_id=run_id)
    for other in units:
        digests = units[other].intersection(set[str]().union(*(touched[one] for one in touched if one != other)))
        # which of them the row is of may have changed
        if digests and (stamp := stamps.get(other) or lake.tables.stamp(catalog_slot(other))) is not None:
            wanted_digests = pa.array(sorted(digests), pa.string())
            for share in shares(lake, other):
                rows = joined_rows(lake, other, share, struct)
                lake.catalog.upsert(rows.filter(pc.is_in(rows["digest"], value_set=wanted_digests)))
            stamps[other] = stamp
    lake.catalog.compact()
    rows = lake.catalog.read(["digest", "modality", "row_hash"])
    size_bytes = sum(path.stat().st_size for path in (lake.root / NAME).rglob("*") if path.is_file())
    for modality, stamp in stamps.items():
        finished = _finished(rows, size_bytes, modality, stamp, expected=units[modality])
        stamps[modality] = lake.tables.mark(catalog_slot(modality), finished)
    lake.tables.remove(FORMER)
    return stamps


def drop_damaged_catalog(lake: Lake) -> bool:
    """Whether the catalog was damaged, and so is there no more: the tables, from which it is made, are."""
    with lake.turn(_TURN):  # what somebody is writing is not damaged
        return _drop_damaged(lake)


def _drop_damaged(lake: Lake) -> bool:
    damage = lake.catalog.damage()
    if damage:
        _LOG.warning("catalog: made again from the tables, since %s", damage[0])
        forget_catalog(lake)
    else:
        lake.catalog.settle()
    return bool(damage)


def forget_catalog(lake: Lake) -> None:
    """Remove the table and its stamps, these first: the next run makes it from the tables."""
    for modality in lake.tables.modalities(NAME):
        lake.tables.remove(catalog_slot(modality))
    lake.catalog.drop()


def _retyped(lake: Lake, updated: Collection[str]) -> list[str]:
    """The modalities, besides these, whose source fields have another type since their rows were written."""
    types = lake.catalog.source_field_types()
    stamps = {modality: lake.tables.stamp(catalog_slot(modality)) for modality in lake.parts.modalities}
    return [
        modality
        for modality, stamp in stamps.items()
        if modality not in updated and stamp is not None and stamp.inputs.get(_FIELDS) != _typed(stamp, types)[_FIELDS]
    ]


def _update(
    lake: Lake,
    modality: str,
    fields: catalog.FieldTypes,
    struct: pa.StructType | None,
    expected: set[str],
    *,
    has_absent: bool = True,
    run_id: str,
) -> Stamp:
    """The stamp of the modality's rows, which are now those of its tables; what the catalog says of them as a whole is
    not in it yet. has_absent: whether there may be rows of units that are no more."""
    started, inputs = Stopwatch(), catalog_inputs(lake, modality)
    kinds = {} if struct is None else {struct.field(at).name: struct.field(at).type for at in range(struct.num_fields)}
    inputs[_FIELDS] = canonical_json({name: str(kinds[name]) for name in sorted(fields.names & kinds.keys())})
    made, counts, border = set[str](), Counter[str](), f"{modality}: units -> catalog"
    for share in shares(lake, modality):
        rows = joined_rows(lake, modality, share, struct)
        digests = rows["digest"].to_pylist()
        contracts.known_keys(border, expected, digests)
        made.update(digests)
        if share.below is None:  # the last one: a row that is missing is known before anything is left out
            contracts.same_keys(border, expected, made)
        counts.update(lake.catalog.upsert(rows))
    counts["removed"] = lake.catalog.remove_absent(expected, modality=modality) if has_absent else 0
    return Stamp(
        data_version="",
        schema_version=1,
        num_rows=len(made),
        size_bytes=0,
        code_version=CODE_VERSION,
        settings_digest="",
        inputs=inputs,
        counts=dict(counts),
        run_id=run_id,
        **started.fields(),
    )


def _finished(rows: pa.Table, size_bytes: int, modality: str, stamp: Stamp, *, expected: set[str]) -> Stamp:
    """The stamp with what the catalog holds of the modality once all rows are written. rows: digest, modality and
    row_hash of all, sorted by digest. Raises ContractBroken."""
    own = pc.equal(rows["modality"], modality)
    claimed = pc.or_(own, pc.is_in(rows["digest"], value_set=pa.array(sorted(expected), pa.string())))
    accounted = contracts.same_keys(
        f"{modality}: stage tables -> catalog", expected, rows.filter(claimed)["digest"].to_pylist()
    )
    held = rows.filter(own)
    return replace(
        stamp,
        data_version=catalog.version_of(held),
        num_rows=held.num_rows,
        size_bytes=size_bytes * held.num_rows // max(rows.num_rows, 1),
        counts=stamp.counts | {"accounted": accounted},
    )


def _held(lake: Lake, modalities: Collection[str]) -> dict[str, set[str]]:
    """Modality -> the digests whose row is of it."""
    names = ", ".join(f"'{modality}'" for modality in modalities)
    rows = lake.catalog.read(["digest", "modality"], where=f"modality IN ({names})")
    return {
        modality: set(rows.filter(pc.equal(rows["modality"], modality))["digest"].to_pylist())
        for modality in modalities
    }


def unit_digests(lake: Lake, modality: str) -> set[str]:
    """The units of all items; an item that no table of units has yet is one."""
    items = set(contracts.digests(lake.tables.concat("items", modality, columns=["digest"])))
    found = lake.tables.concat("units", modality, columns=["digest", "parent_digest", "kind"])
    units = found.filter(pc.not_equal(found.column("kind"), preprocess.GAP))
    return items - set(found.column("parent_digest").to_pylist()) | set(units.column("digest").to_pylist())


def _source_fields(lake: Lake) -> dict[str, catalog.FieldTypes]:
    """Modality -> the source fields of its items that have bytes."""
    found: dict[str, catalog.FieldTypes] = {}
    for modality in lake.parts.modalities:
        types = found[modality] = catalog.FieldTypes()
        for items in lake.tables.scan_parts("items", modality, columns=["digest", "metadata_json"]):
            types.add(items.filter(items.column("digest").is_valid()).column("metadata_json").to_pylist())
    return found


def _typed(stamp: Stamp, types: dict[str, str]) -> dict[str, str]:
    """What the stamp would say of the source fields that it names, as the catalog has them now."""
    names = json.loads(stamp.inputs.get(_FIELDS, "{}"))
    return {_FIELDS: canonical_json({name: types.get(name, "") for name in names})}

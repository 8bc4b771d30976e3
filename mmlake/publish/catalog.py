"""The catalog brought up to date with the stage tables: bulk, idempotent, every distinct digest accounted for.

One LanceDB table with one writer. What is written, and what a stamp stands for, is a modality: its rows follow from its
own tables, but for two things that modalities share. A source field has one type over the lake, and a digest that two
modalities hold has one row. Where one of them touches the rows of another modality, those are brought up to date too.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from mmlake import catalog, contracts, preprocess
from mmlake.lake import Lake
from mmlake.parts import measure_columns
from mmlake.progress import Advance, silent
from mmlake.records import canonical_json
from mmlake.tables import Slot, Stamp, Stopwatch, joint_version

CODE_VERSION = "6"
NAME = "catalog"
FORMER = Slot(NAME, "all")  # the one stamp of earlier releases, over all modalities
_ROW_TABLES = ("items", "verdicts", "embeddings")
_CORPUS_TABLES = ("duplicate_clusters", "contamination", "cross_pairs")
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
    with lake.turn(_TURN):
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
    touched = {modality: units[modality] | _held(lake, modality) for modality in wanted}
    stamps = {}
    for modality in wanted:
        stamps[modality] = _update(lake, modality, own[modality], struct, units[modality], run_id=run_id)
        stamps[modality].counts["source_fields_left_out"] = left_out
        advance(stamps[modality].num_rows)
    for other in _retyped(lake, wanted):
        stamps[other] = _update(lake, other, own[other], struct, units[other], run_id=run_id)
    for other in units:
        digests = units[other].intersection(set[str]().union(*(touched[one] for one in touched if one != other)))
        # which of them the row is of may have changed
        if digests and (stamp := stamps.get(other) or lake.tables.stamp(catalog_slot(other))) is not None:
            lake.catalog.upsert(_rows(lake, other, struct, only=digests))
            stamps[other] = stamp
    lake.catalog.compact()
    for modality, stamp in stamps.items():
        stamps[modality] = lake.tables.mark(
            catalog_slot(modality), _finished(lake, modality, stamp, expected=units[modality])
        )
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
    run_id: str,
) -> Stamp:
    """The stamp of the modality's rows, which are now those of its tables; what the catalog says of them as a whole is
    not in it yet."""
    started, inputs = Stopwatch(), catalog_inputs(lake, modality)
    kinds = {} if struct is None else {struct.field(at).name: struct.field(at).type for at in range(struct.num_fields)}
    inputs[_FIELDS] = canonical_json({name: str(kinds[name]) for name in sorted(fields.names & kinds.keys())})
    rows = _rows(lake, modality, struct)
    contracts.same_keys(f"{modality}: units -> catalog", expected, rows.column("digest").to_pylist())
    counts = lake.catalog.upsert(rows)
    counts["removed"] = lake.catalog.remove_absent(expected, modality=modality)
    return Stamp(
        data_version="",
        schema_version=1,
        num_rows=rows.num_rows,
        size_bytes=0,
        code_version=CODE_VERSION,
        settings_digest="",
        inputs=inputs,
        counts=counts,
        run_id=run_id,
        **started.fields(),
    )


def _finished(lake: Lake, modality: str, stamp: Stamp, *, expected: set[str]) -> Stamp:
    """The stamp with what the catalog holds of the modality once all rows are written. Raises ContractBroken."""
    held = lake.catalog.read(["digest", "modality"])
    own = pc.equal(held["modality"], modality)
    claimed = pc.or_(own, pc.is_in(held["digest"], value_set=pa.array(sorted(expected), pa.string())))
    accounted = contracts.same_keys(
        f"{modality}: stage tables -> catalog", expected, held.filter(claimed)["digest"].to_pylist()
    )
    num_rows = held.filter(own).num_rows
    size = sum(path.stat().st_size for path in (lake.root / NAME).rglob("*") if path.is_file())
    return replace(
        stamp,
        data_version=lake.catalog.data_version(modality),
        num_rows=num_rows,
        size_bytes=size * num_rows // max(held.num_rows, 1),
        counts=stamp.counts | {"accounted": accounted},
    )


def _rows(lake: Lake, modality: str, struct: pa.StructType | None, only: Collection[str] = ()) -> pa.Table:
    """The catalog rows of the modality's units. only: of these digests; none means all."""
    items, verdicts, embeddings = (lake.tables.concat(table, modality) for table in _ROW_TABLES)
    rows = catalog.rows(
        items,
        unit_tracks_of(lake, modality),
        verdicts,
        lake.tables.read(Slot("duplicate_clusters", modality)),
        embeddings,
        modality=modality,
        measures=lake.tables.concat("measures", modality, columns=["digest", "measure", "value"]),
        contamination=lake.tables.read(Slot("contamination", modality), columns=["digest", "eval_set"]),
        cross_pairs=_cross_pairs(lake, modality),
        captions=_descriptions(lake, modality),
        measure_columns=measure_columns(lake.parts.modality(modality)),
        source_fields=struct,
    )
    return rows.filter(pc.is_in(rows["digest"], value_set=pa.array(sorted(only), pa.string()))) if only else rows


def _cross_pairs(lake: Lake, modality: str) -> pa.Table | None:
    slot = Slot("cross_pairs", modality)
    if lake.tables.stamp(slot) is None:  # nothing carries films
        return None
    return lake.tables.read(slot, columns=["digest", "component", "carrier", "relation"])


def _descriptions(lake: Lake, modality: str) -> pa.Table | None:
    """What models say of the modality's clips, as far as it can be used."""
    if not lake.tables.stamps("captions", modality):
        return None
    said = lake.tables.concat("captions", modality, columns=["digest", "status", "caption", "event_tags"])
    return said.filter(pc.and_(pc.is_valid(said["caption"]), pc.not_equal(said["status"], "unreadable")))


def _held(lake: Lake, modality: str) -> set[str]:
    """The digests whose row is of the modality."""
    return set(lake.catalog.read(["digest"], where=f"modality = '{modality}'")["digest"].to_pylist())


def unit_tracks_of(lake: Lake, modality: str) -> pa.Table:
    """The tracks of the units of all shards; a shard that has no units yet has none."""
    found = [preprocess.UNIT_TRACKS.empty_table()]
    for shard in lake.tables.shards("units", modality):
        tracks, units = (lake.tables.read(Slot(table, modality, shard)) for table in ("tracks", "units"))
        found.append(preprocess.unit_tracks(tracks, units))
    return pa.concat_tables(found)


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
        for _, items in lake.tables.scan("items", modality, columns=["digest", "metadata_json"]):
            types.add(items.filter(items.column("digest").is_valid()).column("metadata_json").to_pylist())
    return found


def _typed(stamp: Stamp, types: dict[str, str]) -> dict[str, str]:
    """What the stamp would say of the source fields that it names, as the catalog has them now."""
    names = json.loads(stamp.inputs.get(_FIELDS, "{}"))
    return {_FIELDS: canonical_json({name: types.get(name, "") for name in names})}

"""What a version is selected from, and what its recipe admits of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from mmlake import contracts, preprocess, schemas, sources
from mmlake.catalog.join import CATALOG_SCHEMA, METADATA
from mmlake.cuts import Uncut, version_of
from mmlake.error_codes import CODES
from mmlake.errors import ContractBroken
from mmlake.lake import Lake
from mmlake.parts import measure_columns
from mmlake.publish.catalog import FORMER, catalog_slot
from mmlake.publish.samples import SLOT as SAMPLES_SLOT
from mmlake.publish.samples import scan_samples
from mmlake.records import ADMITTED
from mmlake.samples import BOUND_SAMPLES, bind_units
from mmlake.schemas.caption_scores import CAPTION_SCORES
from mmlake.sources.shard import DEFAULT_PRIORITY
from mmlake.tables import Slot
from mmlake.versions import CATALOG_COLUMNS, Recipe, Selection, select

UNCUT = "uncut"  # among what a version is selected from: the units that cannot be cut


def selected_from(lake: Lake) -> dict[str, str]:
    """Data versions of the catalog, by modality, and of the samples as they are now; empty where they were not made.
    And of the scores of captions, and which units cannot be cut, where there are any."""
    slots = [*(catalog_slot(modality) for modality in lake.parts.modalities), SAMPLES_SLOT]
    stamps = {str(slot): lake.tables.stamp(slot) for slot in slots}
    found = {name: stamp.data_version if stamp else "" for name, stamp in stamps.items()}
    for modality in lake.parts.modalities:
        slot = Slot(CAPTION_SCORES.name, modality)
        if (scored := lake.tables.stamp(slot)) is not None and scored.num_rows:
            found[str(slot)] = scored.data_version
    return found | ({UNCUT: uncut} if (uncut := version_of(lake.cuts.uncut.now())) else {})


def is_selected_from(lake: Lake, recorded: dict[str, str]) -> bool:
    """Whether a version that records this was selected from what the lake holds now. A version of an earlier release
    records the catalog as a whole."""
    now, samples = selected_from(lake), str(SAMPLES_SLOT)
    if str(FORMER) not in recorded:
        return recorded == now
    return recorded == {str(FORMER): lake.catalog.data_version(), samples: now[samples]}


def selected(lake: Lake, recipe: Recipe, version: str, *, rows: pa.Table | None = None) -> Selection:
    """What the recipe admits of the lake's samples. Raises ContractBroken where an item of the catalog is in none.
    rows: what `catalog_rows` gives for it, where that is known."""
    rows = catalog_rows(lake, recipe) if rows is None else rows
    priorities = sources.priorities(lake.landing, lake.registry.directories())
    scan = partial(_scan, lake)
    selection = select(
        rows,
        scan,
        recipe,
        priority=lambda source: priorities.get(source, DEFAULT_PRIORITY),
        caption_scores=None if recipe.min_caption_score is None else _caption_scores(lake),
    )
    kept = [pc.struct_field(pc.list_flatten(chunk), "digest") for chunk in selection.samples["parts"].chunks]
    accounted = pa.chunked_array([*kept, *selection.excluded["digest"].chunks], pa.string())
    lost = rows["digest"].filter(pc.invert(pc.is_in(rows["digest"], value_set=pc.unique(accounted))))
    if len(lost):
        raise ContractBroken(
            f"catalog -> {version}: {len(lost)} units are in no sample, such as {pc.min(lost)}; materialize `samples` "
            "again"
        )
    return selection


def _caption_scores(lake: Lake) -> pa.Table:
    """digest, caption, cosine of every pair that has one."""
    columns = ["digest", "caption", "cosine", "status"]
    slots = [Slot(CAPTION_SCORES.name, modality) for modality in lake.parts.modalities]
    made = [lake.tables.read(slot, columns=columns) for slot in slots if lake.tables.stamp(slot) is not None]
    return contracts.made(pa.concat_tables([schemas.empty(CAPTION_SCORES).select(columns), *made]))


def _scan(lake: Lake) -> Iterator[pa.Table]:
    """The samples of each source shard, of units; one table of none where there are no shards."""
    yield _no_samples()
    yield from (_bound(lake, shard, part) for shard, part in scan_samples(lake))


def catalog_rows(lake: Lake, recipe: Recipe) -> pa.Table:
    """What a selection by the recipe reads of the catalog; a measure that no item has is null. Raises SettingsError,
    with near names, where the recipe names a column that there is not."""
    known, held = known_columns(lake), set(lake.catalog.columns())
    recipe.check(known, lake.catalog.source_fields())
    by_lower = {name.lower(): name for name in (*known, METADATA)}
    named = [by_lower[name] for name in recipe.columns if name in by_lower]
    more = list(dict.fromkeys(name for name in named if name not in CATALOG_COLUMNS))
    rows = lake.catalog.read([*CATALOG_COLUMNS, *(name for name in more if name in held)])
    for name in more:
        if name not in held:
            rows = rows.append_column(name, pa.nulls(rows.num_rows, pa.float64()))
    uncut = lake.cuts.uncut.now()
    return without_uncut(rows, uncut) if uncut else rows


def without_uncut(rows: pa.Table, uncut: Mapping[str, Uncut]) -> pa.Table:
    """The rows of the catalog; those of units that cannot be cut are unreadable, and of the duplicates that went for
    one of them the first stays. rows: CATALOG_COLUMNS and more."""
    reasons = {one.digest: f"{one.error_code} {CODES[one.error_code].name}: {one.reason}" for one in uncut.values()}
    said = pa.array([reasons.get(digest) for digest in rows["digest"].to_pylist()], pa.string())
    out, nothing = pc.is_valid(said), pa.scalar(None, pa.string())
    heirs = pc.is_in(rows["digest"], value_set=pa.array(_heirs(rows, uncut), pa.string()))
    changes = {"status": (out, "unreadable"), "rule": (out, nothing), "reason": (out, said), "tier": (heirs, nothing)}
    for name, (where, value) in changes.items():
        place = rows.column_names.index(name)
        rows = rows.set_column(place, name, pc.if_else(where, value, rows[name]))
    return rows


def _heirs(rows: pa.Table, uncut: Collection[str]) -> list[str]:
    """Of the admitted duplicates of each of these units the one with the smallest digest."""
    gone = pa.array(list(uncut), pa.string())
    led = pc.and_(pc.is_valid(rows["tier"]), pc.is_in(rows["survivor"], value_set=gone))
    led = pc.and_(pc.and_(led, pc.is_in(rows["status"], value_set=pa.array(ADMITTED))), _not_in(rows["digest"], gone))
    digests: list[str] = rows.filter(led).group_by("survivor").aggregate([("digest", "min")])["digest_min"].to_pylist()
    return digests


def _not_in(digests: pa.ChunkedArray, others: pa.Array) -> pa.ChunkedArray:
    return pc.invert(pc.is_in(digests, value_set=others))


def known_columns(lake: Lake) -> list[str]:
    """The columns that a condition may name: those of every catalog, those that this one has, and the measures of all
    modalities, whether the lake has an item of them or not."""
    measures = (name for row in lake.parts.modalities.values() for name in measure_columns(row))
    held = (name for name in lake.catalog.columns() if name != METADATA)
    return list(dict.fromkeys([*CATALOG_SCHEMA.names, *held, *measures]))


def _bound(lake: Lake, shard: str, samples: pa.Table) -> pa.Table:
    """The samples of a source shard, of units, with the key of the shard."""
    spans = [schemas.empty(schemas.UNITS)]
    for modality, row in lake.parts.modalities.items():
        slot = Slot(schemas.UNITS.name, modality, shard)
        if row.splitter is not None and lake.tables.stamp(slot) is not None:
            spans.append(preprocess.spans_of(lake.tables.read(slot)))
    bound = bind_units(samples, pa.concat_tables(spans))
    return bound.append_column("shard", pa.array([shard] * bound.num_rows, pa.string()))


def _no_samples() -> pa.Table:
    return BOUND_SAMPLES.empty_table().append_column("shard", pa.array([], pa.string()))


def held_digests(samples: pa.Table) -> list[str]:
    """The distinct digests of the parts of these samples."""
    parts = pc.list_flatten(samples["parts"])
    digests: list[str] = pc.unique(pc.struct_field(parts, "digest")).to_pylist()
    return digests

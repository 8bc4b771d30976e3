"""What a version is selected from, and what its recipe admits of it."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from mmlake import preprocess, schemas, sources
from mmlake.errors import ContractBroken
from mmlake.lake import Lake
from mmlake.publish.catalog import SLOT as CATALOG
from mmlake.publish.samples import SLOT as SAMPLES_SLOT
from mmlake.publish.samples import scan_samples
from mmlake.sample_schema import SAMPLES
from mmlake.samples import bind_units
from mmlake.sources.shard import DEFAULT_PRIORITY
from mmlake.versions import CATALOG_COLUMNS, Recipe, Selection, select


def selected_from(lake: Lake) -> dict[str, str]:
    """Data versions of the catalog and of the samples as they are now; empty where they were not made."""
    stamps = {str(slot): lake.tables.stamp(slot) for slot in (CATALOG, SAMPLES_SLOT)}
    return {name: stamp.data_version if stamp else "" for name, stamp in stamps.items()}


def selected(lake: Lake, recipe: Recipe, version: str) -> Selection:
    """What the recipe admits of the lake's samples. Raises ContractBroken where an item of the catalog is in none."""
    rows = lake.catalog.read(list(CATALOG_COLUMNS))
    samples = bind_units(
        pa.concat_tables([schemas.empty(SAMPLES), *(part for _, part in scan_samples(lake))]), _spans(lake)
    )
    priorities = sources.priorities(lake.landing)
    selection = select(rows, samples, recipe, priority=lambda source: priorities.get(source, DEFAULT_PRIORITY))
    accounted = set(held_digests(selection.samples)) | set(selection.excluded["digest"].to_pylist())
    if lost := sorted(set(rows["digest"].to_pylist()) - accounted):
        raise ContractBroken(
            f"catalog -> {version}: {len(lost)} units are in no sample, such as {lost[0]}; materialize `samples` again"
        )
    return selection


def _spans(lake: Lake) -> pa.Table:
    """The units of the lake that are no whole items."""
    found = [schemas.empty(schemas.UNITS)]
    for modality, row in lake.parts.modalities.items():
        if row.splitter is not None:
            for _, units in lake.tables.scan("units", modality):
                found.append(preprocess.spans_of(units))
    return pa.concat_tables(found)


def held_digests(samples: pa.Table) -> list[str]:
    """The distinct digests of the parts of these samples."""
    parts = pc.list_flatten(samples["parts"])
    digests: list[str] = pc.unique(pc.struct_field(parts, "digest")).to_pylist()
    return digests

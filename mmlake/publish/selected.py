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
from mmlake.samples import BOUND_SAMPLES, bind_units
from mmlake.sources.shard import DEFAULT_PRIORITY
from mmlake.tables import Slot
from mmlake.versions import CATALOG_COLUMNS, Recipe, Selection, select


def selected_from(lake: Lake) -> dict[str, str]:
    """Data versions of the catalog and of the samples as they are now; empty where they were not made."""
    stamps = {str(slot): lake.tables.stamp(slot) for slot in (CATALOG, SAMPLES_SLOT)}
    return {name: stamp.data_version if stamp else "" for name, stamp in stamps.items()}


def selected(lake: Lake, recipe: Recipe, version: str) -> Selection:
    """What the recipe admits of the lake's samples. Raises ContractBroken where an item of the catalog is in none."""
    rows = lake.catalog.read(list(CATALOG_COLUMNS))
    samples = pa.concat_tables([_bound(lake, shard, part) for shard, part in scan_samples(lake)] or [_no_samples()])
    priorities = sources.priorities(lake.landing)
    selection = select(rows, samples, recipe, priority=lambda source: priorities.get(source, DEFAULT_PRIORITY))
    accounted = set(held_digests(selection.samples)) | set(selection.excluded["digest"].to_pylist())
    if lost := sorted(set(rows["digest"].to_pylist()) - accounted):
        raise ContractBroken(
            f"catalog -> {version}: {len(lost)} units are in no sample, such as {lost[0]}; materialize `samples` again"
        )
    return selection


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

"""The one table over all modalities, a partition per modality. One writer: the pool."""

from collections.abc import Mapping

import dagster as dg

from mmlake.catalog import CATALOG_SCHEMA
from mmlake.lake import Lake
from mmlake.modalities import MODALITIES
from mmlake.publish import catalog_is_current, catalog_slot, update_catalog
from mmlake.steps import corpus_steps
from mmlake.tables import Stamp
from mmlake_assets import page
from mmlake_assets.factory import lane_asset


def _current(lake: Lake, modality: str, *, run_id: str) -> Mapping[str, Stamp]:
    """The stamp of the modality's rows: where its tables are what they were, such as behind new texts that are no
    captions of its pictures, nothing is joined again."""
    stamp = lake.tables.stamp(catalog_slot(modality))
    if stamp is not None and catalog_is_current(lake, modality):
        return {modality: stamp}
    return update_catalog(lake, modality, run_id=run_id)


ASSETS = [
    lane_asset(
        "catalog",
        modality,
        _current,
        stage="catalog",
        rows=(
            *("items", "tracks", "units", "measures", "verdicts", "embeddings"),
            *(("captions",) if row.captioner is not None else ()),
        ),
        corpus=tuple(
            step.name
            for step in corpus_steps(row)
            if step.name in ("duplicate_clusters", "contamination", "cross_pairs", "caption_scores")
        ),
        description=f"The rows of {modality} in the one LanceDB table, one per distinct unit, with verdict, measures,"
        " source fields, duplicates and vectors; searchable by text, vector and SQL. Rows that did not change are not"
        " written.",
        kinds=("lance",),
        code_version="7",
        columns=dg.TableSchema(columns=page.columns_of(CATALOG_SCHEMA, key=("digest",))),
        pool="catalog",  # one writer: a second run waits in the queue instead of meeting the lock
    )
    for modality, row in MODALITIES.items()
]

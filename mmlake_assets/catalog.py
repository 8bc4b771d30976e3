"""The one table over all modalities, a partition per modality. One writer: the pool."""

import dagster as dg

from mmlake.catalog import CATALOG_SCHEMA
from mmlake.modalities import MODALITIES
from mmlake.publish import update_catalog
from mmlake.steps import corpus_steps
from mmlake_assets import page
from mmlake_assets.factory import lane_asset

ASSETS = [
    lane_asset(
        "catalog",
        modality,
        update_catalog,
        stage="catalog",
        rows=(
            *("items", "tracks", "units", "measures", "verdicts", "embeddings"),
            *(("captions",) if row.captioner is not None else ()),
        ),
        corpus=tuple(
            step.name
            for step in corpus_steps(row)
            if step.name in ("duplicate_clusters", "contamination", "cross_pairs")
        ),
        description=f"The rows of {modality} in the one LanceDB table, one per distinct unit, with verdict, measures,"
        " source fields, duplicates and vectors; searchable by text, vector and SQL. Rows that did not change are not"
        " written.",
        kinds=("lance",),
        code_version="6",
        columns=dg.TableSchema(columns=page.columns_of(CATALOG_SCHEMA, key=("digest",))),
        pool="catalog",  # one writer: a second run waits in the queue instead of meeting the lock
    )
    for modality, row in MODALITIES.items()
]

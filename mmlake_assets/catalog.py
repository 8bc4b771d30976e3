"""The one table over all modalities. One writer: the catalog asset."""

import dagster as dg

from mmlake.catalog import CATALOG_SCHEMA
from mmlake.modalities import MODALITIES
from mmlake.publish import update_catalog
from mmlake_assets import page
from mmlake_assets.factory import AUTOMATION, LAKE_GROUP, OWNERS, STAGE_TAG
from mmlake_resources import LakeResource

UPSTREAM = [
    *(
        dg.AssetKey([modality, name])
        for modality in MODALITIES
        for name in ("items", "tracks", "units", "measures", "verdicts", "embeddings", "duplicate_clusters")
    ),
    dg.AssetKey("samples"),
]


@dg.asset(
    key="catalog",
    group_name=LAKE_GROUP,
    tags={STAGE_TAG: "catalog"},
    deps=UPSTREAM,
    description="One LanceDB row per distinct unit of all modalities, with verdict, measures, source fields,"
    " duplicates and vectors; searchable by text, vector and SQL.",
    kinds={"python", "lance"},
    owners=OWNERS,
    code_version="3",
    metadata={"dagster/column_schema": dg.TableSchema(columns=page.columns_of(CATALOG_SCHEMA, key=("digest",)))},
    automation_condition=AUTOMATION,
    pool="catalog",  # one writer: a second run waits in the queue instead of meeting the lock
)
def catalog(context: dg.AssetExecutionContext, lake: LakeResource) -> dg.MaterializeResult:
    """Brought up to date in bulk; rows that did not change are not written."""
    stamp = update_catalog(lake.open(), run_id=context.run.run_id)
    metadata = {
        "dagster/row_count": stamp.num_rows,
        "seconds": stamp.seconds,
        "bytes": stamp.size_bytes,
        **stamp.counts,
    }
    return dg.MaterializeResult(metadata=metadata, data_version=dg.DataVersion(stamp.data_version))


ASSETS = [catalog]

"""What belongs together, over all modalities: one table per source shard, one asset."""

import dagster as dg

from mmlake.modalities import MODALITIES
from mmlake.publish import update_samples
from mmlake.sample_schema import SAMPLES
from mmlake_assets import page
from mmlake_assets.factory import AUTOMATION, LAKE_GROUP, OWNERS, STAGE_TAG
from mmlake_resources import LakeResource


@dg.asset(
    key="samples",
    group_name=LAKE_GROUP,
    tags={STAGE_TAG: "samples"},
    deps=[dg.AssetKey([modality, "items"]) for modality in MODALITIES],
    description="What belongs together in a source: ordered parts with their roles, and the fields that the source"
    " gave; one row per distinct sample of a shard.",
    kinds={"python", "parquet"},
    owners=OWNERS,
    code_version="1",
    metadata={"dagster/column_schema": page.column_schema(SAMPLES)},
    automation_condition=AUTOMATION,
    pool="samples",  # one writer: a second run waits in the queue
)
def samples(context: dg.AssetExecutionContext, lake: LakeResource) -> dg.MaterializeResult:
    """Made anew are the tables of shards whose items changed."""
    stamp = update_samples(lake.open(), run_id=context.run.run_id)
    metadata = {"dagster/row_count": stamp.num_rows, **stamp.counts}
    return dg.MaterializeResult(metadata=metadata, data_version=dg.DataVersion(stamp.data_version))


ASSETS = [samples]

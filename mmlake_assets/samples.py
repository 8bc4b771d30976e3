"""What belongs together, over all modalities: one table per source shard, one asset."""

import dagster as dg

from mmlake.modalities import MODALITIES
from mmlake.publish import update_samples
from mmlake.steps import SAMPLES_STEP, each_modality
from mmlake_assets import page
from mmlake_assets.factory import AUTOMATION, LAKE_GROUP, OWNERS, STAGE_TAG, input_key
from mmlake_resources import LakeResource


@dg.asset(
    key=SAMPLES_STEP.name,
    group_name=LAKE_GROUP,
    tags={STAGE_TAG: SAMPLES_STEP.stage},
    deps=[input_key(name, "") for name in each_modality(SAMPLES_STEP.inputs, MODALITIES)],
    description=SAMPLES_STEP.description,
    kinds={"python", *SAMPLES_STEP.kinds},
    owners=OWNERS,
    code_version=SAMPLES_STEP.code_version,
    metadata={"dagster/column_schema": page.column_schema(SAMPLES_STEP.schema)},
    automation_condition=AUTOMATION,
    pool="samples",  # one writer: a second run waits in the queue
)
def samples(context: dg.AssetExecutionContext, lake: LakeResource) -> dg.MaterializeResult:
    """Made anew are the tables of shards whose items changed."""
    stamp = update_samples(lake.open(), run_id=context.run.run_id)
    metadata = {"dagster/row_count": stamp.num_rows, **stamp.counts}
    return dg.MaterializeResult(metadata=metadata, data_version=dg.DataVersion(stamp.data_version))


ASSETS = [samples]

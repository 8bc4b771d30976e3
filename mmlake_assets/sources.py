"""What the landing zone holds, as rows; and the rows that could not be read, in one table for the whole lake."""

import dagster as dg

from mmlake.modalities import MODALITIES
from mmlake.publish import update_dead_letters
from mmlake.schemas import DEAD_LETTERS
from mmlake.steps import ROW_STEPS
from mmlake_assets import page
from mmlake_assets.factory import AUTOMATION, LAKE_GROUP, OWNERS, STAGE_TAG, row_asset
from mmlake_resources import LakeResource


@dg.asset(
    key="dead_letters",
    group_name=LAKE_GROUP,
    tags={STAGE_TAG: "sources"},
    deps=[dg.AssetKey([modality, name]) for modality in MODALITIES for name in ("items", "blobs", "tracks")],
    description="Every item that could not be read, stored or decoded: code, reason, place, number of "
    "attempts. `mmlake retry` tries them again.",
    kinds={"python", "parquet"},
    owners=OWNERS,
    code_version="1",
    metadata={"dagster/column_schema": page.column_schema(DEAD_LETTERS)},
    automation_condition=AUTOMATION,
)
def dead_letters(context: dg.AssetExecutionContext, lake: LakeResource) -> dg.MaterializeResult:
    """Made anew from all tables; what was known about a failure is carried over."""
    stamp = update_dead_letters(lake.open(), run_id=context.run.run_id)
    metadata = {
        "dagster/row_count": stamp.num_rows,
        "seconds": stamp.seconds,
        "bytes": stamp.size_bytes,
        **stamp.counts,
    }
    return dg.MaterializeResult(metadata=metadata, data_version=dg.DataVersion(stamp.data_version))


ASSETS = [*(row_asset(ROW_STEPS["items"], modality) for modality in MODALITIES), dead_letters]

"""What the landing zone holds, as rows; and the rows that could not be read, in one table per modality."""

from mmlake.modalities import MODALITIES
from mmlake.publish import update_dead_letters
from mmlake.publish.dead_letters import STAGES
from mmlake.schemas import DEAD_LETTERS
from mmlake.steps import ROW_STEPS, row_steps
from mmlake_assets import page
from mmlake_assets.factory import lane_asset, row_asset

DEAD = [
    lane_asset(
        DEAD_LETTERS.name,
        modality,
        update_dead_letters,
        stage="sources",
        rows=tuple(step.name for step in row_steps(row) if step.name in STAGES),
        description=f"Every item of {modality} that could not be read, stored or decoded: code, reason, place, number"
        " of attempts. What was known about a failure is carried over. `mmlake retry` tries them again.",
        kinds=("parquet",),
        code_version="2",
        columns=page.column_schema(DEAD_LETTERS),
    )
    for modality, row in MODALITIES.items()
]
ASSETS = [*(row_asset(ROW_STEPS["items"], modality) for modality in MODALITIES), *DEAD]

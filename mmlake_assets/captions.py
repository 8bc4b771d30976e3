"""What language models say of units."""

from mmlake.modalities import MODALITIES
from mmlake.steps import ROW_STEPS
from mmlake_assets.factory import row_asset

ASSETS = [
    row_asset(ROW_STEPS["captions"], modality)
    for modality, row in MODALITIES.items()
    if ROW_STEPS["captions"].is_for(row)
]

"""What decoding finds."""

from mmlake.modalities import MODALITIES
from mmlake.steps import ROW_STEPS
from mmlake_assets.factory import row_asset

ASSETS = [row_asset(ROW_STEPS["tracks"], modality) for modality in MODALITIES]

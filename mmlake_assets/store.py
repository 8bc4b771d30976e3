"""The bytes behind the rows."""

from mmlake.modalities import MODALITIES
from mmlake.steps import ROW_STEPS
from mmlake_assets.factory import row_asset

ASSETS = [row_asset(ROW_STEPS["blobs"], modality) for modality in MODALITIES]

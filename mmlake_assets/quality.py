"""Numbers, and what the rules make of them: two assets, so that a new threshold judges again without decoding."""

from mmlake.modalities import MODALITIES
from mmlake.steps import ROW_STEPS
from mmlake_assets.factory import row_asset

ASSETS = [row_asset(ROW_STEPS[step], modality) for modality in MODALITIES for step in ("measures", "verdicts")]

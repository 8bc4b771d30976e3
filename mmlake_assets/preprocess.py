"""What decoding finds."""

from mmlake.modalities import MODALITIES
from mmlake.steps import ROW_STEPS
from mmlake_assets.factory import row_asset

ASSETS = [
    row_asset(ROW_STEPS[step], modality)
    for modality, row in MODALITIES.items()
    for step in ("tracks", "alignments", "speakers", "units")
    if ROW_STEPS[step].is_for(row)
]

"""Fingerprints per shard; pairs and clusters per modality, because pairs cross shards."""

from mmlake.modalities import MODALITIES
from mmlake.steps import ROW_STEPS, corpus_steps
from mmlake_assets.factory import corpus_asset, row_asset

ASSETS = [
    *(
        row_asset(ROW_STEPS[step], modality)
        for modality, row in MODALITIES.items()
        for step in ("fingerprints", "component_fingerprints")
        if ROW_STEPS[step].is_for(row)
    ),
    *(corpus_asset(step, modality) for modality, row in MODALITIES.items() for step in corpus_steps(row)),
]

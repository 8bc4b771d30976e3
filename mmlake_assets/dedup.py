"""Fingerprints per shard; pairs and clusters per modality, because pairs cross shards."""

from mmlake.modalities import MODALITIES
from mmlake.steps import CORPUS_STEPS, ROW_STEPS
from mmlake_assets.factory import corpus_asset, row_asset

ASSETS = [
    *(row_asset(ROW_STEPS["fingerprints"], modality) for modality in MODALITIES),
    *(corpus_asset(step, modality) for modality in MODALITIES for step in CORPUS_STEPS.values()),
]

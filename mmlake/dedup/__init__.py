"""Which items are the same thing: fingerprints, near and semantic pairs, clusters with one survivor each."""

from __future__ import annotations

from mmlake.dedup.clusters import cluster
from mmlake.dedup.semantic import measure_recall
from mmlake.dedup.settings import FINGERPRINT_SETTINGS, DedupSettings
from mmlake.dedup.text import Banding, banding
from mmlake.dedup.tiers import TIERS, Tier, fingerprint, near_pairs, semantic_pairs, tiers_of
from mmlake.dedup.witness import without_template_siblings

__all__ = [
    "FINGERPRINT_SETTINGS",
    "TIERS",
    "Banding",
    "DedupSettings",
    "Tier",
    "banding",
    "cluster",
    "fingerprint",
    "measure_recall",
    "near_pairs",
    "semantic_pairs",
    "tiers_of",
    "without_template_siblings",
]

"""Which items are the same thing: fingerprints, near and semantic pairs, clusters with one survivor each."""

from __future__ import annotations

from mmlake.dedup.clusters import cluster
from mmlake.dedup.contamination import component_hits, exact_hits, near_hits, semantic_hits
from mmlake.dedup.cross import component_fingerprints, components_of, cross_counts, cross_pairs
from mmlake.dedup.estimates import recall_counts, recall_of, recall_words
from mmlake.dedup.eval_sets import DecontaminateSettings, EvalSet
from mmlake.dedup.fidelity import criteria_of
from mmlake.dedup.fingerprinting import fingerprint
from mmlake.dedup.kept_store import KeptJoins, is_as_written
from mmlake.dedup.print_columns import prints_of
from mmlake.dedup.prints import Positions
from mmlake.dedup.semantic import measure_recall
from mmlake.dedup.semantic_tier import semantic_pairs
from mmlake.dedup.settings import FINGERPRINT_SETTINGS, DedupSettings
from mmlake.dedup.survivors import CLOSENESS, Criterion, length_of
from mmlake.dedup.text_matching import key_recall
from mmlake.dedup.tiers import TIERS, Tier, near_pairs, tiers_of
from mmlake.dedup.vectors import Apart
from mmlake.dedup.witness import template_veto

__all__ = [
    "CLOSENESS",
    "FINGERPRINT_SETTINGS",
    "TIERS",
    "Apart",
    "Criterion",
    "DecontaminateSettings",
    "DedupSettings",
    "EvalSet",
    "KeptJoins",
    "Positions",
    "Tier",
    "cluster",
    "component_fingerprints",
    "component_hits",
    "components_of",
    "criteria_of",
    "cross_counts",
    "cross_pairs",
    "exact_hits",
    "fingerprint",
    "is_as_written",
    "key_recall",
    "length_of",
    "measure_recall",
    "near_hits",
    "near_pairs",
    "prints_of",
    "recall_counts",
    "recall_of",
    "recall_words",
    "semantic_hits",
    "semantic_pairs",
    "template_veto",
    "tiers_of",
]

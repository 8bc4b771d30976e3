"""Which items are the same thing: fingerprints, near and semantic pairs, clusters with one survivor each.

Where to read, in the order of the data; `tiers`, the table of ways to find near duplicates, comes first:

- prints of one unit: `fingerprinting`; what each modality has of its own: `text`, `image`, `audio`, `video`
- candidates: prints and keys of all units (`prints`, `print_columns`), who holds a key (`numbering`, `postings`)
- one pair: what a tier says of two units (`matching`)
- the join: who follows whom (`greedy`), whom clusters elect (`stars`); what is new alone: `kept`
- vectors: `vectors`
- who stays: `criteria`, `fidelity`; how well all of it finds: `recall`
- other tables: across modalities (`cross`), eval sets (`contamination`)
- loops that numba compiles: `loops`, and the `kernels` of modalities
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mmlake.dedup.contamination.eval_sets import DecontaminateSettings, EvalSet
    from mmlake.dedup.contamination.hits import component_hits, exact_hits, near_hits, semantic_hits
    from mmlake.dedup.criteria import CLOSENESS, Criterion, length_of
    from mmlake.dedup.cross.components import component_fingerprints, components_of, cross_counts, cross_pairs
    from mmlake.dedup.fidelity import criteria_of
    from mmlake.dedup.fingerprinting import fingerprint
    from mmlake.dedup.kept.store import KeptJoins, is_as_written
    from mmlake.dedup.print_columns import prints_at
    from mmlake.dedup.prints import Positions
    from mmlake.dedup.recall.estimates import recall_counts, recall_of, recall_words
    from mmlake.dedup.settings import FINGERPRINT_SETTINGS, DedupSettings
    from mmlake.dedup.stars.clusters import cluster
    from mmlake.dedup.text.matcher import key_recall
    from mmlake.dedup.tiers import TIERS, Tier, near_pairs, tiers_of
    from mmlake.dedup.vectors.matcher import Apart
    from mmlake.dedup.vectors.proposals import measure_recall
    from mmlake.dedup.vectors.tier import semantic_pairs
    from mmlake.dedup.vectors.witness import VETO_PRINTS, text_veto, veto

__all__ = [
    "CLOSENESS",
    "FINGERPRINT_SETTINGS",
    "TIERS",
    "VETO_PRINTS",
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
    "prints_at",
    "recall_counts",
    "recall_of",
    "recall_words",
    "semantic_hits",
    "semantic_pairs",
    "text_veto",
    "tiers_of",
    "veto",
]

# who compares texts alone loads nothing of films: the modules come when they are asked for
_MODULES = {
    "stars.clusters": "cluster",
    "contamination.hits": "component_hits exact_hits near_hits semantic_hits",
    "cross.components": "component_fingerprints components_of cross_counts cross_pairs",
    "recall.estimates": "recall_counts recall_of recall_words",
    "contamination.eval_sets": "DecontaminateSettings EvalSet",
    "fidelity": "criteria_of",
    "fingerprinting": "fingerprint",
    "kept.store": "KeptJoins is_as_written",
    "print_columns": "prints_at",
    "prints": "Positions",
    "vectors.proposals": "measure_recall",
    "vectors.tier": "semantic_pairs",
    "settings": "FINGERPRINT_SETTINGS DedupSettings",
    "criteria": "CLOSENESS Criterion length_of",
    "text.matcher": "key_recall",
    "tiers": "TIERS Tier near_pairs tiers_of",
    "vectors.matcher": "Apart",
    "vectors.witness": "VETO_PRINTS text_veto veto",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)

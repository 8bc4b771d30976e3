"""Which items are the same thing: fingerprints, near and semantic pairs, clusters with one survivor each.

Where to read, in the order of the data; `tiers.py`, the table of ways to find near duplicates, comes first:

- prints of one unit: `fingerprinting`, then `text`, `image`, `video` and `audio`, each with modules of its name
- candidates: keys of units (`*_keys`), who holds them (`postings`, `numbering`), hashes within a radius (`joins`)
- one pair: what a tier says of two units (`matching`; the `*_matcher`, `*_alignment` and `text_verdicts`)
- the join: stars in place of all pairs (`leaders`, `led`, `followers`, `survivors`, `star_edges`), copies that several
  units hold between them (`across`), comparisons by workers (`ahead`)
- what is new alone (`kept`, and the `kept_*` behind it); of texts by parts (`kept_parts`)
- vectors: `semantic_tier`, `vectors`, `semantic`, `index_choice`; what keeps a pair apart (`witness`, `contrasts`)
- who stays: `clusters`, `criteria`, `fidelity`; how well all of it finds: `estimates`, `near_recall`, `key_curve`
- other tables: across modalities (`cross`), eval sets (`contamination`, `eval_sets`)
- loops that numba compiles: `*_kernels`, kept by `machine_code`
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mmlake.dedup.clusters import cluster
    from mmlake.dedup.contamination import component_hits, exact_hits, near_hits, semantic_hits
    from mmlake.dedup.criteria import CLOSENESS, Criterion, length_of
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
    from mmlake.dedup.text_matching import key_recall
    from mmlake.dedup.tiers import TIERS, Tier, near_pairs, tiers_of
    from mmlake.dedup.vectors import Apart
    from mmlake.dedup.witness import VETO_PRINTS, text_veto, veto

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
    "prints_of",
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
    "clusters": "cluster",
    "contamination": "component_hits exact_hits near_hits semantic_hits",
    "cross": "component_fingerprints components_of cross_counts cross_pairs",
    "estimates": "recall_counts recall_of recall_words",
    "eval_sets": "DecontaminateSettings EvalSet",
    "fidelity": "criteria_of",
    "fingerprinting": "fingerprint",
    "kept_store": "KeptJoins is_as_written",
    "print_columns": "prints_of",
    "prints": "Positions",
    "semantic": "measure_recall",
    "semantic_tier": "semantic_pairs",
    "settings": "FINGERPRINT_SETTINGS DedupSettings",
    "criteria": "CLOSENESS Criterion length_of",
    "text_matching": "key_recall",
    "tiers": "TIERS Tier near_pairs tiers_of",
    "vectors": "Apart",
    "witness": "VETO_PRINTS text_veto veto",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)

"""Diversity of a version, frozen retrieval probes, their scores, and the decision between two versions.

`Diversity` and `Clustering` are in `shape.py`, `Decision` in `decision.py`.
"""

from __future__ import annotations

from mmlake.evaluate.decision import compare
from mmlake.evaluate.distortions import distort_image, distort_samples
from mmlake.evaluate.isolation import isolation, loneliest
from mmlake.evaluate.probes import Probe, ProbeSet, build_probes, lot, middle_words
from mmlake.evaluate.scores import score_probes, summarize
from mmlake.evaluate.settings import EvaluateSettings
from mmlake.evaluate.shape import cluster, describe_clusters, diversity

__all__ = [
    "EvaluateSettings",
    "Probe",
    "ProbeSet",
    "build_probes",
    "cluster",
    "compare",
    "describe_clusters",
    "distort_image",
    "distort_samples",
    "diversity",
    "isolation",
    "loneliest",
    "lot",
    "middle_words",
    "score_probes",
    "summarize",
]

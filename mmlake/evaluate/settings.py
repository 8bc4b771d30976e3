"""The settings of the evaluation of a version."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluateSettings:
    """How diversity is measured, probes are made, and two versions are compared."""

    seed: int = 17
    # any number; starts k-means, picks the probes and drives the resampling, so that equal inputs give equal figures
    num_clusters: int = 0
    # 0: about sqrt(items), at least 2 and at most 256; set it to hold the resolution fixed over versions of very
    # different size
    max_iterations: int = 25
    # Lloyd rounds; the histogram of unit vectors hardly moves after about ten
    probes_per_modality: int = 100
    # about 100 probes detect a change of 0.1 in recall; fewer make "inconclusive" the usual answer
    query_words: int = 12
    # words; the length of a typed question, long enough to single out one document
    ks: tuple[int, ...] = (1, 5, 10)
    # cut-offs of recall and nDCG; the last one bounds the list that is kept per probe
    metric: str = "ndcg_at_10"
    # the one measure that the decision is taken on, fixed beforehand: choosing it afterwards would void the p-values
    alpha: float = 0.05
    # fraction; how often a comparison of a version with its like may call a difference (family-wise, over all
    # modalities)
    margin: float = 0.01
    # in units of the metric; a loss smaller than this is not held against a version even where it is certain
    num_resamples: int = 10_000
    # bootstrap and sign-flip draws; 10,000 give p-values near 0.05 to within 0.004

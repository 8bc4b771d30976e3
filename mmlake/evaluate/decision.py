"""Whether a new version answers the probes better than the old one: keep, reject, or inconclusive.

Enters: two score tables over the same frozen probes. Leaves: paired differences with intervals, corrected p-values, and
how small a difference could have been seen.
Says nothing about why, and never turns "no evidence" into "no difference".
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import pyarrow as pa

from mmlake.errors import SettingsError

OUTCOMES = ("keep", "reject", "inconclusive")
_POWER = 0.8  # of the minimum detectable difference: the convention since Cohen 1988
_CHUNK_CELLS = 2_000_000
_EQUAL = 1e-12  # means closer than this are the same number: sums of scores are only exact to rounding


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """New minus old on the probes of one modality, or of all."""

    modality: str
    num_probes: int
    num_changed: int  # probes whose score differs at all
    mean_old: float
    mean_new: float
    mean_difference: float
    ci_low: float  # percentile bootstrap over probes, level 1 - alpha, not corrected
    ci_high: float
    p_value: float  # sign-flip permutation test, two-sided
    p_corrected: float  # Holm, over the rows of the decision
    min_detectable_difference: float  # seen with probability 0.8 at the strictest Holm step
    verdict: str  # better, worse, slightly worse (certain, but within the margin), or unclear


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """The outcome, the row over all probes, one row per modality, and the rule in words."""

    outcome: str  # of OUTCOMES
    metric: str
    alpha: float
    margin: float
    num_probes: int
    mean_difference: float
    ci_low: float
    ci_high: float
    p_value: float
    min_detectable_difference: float
    rows: tuple[Difference, ...]  # "all" first where there are several modalities
    explanation: str

    def to_dict(self) -> dict[str, Any]:
        """The decision as plain values."""
        return asdict(self) | {"rows": [asdict(row) for row in self.rows]}


def compare(
    scores_a: pa.Table,
    scores_b: pa.Table,
    *,
    metric: str,
    alpha: float,
    margin: float,
    seed: int,
    num_resamples: int = 10_000,
) -> Decision:
    """Whether version b, the new one, is to be kept in place of a.

    reject: somewhere (a modality, or all probes) b is worse: corrected p < alpha and the mean loss exceeds margin.
    keep: otherwise, and somewhere b is better: corrected p < alpha and a gain. inconclusive: otherwise.
    The chance of keep or reject between two equal versions is at most alpha. Raises SettingsError where the two tables
    hold different probes.
    """
    modalities, old, new = _paired(scores_a, scores_b, metric)
    if not 0 < alpha < 1 or margin < 0:
        raise SettingsError(f"compare: alpha={alpha} must lie in (0, 1) and margin={margin} in [0, 1]")
    names = sorted(set(modalities))
    groups = [(name, np.array([modality == name for modality in modalities])) for name in names]
    if len(names) != 1:
        groups.insert(0, ("all", np.ones(len(modalities), dtype=bool)))
    rngs = np.random.default_rng(seed).spawn(len(groups))
    tested = [
        (name, old[mask], new[mask], _test(new[mask] - old[mask], rng=rng, alpha=alpha, num_resamples=num_resamples))
        for (name, mask), rng in zip(groups, rngs, strict=True)
    ]
    corrected = holm([test[2] for *_, test in tested])
    rows = tuple(
        _row(name, a, b, test, p_corrected=p, alpha=alpha, margin=margin, num_rows=len(tested))
        for (name, a, b, test), p in zip(tested, corrected, strict=True)
    )
    verdicts = {row.verdict for row in rows}
    outcome = "reject" if "worse" in verdicts else "keep" if "better" in verdicts else "inconclusive"
    whole = rows[0]
    return Decision(
        outcome=outcome,
        metric=metric,
        alpha=alpha,
        margin=margin,
        num_probes=whole.num_probes,
        mean_difference=whole.mean_difference,
        ci_low=whole.ci_low,
        ci_high=whole.ci_high,
        p_value=whole.p_value,
        min_detectable_difference=whole.min_detectable_difference,
        rows=rows,
        explanation=_explain(outcome, rows, metric=metric, alpha=alpha, margin=margin),
    )


def holm(p_values: list[float]) -> list[float]:
    """The p-values corrected for their number, in the same order. Method: Holm 1979, valid under any dependence."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    corrected, largest = [0.0] * len(p_values), 0.0
    for place, index in enumerate(order):
        largest = max(largest, min(1.0, p_values[index] * (len(p_values) - place)))
        corrected[index] = largest
    return corrected


def sign_flip_p(differences: np.ndarray, *, rng: np.random.Generator, num_resamples: int) -> float:
    """Two-sided p-value that the paired differences are symmetric around 0; exact where all sign patterns are at
    most num_resamples."""
    moved = differences[np.abs(differences) > _EQUAL]
    if not len(moved):
        return 1.0
    observed = abs(math.fsum(moved)) - _EQUAL * len(moved)
    if 2 ** min(len(moved), 60) <= num_resamples:
        patterns = (np.arange(2 ** len(moved))[:, None] >> np.arange(len(moved))) & 1
        return float(np.mean(np.abs((2.0 * patterns - 1) @ moved) >= observed))
    extreme, chunk = 0, max(1, _CHUNK_CELLS // len(moved))
    for start in range(0, num_resamples, chunk):
        signs = rng.integers(0, 2, size=(min(chunk, num_resamples - start), len(moved)), dtype=np.int8)
        extreme += int(np.count_nonzero(np.abs((2.0 * signs - 1) @ moved) >= observed))
    return (1 + extreme) / (1 + num_resamples)


def bootstrap_interval(
    differences: np.ndarray, *, rng: np.random.Generator, alpha: float, num_resamples: int
) -> tuple[float, float]:
    """Percentile interval of the mean at level 1 - alpha. Method: Efron 1979, drawn as multinomial counts of the
    distinct values, which is the same law and cheaper."""
    if not len(differences):
        return 0.0, 0.0
    values, counts = np.unique(differences, return_counts=True)
    means, chunk = [], max(1, _CHUNK_CELLS // len(values))
    for start in range(0, num_resamples, chunk):
        drawn = rng.multinomial(len(differences), counts / len(differences), size=min(chunk, num_resamples - start))
        means.append(drawn @ values / len(differences))
    low, high = np.quantile(np.concatenate(means), [alpha / 2, 1 - alpha / 2])
    return float(low), float(high)


def min_detectable_difference(differences: np.ndarray, *, alpha: float) -> float:
    """The mean difference that a two-sided test at alpha finds with probability 0.8, given the spread seen here.

    Where no probe changed, the spread is unknown: then the share of probes that would have to change from 0 to 1 for
    the sign-flip test to see it.
    """
    num = len(differences)
    if num == 0:
        return 1.0
    spread = float(np.std(differences, ddof=1)) if num > 1 else 0.0
    if spread <= _EQUAL:
        return min(1.0, math.ceil(math.log2(2 / alpha)) / num)
    normal = NormalDist()
    return min(1.0, (normal.inv_cdf(1 - alpha / 2) + normal.inv_cdf(_POWER)) * spread / math.sqrt(num))


def _test(
    differences: np.ndarray, *, rng: np.random.Generator, alpha: float, num_resamples: int
) -> tuple[float, float, float]:
    low, high = bootstrap_interval(differences, rng=rng, alpha=alpha, num_resamples=num_resamples)
    return low, high, sign_flip_p(differences, rng=rng, num_resamples=num_resamples)


def _paired(scores_a: pa.Table, scores_b: pa.Table, metric: str) -> tuple[list[str], np.ndarray, np.ndarray]:
    tables = []
    for name, scores in (("old", scores_a), ("new", scores_b)):
        if metric not in scores.column_names:
            known = [column for column in scores.column_names if "_at_" in column or column == "reciprocal_rank"]
            raise SettingsError(f"compare: the {name} scores have no column {metric!r}; choose one of {known}")
        tables.append(scores.select(["probe_id", "modality", metric]).sort_by("probe_id"))
    ids_a, ids_b = (table.column("probe_id").to_pylist() for table in tables)
    if ids_a != ids_b:
        alone = sorted(set(ids_a) ^ set(ids_b))
        raise SettingsError(
            f"compare: {len(alone)} probes are in one table only ({', '.join(alone[:3])}); score both versions "
            "with the same frozen probe set"
        )
    return tables[0].column("modality").to_pylist(), *(
        table.column(metric).to_numpy().astype(np.float64) for table in tables
    )


def _row(
    modality: str,
    old: np.ndarray,
    new: np.ndarray,
    test: tuple[float, float, float],
    *,
    p_corrected: float,
    alpha: float,
    margin: float,
    num_rows: int,
) -> Difference:
    differences = new - old
    mean = float(differences.mean()) if len(differences) else 0.0
    verdict = "unclear"
    if p_corrected < alpha and abs(mean) > _EQUAL:
        verdict = "better" if mean > 0 else "worse" if mean < -margin else "slightly worse"
    return Difference(
        modality=modality,
        num_probes=len(differences),
        num_changed=int(np.count_nonzero(np.abs(differences) > _EQUAL)),
        mean_old=_rounded(old.mean() if len(old) else 0.0),
        mean_new=_rounded(new.mean() if len(new) else 0.0),
        mean_difference=_rounded(mean),
        ci_low=_rounded(test[0]),
        ci_high=_rounded(test[1]),
        p_value=_rounded(test[2]),
        p_corrected=_rounded(p_corrected),
        min_detectable_difference=_rounded(min_detectable_difference(differences, alpha=alpha / num_rows)),
        verdict=verdict,
    )


def _rounded(value: float) -> float:
    return round(float(value), 6) + 0.0  # + 0.0 turns -0.0 into 0.0


def _explain(outcome: str, rows: tuple[Difference, ...], *, metric: str, alpha: float, margin: float) -> str:
    def said(row: Difference) -> str:
        evidence = (
            f"interval {row.ci_low:+.4f} to {row.ci_high:+.4f}, corrected p {row.p_corrected:.4f}, {row.num_probes} "
            "probes"
        )
        name = "all probes" if row.modality == "all" else row.modality
        return f"{name} {row.mean_difference:+.4f} ({row.mean_old:.4f} to {row.mean_new:.4f}, {evidence})"

    better, worse = ([row for row in rows if row.verdict == verdict] for verdict in ("better", "worse"))
    if outcome == "reject":
        return f"Reject: {metric} fell by more than the margin of {margin:g} in {'; '.join(map(said, worse))}."
    if outcome == "keep":
        return (
            f"Keep: {metric} rose in {'; '.join(map(said, better))}, and fell significantly by more than {margin:g} "
            "nowhere."
        )
    whole = rows[0]
    small = [row for row in rows if row.verdict == "slightly worse"]
    certain = f"no change of {metric} is certain at a family-wise level of {alpha:g}"
    if small:
        certain = f"{metric} fell for certain, but within the margin of {margin:g}, in {'; '.join(map(said, small))}"
    return (
        f"Inconclusive: {certain}. Over {said(whole)}; {whole.num_changed} of these changed. "
        f"With these probes a change of {whole.min_detectable_difference:.4f} would have been found four "
        "times in five; add probes to see smaller ones."
    )

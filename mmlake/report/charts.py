"""Charts of the report that are more than one table: findings, the decision, costs; and their words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from mmlake.report import svg
from mmlake.report.data import RuleCount, SourceRow

_MAX_SOURCES = 12  # the least usable ones; the table has all
_MOSTLY_USABLE = 0.5  # as the checks of verdicts, where nothing is set


def rule_chart(rules: Sequence[RuleCount]) -> Markup:
    rows = [
        svg.Bar(
            f"{rule.rule} ({rule.modality})",
            rule.count,
            f"{rule.count:,}",
            "flagged" if rule.severity == "P2" else "unreadable" if rule.severity == "P0" else "quarantined",
        )
        for rule in rules[:16]
    ]
    return svg.bars(rows, title="findings per rule", unit="items") if rows else Markup("")


def source_chart(sources: Sequence[SourceRow]) -> Markup:
    """A bar for each of the least usable sources."""
    ranked = sorted(sources, key=lambda one: (one.usable_fraction, -one.num_units, one.source, one.modality))
    rows = [
        svg.Bar(
            f"{one.source} ({one.modality})",
            100 * one.usable_fraction,
            f"{one.usable_fraction:.1%} of {one.num_units:,}, weighted {one.weighted_fraction:.1%}",
            "ok" if one.usable_fraction >= _MOSTLY_USABLE else "quarantined",
        )
        for one in ranked[:_MAX_SOURCES]
    ]
    return svg.bars(rows, title="usable share of each source", unit="percent of its units") if rows else Markup("")


def decision_words(decision: dict[str, Any]) -> str:
    """The explanation without the outcome that it begins with, which stands next to it in large type."""
    words = str(decision.get("explanation", ""))
    start = f"{decision.get('outcome', '')}: "
    rest = words[len(start) :] if words.lower().startswith(start) else words
    return rest[:1].upper() + rest[1:]


def decision_chart(decision: dict[str, Any]) -> Markup:
    colours = {"better": "ok", "worse": "quarantined", "slightly worse": "flagged"}
    rows = [
        (
            row["modality"],
            row["ci_low"],
            row["mean_difference"],
            row["ci_high"],
            f"{row['mean_difference']:+.4f} · p {row['p_corrected']:.3f} · {row['verdict']}",
            colours.get(row["verdict"], "c7"),
        )
        for row in decision.get("rows", [])
    ]
    if not rows:
        return Markup("")
    unit = (
        f"change of {decision['metric']}, new minus old; line: {1 - decision['alpha']:.0%} interval, p corrected, "
        "grey: margin"
    )
    return svg.intervals(rows, title="difference between the versions", unit=unit, margin=decision["margin"])


def cost_chart(costs: Sequence[dict[str, Any]]) -> Markup:
    sums: dict[str, list[float]] = {}
    for row in costs:
        if row["stage"] != "total":
            entry = sums.setdefault(row["stage"], [0.0, 0.0])
            entry[0] += row["cpu_seconds"]
            entry[1] += row["cost_usd"]
    rows = [
        svg.Bar(stage, seconds, f"{seconds:,.2f} s · est. {svg.usd(usd)}") for stage, (seconds, usd) in sums.items()
    ]
    return svg.bars(rows, title="CPU time per stage", unit="CPU seconds, all modalities") if rows else Markup("")


def price_words(prices: dict[str, float]) -> str:
    names = {
        "usd_per_cpu_hour": "a CPU hour",
        "usd_per_gpu_hour": "a GPU hour",
        "usd_per_gb_month": "a GB-month",
        "usd_per_gb_egress": "a GB leaving the region",
    }
    return ", ".join(f"${prices[key]:g} {name}" for key, name in names.items() if key in prices)

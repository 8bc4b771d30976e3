"""The lake in numbers: units by status, duplicates by tier, versions, seconds and cost. Counts add up: units = ok +
flagged + quarantined + unreadable + waiting."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from rich.table import Table

from mmlake.drawing import table
from mmlake.errors import ContractBroken, MmlakeError
from mmlake.lake import Lake
from mmlake.publish import read_result, unfinished_steps, version_names
from mmlake.publish.ledger import ledger
from mmlake.records import STATUSES
from mmlake.schemas.cross import ALIKE
from mmlake.source_summary import SourceSummary, usable_lines
from mmlake.tables import Slot
from mmlake.unit_counts import UnitCounts, counts_of, counts_of_shard

TIERS = ("exact", "near", "semantic")


@dataclass(frozen=True, kw_only=True, slots=True)
class ModalitySummary:
    """One modality's units and duplicates, counted by occurrence of their items."""

    modality: str
    num_shards: int
    num_items: int  # rows that landed
    num_rows: int  # whole items, and the spans of those that are cut
    statuses: dict[str, int]  # every status -> rows
    duplicates: dict[str, int]  # tier -> rows that another row stands for
    num_carried: int  # units that lie alone and that a film or recording carries
    rules: dict[str, int] = field(default_factory=dict)  # gravest rule -> rows
    num_gaps: int = 0  # stretches of cut items that are no unit
    num_waiting: int = 0  # rows without a verdict yet: a run is going on, or was stopped
    sources: tuple[SourceSummary, ...] = ()  # by name


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """Everything that the end of a run shows."""

    modalities: tuple[ModalitySummary, ...]
    versions: tuple[dict[str, Any], ...]
    costs: tuple[dict[str, Any], ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "modalities": [asdict(row) for row in self.modalities],
            "versions": list(self.versions),
            "costs": list(self.costs),
        }

    def tables(self) -> list[Table]:
        """Rows and versions for a terminal."""
        is_waiting = any(row.num_waiting for row in self.modalities)
        is_carried = any(row.num_carried for row in self.modalities)
        rows: list[list[Any]] = [
            [
                row.modality,
                row.num_shards,
                row.num_items,
                row.num_rows,
                row.num_gaps,
                *(row.statuses[name] for name in STATUSES),
                *([row.num_waiting] if is_waiting else []),
                *(row.duplicates[tier] for tier in TIERS),
                *([row.num_carried] if is_carried else []),
            ]
            for row in [one for one in self.modalities if one.num_shards] or self.modalities
        ]
        rows.append(["all", *(sum(row[column] for row in rows) for column in range(1, len(rows[0])))])
        numbers = [
            "shards",
            "items",
            "units",
            "gaps",
            *STATUSES,
            *(["waiting"] if is_waiting else []),
            *(f"{tier} dup." for tier in TIERS),
            *(["carried"] if is_carried else []),
        ]
        drawn = [table("Units", ["modality", *numbers], rows, right=numbers)]
        if used := usable_lines([(row.modality, one) for row in self.modalities for one in row.sources]):
            numbers = ["units", "usable", "weighted"]
            columns = ["source", "modality", *numbers, "not usable for", "smaller weight for"]
            drawn.append(table("Usable by source and cause", columns, used, right=numbers))
        if self.versions:
            numbers = ["samples", "parts", "excluded", "masked", "pairs kept"]
            columns = ["version", "id", *numbers, "diversity", "nDCG@10", "decision"]
            lines = [
                [
                    version_label(row),
                    row["id"][:16],
                    *(row[name] for name in ("num_samples", "num_parts", "num_excluded", "num_masked")),
                    "" if row["pairs_kept_fraction"] is None else f"{row['pairs_kept_fraction']:.1%}",
                    _by_modality(row["diversity"]),
                    _by_modality(row["scores"]),
                    row["decision"] or "",
                ]
                for row in self.versions
            ]
            drawn.append(table("Versions", columns, lines, right=numbers))
        return drawn

    def stages(self) -> list[Table]:
        """What each stage took, for a terminal; nothing where none was made."""
        columns = ["stage", "items", "seconds", "cpu s", "items/s", "est. cost USD"]
        lines = [
            [
                row["stage"],
                row["num_items"],
                round(row["seconds"], 1),
                round(row["cpu_seconds"], 1),
                row["items_per_s"],
                f"{row['cost_usd']:.5f}",
            ]
            for row in self.costs
        ]
        return [table("Stages, last time that they were made", columns, lines, right=columns[1:])] if lines else []


def summarize(lake: Lake, *, keep: bool = False) -> Summary:
    """The lake as it is now. Raises ContractBroken where the counts do not add up.

    keep: write the counts of each shard, for the next summary: of a run, which may write in the lake."""
    return Summary(
        modalities=tuple(_modality(lake, modality, keep=keep) for modality in lake.parts.modalities),
        versions=tuple(version_summary(lake, name) for name in version_names(lake)),
        costs=tuple(costs_by_stage(lake)),
    )


def version_summary(lake: Lake, name: str) -> dict[str, Any]:
    """One version in a line: what it holds, how diverse it is, how it answers the probes, what was decided."""
    row: dict[str, Any] = {
        "version": name,
        "id": "",
        "is_draft": False,  # no branch may point at it: its checks have not passed
        "unfinished": [],  # steps of a published version that were never made
        "num_samples": 0,
        "num_parts": 0,  # kept ones
        "num_items": 0,  # distinct digests of kept parts
        "num_excluded": 0,  # samples
        "num_masked": 0,  # parts of samples that stay
        "pairs_kept_fraction": None,  # of captions and transcripts whose lead stays; null where there are none
        "diversity": {},
        "scores": {},
        "decision": None,
        "baseline": None,
    }
    if not lake.versions.is_tagged(name):
        return row
    made = lake.versions.read(name)
    row |= {
        "id": made.id,
        "is_draft": lake.versions.is_draft(made.id),
        "unfinished": _unfinished(lake, name),
        "num_samples": made.num_samples,
        "num_parts": sum(total["num_parts"] for total in made.samples.values()),
        "num_items": made.num_items,
        "num_excluded": made.num_excluded,
        "num_masked": made.num_masked,
    }
    if num_pairs := sum(count["num_pairs"] for count in made.pairs.values()):
        row["pairs_kept_fraction"] = sum(count["num_kept"] for count in made.pairs.values()) / num_pairs
    row["diversity"] = {modality: space["normalized_entropy"] for modality, space in (made.diversity or {}).items()}
    for step in ("probe_scores", "decision"):
        try:
            document = read_result(lake, name, step)
        except MmlakeError:
            continue  # the version was not finished; the line says so by what it lacks
        if step == "decision":
            row |= {
                "decision": document["outcome"],
                "baseline": document["baseline"],
                "explanation": document["explanation"],
            }
        else:
            row["scores"] = _mean_by_modality(document["summary"])
    return row


def version_label(row: dict[str, Any]) -> str:
    """The version's name, and what `mmlake run` has still to do with it."""
    left = "draft" if row["is_draft"] else "unfinished" if row["unfinished"] else ""
    return f"{row['version']} ({left})" if left else str(row["version"])


def _unfinished(lake: Lake, name: str) -> list[str]:
    try:
        return unfinished_steps(lake, name)
    except MmlakeError:
        return []  # of damaged results; `fsck` names them


def _mean_by_modality(summary: list[dict[str, Any]]) -> dict[str, float]:
    """nDCG@10 per searched modality over all kinds of query, weighted by their number of probes."""
    sums: dict[str, list[float]] = {}
    for row in summary:
        if row["modality"] != "all":
            total = sums.setdefault(row["modality"], [0.0, 0.0])
            total[0] += row["ndcg_at_10"] * row["num_probes"]
            total[1] += row["num_probes"]
    return {modality: round(score / count, 4) for modality, (score, count) in sums.items() if count}


def sources_of(lake: Lake, modality: str, shard: str) -> tuple[SourceSummary, ...]:
    """How much of each source of one shard a version can use, by name; nothing of what was not judged yet."""
    return _sources(counts_of_shard(lake, modality, shard))


def _sources(counts: UnitCounts) -> tuple[SourceSummary, ...]:
    return tuple(one.summary(source) for source, one in sorted(counts.by_source.items()))


def costs_by_stage(lake: Lake) -> list[dict[str, Any]]:
    """The cost ledger summed over modalities, in data order."""
    sums: dict[str, dict[str, Any]] = {}
    for row in ledger(lake).to_pylist():
        into = sums.setdefault(
            row["stage"], {"stage": row["stage"], "num_items": 0, "seconds": 0.0, "cpu_seconds": 0.0, "cost_usd": 0.0}
        )
        for name in ("num_items", "seconds", "cpu_seconds", "cost_usd"):
            into[name] += row[name]
    for row in sums.values():
        row["items_per_s"] = round(row["num_items"] / row["seconds"], 1) if row["seconds"] else None
    return list(sums.values())


def _modality(lake: Lake, modality: str, *, keep: bool) -> ModalitySummary:
    counts, num_units = counts_of(lake, modality, keep=keep)
    num_rows = counts.by_status.total() + counts.num_waiting
    if unknown := counts.by_status.keys() - set(STATUSES):
        raise ContractBroken(
            f"{modality}: rows have the statuses {sorted(unknown)}, expected some of {STATUSES}; re-materialize "
            "the verdicts"
        )
    tiers = Counter(exact=num_rows - num_units - counts.num_bare)
    if lake.tables.has("duplicate_clusters", modality):
        tiers.update(
            tier
            for tier in lake.tables.read(Slot("duplicate_clusters", modality), columns=["tier"])
            .column("tier")
            .to_pylist()
            if tier
        )
    return ModalitySummary(
        modality=modality,
        num_shards=len(lake.tables.shards("items", modality)),
        num_items=counts.num_items,
        num_rows=num_rows,
        num_gaps=counts.num_gaps,
        statuses={name: counts.by_status[name] for name in STATUSES},
        duplicates={tier: tiers[tier] for tier in TIERS},
        num_carried=_num_carried(lake, modality),
        rules=dict(sorted(counts.by_rule.items())),
        num_waiting=counts.num_waiting,
        sources=_sources(counts),
    )


def _num_carried(lake: Lake, modality: str) -> int:
    if not lake.tables.has("cross_pairs", modality):
        return 0
    pairs = lake.tables.read(Slot("cross_pairs", modality), columns=["digest", "relation"])
    alike = pc.is_in(pairs["relation"], value_set=pa.array(ALIKE))
    return len(pc.unique(pairs["digest"].filter(alike)))


def _by_modality(values: dict[str, float | None]) -> str:
    return " ".join(f"{name} {value:.2f}" for name, value in values.items() if value is not None)

"""The lake held against a planted truth: no item missing, none double, each with the status and rule that was
planted, every duplicate found."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from mmlake.drawing import table
from mmlake.errors import SettingsError
from mmlake.evaluate import Probe, ProbeSet, build_probes
from mmlake.lake import Lake
from mmlake.progress import Advance, silent
from mmlake.publish import pin_probes, pinned_probes
from mmlake.records import ADMITTED, STATUSES
from mmlake.summary import TIERS
from mmlake.tables import Slot
from mmlake.truth.units import excerpt_pairs, long_stretches

if TYPE_CHECKING:
    from mmlake.sample import Truth, TruthItem

# what the near and semantic tiers must reach; the exact tier must reach 1 in both
NEAR_RECALL, NEAR_PRECISION = 0.95, 0.99


@dataclass(frozen=True, kw_only=True, slots=True)
class TierTruth:
    """One tier of one modality against what was planted. Pairs within a cluster are counted, so that a torn cluster
    shows."""

    tier: str
    modality: str
    num_planted: int
    num_recovered: int
    num_found: int
    num_right: int  # of the found pairs, those that some tier of the truth holds

    @property
    def recall(self) -> float:
        """Planted pairs that were found."""
        return self.num_recovered / self.num_planted if self.num_planted else 1.0

    @property
    def precision(self) -> float:
        """Found pairs that are planted."""
        return self.num_right / self.num_found if self.num_found else 1.0

    @property
    def is_met(self) -> bool:
        """Whether the tier does what it must."""
        bounds = (1.0, 1.0) if self.tier == "exact" else (NEAR_RECALL, NEAR_PRECISION)
        return self.recall >= bounds[0] and self.precision >= bounds[1]


@dataclass(frozen=True, kw_only=True, slots=True)
class Truthful:
    """The comparison."""

    num_items: int  # rows that the truth asks for
    num_rows: int  # rows that the lake has
    missing: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    wrong: list[dict[str, str]] = field(default_factory=list)  # rows and spans judged otherwise than planted
    num_spans: int = 0  # clips and segments of items that are planted as sound
    defects: dict[str, list[int]] = field(default_factory=dict)  # rule -> [planted, found]
    tiers: list[TierTruth] = field(default_factory=list)

    @property
    def is_met(self) -> bool:
        """Whether the whole truth is met."""
        return not (self.missing or self.unexpected or self.wrong) and all(tier.is_met for tier in self.tiers)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self) | {
            "is_met": self.is_met,
            "tiers": [
                asdict(tier) | {"recall": tier.recall, "precision": tier.precision, "is_met": tier.is_met}
                for tier in self.tiers
            ],
        }

    def planted(self) -> dict[tuple[str, str], tuple[int, int]]:
        """(tier, modality) -> pairs planted, of these found: for the report."""
        return {(tier.tier, tier.modality): (tier.num_planted, tier.num_recovered) for tier in self.tiers}

    def tables(self) -> list[Table]:
        """The same for a terminal."""
        columns = ["tier", "modality", "planted pairs", "found of them", "recall", "pairs found", "precision", ""]
        rows = [
            [
                t.tier,
                t.modality,
                t.num_planted,
                t.num_recovered,
                f"{t.recall:.3f}",
                t.num_found,
                f"{t.precision:.3f}",
                "met" if t.is_met else "NOT MET",
            ]
            for t in self.tiers
            if t.num_planted or t.num_found
        ]
        drawn = [table("Duplicates against the planted truth", columns, rows, right=columns[2:7])]
        whole = sum(counts[1] for counts in self.defects.values()), sum(counts[0] for counts in self.defects.values())
        lines = [
            [
                "rows",
                f"{self.num_items} planted, {self.num_rows} in the lake, {len(self.missing)} missing, "
                f"{len(self.unexpected)} unexpected",
            ]
        ]
        lines.append(
            [
                "defects",
                f"{whole[0]} of {whole[1]} found under the planted rule; {len(self.wrong)} rows with another status "
                f"or rule than planted, clips and segments ({self.num_spans}) included",
            ]
        )
        lines += [["  " + row["item"], f"expected {row['expected']}, is {row['actual']}"] for row in self.wrong[:10]]
        lines += [["  missing", name] for name in self.missing[:5]] + [
            ["  unexpected", name] for name in self.unexpected[:5]
        ]
        drawn.append(table("Rows against the planted truth", ["", ""], lines))
        return drawn


def compare_with_truth(lake: Lake, truth: Truth) -> Truthful:
    """The lake as it is now against the truth of the sample that it was made from."""
    rows = _rows(lake)
    expected = Counter((item.shard, item.modality, item.digest or f"({item.rule})") for item in truth.items)
    actual = Counter((row["shard"], row["modality"], row["digest"] or f"({row['rule']})") for row in rows)
    verdicts = {(row["modality"], row["digest"] or f"({row['rule']})", row["shard"]): row for row in rows}
    wrong: list[dict[str, str]] = []
    num_spans = 0
    defects: dict[str, list[int]] = {}
    for item in truth.items:
        row = verdicts.get((item.modality, item.digest or f"({item.rule})", item.shard))
        if item.defect:
            counts = defects.setdefault(item.rule or item.defect, [0, 0])
            counts[0] += 1
        if row is None:
            continue
        if (row["status"], row["rule"] or None) != (item.status, item.rule or None):
            wrong.append(_otherwise(item, row))
        elif item.defect:
            defects[item.rule or item.defect][1] += 1
        else:  # nothing is planted in it, so in none of its spans either
            num_spans += len(row["spans"])
            wrong += [_otherwise(item, span) for span in row["spans"] if span["status"] != item.status]
    return Truthful(
        num_items=len(truth.items),
        num_rows=len(rows),
        missing=[_spelled(key) for key in sorted((expected - actual).elements())],
        unexpected=[_spelled(key) for key in sorted((actual - expected).elements())],
        wrong=wrong,
        num_spans=num_spans,
        defects=dict(sorted(defects.items())),
        tiers=_tiers(lake, truth, rows),
    )


def _otherwise(item: TruthItem, judged: dict[str, Any]) -> dict[str, str]:
    """What was planted, and the verdict on the item, or on a span of it."""
    where = f" from {judged['start'] / 1e6:.2f} to {judged['end'] / 1e6:.2f}" if "start" in judged else ""
    return {
        "item": f"{item.shard}::{item.member}{where}",
        "expected": f"{item.status} {item.rule or ''}".strip(),
        "actual": f"{judged['status']} {judged['rule'] or ''} {judged['reason'] or ''}".strip(),
    }


def prepare_sample(directory: Path, *, scale: float, advance: Advance = silent) -> Truth:
    """The truth of the sample corpus in `<directory>/landing`, which is generated unless it is there already in that
    size."""
    from mmlake.sample import SampleSettings, Truth, generate

    settings = SampleSettings(scale=scale)
    try:
        known = Truth.read(directory / "truth.json")
    except SettingsError:
        return generate(directory, settings=settings, advance=advance)  # none yet, or one that was interrupted
    if (known.seed, known.scale) == (settings.seed, settings.scale):
        return known
    return generate(directory, settings=settings, advance=advance)


def pin_sample_probes(lake: Lake, truth: Truth) -> None:
    """Freeze the sample's hand-made text probes together with known-item probes for the media; does nothing where
    probes are pinned."""
    if pinned_probes(lake) is not None:
        return
    settings = lake.settings.evaluate
    rows = lake.catalog.read(["digest", "modality", "role", "status", "survivor", "text"]).to_pylist()
    made = build_probes(
        [row for row in rows if row["modality"] != "text"],
        modalities=tuple(lake.parts.modalities),
        seed=settings.seed,
        per_modality=settings.probes_per_modality,
    )
    known = {row["digest"] for row in rows}
    asked = [
        probe
        for probe in truth.probes
        if probe.kind == "text" and probe.modality == "text" and known.issuperset(probe.relevant)
    ]
    texts = [
        Probe(
            id=f"sample-text-{number:03d}",
            kind="text",
            modality="text",
            query=probe.query,
            relevant=tuple(sorted(probe.relevant)),
        )
        for number, probe in enumerate(asked)
    ]
    pin_probes(lake, ProbeSet((*texts, *made.probes)))


def _rows(lake: Lake) -> list[dict[str, Any]]:
    """Every item row with its verdict, and those on its spans where it is cut."""
    found = []
    for modality in lake.parts.modalities:
        for shard, items in lake.tables.scan(
            "items", modality, columns=["item_id", "digest", "error_code", "materialize_error"]
        ):
            verdicts = _verdicts(lake, modality, shard)
            for item in items.to_pylist():
                verdict = (
                    verdicts[item["digest"]]
                    if item["digest"]
                    else {
                        "status": "unreadable",
                        "rule": _rule_of(item["error_code"]),
                        "reason": item["materialize_error"],
                        "spans": [],
                    }
                )
                found.append(
                    {
                        "shard": shard,
                        "modality": modality,
                        "digest": item["digest"],
                        **{name: verdict[name] for name in ("status", "rule", "reason", "spans")},
                    }
                )
    return found


def _verdicts(lake: Lake, modality: str, shard: str) -> dict[str, dict[str, Any]]:
    """Digest of each item -> the best of its units' verdicts, since an item is as good as what can be taken from it,
    and all of them where it is cut (`spans`)."""
    columns = ["digest", "status", "rule", "reason"]
    made = {
        row["digest"]: row for row in lake.tables.read(Slot("verdicts", modality, shard), columns=columns).to_pylist()
    }
    columns = ["digest", "parent_digest", "kind", "start", "end"]
    units: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for unit in lake.tables.read(Slot("units", modality, shard), columns=columns).to_pylist():
        if (verdict := made.get(unit["digest"])) is not None:
            units[unit["parent_digest"]].append(unit | verdict)
    return {
        digest: min(judged, key=lambda one: STATUSES.index(one["status"]))
        | {"spans": [one for one in judged if one["kind"] != "whole"]}
        for digest, judged in units.items()
    }


def _rule_of(code: int | None) -> str:
    from mmlake.error_codes import CODES

    return CODES[code].name if code in CODES else ""


def _tiers(lake: Lake, truth: Truth, rows: list[dict[str, Any]]) -> list[TierTruth]:
    made = [_exact(truth, rows, modality) for modality in lake.parts.modalities]
    related = {
        modality: _closure(
            [one.digests for one in truth.duplicates if one.tier != "exact" and one.modality == modality]
        )
        for modality in lake.parts.modalities
    }
    stretches = long_stretches(lake, truth)
    for tier in TIERS[1:]:
        for modality in lake.parts.modalities:
            planted = {
                pair
                for one in truth.duplicates
                if one.tier == tier and one.modality == modality
                for pair in _pairs(one.digests)
            }
            found_pairs = {
                (min(row["left"], row["right"]), max(row["left"], row["right"]))
                for row in lake.tables.read(Slot(f"{tier}_duplicates", modality)).to_pylist()
                if row["relation"] in ("same", "inside", "across")
            }
            together = _together(lake, modality)
            admitted = {row["digest"] for row in rows if row["modality"] == modality and row["status"] in ADMITTED}
            planted = {pair for pair in planted if set(pair) <= admitted}
            made.append(
                TierTruth(
                    tier=tier,
                    modality=modality,
                    num_planted=len(planted),
                    num_recovered=sum(
                        left in together and together[left] == together.get(right) for left, right in planted
                    ),
                    num_found=len(found_pairs),
                    num_right=len(found_pairs & (related[modality] | excerpt_pairs(truth, stretches, modality))),
                )
            )
    return made


def _exact(truth: Truth, rows: list[dict[str, Any]], modality: str) -> TierTruth:
    found = {
        digest: count
        for digest, count in Counter(
            row["digest"] for row in rows if row["modality"] == modality and row["digest"]
        ).items()
        if count > 1
    }
    planted = {
        one.digests[0]: one.num_occurrences or 1
        for one in truth.duplicates
        if one.tier == "exact" and one.modality == modality
    }
    right = sum(min(count, planted.get(digest, 1)) - 1 for digest, count in found.items())
    return TierTruth(
        tier="exact",
        modality=modality,
        num_planted=sum(count - 1 for count in planted.values()),
        num_recovered=right,
        num_found=sum(count - 1 for count in found.values()),
        num_right=right,
    )


def _together(lake: Lake, modality: str) -> dict[str, str]:
    clusters = lake.tables.read(Slot("duplicate_clusters", modality), columns=["digest", "survivor"])
    return dict(zip(clusters.column("digest").to_pylist(), clusters.column("survivor").to_pylist(), strict=True))


def _closure(groups: list[tuple[str, ...]]) -> set[tuple[str, str]]:
    """Every pair that the groups tie together, directly or through others: two edits of one text are duplicates of
    each other as well."""
    merged: list[set[str]] = []
    for group in groups:
        touching = [one for one in merged if one & set(group)]
        merged = [one for one in merged if not one & set(group)] + [set(group).union(*touching)]
    return {pair for one in merged for pair in _pairs(tuple(one))}


def _pairs(digests: tuple[str, ...]) -> set[tuple[str, str]]:
    ordered = sorted(digests)
    return {(left, right) for index, left in enumerate(ordered) for right in ordered[index + 1 :]}


def _spelled(key: tuple[str, str, str]) -> str:
    return f"{key[1]} {key[0]} {key[2] if key[2].startswith('(') else key[2][:16]}"

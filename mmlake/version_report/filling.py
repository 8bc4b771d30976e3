"""Fills the HTML report of a version from the lake: counts from the tables, thumbnails, sounds and films from the
store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake import __version__, costs, dedup, evaluate, report
from mmlake.errors import MmlakeError, RefMissing
from mmlake.item_provenance import story_of
from mmlake.lake import Lake
from mmlake.publish import read_result, version_names
from mmlake.publish.ledger import ledger as lake_ledger
from mmlake.publish.probe_vectors import corpus_vectors
from mmlake.publish.titles import title_with_text
from mmlake.records import ADMITTED
from mmlake.report import (
    EmbeddingMap,
    FlowStep,
    ModalityRows,
    ReportData,
    RuleCount,
    SourceRow,
    TierCount,
)
from mmlake.summary import ModalitySummary, Summary, summarize
from mmlake.version_report.crossed import crossed_of
from mmlake.version_report.duplicates import clusters_of, pairs_of
from mmlake.version_report.examples import Examples, spread
from mmlake.version_report.tracks import tracks_of
from mmlake.versions import Manifest

_OF_SOURCE = ("source", "num_units", "usable_fraction", "weighted_fraction", "causes", "lowered")
_LONERS = 12  # units of a map that are least like the others
_EXAMPLES = 6  # per rule, and admitted items per modality
_COLUMNS = [
    "digest",
    "modality",
    "role",
    "sources",
    "sample_ids",
    "text",
    "status",
    "rule",
    "reason",
    "severity",
    "error_code",
    "duration_s",
    "survivor",
    "is_survivor",
    "tier",
    "score",
    "cluster_size",
    "preview_digest",
    "keyframe_digests",
    "size_bytes",
    "kind",
    "parent_digest",
    "span_start_s",
    "span_end_s",
]

Planted = dict[tuple[str, str], tuple[int, int]]  # (tier, modality) -> duplicates planted, of these found


def report_path(lake: Lake, version: str) -> Path:
    """Where the report of a version lies."""
    return lake.root / "reports" / f"{version}.html"


def write_version_report(
    lake: Lake, version: str | None, *, planted: Planted | None = None, summary: Summary | None = None
) -> Path:
    """The path of the version's report, written now. version None: the newest curated one, else the newest of all."""
    chosen = version or _newest(lake)
    path = report_path(lake, chosen)
    path.parent.mkdir(parents=True, exist_ok=True)
    report.write_report(gather(lake, chosen, planted=planted or {}, summary=summary or summarize(lake)), path)
    return path


def newest_report(lake: Lake) -> Path:
    """Where the report of the newest version lies, written or not. Raises RefMissing where there is no version."""
    return report_path(lake, _newest(lake))


def _newest(lake: Lake) -> str:
    tags = lake.versions.tags()
    names = [name for name in version_names(lake) if name in tags]
    if not names:
        raise RefMissing(f"lake {lake.root} has no version yet; run `mmlake run`")
    return next((name for name in reversed(names) if name.startswith("curated-")), names[-1])


def gather(lake: Lake, version: str, *, planted: Planted, summary: Summary) -> ReportData:
    """Everything that the report shows."""
    rows = lake.catalog.read(_COLUMNS).to_pylist()
    made, examples = lake.versions.read(version), Examples.of(lake)
    held = set(lake.versions.items(version).column("digest").to_pylist())
    data = ReportData(title=f"mmlake {version}", subtitle=made.recipe.description, version=made.id)
    data.samples_in_version = made.num_samples
    data.refs = [
        name for name, id_ in [*lake.versions.branches().items(), *lake.versions.tags().items()] if id_ == made.id
    ]
    # a lake of recordings alone says nothing of films, however much that is
    there = [one for one in summary.modalities if one.num_rows] or summary.modalities
    data.rows = [_headline(one, rows, held) for one in there]
    data.flows = {one.modality: _flow(one, rows, held) for one in there if one.num_rows}
    data.sources = [
        SourceRow(modality=one.modality, **{name: getattr(source, name) for name in _OF_SOURCE})
        for one in summary.modalities
        for source in one.sources
    ]
    data.rules = [
        _rule(lake, examples, one.modality, rule=rule, count=count, rows=rows)
        for one in summary.modalities
        for rule, count in one.rules.items()
    ]
    recall = made.made_with.get("recall", {})
    data.tiers = [_tier(one, tier, planted, recall) for one in there for tier in one.duplicates]
    data.clusters = [one for name in lake.parts.modalities for one in clusters_of(lake, examples, name, rows)]
    data.pairs = [one for name in lake.parts.modalities for one in pairs_of(lake, examples, name, rows)]
    data.crossed = [one for name in lake.parts.modalities for one in crossed_of(lake, examples, name, rows)]
    data.samples = [
        examples.example(row)
        for modality in lake.parts.modalities
        for row in spread([row for row in rows if row["modality"] == modality and row["digest"] in held], _EXAMPLES)
    ]
    data.tracks = tracks_of(lake, version)
    data.maps = [
        found
        for modality in lake.parts.modalities
        if (found := _map(lake, made, modality, held=held, rows=rows, examples=examples)) is not None
    ]
    _add_results(lake, version, data)
    ledger = lake_ledger(lake)
    data.costs, data.prices = ledger.to_pylist(), asdict(costs.Prices())
    shown = next((row for row in rows if row["tier"]), rows[0] if rows else None)
    if shown is not None:
        story = story_of(lake, shown["digest"])
        data.story, data.story_text = story.to_dict(), story.to_text()
    data.facts = {
        "mmlake": __version__,
        "settings": made.settings_digest,
        "samples": ", ".join(f"{count['num_samples']:,} {kind}" for kind, count in made.samples.items()),
        "pairs kept": ", ".join(
            f"{count['num_kept']:,} of {count['num_pairs']:,} {role}s" for role, count in made.pairs.items()
        ),
        "left out": f"{made.num_excluded:,} samples, and {made.num_masked:,} parts of others",
        "encoders": ", ".join(f"{name} ({revision})" for name, revision in made.encoders.items()),
        "probe set": data.probe_set,
    }
    data.notes = _notes(lake, [one.modality for one in there])
    return data


def _headline(one: ModalitySummary, rows: list[dict[str, Any]], held: set[str]) -> ModalityRows:
    mine = [row for row in rows if row["modality"] == one.modality]
    return ModalityRows(
        modality=one.modality,
        num_rows=one.num_rows,
        **one.statuses,
        num_distinct=len(mine),
        num_duplicates=sum(bool(row["tier"]) for row in mine),
        num_in_version=sum(row["digest"] in held for row in mine),
        num_bytes=sum(row["size_bytes"] or 0 for row in mine),
    )


def _flow(one: ModalitySummary, rows: list[dict[str, Any]], held: set[str]) -> list[FlowStep]:
    mine = [row for row in rows if row["modality"] == one.modality]
    statuses = Counter(row["status"] for row in mine)
    tiers = Counter(row["tier"] for row in mine if row["tier"])
    no_bytes = one.num_rows - one.duplicates["exact"] - len(mine)
    readable, admitted = len(mine) - statuses["unreadable"], sum(statuses[name] for name in ADMITTED)
    lost = {f"{tier} duplicates": count for tier, count in sorted(tiers.items())}
    num_held = sum(row["digest"] in held for row in mine)
    return [
        FlowStep(
            name="items",
            num_rows=one.num_rows,
            lost={"exact duplicates": one.duplicates["exact"], "no bytes": no_bytes},
        ),
        FlowStep(name="tracks", num_rows=len(mine), lost={"unreadable": statuses["unreadable"]}),
        FlowStep(name="verdicts", num_rows=readable, lost={"quarantined": statuses["quarantined"]}),
        FlowStep(
            name="clusters",
            num_rows=admitted,
            lost=lost | {"out with their sample": max(0, admitted - sum(lost.values()) - num_held)},
        ),
        FlowStep(name="version", num_rows=num_held),
    ]


def _rule(
    lake: Lake, examples: Examples, modality: str, *, rule: str, count: int, rows: list[dict[str, Any]]
) -> RuleCount:
    mine = [row for row in rows if row["modality"] == modality and row["rule"] == rule]
    verdict = mine[0] if mine else {}
    return RuleCount(
        rule=rule,
        modality=modality,
        severity=verdict.get("severity") or "P0",
        count=count,
        error_code=verdict.get("error_code"),
        has_review=any(one.name == rule and one.has_bound for one in lake.parts.modality(modality).rules),
        examples=[examples.example(row) for row in mine[:_EXAMPLES]],
    )


def _tier(one: ModalitySummary, tier: str, planted: Planted, recall: Mapping[str, Any]) -> TierCount:
    known = planted.get((tier, one.modality))
    estimate = recall.get(f"{tier}_duplicates", {}).get(one.modality)
    return TierCount(
        tier=tier,
        modality=one.modality,
        found=one.duplicates[tier],
        planted=known[0] if known else None,
        recovered=known[1] if known else None,
        estimated=dedup.recall_words(estimate) if estimate else "",
    )


def _map(
    lake: Lake,
    made: Manifest,
    modality: str,
    *,
    held: set[str],
    rows: list[dict[str, Any]],
    examples: Examples,
) -> EmbeddingMap | None:
    digests, vectors_ND = corpus_vectors(lake, modality, held)
    if len(digests) < 3:
        return None
    settings = lake.settings.evaluate
    clustering = evaluate.cluster(vectors_ND, seed=settings.seed, num_clusters=settings.num_clusters or None)
    points, explained = report.project(vectors_ND)
    by_digest = {row["digest"]: row for row in rows}
    texts = [by_digest[digest]["text"] or "" for digest in digests]
    described = evaluate.describe_clusters(
        clustering, digests, vectors_ND=vectors_ND, texts=texts if any(texts) else None
    )
    cards = [
        report.ClusterCard(
            cluster=one["cluster"],
            size=one["size"],
            label=", ".join(one["terms"]),
            representative=examples.example(by_digest[one["representative"]]),
        )
        for one in described[:12]
    ]
    alone = evaluate.loneliest(vectors_ND, seed=settings.seed, count=_LONERS)
    return EmbeddingMap(
        uniqueness=float(np.median(evaluate.isolation(vectors_ND, seed=settings.seed).nearest_U)),
        loners=[
            report.Loner(distance=float(distance), example=examples.example(by_digest[digests[row]]))
            for row, distance in zip(alone.rows_U.tolist(), alone.mean_U.tolist(), strict=True)
        ],
        modality=modality,
        encoder=lake.encoder_of(modality),
        points=points,
        clusters=[int(number) for number in clustering.assignment_N],
        labels=[title_with_text(by_digest[digest]) for digest in digests],
        explained_fraction=explained,
        diversity=dict((made.diversity or {}).get(modality, {})),
        cards=cards,
    )


def _add_results(lake: Lake, version: str, data: ReportData) -> None:
    """Scores, decision and plan, as far as the version has them."""
    for step in ("probe_scores", "decision", "precompute_plan"):
        try:
            document = read_result(lake, version, step)
        except MmlakeError:
            data.notes.append(f"{step} has not been made for {version}")
            continue
        if step == "probe_scores":
            data.probe_scores, data.probe_set = document["summary"], document["probe_set"]
        elif step == "decision" and document["outcome"]:
            data.decision, data.compared_with = document, document["baseline"]
        elif step == "precompute_plan":
            data.plan = document["rows"]


def _notes(lake: Lake, modalities: Sequence[str]) -> list[str]:
    """What a reader must know about how this was made. modalities: of which there are rows."""
    notes = [
        f"{modality}: {lake.parts.encoder(lake.encoder_of(modality), modality).description}" for modality in modalities
    ]
    silent = 0
    for modality in ("audio", "video"):
        for tracks in lake.tables.scan_parts("tracks", modality, columns=["transcript_source"]):
            silent += pc.sum(pc.equal(tracks.column("transcript_source"), "none").cast(pa.int64())).as_py() or 0
    if silent:
        notes.append(
            f"{silent} sound and video items have no transcript: none came with the source and no recognizer is "
            "configured."
        )
    return notes


__all__ = ["Planted", "gather", "newest_report", "report_path", "write_version_report"]

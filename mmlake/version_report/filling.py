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
from mmlake.catalog import NOT_JUDGED
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
    Example,
    FlowStep,
    ModalityRows,
    ReportData,
    RuleCount,
    SourceRow,
    TierCount,
)
from mmlake.summary import ModalitySummary, Summary, summarize
from mmlake.version_report.catalog_rows import CatalogRows
from mmlake.version_report.crossed import crossed_of
from mmlake.version_report.duplicates import clusters_of, pairs_of
from mmlake.version_report.examples import Examples, spread
from mmlake.version_report.tracks import tracks_of
from mmlake.versions import Manifest

_OF_SOURCE = ("source", "num_units", "usable_fraction", "weighted_fraction", "causes", "lowered")
_LONERS = 12  # units of a map that are least like the others
_EXAMPLES = 6  # per rule, and admitted items per modality
_CARDS = 12  # clusters of a map
_MAX_POINTS = report.ReportSettings().max_points
_MAX_TEXTS = 20_000  # whose words say what sets the clusters of a map apart
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
    rows, made, examples = CatalogRows.of(lake), lake.versions.read(version), Examples.of(lake)
    held = lake.versions.items(version).column("digest").combine_chunks()
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
        _rule(examples, one.modality, rule=rule, count=count, rows=rows)
        for one in summary.modalities
        for rule, count in one.rules.items()
    ]
    recall = made.made_with.get("recall", {})
    data.tiers = [_tier(one, tier, planted, recall) for one in there for tier in one.duplicates]
    data.clusters = [one for name in lake.parts.modalities for one in clusters_of(examples, name, rows)]
    data.pairs = [one for name in lake.parts.modalities for one in pairs_of(examples, name, rows)]
    data.crossed = [one for name in lake.parts.modalities for one in crossed_of(examples, name, rows)]
    data.samples = [one for name in lake.parts.modalities for one in _samples(examples, name, held=held, rows=rows)]
    data.tracks = tracks_of(lake, version)
    data.maps = [
        found
        for modality in lake.parts.modalities
        if (found := _map(made, modality, held=held, rows=rows, examples=examples)) is not None
    ]
    _add_results(lake, version, data)
    ledger = lake_ledger(lake)
    data.costs, data.prices = ledger.to_pylist(), asdict(costs.Prices())
    if rows.counted.num_rows:
        duplicates = rows.counted["digest"].filter(pc.is_valid(rows.counted["tier"]))
        story = story_of(lake, (duplicates if len(duplicates) else rows.counted["digest"])[0].as_py())
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
    data.notes = _notes(lake, [one.modality for one in there], num_waiting=sum(one.num_waiting for one in there))
    return data


def _headline(one: ModalitySummary, rows: CatalogRows, held: pa.Array) -> ModalityRows:
    mine = rows.of_modality(one.modality)
    return ModalityRows(
        modality=one.modality,
        num_rows=one.num_rows,
        **one.statuses,
        num_waiting=one.num_waiting,
        num_distinct=mine.num_rows,
        num_duplicates=mine.num_rows - mine["tier"].null_count,
        num_in_version=_num_among(mine, held),
        num_bytes=pc.sum(mine["size_bytes"]).as_py() or 0,
    )


def _num_among(rows: pa.Table, held: pa.Array) -> int:
    return pc.sum(pc.is_in(rows["digest"], value_set=held)).as_py() or 0


def _flow(one: ModalitySummary, rows: CatalogRows, held: pa.Array) -> list[FlowStep]:
    mine = rows.of_modality(one.modality)
    statuses, tiers = _counted(mine["status"]), _counted(mine["tier"])
    no_bytes = one.num_rows - one.duplicates["exact"] - mine.num_rows
    readable, admitted = mine.num_rows - statuses["unreadable"], sum(statuses[name] for name in ADMITTED)
    lost = {f"{tier} duplicates": count for tier, count in sorted(tiers.items())}
    num_held = _num_among(mine, held)
    not_judged = _counted(mine["rule"])[NOT_JUDGED]  # the catalog has them among the quarantined ones
    return [
        FlowStep(
            name="items",
            num_rows=one.num_rows,
            lost={"exact duplicates": one.duplicates["exact"], "no bytes": no_bytes},
        ),
        FlowStep(name="tracks", num_rows=mine.num_rows, lost={"unreadable": statuses["unreadable"]}),
        FlowStep(
            name="verdicts",
            num_rows=readable,
            lost={"quarantined": statuses["quarantined"] - not_judged, "not judged": not_judged},
        ),
        FlowStep(
            name="clusters",
            num_rows=admitted,
            lost=lost | {"out with their sample": max(0, admitted - sum(lost.values()) - num_held)},
        ),
        FlowStep(name="version", num_rows=num_held),
    ]


def _counted(values: pa.ChunkedArray) -> Counter[str]:
    """How often each value stands there; of null none."""
    found = pc.value_counts(values.drop_null()).to_pylist()
    return Counter({one["values"]: one["counts"] for one in found})


def _rule(examples: Examples, modality: str, *, rule: str, count: int, rows: CatalogRows) -> RuleCount:
    mine = rows.of_modality(modality)
    first = mine["digest"].filter(pc.equal(mine["rule"], rule))[:_EXAMPLES].to_pylist()
    found = rows.whole(first)
    verdict = found[first[0]] if first else {}
    return RuleCount(
        rule=rule,
        modality=modality,
        severity=verdict.get("severity") or "P0",
        count=count,
        error_code=verdict.get("error_code"),
        has_review=any(one.name == rule and one.has_bound for one in rows.lake.parts.modality(modality).rules),
        examples=[examples.example(found[digest]) for digest in first],
    )


def _samples(examples: Examples, modality: str, *, held: pa.Array, rows: CatalogRows) -> list[Example]:
    mine = rows.of_modality(modality)["digest"]
    mine = mine.filter(pc.is_in(mine, value_set=held))
    chosen = mine.take(pa.array(spread(range(len(mine)), _EXAMPLES), pa.int64())).to_pylist()
    found = rows.whole(chosen)
    return [examples.example(found[digest]) for digest in chosen]


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
    made: Manifest, modality: str, *, held: pa.Array, rows: CatalogRows, examples: Examples
) -> EmbeddingMap | None:
    lake = rows.lake
    digests, vectors_ND = corpus_vectors(lake, modality, held)
    if len(digests) < 3:
        return None
    settings = lake.settings.evaluate
    clustering = evaluate.cluster(vectors_ND, seed=settings.seed, num_clusters=settings.num_clusters or None)
    points, explained = report.project(vectors_ND, most_points=_MAX_POINTS)
    shown = report.evenly(len(digests), _MAX_POINTS)
    described = evaluate.describe_clusters(
        clustering, digests, vectors_ND=vectors_ND, texts=_texts(rows, modality, digests)
    )[:_CARDS]
    alone = evaluate.loneliest(vectors_ND, seed=settings.seed, count=_LONERS)
    strays = [digests[row] for row in alone.rows_U.tolist()]
    titled = [digests[place] for place in shown]
    found = rows.whole([*titled, *strays, *(one["representative"] for one in described)])
    return EmbeddingMap(
        uniqueness=float(np.median(evaluate.isolation(vectors_ND, seed=settings.seed).nearest_U)),
        loners=[
            report.Loner(distance=float(distance), example=examples.example(found[digest]))
            for digest, distance in zip(strays, alone.mean_U.tolist(), strict=True)
        ],
        modality=modality,
        encoder=lake.encoder_of(modality),
        num_units=len(digests),
        points=points,
        clusters=[int(clustering.assignment_N[place]) for place in shown],
        labels=[title_with_text(found[digest]) for digest in titled],
        explained_fraction=explained,
        diversity=dict((made.diversity or {}).get(modality, {})),
        cards=[
            report.ClusterCard(
                cluster=one["cluster"],
                size=one["size"],
                label=", ".join(one["terms"]),
                representative=examples.example(found[one["representative"]]),
            )
            for one in described
        ],
    )


def _texts(rows: CatalogRows, modality: str, digests: Sequence[str]) -> dict[int, str] | None:
    """Row -> the text of the unit, of every n-th of many; None where nobody has one."""
    places = {digests[place]: place for place in report.evenly(len(digests), _MAX_TEXTS)}
    wanted, texts = pa.array(places, pa.string()), dict[int, str]()
    for part in rows.lake.catalog.scan(["digest", "text"], where=f"modality = '{modality}'"):
        part = part.filter(pc.is_in(part["digest"], value_set=wanted))
        texts |= {places[row["digest"]]: row["text"] or "" for row in part.to_pylist()}
    return dict(sorted(texts.items())) if any(texts.values()) else None


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


def _notes(lake: Lake, modalities: Sequence[str], *, num_waiting: int) -> list[str]:
    """What a reader must know about how this was made. modalities: of which there are rows. num_waiting: of these,
    those that no verdict covers."""
    notes = [
        f"{modality}: {lake.parts.encoder(lake.encoder_of(modality), modality).description}" for modality in modalities
    ]
    if num_waiting:
        notes.append(
            f"{num_waiting} rows were not judged, which keeps them out of versions that ask for a verdict: a run was "
            "stopped, or their shards left the landing zone before one had judged them."
        )
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

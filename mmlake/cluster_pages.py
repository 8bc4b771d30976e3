"""Clusters of duplicates to be inspected: the largest ones, and all of one as a page.

Leaves: lines of a table, and an HTML file with the survivor of a cluster and its duplicates, each with its score and
why it goes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mmlake.errors import SettingsError
from mmlake.lake import Lake
from mmlake.provenance.evidence import AmbiguousDigest
from mmlake.report import ClusterMember, DuplicateCluster, ReportData, ReportSettings, write_report
from mmlake.tables import Slot
from mmlake.version_report.examples import EXAMPLE_COLUMNS, Examples

_COLUMNS = ("digest", "survivor", "cluster_size", "radius", "tier", "method", "score", "relation", "reason")
_TIERS = ("near", "semantic")  # of our own steps; plugins may add others
_REASONS = 4  # named of a cluster
_LINES = 5_000  # of a table that a browser opens at once
_SETTINGS = ReportSettings(max_bytes=60_000_000, max_audio_bytes=800_000, max_text_chars=1_500)


@dataclass(frozen=True, slots=True)
class Cluster:
    """What one survivor stands for."""

    survivor: str
    modality: str
    size: int  # distinct digests, the survivor among them
    radius: float  # 1 - the smallest score of a duplicate with the survivor
    tiers: dict[str, int]  # tier -> duplicates that it ties to the survivor
    reasons: dict[str, int]  # why the survivor stays, of how many; most frequent first
    members: list[dict[str, Any]]  # duplicates, nearest first


def largest(lake: Lake, *, modality: str | None = None, tier: str | None = None, count: int = 20) -> list[Cluster]:
    """The clusters of most members, largest first. tier: only those that have a duplicate of it. Raises SettingsError
    for a tier that no duplicate of the lake and no step of ours has."""
    found, tiers = list[Cluster](), {*_TIERS}
    for name, table in _tables(lake, modality):
        tiers.update(filter(None, pc.unique(table["tier"]).to_pylist()))
        tied = pc.is_valid(table["tier"]) if tier is None else pc.equal(table["tier"], tier)
        survivors = pc.unique(table.filter(tied)["survivor"])
        heads = table.filter(pc.is_in(table["digest"], survivors))
        order = [("cluster_size", "descending"), ("digest", "ascending")]
        chosen = heads.take(pc.sort_indices(heads, sort_keys=order)[:count])["digest"]
        rows = table.filter(pc.is_in(table["survivor"], chosen.combine_chunks())).to_pylist()
        found += _clusters(name, rows)
    if tier is not None and tier not in tiers:
        raise SettingsError(
            f"tier is {tier!r}, expected one of {', '.join(sorted(tiers))}; "
            "equal files are one unit, and `mmlake why` names each place where it landed"
        )
    return sorted(found, key=lambda one: (-one.size, one.modality, one.survivor))[:count]


def cluster_of(lake: Lake, prefix: str, *, modality: str | None = None) -> Cluster:
    """The cluster of the unit whose digest begins so, be it survivor or duplicate.

    Raises AmbiguousDigest where units of several clusters do, and SettingsError where none does or it has no duplicate.
    """
    found: list[Cluster] = []
    for name, table in _tables(lake, modality):
        survivors = pc.unique(table.filter(pc.starts_with(table["digest"], prefix))["survivor"])
        found += _clusters(name, table.filter(pc.is_in(table["survivor"], survivors)).to_pylist())
    if not found:
        raise SettingsError(
            f"no unit in the clusters of {lake.root} begins with {prefix}; `mmlake clusters` lists the largest"
        )
    if len(found) > 1:
        raise AmbiguousDigest(prefix, sorted(one.survivor for one in found))
    if not found[0].members:
        raise SettingsError(f"{found[0].survivor} has no duplicate; `mmlake clusters` lists the largest clusters")
    return found[0]


def _tables(lake: Lake, modality: str | None) -> Iterator[tuple[str, pa.Table]]:
    names = lake.parts.modalities if modality is None else (lake.parts.modality(modality).name,)
    for name in names:
        slot = Slot("duplicate_clusters", name)
        if lake.tables.stamp(slot) is not None:
            yield name, lake.tables.read(slot, columns=list(_COLUMNS))


def _clusters(modality: str, rows: Sequence[dict[str, Any]]) -> list[Cluster]:
    """One for each survivor of these rows of the table."""
    members: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        members.setdefault(row["survivor"], [])
        if row["digest"] != row["survivor"]:
            members[row["survivor"]].append(row)
    made = []
    for survivor, others in members.items():
        others.sort(key=lambda row: (-(row["score"] or 0.0), row["digest"]))
        reasons = Counter((row["reason"] or "").partition(":")[0] for row in others)
        made.append(
            Cluster(
                survivor=survivor,
                modality=modality,
                size=len(others) + 1,
                radius=max((row["radius"] for row in others), default=0.0),
                tiers=dict(Counter(row["tier"] for row in others).most_common()),
                reasons={reason: num for reason, num in reasons.most_common(_REASONS) if reason},
                members=others,
            )
        )
    return made


def write_cluster(lake: Lake, cluster: Cluster, path: Path, *, limit: int) -> int:
    """Write the page: the survivor, and of its duplicates the `limit` nearest with pictures, players and texts; a
    line about each is in its table, of many the furthest. Returns how many are shown."""
    shown = cluster.members[:limit]
    found = lake.catalog.rows_of([cluster.survivor, *(row["digest"] for row in shown)], EXAMPLE_COLUMNS)
    rows = {digest: row for digest, row in found.items() if row["modality"] == cluster.modality}
    if cluster.survivor not in rows:
        raise SettingsError(f"the catalog of {lake.root} lacks {cluster.survivor}; `mmlake run` brings it up to date")
    examples = Examples.of(lake)
    members = [examples.example(rows[cluster.survivor])]
    for row in shown:
        if row["digest"] in rows:
            members.append(examples.example(rows[row["digest"]]))
            members[-1].why = row["reason"] or ""
    drawn = DuplicateCluster(
        tier=" and ".join(cluster.tiers),
        modality=cluster.modality,
        members=members,
        size=cluster.size,
        radius=cluster.radius,
        reasons=list(cluster.reasons.items()),
        furthest=[_line(row) for row in cluster.members[: -_LINES - 1 : -1]],
    )
    counted = ", ".join(f"{num:,} {tier}" for tier, num in cluster.tiers.items())
    data = ReportData(
        title=f"Cluster of {cluster.size:,} ({cluster.modality})",
        subtitle=f"{cluster.survivor} stays; duplicates that go: {counted}",
        clusters=[drawn],
    )
    write_report(data, path, settings=replace(_SETTINGS, max_members=limit + 1))
    return len(members) - 1


def _line(row: dict[str, Any]) -> ClusterMember:
    named = {name: row[name] or "" for name in ("method", "relation", "reason")}
    return ClusterMember(digest=row["digest"], score=row["score"], **named)

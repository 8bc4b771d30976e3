"""Duplicates in the report: the largest clusters with the reason of each survivor, and pairs next to their bound."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake.lake import Lake
from mmlake.report import ClusterMember, DuplicateCluster, Example, PairExample
from mmlake.tables import Slot
from mmlake.version_report.catalog_rows import CatalogRows
from mmlake.version_report.examples import Examples

_CLUSTERS = 8  # per tier and modality
_FURTHEST = 24  # members listed of a large cluster
_OWN = "lies in"  # how reasons begin that are of the duplicate (`dedup.stars.clusters`)
_SHOWN = 5  # members shown besides the survivor
_PAIRS = 3  # of each tier, method and side of the bound
_NEXT_TO_BOUND = 12  # pairs nearest to the bound of which these are drawn
_TIERS = {"near": "near_duplicates", "semantic": "semantic_duplicates"}
_TEXT_CHARS = 20_000  # of a text that is compared word by word

Row = Mapping[str, Any]


def clusters_of(examples: Examples, modality: str, rows: CatalogRows) -> list[DuplicateCluster]:
    """The largest clusters of each tier, largest first."""
    mine = rows.of_modality(modality)
    gone = mine.filter(pc.and_(pc.is_valid(mine["tier"]), pc.is_in(mine["survivor"], value_set=_digests(mine))))
    chosen = gone.filter(pc.is_in(gone["survivor"], value_set=pa.array(_largest(gone), pa.string())))
    members: dict[str, list[Row]] = {}
    for row in chosen.to_pylist():
        members.setdefault(row["survivor"], []).append(row)
    ordered = sorted(members.items(), key=lambda pair: (-len(pair[1]), pair[0]))
    said = _said(rows.lake, modality, chosen["digest"].combine_chunks())
    return [_cluster(examples, survivor, others, said, rows) for survivor, others in ordered]


def _largest(gone: pa.Table) -> list[str]:
    """The survivors of the largest clusters of each tier; a cluster is of the tier of its first member. gone: sorted by
    digest."""
    table = pa.table({"survivor": gone["survivor"], "tier": gone["tier"].cast(pa.string())})
    sizes = table.group_by("survivor", use_threads=False).aggregate([("survivor", "count"), ("tier", "first")])
    sizes = sizes.sort_by([("survivor_count", "descending"), ("survivor", "ascending")])
    tiers = sizes["tier_first"]
    each = (sizes.filter(pc.equal(tiers, tier))["survivor"][:_CLUSTERS].to_pylist() for tier in pc.unique(tiers))
    return [survivor for some in each for survivor in some]


def _digests(rows: pa.Table) -> pa.Array:
    return rows["digest"].combine_chunks()


def _said(lake: Lake, modality: str, digests: pa.Array) -> dict[str, Row]:
    """What the clusters' table says of these duplicates."""
    slot = Slot("duplicate_clusters", modality)
    if not len(digests) or lake.tables.stamp(slot) is None:
        return {}
    parts = lake.tables.parts(slot, columns=["digest", "method", "relation", "score", "reason"])
    kept = (part.filter(pc.is_in(part["digest"], value_set=digests)) for part in parts)
    return {row["digest"]: row for part in kept for row in part.to_pylist()}


def _why(reason: str) -> str:
    """On the card of what goes. Most reasons are the survivor's; that it lies inside the survivor is its own."""
    return reason and (f"goes: {reason}" if reason.startswith(_OWN) else f"the other stays: {reason}")


def _cluster(
    examples: Examples, survivor: str, others: Sequence[Row], said: Mapping[str, Row], rows: CatalogRows
) -> DuplicateCluster:
    ordered = sorted(others, key=lambda row: (row["score"] if row["score"] is not None else 1.0, row["digest"]))
    furthest = ordered[:_FURTHEST] if len(others) > _SHOWN else []
    shown = [survivor, *(row["digest"] for row in others[:_SHOWN])]
    found = rows.whole([*shown, *(row["digest"] for row in furthest)])
    members = [examples.example(found[digest]) for digest in shown]
    for example in members[1:]:
        example.why = _why(said.get(example.digest, {}).get("reason") or "")
    reasons = Counter((said.get(row["digest"], {}).get("reason") or "").partition(":")[0] for row in others)
    scores = [row["score"] for row in others if row["score"] is not None]
    return DuplicateCluster(
        tier=others[0]["tier"],
        modality=others[0]["modality"],
        members=members,
        size=len(others) + 1,
        radius=1 - min(scores) if scores else None,
        reasons=[(reason, count) for reason, count in reasons.most_common(4) if reason],
        furthest=[_member(found[row["digest"]], said.get(row["digest"], {})) for row in furthest],
    )


def _member(row: Row, said: Row) -> ClusterMember:
    return ClusterMember(
        digest=row["digest"],
        title=(row["sample_ids"] or [""])[0],
        score=row["score"],
        method=said.get("method") or "",
        relation=said.get("relation") or "",
        reason=said.get("reason") or "",
    )


def pairs_of(examples: Examples, modality: str, rows: CatalogRows) -> list[PairExample]:
    """Of each tier and method a few pairs just above the bound and a few just below it: a seeded draw among those
    nearest to it, so that the same lake shows the same ones."""
    lake, known, made = rows.lake, _digests(rows.of_modality(modality)), list[PairExample]()
    for tier, name in _TIERS.items():
        slot = Slot(name, modality)
        if lake.tables.stamp(slot) is None:
            continue
        pairs = lake.tables.read(slot)
        pairs = pairs.filter(pc.and_(pc.is_in(pairs["left"], known), pc.is_in(pairs["right"], known)))
        for method in sorted(pc.unique(pairs["method"]).to_pylist()):
            mine = pairs.filter(pc.equal(pairs["method"], method))
            seed = [lake.settings.dedup.seed, zlib.crc32(f"{tier}/{modality}/{method}".encode())]
            drawn = _next_to_bound(mine, np.random.default_rng(seed))
            found = rows.whole([row[side] for row in drawn for side in ("left", "right")])
            for row in drawn:
                sides = [_side(examples, found[row[side]]) for side in ("left", "right")]
                made.append(_pair(row, modality, sides))
    return made


def _next_to_bound(pairs: pa.Table, rng: np.random.Generator) -> list[dict[str, Any]]:
    """The drawn rows: above the bound by rising score, then below it by falling score."""
    is_below = pc.equal(pairs["relation"], "apart")
    chosen = []
    for side, order in ((pairs.filter(pc.invert(is_below)), "ascending"), (pairs.filter(is_below), "descending")):
        keys = [("score", order), ("left", "ascending"), ("right", "ascending")]
        nearest = side.take(pc.sort_indices(side, sort_keys=keys)[:_NEXT_TO_BOUND])
        drawn = np.sort(rng.permutation(nearest.num_rows)[:_PAIRS])
        chosen += nearest.take(pa.array(drawn, pa.int64())).to_pylist()
    return chosen


def _side(examples: Examples, row: Row) -> Example:
    made = examples.example(row)
    made.tier, made.survivor = "", False  # the pair says what it is
    if row["modality"] == "text":
        made.text = (row["text"] or "")[:_TEXT_CHARS]
    return made


def _pair(row: Row, modality: str, sides: Sequence[Example]) -> PairExample:
    spans = [
        None if row[f"{side}_start_s"] is None else (row[f"{side}_start_s"], row[f"{side}_end_s"])
        for side in ("left", "right")
    ]
    return PairExample(
        tier=row["tier"],
        method=row["method"],
        modality=modality,
        is_above=row["relation"] != "apart",
        relation=row["relation"],
        score=row["score"],
        bound=row["bound"],
        left=sides[0],
        right=sides[1],
        left_span_s=spans[0],
        right_span_s=spans[1],
    )

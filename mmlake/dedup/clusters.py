"""From edges to survivors: each unit that goes is tied to a unit that stays and that it was verified against.

Enters: every digest with what decides who stays, and the edges of all tiers, from what stays to what goes. Leaves: one
cluster row per digest. The result depends on the sets alone, never on the order in which nodes or edges arrive.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from mmlake import schemas
from mmlake.dedup.survivors import Criterion, Standing, standing_of
from mmlake.errors import ContractBroken
from mmlake.records import Digest

_TIERS = ("near", "semantic")  # cheapest first


class _Edge(NamedTuple):
    """From one that stays to one that goes, in the order in which edges count."""

    tier: int
    negative_score: float
    method: str
    left: int
    right: int
    relation: str


def cluster(nodes: pa.Table, pairs: pa.Table, *, criteria: Sequence[Criterion] = ()) -> pa.Table:
    """CLUSTERS, one row per node.

    nodes: digest, priority, is_clean, num_occurrences, and a column per criterion. An edge counts where its left is a
    survivor and its right is not one already; the cheapest tier goes first. Where a later tier takes the survivor of a
    unit away, the unit goes to another survivor that it has an edge with, or stays. Raises ContractBroken where a pair
    names a digest without a node, or a node comes twice.
    """
    nodes = nodes.sort_by("digest")
    digests: list[Digest] = nodes["digest"].to_pylist()
    place = {digest: at for at, digest in enumerate(digests)}
    if len(place) != len(digests):
        raise ContractBroken(
            f"clusters: {len(digests) - len(place)} of {len(digests)} nodes repeat a digest; pass each "
            "distinct digest once"
        )
    edges = _edges(pairs, place)
    kept = _kept(edges)
    members: dict[int, list[_Edge]] = {}
    for edge in kept.values():
        members.setdefault(edge.left, []).append(edge)
    standing, occurrences = standing_of(nodes, criteria), nodes["num_occurrences"].to_pylist()
    rows = []
    for at in range(len(digests)):
        edge_here = kept.get(at)
        survivor = at if edge_here is None else edge_here.left
        followers = members.get(survivor, [])
        rows.append(
            {
                "digest": digests[at],
                "survivor": digests[survivor],
                "is_survivor": edge_here is None,
                "cluster_size": 1 + len(followers),
                "num_occurrences": occurrences[at],
                "radius": max((1 + one.negative_score for one in followers), default=0.0),
                **(_of_edge(edge_here, standing, len(followers)) if edge_here is not None else {}),
            }
        )
    return schemas.from_rows(schemas.CLUSTERS, rows)


def _edges(pairs: pa.Table, place: dict[Digest, int]) -> list[_Edge]:
    """The edges that make something go, in the order in which they count."""
    edges = []
    columns = (pairs[name].to_pylist() for name in ("left", "right", "tier", "method", "score", "relation"))
    for left, right, tier, method, score, relation in zip(*columns, strict=True):
        if left not in place or right not in place:
            stray = right if left in place else left
            raise ContractBroken(
                f"clusters: a {tier} pair names {stray}, which is no node; re-materialize the pairs and the nodes "
                "from the same shards"
            )
        if relation in ("same", "inside"):
            edges.append(_Edge(_TIERS.index(tier), -score, method, place[left], place[right], relation))
    return sorted(edges)


def _kept(edges: list[_Edge]) -> dict[int, _Edge]:
    """What goes -> the edge that it goes by."""
    kept: dict[int, _Edge] = {}
    for edge in edges:
        if edge.left not in kept and edge.right not in kept:
            kept[edge.right] = edge
    lost = [edge.right for edge in kept.values() if edge.left in kept]
    while lost:
        for one in lost:
            del kept[one]
        orphans = set(lost)
        for edge in edges:
            if edge.right in orphans and edge.right not in kept and edge.left not in kept and edge.left not in orphans:
                kept[edge.right] = edge
        # whoever still has no survivor stays, and may be one for what was tied to it
        lost = [edge.right for edge in kept.values() if edge.left in kept]
    return kept


def _of_edge(edge: _Edge, standing: Standing, num_followers: int) -> dict[str, Any]:
    reason = standing.reason(edge.left, edge.right)
    if not reason and edge.relation == "inside":
        reason = "lies inside the survivor"
    if not reason:
        reason = "closest to the rest of its cluster" if num_followers > 1 else "smallest digest"
    return {
        "tier": _TIERS[edge.tier],
        "method": edge.method,
        "score": -edge.negative_score,
        "relation": edge.relation,
        "reason": reason,
    }

"""From edges to survivors: each unit that goes is tied to a unit that stays and that it was verified against.

Enters: every digest with what decides who stays, and the edges of all tiers, from what stays to what goes. Leaves: one
cluster row per digest. The result depends on the sets alone, never on the order in which nodes or edges arrive. All of
it runs over columns: only edges of which one may undo another are taken up one by one.

    N nodes, E edges in the order in which they count
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake import schemas
from mmlake.dedup.criteria import Criterion
from mmlake.dedup.prints import Positions
from mmlake.dedup.stars.standings import ascending, standing_of
from mmlake.dedup.stars.survivors import Standing
from mmlake.errors import ContractBroken

_TIERS = ("near", "semantic")  # cheapest first
_RELATIONS = ("same", "inside", "across")  # of what goes


def cluster(nodes: pa.Table, pairs: pa.Table, *, criteria: Sequence[Criterion] = ()) -> pa.Table:
    """CLUSTERS, one row per node.

    nodes: digest, priority, is_clean, num_occurrences, and a column per criterion. An edge counts where its left is a
    survivor and its right is not one already; the cheapest tier goes first. Where a later tier takes the survivor of a
    unit away, the unit goes to another survivor that it has an edge with, or stays. Raises ContractBroken where a pair
    names a digest without a node, or a node comes twice.
    """
    if not nodes.num_rows and not pairs.num_rows:
        return schemas.empty(schemas.CLUSTERS)
    nodes = ascending(nodes).combine_chunks()
    digests = pa.chunked_array(nodes["digest"], pa.string()).combine_chunks()
    num = len(digests)
    if num_again := int(pc.sum(pc.equal(digests[1:], digests[:-1])).as_py() or 0):
        raise ContractBroken(f"clusters: {num_again} of {num} nodes repeat a digest; pass each distinct digest once")
    edges = _edges(pairs, digests)
    left_E, right_E = (edges[name].to_numpy() for name in ("left", "right"))
    edge_N = _kept(left_E, right_E, num)
    goes = np.flatnonzero(edge_N >= 0)
    of_goes = edges.take(pa.array(edge_N[goes]))
    survivor_N = np.arange(num)
    survivor_N[goes] = left_E[edge_N[goes]]
    num_followers_N = np.bincount(survivor_N[goes], minlength=num)
    radius_N = np.zeros(num)
    np.maximum.at(radius_N, survivor_N[goes], 1 - of_goes["score"].to_numpy())
    at_edge = np.full(num, -1)
    at_edge[goes] = np.arange(len(goes))
    rows = pa.array(at_edge, mask=at_edge < 0)
    reasons = _reasons(standing_of(nodes, criteria), survivor_N[goes], goes, of_goes, num_followers_N)
    return schemas.from_columns(
        schemas.CLUSTERS,
        {
            "digest": digests,
            "survivor": digests.take(pa.array(survivor_N)),
            "is_survivor": pa.array(edge_N < 0),
            "cluster_size": pa.array(1 + num_followers_N[survivor_N], pa.int32()),
            "num_occurrences": nodes["num_occurrences"],
            **{name: of_goes[name].take(rows) for name in ("tier", "method", "score", "relation")},
            "reason": reasons.take(rows),
            "radius": pa.array(radius_N[survivor_N]),
        },
    )


def _edges(pairs: pa.Table, digests: pa.Array) -> pa.Table:
    """The pairs that make something go, in the order in which they count, by places in the digests."""
    columns = {name: pairs[name] for name in ("tier", "method", "score", "relation")}
    for side in ("left", "right"):
        columns[side] = pc.index_in(pairs[side], value_set=digests).cast(pa.int64())
        if columns[side].null_count:
            stray = pairs.filter(pc.is_null(columns[side]))
            raise ContractBroken(
                f"clusters: a {stray['tier'][0]} pair names {stray[side][0]}, which is no node; re-materialize the "
                "pairs and the nodes from the same shards"
            )
    columns["rank"] = pc.index_in(pairs["tier"], value_set=pa.array(_TIERS))
    edges = pa.table(columns).filter(pc.is_in(pairs["relation"], value_set=pa.array(_RELATIONS)))
    return edges.sort_by([(name, "descending" if name == "score" else "ascending") for name in _ORDER]).combine_chunks()


_WITHIN = {
    "inside": "lies inside the survivor",
    "across": "lies in the survivor and what is next to it in its item",
}
_ORDER = ("rank", "score", "method", "left", "right", "relation")


def _kept(left_E: Positions, right_E: Positions, num: int) -> Positions:
    """The edge that each node goes by; -1 for what stays."""
    edge_N = np.full(num, -1)
    goes_by_N = np.bincount(right_E, minlength=num)
    leads_N = np.bincount(left_E, minlength=num) > 0
    # nothing else says anything of either end
    is_free = (goes_by_N[left_E] == 0) & (goes_by_N[right_E] == 1) & ~leads_N[right_E]
    edge_N[right_E[is_free]] = np.flatnonzero(is_free)
    for right, edge in _contested(np.flatnonzero(~is_free), left_E, right_E).items():
        edge_N[right] = edge
    return edge_N


def _contested(edges: Positions, left_E: Positions, right_E: Positions) -> dict[int, int]:
    """What goes -> the edge that it goes by, of edges that compete."""
    left = dict(zip(edges.tolist(), left_E[edges].tolist(), strict=True))
    kept: dict[int, int] = {}
    by_right: dict[int, list[int]] = {}
    for edge, right in zip(edges.tolist(), right_E[edges].tolist(), strict=True):
        by_right.setdefault(right, []).append(edge)
        if left[edge] not in kept and right not in kept:
            kept[right] = edge
    lost = [right for right, edge in kept.items() if left[edge] in kept]
    while lost:
        orphans = set(lost)
        for right in lost:
            del kept[right]
        for edge, right in sorted((edge, orphan) for orphan in orphans for edge in by_right[orphan]):
            if right not in kept and left[edge] not in kept and left[edge] not in orphans:
                kept[right] = edge
        # whoever still has no survivor stays, and may be one for what was tied to it
        lost = [right for right, edge in kept.items() if left[edge] in kept]
    return kept


def _reasons(
    standing: Standing, keepers: Positions, goers: Positions, edges: pa.Table, num_followers_N: Positions
) -> pa.Array:
    """Why each of the one stays and each of the others goes."""
    relations = edges["relation"].to_pylist()
    num_members = np.where([one in _WITHIN for one in relations], 2, 1 + num_followers_N[keepers])
    of_pair = [_WITHIN.get(one, "smallest digest") for one in relations]
    found = [
        other if is_across else standing.reason(keeper, goer, num_members=num, method=method, score=score) or other
        for keeper, goer, num, other, is_across, method, score in zip(
            keepers.tolist(),
            goers.tolist(),
            num_members.tolist(),
            of_pair,
            [one == "across" for one in relations],
            edges["method"].to_pylist(),
            edges["score"].to_pylist(),
            strict=True,
        )
    ]
    return pa.array(found, pa.string())

"""From pairs to survivors: connected components, and in each the one item that a total order prefers.

Enters: every digest with priority, quality and occurrences, and the pairs of all tiers. Leaves: one cluster row per
digest.
The result depends on the sets alone, never on the order in which nodes or pairs arrive.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from mmlake import schemas
from mmlake.errors import ContractBroken
from mmlake.records import Digest

_TIERS = ("near", "semantic")  # cheapest first


def cluster(nodes: pa.Table, pairs: pa.Table) -> pa.Table:
    """CLUSTERS, one row per node.

    nodes: digest, priority (smaller wins), quality (larger wins, null or NaN loses), num_occurrences. The survivor of a
    component is its first node by (priority, quality, digest). A non-survivor carries its best direct edge: cheapest
    tier, then highest score, then method, then the other digest. Raises ContractBroken where a pair names a digest
    without a node, or a node comes twice.
    """
    rows = {
        row["digest"]: row for row in nodes.select(["digest", "priority", "quality", "num_occurrences"]).to_pylist()
    }
    if len(rows) != nodes.num_rows:
        raise ContractBroken(
            f"clusters: {nodes.num_rows - len(rows)} of {nodes.num_rows} nodes repeat a digest; pass each "
            "distinct digest once"
        )
    parents = {digest: digest for digest in rows}
    edges: dict[Digest, tuple[int, float, str, Digest]] = {}
    columns = (pairs.column(name).to_pylist() for name in ("left", "right", "tier", "method", "score"))
    for left, right, tier, method, score in zip(*columns, strict=True):
        if left not in rows or right not in rows:
            stray = right if left in rows else left
            raise ContractBroken(
                f"clusters: a {tier} pair names {stray}, which is no node; re-materialize the pairs and the nodes "
                "from the same shards"
            )
        _join(parents, left, right)
        for mine, other in ((left, right), (right, left)):
            found = (_TIERS.index(tier), -score, method, other)
            edges[mine] = min(edges.get(mine, found), found)
    members: dict[Digest, list[Digest]] = {}
    for digest in sorted(rows):
        members.setdefault(_root(parents, digest), []).append(digest)
    out = []
    for component in members.values():
        survivor = min(component, key=lambda digest: _rank(rows[digest]))
        for digest in component:
            edge = None if digest == survivor else edges[digest]
            out.append(
                {
                    "digest": digest,
                    "survivor": survivor,
                    "is_survivor": digest == survivor,
                    "cluster_size": len(component),
                    "num_occurrences": rows[digest]["num_occurrences"],
                    "tier": edge and _TIERS[edge[0]],
                    "method": edge and edge[2],
                    "score": edge and -edge[1],
                }
            )
    return schemas.from_rows(schemas.CLUSTERS, out)


def _rank(row: Mapping[str, Any]) -> tuple[int, float, Digest]:
    quality = row["quality"]
    return row["priority"], math.inf if quality is None or math.isnan(quality) else -quality, row["digest"]


def _root(parents: dict[Digest, Digest], digest: Digest) -> Digest:
    while parents[digest] != digest:
        parents[digest] = parents[parents[digest]]  # halving the path keeps later walks short
        digest = parents[digest]
    return digest


def _join(parents: dict[Digest, Digest], left: Digest, right: Digest) -> None:
    one, other = sorted((_root(parents, left), _root(parents, right)))
    parents[other] = one

"""Clusters edge by edge, as their rule is said: what the columns are compared with."""

from __future__ import annotations


def goes_by(edges: list[tuple]) -> dict[str, tuple]:
    """What goes -> the edge that it goes by. edges: (rank of the tier, -score, method, left, right, relation)."""
    kept: dict[str, tuple] = {}
    for edge in sorted(edges):
        if edge[3] not in kept and edge[4] not in kept:
            kept[edge[4]] = edge
    lost = {right for right, edge in kept.items() if edge[3] in kept}
    while lost:
        kept = {right: edge for right, edge in kept.items() if right not in lost}
        for edge in sorted(edges):
            if edge[4] in lost and edge[4] not in kept and edge[3] not in kept and edge[3] not in lost:
                kept[edge[4]] = edge
        lost = {right for right, edge in kept.items() if edge[3] in kept}
    return kept

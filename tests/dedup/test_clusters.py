"""From edges to survivors: who goes for whom, and why."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmlake import dedup, schemas
from mmlake.errors import ContractBroken
from tests.dedup.naive_clusters import goes_by

PIXELS = dedup.Criterion(name="pixels", column="num_pixels", says="more pixels")


def nodes(rows):
    """(digest, priority, is clean, pixels) each."""
    digest, priority, is_clean, pixels = zip(*rows, strict=True)
    return pa.table(
        {
            "digest": digest,
            "priority": pa.array(priority, pa.int32()),
            "is_clean": pa.array(is_clean, pa.bool_()),
            "pixels": pa.array(pixels, pa.float64()),
            "num_occurrences": pa.array([1] * len(rows), pa.int32()),
        }
    )


def edges(rows):
    """(what stays, what goes, tier, score) each."""
    common = {"method": "m", "relation": "same", "bound": 0.5}
    table = [
        {"left": left, "right": right, "tier": tier, "score": score, **common} for left, right, tier, score in rows
    ]
    return schemas.from_rows(schemas.PAIRS, table)


def cluster(node_rows, edge_rows=()):
    table = dedup.cluster(nodes(node_rows), edges(edge_rows), criteria=(PIXELS,))
    return {row["digest"]: row for row in schemas.conform(schemas.CLUSTERS, table).to_pylist()}


def test_an_item_without_duplicates_survives_itself():
    (row,) = cluster([("a", 0, True, None)]).values()
    assert row == {
        "digest": "a",
        "survivor": "a",
        "is_survivor": True,
        "cluster_size": 1,
        "num_occurrences": 1,
        "tier": None,
        "method": None,
        "score": None,
        "relation": None,
        "reason": None,
        "radius": 0.0,
    }


def test_a_chain_is_no_cluster():
    """b goes for a, and c, which was found near b alone, stays: nothing says that it is near a."""
    found = cluster([(name, 0, True, None) for name in "abc"], [("a", "b", "near", 0.9), ("b", "c", "semantic", 0.9)])
    assert {name: row["survivor"] for name, row in found.items()} == {"a": "a", "b": "a", "c": "c"}


def test_a_unit_whose_survivor_goes_follows_another_that_it_was_verified_against():
    found = cluster(
        [(name, 0, True, None) for name in "abc"],
        [("b", "c", "near", 0.9), ("a", "b", "semantic", 0.95), ("a", "c", "semantic", 0.94)],
    )
    assert {name: (row["survivor"], row["tier"], row["score"]) for name, row in found.items()} == {
        "a": ("a", None, None),
        "b": ("a", "semantic", 0.95),
        "c": ("a", "semantic", 0.94),
    }
    assert found["a"]["radius"] == pytest.approx(0.06)


def test_the_cheapest_tier_goes_first_and_the_better_score_before_the_other():
    found = cluster(
        [(name, 0, True, None) for name in "abc"],
        [("a", "c", "semantic", 0.99), ("b", "c", "near", 0.8), ("a", "b", "near", 0.7)],
    )
    assert (found["c"]["tier"], found["c"]["survivor"]) == ("semantic", "a"), "b went for a by the near tier"


def test_what_only_overlaps_stays():
    table = edges([("a", "b", "near", 0.9)])
    at = table.schema.get_field_index("relation")
    table = table.set_column(at, table.schema.field(at), pa.array(["overlaps"]))
    clusters = dedup.cluster(nodes([("a", 0, True, None), ("b", 0, True, None)]), table, criteria=(PIXELS,))
    assert clusters["is_survivor"].to_pylist() == [True, True]


@pytest.mark.parametrize(
    ("stays", "goes", "reason"),
    [
        (("a", 0, True, 10.0), ("b", 5, True, 90.0), "source priority 0 before 5"),
        (("a", 0, True, 10.0), ("b", 0, False, 90.0), "clean before flagged"),
        (("a", 0, True, 90.0), ("b", 0, True, 10.0), "more pixels: num_pixels=90 against 10"),
        (("a", 0, True, 90.0), ("b", 0, True, 89.0), "smallest digest"),
        (("a", 0, True, None), ("b", 0, True, 10.0), "smallest digest"),
    ],
)
def test_a_duplicate_says_why_the_survivor_stays(stays, goes, reason):
    assert cluster([stays, goes], [(stays[0], goes[0], "near", 0.9)])[goes[0]]["reason"] == reason


def test_a_pair_without_its_node_breaks_the_contract():
    with pytest.raises(ContractBroken, match="names z"):
        cluster([("a", 0, True, 1.0)], [("a", "z", "near", 0.9)])


def test_a_node_that_comes_twice_breaks_the_contract():
    with pytest.raises(ContractBroken, match="repeat a digest"):
        cluster([("a", 0, True, 1.0), ("a", 1, True, 1.0)])


@settings(max_examples=80)
@given(data=st.data())
def test_clusters_hold_only_what_has_an_edge_with_its_survivor_in_any_order_of_arrival(data):
    digests = [f"{at:02d}" for at in range(12)]
    node_rows = [(digest, data.draw(st.integers(0, 2)), True, None) for digest in digests]
    edge = st.tuples(
        st.sampled_from(digests),
        st.sampled_from(digests),
        st.sampled_from(["near", "semantic"]),
        st.sampled_from([0.8, 0.9]),
    )
    chosen = data.draw(st.lists(edge, max_size=14, unique_by=lambda one: one[:2]))
    edge_rows = [edge for edge in chosen if edge[0] != edge[1]]
    one = dedup.cluster(nodes(node_rows), edges(edge_rows), criteria=(PIXELS,))
    order = pa.array(data.draw(st.permutations(range(len(edge_rows)))), pa.int64())
    other = dedup.cluster(
        nodes(data.draw(st.permutations(node_rows))), edges(edge_rows).take(order), criteria=(PIXELS,)
    )
    assert one.equals(other)
    verified = {(left, right) for left, right, _, _ in edge_rows}
    for row in one.to_pylist():
        assert row["is_survivor"] or (row["survivor"], row["digest"]) in verified
    by = goes_by(
        [(0 if tier == "near" else 1, -score, "m", left, right, "same") for left, right, tier, score in edge_rows]
    )
    said = {
        row["digest"]: (row["survivor"], row["tier"], row["score"]) for row in one.to_pylist() if not row["is_survivor"]
    }
    assert said == {goes: (edge[3], ["near", "semantic"][edge[0]], -edge[1]) for goes, edge in by.items()}

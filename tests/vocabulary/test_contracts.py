"""The trust contract at each border: nothing is lost, nothing comes from nowhere, and the counts add up."""

from __future__ import annotations

import pyarrow as pa
import pytest

from mmlake import contracts
from mmlake.errors import ContractBroken
from mmlake.records import STATUSES


def statuses(*values: str | None) -> pa.Table:
    return pa.table({"digest": [f"d{at}" for at in range(len(values))], "status": pa.array(values, pa.string())})


@pytest.mark.parametrize(("expected", "actual", "count"), [("abc", "cab", 3), ("", "", 0), ("aab", "ab", 2)])
def test_the_same_keys_in_any_order_pass_and_are_counted(expected, actual, count) -> None:
    assert contracts.same_keys("items -> tracks", expected, actual) == count


def test_iterators_are_read_once() -> None:
    assert contracts.same_keys("items -> tracks", iter("abc"), iter("abc")) == 3
    assert contracts.known_keys("tracks -> pairs", iter("abc"), iter("aba")) == 2


@pytest.mark.parametrize(
    ("actual", "words"),
    [
        ("ab", "1 were lost .such as .'c'.* 0 came from nowhere"),
        ("abcd", "0 were lost .* 1 came from nowhere .such as .'d'"),
        ("abx", "1 were lost .* 1 came from"),
    ],
)
def test_lost_and_strange_keys_are_distinguished(actual, words) -> None:
    with pytest.raises(ContractBroken, match=f"items -> tracks: 3 rows went in, {words}"):
        contracts.same_keys("items -> tracks", "abc", actual)


def test_a_repeated_row_is_reported_with_its_key() -> None:
    with pytest.raises(ContractBroken, match="items -> tracks: 1 keys appear more than once .such as .'b'"):
        contracts.same_keys("items -> tracks", "abc", "abbc")


def test_a_repeated_row_does_not_make_up_for_a_lost_one() -> None:
    with pytest.raises(ContractBroken):
        contracts.same_keys("items -> tracks", "abc", "abb")


def test_only_a_few_examples_are_shown() -> None:
    with pytest.raises(ContractBroken) as caught:
        contracts.same_keys("items -> tracks", [f"k{number:04}" for number in range(5000)], [])
    assert "5000 were lost" in str(caught.value)
    assert str(caught.value).count("k0") == 3


def test_known_keys_may_be_used_in_part() -> None:
    assert contracts.known_keys("tracks -> pairs", "abc", "ac") == 2


def test_a_key_from_nowhere_is_refused() -> None:
    with pytest.raises(ContractBroken, match="tracks -> pairs: 2 rows name digests .* such as .'x', 'y'"):
        contracts.known_keys("tracks -> pairs", iter("abc"), iter("axyx"))


def test_digests_are_distinct_and_without_nulls() -> None:
    assert contracts.digests(pa.table({"digest": ["b", None, "a", "b"]})) == ["b", "a"]


def test_the_column_of_digests_can_be_named() -> None:
    assert contracts.digests(pa.table({"left": pa.chunked_array([["b"], ["b", "c"]])}), "left") == ["b", "c"]


def test_only_ok_and_flagged_are_admitted() -> None:
    assert contracts.admitted(statuses(*STATUSES)) == ["d0", "d1"]


def test_nothing_is_admitted_from_an_empty_table() -> None:
    assert contracts.admitted(statuses()) == []


def test_counts_by_status_add_up_to_the_rows() -> None:
    table = statuses("ok", "ok", "unreadable", "flagged", "ok")
    counts = contracts.counts_by_status(table)
    assert counts == {"ok": 3, "flagged": 1, "quarantined": 0, "unreadable": 1}
    assert sum(counts.values()) == table.num_rows


@pytest.mark.parametrize("status", ["OK", "good", "", None])
def test_a_status_that_is_not_in_the_list_is_refused(status) -> None:
    with pytest.raises(ContractBroken, match="on 1 rows is none of"):
        contracts.counts_by_status(statuses("ok", status))


def failed(*keys: tuple[str, str]) -> pa.Table:
    rows = [
        {"digest": digest, "method": method, "status": "unreadable", "error_code": 5001, "error": "torn"}
        for digest, method in keys
    ]
    return pa.Table.from_pylist(rows)


def test_failed_items_are_counted_once() -> None:
    both = ("digest", "method")
    assert contracts.failures_explained("a -> b", failed(("d0", "x"), ("d0", "y"), ("d1", "x")), key=both) == 2


def test_two_failures_of_one_key_are_refused() -> None:
    with pytest.raises(ContractBroken, match=r"1 items failed in more than one row .such as .'d0'"):
        contracts.failures_explained("a -> b", failed(("d0", "x"), ("d0", "y"), ("d1", "x")))
    with pytest.raises(ContractBroken, match=r"1 items failed in more than one row .such as .'d0'"):
        contracts.failures_explained("a -> b", failed(("d0", "x"), ("d0", "x")), key=("digest", "method"))

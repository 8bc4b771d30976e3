"""Which samples that came are samples that went, edited."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmlake.versions import VersionStore
from mmlake.versions.edits import EDITS, edits
from mmlake.versions.sample_schemas import VERSION_SAMPLES
from tests.versions.sample_rows import build, caption, many, part, picture, sample


@pytest.fixture
def store(tmp_path) -> VersionStore:
    return VersionStore(tmp_path, clock=lambda: "2026-01-01T00:00:00+00:00")


def moved(*rows: tuple[str, str | None, list[str]]):
    """Samples that went, or came: name, lead and ids."""
    base = dict.fromkeys(VERSION_SAMPLES.names) | {"modality": "image"}
    made = [base | {"sample": name, "lead": lead, "sample_ids": ids} for name, lead, ids in sorted(rows)]
    return VERSION_SAMPLES.empty_table().from_pylist(made, schema=VERSION_SAMPLES)


def pairs(removed, added) -> list[tuple[str, str, str]]:
    return [(row["was"], row["sample"], row["kept"]) for row in edits(removed, added).to_pylist()]


def test_new_words_and_new_bytes_are_edits_and_what_is_new_is_none(store) -> None:
    """A caption corrected; a file replaced; a text rewritten under its id; one that left; one that is new."""
    old = [
        sample(picture(1), caption(2), sample_ids=["web/a"]),
        sample(picture(3), caption(4), sample_ids=["web/b"]),
        sample(part(5), sample_ids=["web/c"]),
        sample(picture(6), sample_ids=["web/d"]),
    ]
    new = [
        sample(picture(1), caption(7), sample_ids=["web/a"]),
        sample(picture(8), caption(4), sample_ids=["web/b"]),
        sample(part(9), sample_ids=["web/c"]),
        sample(picture(10), sample_ids=["web/e"]),
    ]
    one, two = build(store, many(20), old), build(store, many(20), new)
    diff = store.diff(one.id, two.id)
    assert (diff.added.num_rows, diff.removed.num_rows) == (4, 4)
    found = {(row["was"], row["sample"]): (row["modality"], row["kept"]) for row in diff.edited().to_pylist()}
    assert found == {
        (old[0]["sample"], new[0]["sample"]): ("image", "same medium"),
        (old[1]["sample"], new[1]["sample"]): ("image", "same id"),
        (old[2]["sample"], new[2]["sample"]): ("text", "same id"),
    }
    back = store.diff(two.id, one.id).edited().to_pylist()
    assert {(row["sample"], row["was"]) for row in back} == set(found)


def test_the_same_medium_counts_before_the_same_id() -> None:
    """Two files changed their names."""
    was, now = moved(("a", "x", ["1"]), ("b", "y", ["2"])), moved(("c", "y", ["1"]), ("d", "x", ["2"]))
    assert pairs(was, now) == [("b", "c", "same medium"), ("a", "d", "same medium")]


def test_of_several_samples_of_one_medium_the_same_id_is_the_same_sample() -> None:
    """Two questions about one picture, both with another wording: they were paired by name, crosswise."""
    was, now = moved(("a", "x", ["1"]), ("b", "x", ["2"])), moved(("c", "x", ["2"]), ("d", "x", ["1"]))
    assert pairs(was, now) == [("b", "c", "same medium"), ("a", "d", "same medium")]
    more = moved(("c", "x", ["3"]), ("d", "x", ["2"]), ("e", None, ["1"]))
    assert pairs(was, more) == [("a", "c", "same medium"), ("b", "d", "same medium")]


def test_each_sample_is_in_one_pair() -> None:
    was, now = moved(("a", "x", ["1"]), ("b", "x", ["1"])), moved(("c", "x", ["1"]))
    assert pairs(was, now) == [("a", "c", "same medium")]
    assert pairs(now, was) == [("c", "a", "same medium")]


def test_samples_without_a_lead_or_an_id_are_no_pair() -> None:
    assert pairs(moved(("a", None, [])), moved(("b", None, []))) == []
    assert edits(moved(), moved()).schema == EDITS


_ROWS = st.lists(
    st.tuples(st.sampled_from("xyz"), st.lists(st.sampled_from("1234"), max_size=3, unique=True)), max_size=8
)


@given(before=_ROWS, after=_ROWS)
def test_pairs_share_what_they_say_and_leave_none_that_could_be_one(before, after) -> None:
    was = {f"a{number}": row for number, row in enumerate(before)}
    now = {f"b{number}": row for number, row in enumerate(after)}
    found = pairs(moved(*((key, *row) for key, row in was.items())), moved(*((key, *row) for key, row in now.items())))
    assert max(Counter(old for old, _, _ in found).values(), default=1) == 1
    assert max(Counter(new for _, new, _ in found).values(), default=1) == 1
    for old, new, kept in found:
        assert was[old][0] == now[new][0] if kept == "same medium" else set(was[old][1]) & set(now[new][1])
    left = [was[key] for key in was.keys() - {old for old, _, _ in found}]
    others = [now[key] for key in now.keys() - {new for _, new, _ in found}]
    assert not any(one[0] == two[0] or set(one[1]) & set(two[1]) for one in left for two in others)

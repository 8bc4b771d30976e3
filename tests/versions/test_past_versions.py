"""A branch by time: what it was at, for every command that takes a version."""

from __future__ import annotations

import pytest

from mmlake.errors import RefMissing
from mmlake.versions import VersionStore
from tests.versions.sample_rows import build, many

_TIMES = ["2026-03-01T12:00:00+00:00", "2026-03-02T12:00:00+00:00", "2026-03-03T12:00:00+00:00"]


@pytest.fixture
def moved(tmp_path) -> tuple[VersionStore, str, str]:
    """A branch that was made on the first of March, moved on the second and back on the third; its two versions."""
    now = _TIMES[0]
    store = VersionStore(tmp_path, clock=lambda: now)
    one, two = build(store, many(1)).id, build(store, many(2)).id
    store.branch("main", one)
    now = _TIMES[1]
    store.advance("main", two)
    now = _TIMES[2]
    store.rollback("main", one)
    return store, one, two


@pytest.mark.parametrize(
    ("time", "place"),
    [
        ("2026-03-01T12:00:00+00:00", 0),  # the very moment
        ("2026-03-02", 0),  # the first moment of the day
        ("2026-03-02T11:59:59", 0),
        ("2026-03-02T12:00", 1),
        ("2026-03-02T13:30+02:00", 0),
        ("2026-03-02T12:00:00.000Z", 1),
        ("20260303", 1),
        ("2026-03-03T12:00:01", 0),  # back
        ("9999-12-31", 0),
    ],
)
def test_a_branch_at_a_time_is_what_it_was_at(moved, time: str, place: int) -> None:
    store, *ids = moved
    assert store.resolve(f"main@{time}") == ids[place]


def test_what_a_branch_was_is_read_compared_tagged_and_rolled_back_to(moved) -> None:
    store, one, two = moved
    assert store.samples("main@2026-03-03").num_rows == 2
    assert store.diff("main@2026-03-02", "main@2026-03-03").added.num_rows == 1
    assert store.tag("as-trained", "main@2026-03-03") == two
    assert store.rollback("main", "main@2026-03-03") == two
    assert store.branches() == {"main": two}


@pytest.mark.parametrize(
    ("ref", "match"),
    [
        ("main@2026-03-01", "had no version at 2026-03-01T00:00:00.00:00; its log begins at 2026-03-01T12"),
        ("main@yesterday", "'yesterday' of 'main@yesterday' is no time"),
        ("main@", "'' of 'main@' is no time"),
        ("main@2026-13-01", "is no time"),
        ("main@2026-03-02/18:00", "is no time"),  # refs name files
        ("mian@2026-03-02", "there is no branch 'mian'"),
        ("@2026-03-02", "no version, branch or tag is called '@2026-03-02'"),
        ("../main@2026-03-02", "no version, branch or tag is called"),
    ],
)
def test_what_names_no_version_is_missing(moved, ref: str, match: str) -> None:
    store, *_ = moved
    with pytest.raises(RefMissing, match=match):
        store.resolve(ref)

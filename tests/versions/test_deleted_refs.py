"""Branches and tags that are deleted: every version stays, and each keeps a name unless somebody insists."""

from __future__ import annotations

import pytest

from mmlake import checked_json
from mmlake.errors import RefInUse, RefMissing, SettingsError
from mmlake.versions import VersionStore
from tests.versions.sample_rows import build, many
from tests.versions.test_version_store import _dying, _Killed


@pytest.fixture
def store(tmp_path) -> VersionStore:
    """The versions v1 and v2; the branch `main` was at the first and is at the second."""
    store = VersionStore(tmp_path, clock=lambda: "2026-01-01T00:00:00+00:00")
    one = build(store, many(1), name="v1").id
    two = build(store, many(2), name="v2").id
    store.branch("main", one)
    store.advance("main", two)
    return store


def _unlogged(store: VersionStore) -> list[str]:
    return store._refs.unlogged()


def test_a_deleted_tag_names_nothing_and_its_version_stays(store) -> None:
    id_ = store.tag("release", "v1")
    assert store.delete("tags", "release") == id_
    assert list(store.tags()) == ["v1", "v2"] and store.verify(id_) == []
    for refuse in (lambda: store.resolve("release"), lambda: store.delete("tags", "release")):
        with pytest.raises(RefMissing, match="release"):
            refuse()


def test_a_name_that_was_deleted_may_name_another_version(store) -> None:
    store.tag("release", "v1")
    store.delete("tags", "release")
    assert store.tag("release", "v2") == store.resolve("v2")
    assert VersionStore(store.root).resolve("release") == store.resolve("v2")
    assert _unlogged(store) == []


def test_what_was_deleted_and_when_stays_in_the_log(store) -> None:
    id_ = store.tag("release", "v1")
    store.delete("tags", "release")
    last = (store.root / "logs" / "_made.jsonl").read_bytes().splitlines()[-1]
    assert checked_json.loads(last) == {
        "kind": "tags", "name": "release", "id": id_, "at": "2026-01-01T00:00:00+00:00", "deleted": True,
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["tags", "branches"])
def test_the_only_name_of_a_version_is_deleted_by_force_alone(store, kind: str) -> None:
    id_ = build(store, many(3)).id
    {"tags": store.tag, "branches": store.branch}[kind]("only", id_)
    with pytest.raises(RefInUse, match=f"the only name of {id_[:12]}"):
        store.delete(kind, "only")
    assert store.resolve("only") == id_
    assert store.delete(kind, "only", force=True) == id_
    assert store.read(id_).num_samples == 3


def test_a_branch_is_kept_where_a_version_that_it_was_at_has_no_other_name(store) -> None:
    store.branch("trial", middle := build(store, many(4)).id)
    store.advance("trial", "v2")
    with pytest.raises(RefInUse, match=middle[:12]):
        store.delete("branches", "trial")
    store.tag("middle", middle)
    store.delete("branches", "trial")


def test_another_branch_of_a_deleted_name_has_a_log_of_its_own(store) -> None:
    store.delete("branches", "main")
    with pytest.raises(RefMissing):
        store.log("main")
    store.branch("main", "v2")
    assert [(move.move, move.after) for move in store.log("main")] == [(1, store.resolve("v2"))]
    with pytest.raises(SettingsError, match="was never at"):
        store.rollback("main", "v1")
    assert len((store.root / "old" / "logs" / "main-001.jsonl").read_bytes().split()) == 2
    store.delete("branches", "main")
    assert (store.root / "old" / "logs" / "main-002.jsonl").exists()


def test_a_deletion_killed_at_any_step_leaves_the_branch_or_none_and_is_ended_by_the_next(
    tmp_path, monkeypatch
) -> None:
    for countdown in range(40):
        store = VersionStore(tmp_path / str(countdown))
        one = build(store, many(1), name="v1").id
        store.branch("main", one)
        with monkeypatch.context() as patch:
            _dying(patch, countdown)
            try:
                store.delete("branches", "main")
                break
            except _Killed:
                pass
        store = VersionStore(store.root)  # another process
        if "main" in store.branches():
            assert (store.resolve("main"), len(store.log("main"))) == (one, 1)
            store.delete("branches", "main")
        assert store.branches() == {}
        store.branch("main", "v1")
        assert len(store.log("main")) == 1 and _unlogged(store) == []
    assert countdown > 2


@pytest.mark.parametrize("name", ["curated-v009", "try_1-v123456"])
def test_no_name_of_a_version_is_given_to_something_else(store, name: str) -> None:
    """`mmlake run` took a tag `curated-v009` for the newest version of the branch, and a branch kept a version from its
    name."""
    for make in (store.tag, store.branch):
        with pytest.raises(SettingsError, match="the form of the versions of a branch"):
            make(name, "v1")
    assert store.tag("curated-v09", "v1") == store.tag("v009", "v1")  # neither is a name of a version

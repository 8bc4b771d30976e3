from __future__ import annotations

import os
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from mmlake.errors import ContractBroken, LakeLocked, RefExists, RefMissing, SettingsError
from mmlake.locks import exclusive_lock
from mmlake.records import digest_of
from mmlake.versions import EXCLUDED, Recipe, VersionStore
from tests.versions.sample_rows import CURATED, build, caption, catalog_row, chosen, many, name, part, picture, sample


@pytest.fixture
def store(tmp_path) -> VersionStore:
    times = iter(f"2026-01-01T00:00:{second:02d}+00:00" for second in range(60))
    return VersionStore(tmp_path, clock=lambda: next(times))


def test_an_allow_list_denies_items_without_a_licence_or_with_a_second_one() -> None:
    recipe = replace(CURATED, allow_licences=("MIT",))
    assert [recipe.denied_licence(licences) for licences in (["MIT"], [], ["CC0-1.0", "MIT"])] == [
        None,
        "none stated",
        "CC0-1.0",
    ]


def test_a_recipe_can_never_admit_unreadable_items() -> None:
    with pytest.raises(SettingsError, match="unreadable"):
        Recipe(name="bad", description="", statuses=("unreadable",))


def test_denied_items_are_never_published(store) -> None:
    selection = chosen([catalog_row(1)])
    with pytest.raises(ContractBroken, match="licence MIT"):
        store.build(
            selection.samples,
            recipe=replace(CURATED, deny_licences=("MIT",)),
            settings_digest="s",
            encoders={},
            diversity=None,
        )


def test_the_tree_depends_on_content_alone(tmp_path) -> None:
    """Not on order, parents, settings, recipe's name, time, run or message."""
    rows = many(50)
    trees = {
        build(VersionStore(tmp_path / str(number)), random.Random(number).sample(rows, 50), **fields).tree
        for number, fields in enumerate(
            [{}, {"settings_digest": "t"}, {"run": "r"}, {"message": "m"}, {"recipe": replace(CURATED, name="other")}]
        )
    }
    assert len(trees) == 1
    assert build(VersionStore(tmp_path / "other"), rows[1:]).tree not in trees


def test_a_version_says_where_its_tree_comes_from(store) -> None:
    one = build(store, many(2))
    two = build(store, many(3), parents=(one.id,), run="run-7", message="one more")
    assert (two.parents, two.run, two.message) == ((one.id,), "run-7", "one more")
    assert (one.created_at, two.created_at) == ("2026-01-01T00:00:00+00:00", "2026-01-01T00:00:01+00:00")
    assert (two.recipe.name, two.recipe.description) == (CURATED.name, CURATED.description)


def test_the_id_is_the_hash_of_the_file(store) -> None:
    manifest = build(store, many(5))
    assert digest_of((store.root / "manifests" / f"{manifest.id}.json").read_bytes()) == manifest.id
    assert digest_of((store.root / "trees" / f"{manifest.tree}.json").read_bytes()) == manifest.tree
    assert store.read(manifest.id) == manifest


def test_totals_add_up(store) -> None:
    rows = [
        catalog_row(1, licences=["CC0-1.0", "MIT"]),
        catalog_row(2),
        catalog_row(3, modality="image", status="quarantined", rule="blank"),
        catalog_row(4, status="quarantined", rule="junk"),
    ]
    said = caption(2), caption(4), caption(2), caption(4)
    samples = [sample(part(1), *said), sample(part(2)), sample(picture(3), caption(2))]
    manifest = build(store, rows, samples)
    assert manifest.totals == {"text": {"num_items": 2, "size_bytes": 3}}
    assert manifest.samples == {"text": {"num_samples": 2, "num_parts": 3}}
    assert manifest.licences == {
        "CC0-1.0": {"num_samples": 1, "size_bytes": 3},
        "MIT": {"num_samples": 2, "size_bytes": 5},
    }
    assert manifest.excluded == {"image": {"rule:blank": 1}}
    assert manifest.masked == {"text": {"part:repeated": 2, "rule:junk": 1}}
    assert manifest.pairs == {"caption": {"num_pairs": 2, "num_kept": 1}}, "what is said twice is no pair more"
    assert (manifest.num_items, manifest.num_samples, manifest.num_excluded) == (2, 2, 1)


def test_an_empty_version_is_a_version(store) -> None:
    manifest = build(store, [])
    assert (manifest.num_items, store.items(manifest.id).num_rows, store.verify(manifest.id)) == (0, 0, [])


def test_refs_resolve_by_branch_tag_id_and_prefix(store) -> None:
    id_ = build(store, many(3), name="v1").id
    store.branch("main", "v1")
    assert {store.resolve(ref) for ref in ("main", "v1", id_, id_[:8])} == {id_}


@pytest.mark.parametrize("ref", ["nobody", "", "../../etc/passwd", "0" * 64, "a/b", "0000"])
def test_unknown_refs_are_missing(store, ref: str) -> None:
    with pytest.raises(RefMissing):
        store.resolve(ref)


@pytest.mark.parametrize(
    "bad", ["", "..", ".", "a/b", "a\\b", "../x", "a..b", "-x", ".x", "x.", "deadbeef", "a" * 101, "a\n", "ä"]
)
def test_unsafe_names_are_refused(store, bad: str) -> None:
    id_ = build(store, many(1)).id
    with pytest.raises(SettingsError, match="ref name"):
        store.branch(bad, id_)


def test_tags_never_move(store) -> None:
    one, two = build(store, many(1)).id, build(store, many(2)).id
    store.tag("v1", one)
    store.tag("v1", one)
    with pytest.raises(RefExists, match="tags never move"):
        store.tag("v1", two)


def test_a_branch_may_not_take_the_name_of_a_tag(store) -> None:
    build(store, many(1), name="v1")
    with pytest.raises(RefExists):
        store.branch("v1", "v1")


def test_a_branch_advances_rolls_back_and_logs_each_move(store) -> None:
    one, two = build(store, many(1)).id, build(store, many(2)).id
    store.branch("main", one)
    store.advance("main", two, expect=one)
    store.rollback("main", one)
    assert store.branches() == {"main": one}
    assert [(move.action, move.before, move.after) for move in store.log("main")] == [
        ("rollback", two, one),
        ("advance", one, two),
        ("branch", None, one),
    ]


def test_rollback_goes_only_where_the_branch_has_been(store) -> None:
    one, two = build(store, many(1)).id, build(store, many(2)).id
    store.branch("main", one)
    with pytest.raises(SettingsError, match="never at .* what `mmlake log main` lists"):
        store.rollback("main", two)


def test_a_branch_that_is_not_there_is_answered_with_those_that_are(store) -> None:
    store.branch("main", build(store, many(1)).id)
    for ask in (store.log, lambda name: store.advance(name, "main")):
        with pytest.raises(RefMissing, match="no branch 'mian'; branches: main; `mmlake branch`"):
            ask("mian")


def test_a_stale_expectation_does_not_move_the_branch(store) -> None:
    one, two, three = (build(store, many(count)).id for count in (1, 2, 3))
    store.branch("main", two)
    with pytest.raises(LakeLocked, match="somebody moved it"):
        store.advance("main", three, expect=one)
    assert store.branches() == {"main": two}


def test_a_second_writer_waits_for_the_first(store) -> None:
    with ThreadPoolExecutor(1) as pool:
        with exclusive_lock(store.root / "writer.lock", what="it"):
            waiting = pool.submit(build, store, many(1), name="v1")
            with pytest.raises(TimeoutError):
                waiting.result(timeout=0.2)
        made = waiting.result()
    assert store.tags() == {"v1": made.id}


def test_branching_copies_nothing_but_a_ref(store) -> None:
    build(store, many(2000), name="v1")
    before = {path for path in store.root.rglob("*") if path.is_file()}
    store.branch("trial", "v1")
    assert {
        path.relative_to(store.root).parts[0] for path in store.root.rglob("*") if path.is_file() and path not in before
    } == {"refs", "logs"}


def test_parents_must_exist_and_are_kept(store) -> None:
    one = build(store, many(1), name="v1").id
    assert build(store, many(2), parents=("v1",)).parents == (one,)
    with pytest.raises(RefMissing):
        build(store, many(2), parents=("nobody",))


@pytest.mark.parametrize("folder", ["segments", "trees", "manifests"])
def test_every_flipped_byte_is_found_and_a_rebuild_repairs_it(store, folder: str) -> None:
    then = "2026-01-01T00:00:00+00:00"
    id_ = build(store, many(30), created_at=then).id
    path = next(path for path in (store.root / folder).rglob("*") if path.is_file())
    whole = path.read_bytes()
    for position in range(0, len(whole), max(1, len(whole) // 40)):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
        # a Parquet file carries a few bits that mean nothing
        assert store.verify(id_) or store.samples(id_).equals(chosen(many(30)).samples)
    path.write_bytes(whole[:-9])
    assert store.verify(id_) != []
    build(store, many(30), created_at=then)
    assert store.verify(id_) == []


def test_values_that_json_cannot_hold_are_refused(store) -> None:
    with pytest.raises(SettingsError, match="finite"):
        build(store, many(1), diversity={"vendi": float("nan")})


class _Killed(BaseException):
    pass


def _dying(monkeypatch, countdown: int):
    """Let the writer die at the nth file operation that makes something durable or visible."""
    left = [countdown]

    def wrap(real):
        def call(*args, **kwargs):
            left[0] -= 1
            if left[0] < 0:
                raise _Killed
            return real(*args, **kwargs)

        return call

    for operation in ("replace", "fsync"):
        monkeypatch.setattr(os, operation, wrap(getattr(os, operation)))


def _publish(store: VersionStore) -> str:
    one = build(store, many(20), name="v1").id
    two = build(store, many(30), parents=(one,)).id
    if "main" not in store.branches():
        store.branch("main", one)
    return store.advance("main", two)


def test_a_writer_killed_at_any_step_leaves_sound_versions_and_converges(tmp_path, monkeypatch) -> None:
    """Readers see the old state or the new one; running again reaches the same ids as a run that never died."""
    expected = _publish(VersionStore(tmp_path / "whole", clock=lambda: "2026-01-01T00:00:00+00:00"))
    deaths = 0
    for countdown in range(200):
        store = VersionStore(tmp_path / str(countdown), clock=lambda: "2026-01-01T00:00:00+00:00")
        with monkeypatch.context() as patch:
            _dying(patch, countdown)
            try:
                _publish(store)
                break
            except _Killed:
                deaths += 1
        for ref in [*store.branches(), *store.tags(), *store.versions()]:
            assert store.verify(ref) == []
        assert all(store.log(branch)[0].after == id_ for branch, id_ in store.branches().items())
        assert _publish(store) == expected
        assert [move.after for move in store.log("main")][0] == expected
        assert [move.move for move in store.log("main")] == [2, 1]
    assert deaths > 20


def test_a_torn_log_line_is_passed_over(store) -> None:
    one, two = build(store, many(1)).id, build(store, many(2)).id
    store.branch("main", one)
    with (store.root / "logs" / "main.jsonl").open("ab") as file:
        file.write(b'\n{"move":2,"bef')
    store.advance("main", two)
    assert [move.after for move in store.log("main")] == [two, one]


def test_the_excluded_rows_come_back(store) -> None:
    id_ = build(store, [catalog_row(1), catalog_row(2, status="quarantined", rule="blank", reason="luma_std=0")]).id
    (row,) = store.excluded(id_).to_pylist()
    assert {field: row[field] for field in ("digest", "modality", "role", "is_whole", "cause", "detail")} == {
        "digest": name(2), "modality": "text", "role": "document", "is_whole": True, "cause": "rule:blank",
        "detail": "luma_std=0",
    }  # fmt: skip
    assert store.excluded(id_).schema.equals(EXCLUDED)


def test_content_that_the_parent_has_already_is_the_parent(store) -> None:
    one = build(store, many(3), name="v1")
    again = build(store, many(3), parents=("v1",), name="v2")
    assert again.id == one.id
    assert store.tags() == {"v1": one.id, "v2": one.id}
    assert build(store, many(4), parents=("v2",)).id != one.id


def _of_the_first_schema(store: VersionStore, id_: str) -> str:
    """The id of a manifest as earlier releases wrote it."""
    import json

    body = json.loads((store.root / "manifests" / f"{id_}.json").read_text()) | {"schema": "mmlake.manifest/1"}
    data = json.dumps(body, sort_keys=True, separators=(",", ":")).encode()
    (store.root / "manifests" / f"{digest_of(data)}.json").write_bytes(data)
    return digest_of(data)


def test_versions_of_earlier_releases_are_refused_and_put_aside_with_their_refs(store) -> None:
    new = build(store, many(3), name="v2").id
    old = _of_the_first_schema(store, new)
    store.tag("v1", old)
    store.branch("curated", "v1")
    with pytest.raises(SettingsError, match="mmlake migrate"):
        store.read("v1")
    assert store.migrate() == {"converted": [], "set_aside": ["curated", "v1"]}
    assert (store.versions(), store.tags(), store.branches()) == ([new], {"v2": new}, {})
    assert (store.root / "old" / "manifests" / f"{old}.json").exists()
    assert (store.root / "old" / "logs" / "curated.jsonl").exists()
    assert (store.migrate(), store.verify("v2")) == ({"converted": [], "set_aside": []}, [])
    store.branch("curated", "v2")


def test_a_migration_killed_at_any_step_is_ended_by_the_next(tmp_path, monkeypatch) -> None:
    for countdown in range(40):
        store = VersionStore(tmp_path / str(countdown))
        store.tag("v1", _of_the_first_schema(store, build(store, many(2), name="v2").id))
        with monkeypatch.context() as patch:
            _dying(patch, countdown)
            try:
                store.migrate()
                break
            except _Killed:
                pass
        store.migrate()
        assert (list(store.tags()), len(store.versions())) == (["v2"], 1)
    assert countdown > 3


def test_a_branch_never_points_at_a_draft(store) -> None:
    one = build(store, many(1)).id
    draft = build(store, many(2), parents=(one,), draft=True, name="v2").id
    store.branch("main", one)
    for move in (lambda: store.branch("trial", "v2"), lambda: store.advance("main", "v2")):
        with pytest.raises(ContractBroken, match="is a draft"):
            move()
    assert store.branches() == {"main": one}
    assert store.publish("v2", "main", expect=one) == draft
    assert (store.branches(), store.is_draft(draft)) == ({"main": draft}, False)


def test_of_two_that_publish_upon_one_version_one_wins_and_the_other_is_refused(store) -> None:
    one = build(store, many(1)).id
    two, three = (build(store, many(count), parents=(one,), draft=True).id for count in (2, 3))
    assert store.publish(one, "main", expect=None) == one
    store.publish(two, "main", expect=one)
    with pytest.raises(LakeLocked, match="somebody moved the branch"):
        store.publish(three, "main", expect=one)
    with pytest.raises(LakeLocked):
        store.publish(three, "main", expect=None)
    assert (store.branches(), store.is_draft(three)) == ({"main": two}, True)
    store.publish(two, "main", expect=one)  # again: it is there already
    assert len(store.log("main")) == 2


def test_a_publishing_killed_at_any_step_never_shows_a_draft_and_is_taken_up(tmp_path, monkeypatch) -> None:
    for countdown in range(60):
        store = VersionStore(tmp_path / str(countdown), clock=lambda: "2026-01-01T00:00:00+00:00")
        one = build(store, many(1), name="v1").id
        store.publish(one, "main", expect=None)

        def publish(store: VersionStore = store, one: str = one) -> str:
            two = build(store, many(2), parents=(one,), draft=True, name="v2")
            return store.publish(two.id, "main", expect=one)

        with monkeypatch.context() as patch:
            _dying(patch, countdown)
            try:
                publish()
                break
            except _Killed:
                pass
        assert not store.is_draft("main") and store.verify("main") == []
        assert publish() == store.branches()["main"]
        assert len(store.versions()) == 2
    assert countdown > 10

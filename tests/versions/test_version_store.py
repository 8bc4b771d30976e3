from __future__ import annotations

import os
import random
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmlake.errors import BlobCorrupt, ContractBroken, LakeLocked, RefExists, RefMissing, SettingsError
from mmlake.locks import exclusive_lock
from mmlake.records import digest_of
from mmlake.versions import EXCLUDED, Recipe, VersionStore
from mmlake.versions.segments import cut
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


def test_the_id_depends_on_content_alone(tmp_path) -> None:
    rows = many(50)
    ids = {
        build(VersionStore(tmp_path / str(number)), random.Random(number).sample(rows, 50)).id for number in range(3)
    }
    assert len(ids) == 1
    assert build(VersionStore(tmp_path / "other"), rows, settings_digest="t").id not in ids


def test_the_id_is_the_hash_of_the_manifest_file(store) -> None:
    manifest = build(store, many(5))
    assert digest_of((store.root / "manifests" / f"{manifest.id}.json").read_bytes()) == manifest.id
    assert store.read(manifest.id) == manifest


def test_totals_add_up(store) -> None:
    rows = [
        catalog_row(1, licences=["CC0-1.0", "MIT"]),
        catalog_row(2),
        catalog_row(3, modality="image", status="quarantined", rule="blank"),
        catalog_row(4, status="quarantined", rule="junk"),
    ]
    samples = [sample(part(1), caption(2), caption(4)), sample(part(2)), sample(picture(3), caption(2))]
    manifest = build(store, rows, samples)
    assert manifest.totals == {"text": {"num_items": 2, "size_bytes": 3}}
    assert manifest.samples == {"text": {"num_samples": 2, "num_parts": 3}}
    assert manifest.licences == {
        "CC0-1.0": {"num_samples": 1, "size_bytes": 3},
        "MIT": {"num_samples": 2, "size_bytes": 5},
    }
    assert manifest.excluded == {"image": {"rule:blank": 1}}
    assert manifest.masked == {"text": {"rule:junk": 1}}
    assert manifest.pairs == {"caption": {"num_pairs": 2, "num_kept": 1}}
    assert (manifest.num_items, manifest.num_samples, manifest.num_excluded) == (2, 2, 1)


def test_samples_come_back_sorted_and_whole(store, monkeypatch) -> None:
    monkeypatch.setattr("mmlake.versions.segments._MEAN_SAMPLES", 64)
    manifest = build(store, rows := many(1000, weight=0.25))
    assert store.samples(manifest.id).equals(chosen(rows).samples)
    assert store.items(manifest.id)["digest"].to_pylist() == sorted(name(number) for number in range(1000))
    assert sum(part.num_rows for part in store.iter_items(manifest.id)) == 1000
    assert len(manifest.segments) > 1


def test_an_empty_version_is_a_version(store) -> None:
    manifest = build(store, [])
    assert (manifest.num_items, store.items(manifest.id).num_rows, store.verify(manifest.id)) == (0, 0, [])


@settings(max_examples=25)
@given(st.sets(st.integers(0, 10**6), min_size=1, max_size=60), st.integers(0, 10**6))
def test_one_more_item_changes_one_segment_or_splits_it(numbers: set[int], extra: int) -> None:
    def pieces(members: set[int]) -> set[tuple[str, ...]]:
        rows = pa.table({"sample": sorted(name(number) for number in members)})
        return {tuple(row["sample"] for row in piece) for piece in cut(rows)}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mmlake.versions.segments._MEAN_SAMPLES", 4)
        assert len(pieces(numbers) - pieces(numbers | {extra})) <= 1
        assert len(pieces(numbers | {extra}) - pieces(numbers)) <= 2
        assert sorted(one for piece in pieces(numbers) for one in piece) == sorted(name(number) for number in numbers)


def test_two_versions_share_the_segments_they_share(store, monkeypatch) -> None:
    monkeypatch.setattr("mmlake.versions.segments._MEAN_SAMPLES", 64)
    one, two = build(store, many(1000)), build(store, many(1001))
    shared = {segment.digest for segment in one.segments} & {segment.digest for segment in two.segments}
    assert len(shared) >= len(one.segments) - 1 >= 8


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
    with pytest.raises(SettingsError, match="never at"):
        store.rollback("main", two)


def test_a_stale_expectation_does_not_move_the_branch(store) -> None:
    one, two, three = (build(store, many(count)).id for count in (1, 2, 3))
    store.branch("main", two)
    with pytest.raises(LakeLocked, match="somebody moved it"):
        store.advance("main", three, expect=one)
    assert store.branches() == {"main": two}


def test_a_second_writer_is_asked_to_wait(store) -> None:
    with exclusive_lock(store.root / "writer.lock", what="it"), pytest.raises(LakeLocked):
        build(store, many(1))


def test_branching_copies_nothing_but_a_ref(store) -> None:
    build(store, many(2000), name="v1")
    before = {path for path in store.root.rglob("*") if path.is_file()}
    store.branch("trial", "v1")
    assert {
        path.relative_to(store.root).parts[0] for path in store.root.rglob("*") if path.is_file() and path not in before
    } == {"refs", "logs"}


def test_diff_says_what_came_went_and_changed_and_why(store) -> None:
    one = build(
        store, [catalog_row(1), catalog_row(2), catalog_row(3), catalog_row(4, status="quarantined", rule="blank")]
    )
    two = build(store, [catalog_row(1, weight=0.5), catalog_row(2, tier="near"), catalog_row(4), catalog_row(5)])
    diff = store.diff(one.id, two.id)
    assert diff.summary() == {
        "added": {"text": {"new": 1, "was rule:blank": 1}},
        "removed": {"text": {"absent": 1, "tier:near": 1}},
        "changed": {"text": {"weight": 1}},
    }
    (changed,) = diff.changed.to_pylist()
    expected = {"lead": name(1), "modality": "text", "field": "weight", "before": "1.0", "after": "0.5"}
    assert changed == expected | {"sample": changed["sample"]}


def test_diff_of_a_version_with_itself_reads_nothing(store, monkeypatch) -> None:
    id_ = build(store, many(3000)).id
    monkeypatch.setattr(type(store._segments), "read", lambda *_: pytest.fail("a shared segment was read"))
    assert store.diff(id_, id_).summary() == {"added": {}, "removed": {}, "changed": {}}


def test_diff_forwards_and_backwards_agree(store) -> None:
    one, two = build(store, many(40)).id, build(store, many(60)[10:]).id
    there, back = store.diff(one, two), store.diff(two, one)
    assert there.added["sample"].equals(back.removed["sample"])
    assert there.removed["sample"].equals(back.added["sample"])


def test_parents_must_exist_and_are_kept(store) -> None:
    one = build(store, many(1), name="v1").id
    assert build(store, many(2), parents=("v1",)).parents == (one,)
    with pytest.raises(RefMissing):
        build(store, many(2), parents=("nobody",))


@pytest.mark.parametrize("folder", ["segments", "manifests"])
def test_every_flipped_byte_is_found_and_a_rebuild_repairs_it(store, folder: str) -> None:
    id_ = build(store, many(30)).id
    path = next(path for path in (store.root / folder).rglob("*") if path.is_file())
    whole = path.read_bytes()
    for position in range(0, len(whole), max(1, len(whole) // 40)):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
        # zlib carries a few bits that mean nothing
        assert store.verify(id_) or store.samples(id_).equals(chosen(many(30)).samples)
    path.write_bytes(whole[:-9])
    assert store.verify(id_) != []
    build(store, many(30))
    assert store.verify(id_) == []


def test_a_missing_segment_is_named(store) -> None:
    manifest = build(store, many(3))
    store._segments.path(manifest.segments[0].digest).unlink()
    assert "absent" in store.verify(manifest.id)[0]


def test_a_segment_that_unpacks_to_more_than_the_manifest_says_is_refused(store) -> None:
    import zlib

    manifest = build(store, many(3))
    store._segments.path(manifest.segments[0].digest).write_bytes(zlib.compress(b"0" * 50_000_000))
    with pytest.raises(BlobCorrupt):
        store.items(manifest.id)


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
    expected = _publish(VersionStore(tmp_path / "whole"))
    deaths = 0
    for countdown in range(200):
        store = VersionStore(tmp_path / str(countdown))
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
    assert store.set_old_aside() == ["curated", "v1"]
    assert (store.versions(), store.tags(), store.branches()) == ([new], {"v2": new}, {})
    assert (store.root / "old" / "manifests" / f"{old}.json").exists()
    assert (store.root / "old" / "logs" / "curated.jsonl").exists()
    assert (store.set_old_aside(), store.verify("v2")) == ([], [])
    store.branch("curated", "v2")


def test_a_migration_killed_at_any_step_is_ended_by_the_next(tmp_path, monkeypatch) -> None:
    for countdown in range(40):
        store = VersionStore(tmp_path / str(countdown))
        store.tag("v1", _of_the_first_schema(store, build(store, many(2), name="v2").id))
        with monkeypatch.context() as patch:
            _dying(patch, countdown)
            try:
                store.set_old_aside()
                break
            except _Killed:
                pass
        store.set_old_aside()
        assert (list(store.tags()), len(store.versions())) == (["v2"], 1)
    assert countdown > 3

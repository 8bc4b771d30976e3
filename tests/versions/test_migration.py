"""Versions of the release before, in which tree and version were one, become versions of this one."""

from __future__ import annotations

import json
import zlib

import pytest

from mmlake.errors import SettingsError
from mmlake.records import canonical_json, digest_of
from mmlake.versions import VersionStore, utc_now
from mmlake.versions.refs import Refs
from tests.versions.sample_rows import build, caption, catalog_row, picture, sample
from tests.versions.test_version_store import _dying, _Killed


def of_pictures(store: VersionStore, count: int, **fields):
    """The version of so many pictures with a caption each, of which another is quarantined."""
    rows = [catalog_row(at, modality="image") for at in range(count)]
    rows += [catalog_row(at + 100, role="caption") for at in range(count + 1)]
    rows.append(catalog_row(count, modality="image", status="quarantined", rule="blank", reason="luma_std=0"))
    return build(store, rows, [sample(picture(at), caption(at + 100)) for at in range(count + 1)], **fields)


def write_old(store: VersionStore, old: VersionStore, made, parents: tuple[str, ...] = ()) -> str:
    """The id of the version as the release before wrote it into the other store."""
    body = json.loads(made.to_json()) | {"schema": "mmlake.manifest/2", "parents": list(parents)}
    for name in ("tree", "made_with", "run", "created_at", "message"):
        del body[name]
    body["recipe"] = made.recipe.body
    for name, table in (("segments", store.samples(made.id)), ("excluded_segments", store.excluded(made.id))):
        body[name] = [_segment(old, table.to_pylist())] if table.num_rows else []
    data = canonical_json(body).encode()
    (old.root / "manifests").mkdir(parents=True, exist_ok=True)
    (old.root / "manifests" / f"{digest_of(data)}.json").write_bytes(data)
    return digest_of(data)


def _segment(old: VersionStore, rows: list[dict]) -> dict:
    for row in rows:
        del row["shard"]
        for part in row.get("parts", ()):
            for name in ("parent_digest", "start_us", "end_us"):
                del part[name]
    lines = b"".join(canonical_json(row).encode() + b"\n" for row in rows)
    path = old.root / "segments" / digest_of(lines)[:2] / f"{digest_of(lines)}.jsonl.z"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(zlib.compress(lines))
    ends = {"first": rows[0]["sample"], "last": rows[-1]["sample"]}
    return {"digest": digest_of(lines), "num_rows": len(rows), "size_bytes": len(lines), **ends}


@pytest.fixture
def source(tmp_path) -> VersionStore:
    return VersionStore(tmp_path / "source")


def lake_of_the_release_before(source: VersionStore, root) -> tuple[VersionStore, str, str]:
    """(store, first id, second id): two versions, a tag for each, and a branch that went from one to the other."""
    store = VersionStore(root, clock=lambda: "2026-01-01T00:00:00+00:00")
    one = write_old(source, store, of_pictures(source, 2))
    two = write_old(source, store, of_pictures(source, 3), parents=(one,))
    refs = Refs(store.root, clock=utc_now)
    refs.create("tags", "curated-v001", one)
    refs.create("tags", "curated-v002", two)
    store.branch("curated", one)
    store.advance("curated", two)
    return store, one, two


def test_versions_of_the_release_before_are_refused_with_the_command_that_converts_them(source, tmp_path) -> None:
    store, *_ = lake_of_the_release_before(source, tmp_path / "old")
    with pytest.raises(SettingsError, match="mmlake migrate"):
        store.read("curated")


def test_migrated_versions_have_their_samples_branches_tags_and_logs(source, tmp_path) -> None:
    store, one, two = lake_of_the_release_before(source, tmp_path / "old")
    assert store.migrate() == {"converted": ["curated", "curated-v001", "curated-v002"], "set_aside": []}
    ids = json.loads((store.root / "migrated.json").read_text())
    assert store.tags() == {"curated-v001": ids[one], "curated-v002": ids[two]}
    assert [(move.before, move.after) for move in store.log("curated")] == [(ids[one], ids[two]), (None, ids[one])]
    for name, count in (("curated-v001", 2), ("curated-v002", 3)):
        made, expected = store.read(name), of_pictures(source, count)
        assert store.verify(name) == []
        assert store.samples(name).drop_columns("shard").equals(source.samples(expected.id).drop_columns("shard"))
        assert store.excluded(name).drop_columns("shard").equals(source.excluded(expected.id).drop_columns("shard"))
        assert (made.totals, made.excluded, made.recipe) == (expected.totals, expected.excluded, expected.recipe)
    assert store.read("curated").parents == (ids[one],)
    assert store.read("curated").message == f"migrated from {two}"
    assert sorted(path.stem for path in (store.root / "old" / "manifests").iterdir()) == sorted([one, two])
    assert store.migrate() == {"converted": [], "set_aside": []}


def test_a_version_whose_segment_is_damaged_is_put_aside(source, tmp_path) -> None:
    store, one, two = lake_of_the_release_before(source, tmp_path / "old")
    body = json.loads((store.root / "manifests" / f"{one}.json").read_text())
    digest = body["segments"][0]["digest"]
    (store.root / "segments" / digest[:2] / f"{digest}.jsonl.z").write_bytes(b"torn")
    done = store.migrate()
    assert done == {"converted": ["curated", "curated-v002"], "set_aside": ["curated-v001"]}
    assert store.verify("curated") == []


def test_a_migration_of_versions_killed_at_any_step_is_ended_by_the_next(source, tmp_path, monkeypatch) -> None:
    whole, *_ = lake_of_the_release_before(source, tmp_path / "whole")
    whole.migrate()
    for countdown in range(100):
        store, *_ = lake_of_the_release_before(source, tmp_path / str(countdown))
        with monkeypatch.context() as patch:
            _dying(patch, countdown)
            try:
                store.migrate()
                break
            except _Killed:
                pass
        store.migrate()
        assert (store.tags(), store.branches()) == (whole.tags(), whole.branches())
        assert store.versions() == whole.versions()
    assert countdown > 15

"""Versions written before items were cut to spans: their parts have no place in an item, and are read as whole."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace

import pytest

from mmlake.records import canonical_json, digest_of
from mmlake.versions import VersionStore
from tests.versions.sample_rows import build, caption, catalog_row, many, name, picture, sample

NEW_OF_PARTS = ("parent_digest", "start_us", "end_us")


@pytest.fixture
def store(tmp_path) -> VersionStore:
    return VersionStore(tmp_path, clock=lambda: "2026-01-01T00:00:00+00:00")


def pictures() -> tuple[list[dict], list[dict]]:
    """(catalog rows, samples) of two pictures with a caption each."""
    rows = [catalog_row(at, modality="image") for at in (1, 2)] + [catalog_row(at, role="caption") for at in (3, 4)]
    return rows, [sample(picture(1), caption(3)), sample(picture(2), caption(4))]


def aged(store: VersionStore, ref: str) -> str:
    """The id of the version as the release before wrote it, tagged `old`."""
    manifest, segments = store.read(ref), []
    for segment in manifest.segments:
        path = store.root / "segments" / segment.digest[:2] / f"{segment.digest}.jsonl.z"
        rows = [json.loads(line) for line in zlib.decompress(path.read_bytes()).splitlines()]
        for part in (part for row in rows for part in row["parts"]):
            for field in NEW_OF_PARTS:
                assert field not in part
        lines = b"".join(canonical_json(row).encode() + b"\n" for row in rows)
        older = replace(segment, digest=digest_of(lines), size_bytes=len(lines))
        path = store.root / "segments" / older.digest[:2] / f"{older.digest}.jsonl.z"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(zlib.compress(lines))
        segments.append(older)
    made = replace(manifest, segments=tuple(segments))
    (store.root / "manifests" / f"{made.id}.json").write_text(made.to_json())
    return store.tag("old", made.id)


def test_a_version_written_before_is_sound_and_has_the_same_samples(store) -> None:
    new = build(store, *pictures())
    old = aged(store, new.id)
    assert old == new.id and store.verify(old) == []
    assert store.samples(old).equals(store.samples(new.id))
    assert store.items(old).equals(store.items(new.id))


def test_the_parts_of_a_version_written_before_lie_in_their_own_blobs(store) -> None:
    old = aged(store, build(store, *pictures()).id)
    parts = [part for row in store.samples(old).to_pylist() for part in row["parts"]]
    assert len(parts) == 4
    assert all([part[field] for field in NEW_OF_PARTS] == [part["digest"], None, None] for part in parts)


def test_equal_versions_of_two_releases_do_not_differ(store) -> None:
    new = build(store, *pictures())
    old = aged(store, new.id)
    for before, after in ((old, new.id), (new.id, old)):
        diff = store.diff(before, after)
        assert (diff.added.num_rows, diff.removed.num_rows, diff.changed.num_rows) == (0, 0, 0)


def test_what_went_since_a_version_written_before_names_its_blobs(store) -> None:
    old = aged(store, build(store, many(4)).id)
    removed = store.diff(old, build(store, many(3)).id).removed.to_pylist()
    assert [part["parent_digest"] for row in removed for part in row["parts"]] == [name(3)]


def test_items_say_which_blob_holds_them(store) -> None:
    span = picture(9, modality="video", parent_digest=name(1), start_us=0, end_us=5)
    rows = [catalog_row(9, modality="video"), catalog_row(2, modality="image")]
    items = store.items(build(store, rows, [sample(span), sample(picture(2))]).id).to_pylist()
    assert {row["digest"]: row["parent_digest"] for row in items} == {name(9): name(1), name(2): name(2)}

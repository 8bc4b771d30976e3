"""What changed between two versions, and why."""

from __future__ import annotations

import pytest

from mmlake.versions import VersionStore
from tests.versions.sample_rows import build, caption, catalog_row, many, name, of_shards, picture, sample


@pytest.fixture
def store(tmp_path) -> VersionStore:
    return VersionStore(tmp_path, clock=lambda: "2026-01-01T00:00:00+00:00")


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


def test_diff_reads_the_segments_of_the_shards_that_changed_and_no_others(store, monkeypatch) -> None:
    rows, samples = of_shards(*[5] * 50)
    one = build(store, rows, samples)
    two = build(store, [rows[0] | {"weight": 0.5}, *rows[1:-1], rows[-1] | {"status": "unreadable"}], samples)
    read, real = [], type(store._segments).read
    monkeypatch.setattr(type(store._segments), "read", lambda *args: (read.append(args[1].shard), real(*args))[1])
    assert store.diff(one.id, two.id).summary() == {
        "added": {},
        "removed": {"text": {"status:unreadable": 1}},
        "changed": {"text": {"weight": 1}},
    }
    assert sorted(read) == ["news/0000", "news/0000", "news/0049", "news/0049", "news/0049"]


def test_diff_names_each_field_of_a_sample_that_changed(store) -> None:
    rows, first = many(5), [sample(picture(1), caption(2)), sample(picture(3), caption(4))]
    one = build(store, rows, first)
    changed = first[0] | {"sample_ids": ["t/9"], "shard": "other/1"}
    masked = [row | ({"status": "unreadable"} if row["digest"] == name(4) else {}) for row in rows]
    found = store.diff(one.id, build(store, masked, [changed, first[1]]).id).changed.to_pylist()
    assert {(row["sample"], row["field"]) for row in found} == {
        (first[0]["sample"], "sample_ids"),
        (first[1]["sample"], "parts"),
    }
    assert [row["after"] for row in found if row["field"] == "sample_ids"] == ['["t/9"]']


def test_diff_forwards_and_backwards_agree(store) -> None:
    one, two = build(store, many(40)).id, build(store, many(60)[10:]).id
    there, back = store.diff(one, two), store.diff(two, one)
    assert there.added["sample"].equals(back.removed["sample"])
    assert there.removed["sample"].equals(back.added["sample"])

"""What changed between two versions, and why."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from mmlake.versions import RECIPES, VersionStore
from tests.versions.sample_rows import CURATED, build, caption, catalog_row, many, name, of_shards, picture, sample


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
    expected["reason"] = "source"
    assert changed == expected | {"sample": changed["sample"]}


def test_a_sample_that_was_taken_out_is_not_a_shard_that_is_gone(store) -> None:
    rows, samples = of_shards(5, 5)
    one = build(store, rows, samples).id
    two = build(store, [*rows[1:5], *rows[5:]], [*samples[1:5], *samples[5:]]).id
    three = build(store, rows[:5], samples[:5]).id
    out = [row | {"status": "unreadable"} for row in rows[5:]]
    four = build(store, [*rows[:5], *out], samples).id
    assert store.diff(one, two).summary()["removed"] == {"text": {"absent": 1}}
    assert store.diff(one, three).summary()["removed"] == {"text": {"shard_gone": 5}}
    assert store.diff(one, four).summary()["removed"] == {"text": {"status:unreadable": 5}}
    assert store.diff(one, three).reasons()["removed"] == {"source": 5}


def test_diff_of_a_version_with_itself_reads_nothing(store, monkeypatch) -> None:
    id_ = build(store, many(3000)).id
    monkeypatch.setattr(type(store.segments), "read", lambda *_: pytest.fail("a shared segment was read"))
    assert store.diff(id_, id_).summary() == {"added": {}, "removed": {}, "changed": {}}


def test_diff_reads_the_segments_of_the_shards_that_changed_and_no_others(store, monkeypatch) -> None:
    rows, samples = of_shards(*[5] * 50)
    one = build(store, rows, samples)
    two = build(store, [rows[0] | {"weight": 0.5}, *rows[1:-1], rows[-1] | {"status": "unreadable"}], samples)
    read, real = [], type(store.segments).read
    monkeypatch.setattr(type(store.segments), "read", lambda *args: (read.append(args[1].shard), real(*args))[1])
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


@pytest.mark.parametrize(
    ("older", "reason"),
    [
        ({"recipe": replace(CURATED, statuses=("ok",))}, "recipe"),
        ({"made_with": {"rules": {"text": []}}}, "rule"),
        ({"made_with": {"settings": {"decontaminate": {"folders": []}}}}, "threshold"),
        ({}, "source"),
    ],
)
def test_fields_that_lose_what_a_part_said_have_the_reason_of_the_parts(store, older: dict, reason: str) -> None:
    pair = [sample(picture(1), caption(2), fields_json='{"alt":"2","at":1}')]
    facts = {"made_with": {"settings": {"decontaminate": {"folders": ["exam"]}}, "rules": {"text": ["blank"]}}}
    before = facts | older
    before["made_with"] = facts["made_with"] | before["made_with"]
    one = build(store, [catalog_row(1), catalog_row(2)], pair, **before)
    two = build(store, [catalog_row(1), catalog_row(2, **_BLANK)], pair, **facts)
    diff = store.diff(one.id, two.id)
    assert diff.reasons()["changed"] == {reason: 1}
    fields, parts = diff.changed.to_pylist()
    assert (fields["field"], json.loads(fields["after"])) == ("fields_json", '{"at":1}')
    assert (parts["field"], fields["reason"]) == ("parts", reason)


def test_diff_forwards_and_backwards_agree(store) -> None:
    one, two = build(store, many(40)).id, build(store, many(60)[10:]).id
    there, back = store.diff(one, two), store.diff(two, one)
    assert there.added["sample"].equals(back.removed["sample"])
    assert there.removed["sample"].equals(back.added["sample"])


_DEDUP_CODE = {"code": {"near_duplicates": ["2"]}}
_BLANK = {"status": "quarantined", "rule": "blank"}
_ONE = {"settings": {"quality": {"bounds": {}}, "dedup": {"text_jaccard": 0.7}}, "rules": {"text": ["blank"]}}


@pytest.mark.parametrize(
    ("row", "facts", "reason"),
    [
        (_BLANK, {"recipe": RECIPES["everything"]}, "recipe"),
        (_BLANK, {"made_with": {"rules": {"text": []}}}, "rule"),
        (_BLANK, {"made_with": {"settings": {"quality": {"bounds": {"blank": [1, None]}}}}}, "threshold"),
        (_BLANK, {"made_with": {"settings": {"quality": {"bounds": {"other": [1, None]}}}}}, "source"),
        (_BLANK, {"made_with": {"scorers": {"aesthetic": ["2"]}}}, "scorer"),
        (_BLANK, {"made_with": {"code": {"measures": ["2"]}}}, "code"),
        (_BLANK, {}, "source"),
        ({"tier": "semantic"}, {"encoders": {"words": "2"}}, "encoder"),
        ({"tier": "near"}, {"encoders": {"words": "2"}}, "survivor"),
        ({"tier": "near"}, {"made_with": {"settings": {"dedup": {"text_jaccard": 0.6}}}}, "threshold"),
        ({"tier": "near"}, {"made_with": _DEDUP_CODE}, "code"),
        ({"tier": "near"}, {"recipe": replace(CURATED, drop_tiers=("exact",))}, "recipe"),
        ({"licences": ["GPL-3.0-only"]}, {"recipe": replace(CURATED, deny_licences=())}, "recipe"),
    ],
)
def test_a_sample_that_went_or_came_has_one_reason(store, row: dict, facts: dict, reason: str) -> None:
    """The older version differs from the newer in the facts, and has the sample; forwards and backwards."""
    recipe = replace(CURATED, deny_licences=("GPL-3.0-only",))
    held, gone = [catalog_row(1), catalog_row(2)], [catalog_row(1, **row), catalog_row(2)]
    facts = {"recipe": recipe, "made_with": _ONE} | facts
    facts["made_with"] = _ONE | facts["made_with"]
    one = build(store, held, **facts)
    two = build(store, gone, recipe=recipe, made_with=_ONE)
    assert store.diff(one.id, two.id).reasons()["removed"] == {reason: 1}
    assert store.diff(two.id, one.id).reasons()["added"] == {reason: 1}


def test_reasons_add_up_to_all(store) -> None:
    one = build(store, many(30), made_with=_ONE)
    rows = [catalog_row(at, **(_BLANK if at < 9 else {"tier": "near"} if at < 12 else {})) for at in range(40)]
    two = build(store, [row | {"weight": 0.5} for row in rows], made_with=_ONE | {"scorers": {"aesthetic": ["2"]}})
    diff = store.diff(one.id, two.id)
    assert diff.reasons() == {
        "added": {"source": 10},
        "removed": {"scorer": 9, "survivor": 3},
        "changed": {"scorer": 18},
    }
    assert [sum(counts.values()) for counts in diff.reasons().values()] == [10, 12, 18]


def test_a_source_that_is_gone_or_says_something_else_is_the_reason(store) -> None:
    rows, samples = many(3), [sample(picture(at)) for at in range(3)]
    one = build(store, rows, samples)
    two = build(store, rows[1:], [samples[1] | {"sample_ids": ["renamed"]}, samples[2]])
    assert store.diff(one.id, two.id).reasons() == {"added": {}, "removed": {"source": 1}, "changed": {"source": 1}}

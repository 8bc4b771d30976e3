"""Samples of items bound to spans: one sample per span of a lead, spans in the place of a cut part, nothing lost."""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmlake import schemas
from mmlake.records import LEADING_ROLES
from mmlake.samples import assemble, bind_units
from mmlake.schemas.samples import PART, SAMPLES

FILM, TALK, PICTURE, ONE, TWO, SAID = (hashlib.sha256(name.encode()).hexdigest() for name in "abcdef")
MODALITIES = {FILM: "video", TALK: "audio", PICTURE: "image"}
SPANNED = ("parent_digest", "start_us", "end_us")


def item(number: int, sample: str, digest: str | None, role: str = "media", **others: Any) -> dict[str, Any]:
    """A row of items, in the place that its number says."""
    modality = "text" if role != "media" else MODALITIES.get(digest or "", "image")
    row = {"modality": modality, "role": role, "source": "news", "licence": "MIT", "size_bytes": 7, "status": "ok"}
    names = {"item_id": f"s#{number:06d}", "sample_id": f"s/{sample}", "digest": digest, "position": number}
    return {**row, **names, "source_ref": '{"path":"s"}', **others}


def samples(*rows: dict[str, Any]) -> pa.Table:
    return assemble([schemas.from_rows(schemas.ITEMS, rows)])


def cut(parent: str, *borders_us: int, gaps: tuple[int, ...] = ()) -> list[dict[str, Any]]:
    """The spans between these borders, as UNITS has them; those of these positions are gaps and left out."""
    times = enumerate(zip(borders_us, borders_us[1:], strict=False))
    return [
        {"digest": span(parent, start), "parent_digest": parent, "position": position, "kind": "clip", "axis": "us"}
        | {"start": start, "end": end, "producer": "test@1", "role": "media", "status": "ok"}
        for position, (start, end) in times
        if position not in gaps
    ]


def span(parent: str, start_us: int) -> str:
    """The name of the span of the item that starts there."""
    return hashlib.sha256(f"{parent}/{start_us}".encode()).hexdigest()


def units(rows: list[dict[str, Any]]) -> pa.Table:
    return schemas.from_rows(schemas.UNITS, rows)


def bound(found: pa.Table, *spans: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The samples in order of the times of their first parts."""
    rows = bind_units(found, units([row for some in spans for row in some])).to_pylist()
    return sorted(rows, key=lambda row: row["parts"][0]["start_us"] or 0)


def spelled(sample: dict[str, Any]) -> str:
    """SHA-256 of fields and parts as docs/samples.md says that samples are named."""
    parts = []
    for part in sample["parts"]:
        own = "" if part["fields_json"] is None else "," + part["fields_json"]
        digest = "null" if part["digest"] is None else f'"{part["digest"]}"'
        parts.append(f'["{part["role"]}",{digest}{own}]')
    text = f'{{"fields":{sample["fields_json"] or "{}"},"parts":[{",".join(parts)}]}}'
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture
def film() -> pa.Table:
    """A film with two captions and its transcript."""
    said = {"metadata_json": '{"title":"Foxes","year":1990}'}
    rows = [item(0, "a", FILM, size_bytes=1000, **said), item(1, "a", ONE, "caption", **said)]
    rows += [item(2, "a", TWO, "caption", metadata_json='{"by":"Ann","title":"Foxes","year":1990}')]
    return samples(*rows, item(3, "a", SAID, "transcript", **said, size_bytes=50))


def test_samples_of_whole_items_stay_and_every_part_says_where_its_bytes_are() -> None:
    given = samples(item(0, "a", PICTURE), item(1, "a", ONE, "caption"), item(2, "b", TALK), item(3, "c", None))
    rows = bind_units(given, units(cut(FILM, 0, 10, 20))).to_pylist()
    before = sorted(given.to_pylist(), key=lambda row: row["sample"])
    assert [{**row, "parts": [_without_span(part) for part in row["parts"]]} for row in rows] == before
    for part in (part for row in rows for part in row["parts"]):
        assert [part[name] for name in SPANNED] == [part["digest"], None, None]


def _without_span(part: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in part.items() if name not in SPANNED}


def test_no_samples_give_none() -> None:
    assert bind_units(schemas.empty(SAMPLES), units(cut(FILM, 0, 10))).num_rows == 0


def test_a_film_of_three_clips_leads_three_samples_each_with_all_captions(film) -> None:
    rows = bound(film, cut(FILM, 0, 20_000_000, 45_000_000, 60_000_000))
    assert [row["parts"][0]["digest"] for row in rows] == [span(FILM, at) for at in (0, 20_000_000, 45_000_000)]
    for row in rows:
        assert [part["role"] for part in row["parts"]] == ["media", "caption", "caption", "transcript"]
        assert [part["digest"] for part in row["parts"][1:]] == [ONE, TWO, SAID]
        assert [part["parent_digest"] for part in row["parts"]] == [FILM, ONE, TWO, SAID]
        assert (row["modality"], row["sample_ids"], row["licences"]) == ("video", ["s/a"], ["MIT"])


def test_the_transcript_has_the_times_of_the_span_and_captions_have_none(film) -> None:
    first, second = bound(film, cut(FILM, 0, 20_000_000, 60_000_000))
    for row, times in ((first, (0, 20_000_000)), (second, (20_000_000, 60_000_000))):
        found = [(part["start_us"], part["end_us"]) for part in row["parts"]]
        assert found == [times, (None, None), (None, None), times]


@pytest.mark.parametrize("borders_us", [
    (0, 10, 20, 30),
    (0, 1, 2, 3, 4, 5, 6, 7),
    (0, 333, 667, 1000, 1100),
    tuple(range(0, 3001, 2)),
])  # fmt: skip
def test_sizes_add_up_to_that_of_the_item(film, borders_us) -> None:
    rows = bound(film, cut(FILM, *borders_us))
    assert sum(row["parts"][0]["size_bytes"] for row in rows) == 1000
    assert {row["parts"][3]["size_bytes"] for row in rows} == {50}


def test_the_size_of_a_gap_is_shared_by_what_is_left(film) -> None:
    rows = bound(film, cut(FILM, 0, 10_000_000, 40_000_000, 70_000_000, gaps=(1,)))
    assert [row["parts"][0]["size_bytes"] for row in rows] == [250, 750]


def test_a_bound_sample_is_named_as_every_sample_is(film) -> None:
    rows = bound(film, cut(FILM, 0, 20_000_000, 60_000_000))
    assert [row["sample"] for row in rows] == [spelled(row) for row in rows]
    assert rows[0]["parts"][2]["fields_json"] == '{"by":"Ann"}'
    (whole,) = bind_units(film, units([])).to_pylist()
    assert whole["sample"] == spelled(whole)


@pytest.mark.parametrize("value", ["☃", "half \ud800 of a pair", 10**30, 1.5, 1e300, {"b": [None, True]}, "\x01\x7f"])
def test_any_field_is_spelled_as_in_the_name_of_a_whole_sample(value: Any) -> None:
    """A name must not change because a field was read and written once more."""
    said = json.dumps({"f": value}, separators=(",", ":"))
    given = samples(item(0, "a", FILM, metadata_json=said), item(1, "a", ONE, "caption", metadata_json=said))
    (whole,) = given.to_pylist()
    assert whole["sample"] == spelled(whole)
    for row in bound(given, cut(FILM, 0, 10, 20)):
        assert row["sample"] == spelled(row)


def test_names_are_equal_over_calls_and_orders(film) -> None:
    given = pa.concat_tables([film, samples(item(4, "b", TALK), item(5, "c", PICTURE), item(6, "d", ONE, "document"))])
    spans = cut(FILM, 0, 10, 20, 30) + cut(TALK, 0, 5, 9)
    expected = bind_units(given, units(spans))
    for seed in range(4):
        rng = random.Random(seed)
        rows = list(range(given.num_rows))
        rng.shuffle(rows)
        rng.shuffle(spans)
        assert bind_units(given.take(pa.array(rows)), units(spans)).equals(expected)


@pytest.mark.parametrize("spans", [[], cut(FILM, 0, 10, 20)], ids=["none is cut", "one is cut"])
def test_samples_come_sorted_by_name(spans) -> None:
    made = [samples(item(number, str(number), f"{number:064x}")) for number in range(6)]
    given = pa.concat_tables([*made, samples(item(9, "film", FILM))])
    names = bind_units(given, units(spans))["sample"].to_pylist()
    assert names == sorted(names)


def test_a_cut_film_among_others_that_lead_gives_its_place_to_its_clips() -> None:
    rows = [item(0, "a", PICTURE), item(1, "a", ONE, "document"), item(2, "a", FILM), item(3, "a", TWO, "document")]
    (row,) = bound(samples(*rows), cut(FILM, 0, 10, 20, 50, gaps=(1,)))
    assert row["modality"] == "interleaved"
    assert [part["digest"] for part in row["parts"]] == [PICTURE, ONE, span(FILM, 0), span(FILM, 20), TWO]
    assert [part["start_us"] for part in row["parts"]] == [None, None, 0, 20, None]
    assert [part["position"] for part in row["parts"]] == sorted(part["position"] for part in row["parts"])
    assert row["sample"] == spelled(row)


def test_a_film_and_a_recording_of_one_sample_are_both_cut_in_their_places() -> None:
    (row,) = bound(samples(item(0, "a", FILM), item(1, "a", TALK)), cut(FILM, 0, 10, 20), cut(TALK, 0, 7, 9))
    found = [(part["parent_digest"], part["start_us"]) for part in row["parts"]]
    assert found == [(FILM, 0), (FILM, 10), (TALK, 0), (TALK, 7)]


def test_a_film_that_a_sample_holds_twice_is_cut_twice() -> None:
    (row,) = bound(samples(item(0, "a", FILM), item(1, "a", FILM)), cut(FILM, 0, 10, 20))
    assert [part["start_us"] for part in row["parts"]] == [0, 10, 0, 10]


def test_an_item_of_two_shards_is_cut_once() -> None:
    """Its spans come from both of its tables of units."""
    given = samples(item(0, "a", FILM))
    spans = cut(FILM, 0, 10, 20)
    assert bound(given, spans, spans) == bound(given, spans)


def test_samples_of_two_shards_keep_their_own_ids_and_get_one_name() -> None:
    given = pa.concat_tables([samples(item(0, "a", FILM)), samples(item(5, "b", FILM))])
    rows = bound(given, cut(FILM, 0, 10, 20))
    assert sorted(row["sample_ids"] for row in rows) == [["s/a"], ["s/a"], ["s/b"], ["s/b"]]
    assert sorted(Counter(row["sample"] for row in rows).values()) == [2, 2]


PARTS = st.lists(
    st.tuples(st.sampled_from([FILM, TALK, PICTURE, ONE, None]), st.sampled_from(["media", "caption", "transcript"])),
    min_size=1,
    max_size=5,
)


@given(st.lists(PARTS, min_size=1, max_size=4), st.integers(1, 4), st.integers(0, 3))
def test_nothing_is_lost(lists, num_clips: int, num_segments: int) -> None:
    """Every part of the source is in a sample of the same source sample, and every span of what leads one once."""
    spans = cut(FILM, *(7 * at for at in range(num_clips + 1))) + cut(TALK, *(5 * at for at in range(num_segments + 1)))
    of_items = {name: [row["digest"] for row in spans if row["parent_digest"] == name] for name in (FILM, TALK)}
    rows = [
        item(10 * of + number, f"{of}", digest, role)
        for of, parts in enumerate(lists)
        for number, (digest, role) in enumerate(parts)
    ]
    given = samples(*rows)
    after: dict[str, list[dict[str, Any]]] = {}
    for row in bind_units(given, units(spans)).to_pylist():
        for name in row["sample_ids"]:
            after.setdefault(name, []).append(row)
    for row in given.to_pylist():
        mine = [part for name in row["sample_ids"][:1] for one in after[name] for part in one["parts"]]
        held = Counter(part["digest"] for part in mine if part["role"] in LEADING_ROLES)
        leads = Counter(part["digest"] for part in row["parts"] if part["role"] in LEADING_ROLES)
        expected: Counter[str | None] = Counter()
        for digest, count in leads.items():
            expected.update(dict.fromkeys(of_items.get(digest) or [digest], count))
        assert held == expected
        assert {(part["role"], part["parent_digest"]) for part in mine} == {
            (part["role"], part["digest"]) for part in row["parts"]
        }


def test_the_columns_are_those_of_samples_with_three_more_of_each_part(film) -> None:
    for spans in ([], cut(FILM, 0, 10, 20)):
        found = bind_units(film, units(spans))
        assert found.column_names == SAMPLES.arrow.names
        names = [field.name for field in found.schema.field("parts").type.value_type]
        assert names == [*(field.name for field in PART), *SPANNED]

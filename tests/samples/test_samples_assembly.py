"""Samples out of items, without a lake: names, order, occurrences, fields, licences, and what adds up."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pyarrow as pa
import pytest

from mmlake import schemas
from mmlake.errors import ContractBroken
from mmlake.samples import COLUMNS, assemble

A, B, C = (hashlib.sha256(name.encode()).hexdigest() for name in "abc")


def item(number: int, sample: str, digest: str | None, position: int = 0, **others: Any) -> dict[str, Any]:
    """A row of items: a picture that leads its sample unless others say more."""
    row = {"modality": "image", "role": "media", "source": "news", "licence": "MIT", "size_bytes": 7, "status": "ok"}
    names = {"item_id": f"s#{number:06d}", "sample_id": f"s/{sample}", "digest": digest, "position": position}
    return {**row, **names, "source_ref": '{"path":"s"}', **others}


def caption(number: int, sample: str, digest: str, position: int = 1, **others: Any) -> dict[str, Any]:
    """A row of items: a caption."""
    return item(number, sample, digest, position, **{"modality": "text", "role": "caption", **others})


def table(*rows: dict[str, Any]) -> pa.Table:
    return schemas.from_rows(schemas.ITEMS, rows)


def samples_of(*rows: dict[str, Any]) -> list[dict[str, Any]]:
    """The samples of these items in order of their first ids."""
    made: list[dict[str, Any]] = assemble([table(*rows)]).to_pylist()
    return sorted(made, key=lambda row: row["sample_ids"][0])


def test_a_picture_with_captions_of_another_table_is_one_sample_in_order() -> None:
    texts, images = table(caption(1, "a", B, 2), caption(2, "a", C, 1)), table(item(0, "a", A))
    (row,) = assemble([texts, images]).to_pylist()
    assert [part["digest"] for part in row["parts"]] == [A, C, B]
    assert [part["position"] for part in row["parts"]] == [0, 1, 2]
    assert (row["modality"], row["num_occurrences"], row["sample_ids"]) == ("image", 1, ["s/a"])


def test_the_name_is_the_hash_of_fields_roles_and_digests() -> None:
    said = '{"n":1,"z":"é"}'
    (row,) = samples_of(item(0, "a", A, metadata_json=said), caption(1, "a", B, metadata_json=said))
    spelled = f'{{"fields":{said},"parts":[["media","{A}"],["caption","{B}"]]}}'
    assert row["sample"] == hashlib.sha256(spelled.encode()).hexdigest()


def test_a_name_depends_on_nothing_else() -> None:
    one = samples_of(item(0, "a", A), caption(1, "a", B))
    other = samples_of(
        item(5, "x", A, 3, licence="CC0-1.0", source="web", size_bytes=9), caption(9, "x", B, 7, licence="CC0-1.0")
    )
    assert one[0]["sample"] == other[0]["sample"]


@pytest.mark.parametrize(
    "rows",
    [
        [item(0, "a", A), caption(1, "a", C)],
        [item(0, "a", A), caption(1, "a", B), caption(2, "a", B, 2)],
        [item(0, "a", A, 2), caption(1, "a", B)],
        [item(0, "a", A), caption(1, "a", B, role="transcript")],
        [item(0, "a", A, metadata_json='{"n":1}'), caption(1, "a", B)],
        [item(0, "a", A), caption(1, "a", B, metadata_json='{"n":1}')],
        [item(0, "a", None), caption(1, "a", B)],
    ],
    ids=["part", "repeat", "order", "role", "field", "field of a part", "lost bytes"],
)
def test_another_part_order_role_or_field_is_another_name(rows: list[dict[str, Any]]) -> None:
    (plain,) = samples_of(item(0, "a", A), caption(1, "a", B))
    assert samples_of(*rows)[0]["sample"] != plain["sample"]


def test_equal_samples_are_one_row_that_knows_all_ids_and_licences() -> None:
    (row,) = samples_of(
        item(2, "b", A, licence="CC0-1.0"), caption(3, "b", B, licence="CC0-1.0"), item(0, "a", A), caption(1, "a", B)
    )
    assert (row["num_occurrences"], row["sample_ids"], row["licences"]) == (2, ["s/a", "s/b"], ["CC0-1.0", "MIT"])
    assert [part["item_id"] for part in row["parts"]] == ["s#000000", "s#000001"]


def test_the_modality_is_that_of_the_one_part_that_leads() -> None:
    film = item(0, "a", A, modality="video")
    rows = samples_of(film, caption(1, "a", B), item(2, "b", A), item(3, "b", B, 1), caption(4, "c", C))
    assert [row["modality"] for row in rows] == ["video", "interleaved", None]


def test_fields_are_those_of_the_first_leading_part_and_parts_keep_what_differs() -> None:
    (row,) = samples_of(
        caption(0, "a", B, 0, metadata_json='{"by":"Ann","n":true}'),
        item(1, "a", A, 1, metadata_json='{"n":1,"url":"u"}'),
        item(2, "a", C, 2, metadata_json='{"n":1,"page":2}'),
        caption(3, "a", B, 3, metadata_json='{"n":1,"url":"u"}'),
        caption(4, "a", B, 4),
    )
    assert row["fields_json"] == '{"n":1,"url":"u"}'
    assert [part["fields_json"] for part in row["parts"]] == ['{"by":"Ann","n":true}', None, '{"page":2}', None, None]


def test_without_a_leading_part_the_first_part_says_the_fields() -> None:
    rows = samples_of(caption(0, "a", A, 0, metadata_json='{"n":1}'), caption(1, "a", B, metadata_json='{"n":2}'))
    assert (rows[0]["modality"], rows[0]["fields_json"]) == (None, '{"n":1}')


@pytest.mark.parametrize("value", ["wide ☃" * 3, "half \ud800 of a pair", 10**30, 1.5, [{"a": None}], "\x01"])
def test_fields_have_one_spelling_however_items_escape_them(value: Any) -> None:
    escaped = json.dumps({"f": value}, separators=(",", ":"))
    (row,) = samples_of(item(0, "a", A, metadata_json=escaped))
    assert json.loads(row["fields_json"]) == {"f": value}
    if value != "half \ud800 of a pair":
        plain = json.dumps({"f": value}, separators=(",", ":"), ensure_ascii=False)
        assert row["fields_json"] == plain
        assert row["sample"] == samples_of(item(0, "a", A, metadata_json=plain))[0]["sample"]


def test_an_empty_object_says_as_little_as_none() -> None:
    (row,) = samples_of(item(0, "a", A, metadata_json="{}"), item(1, "b", A))
    assert (row["num_occurrences"], row["fields_json"]) == (2, None)


def test_parts_beyond_a_million_items_keep_the_order_of_the_source() -> None:
    (row,) = samples_of(caption(1_000_000, "a", B, 0), item(999_999, "a", A, 0))
    assert [part["digest"] for part in row["parts"]] == [A, B]


def test_what_could_not_be_read_is_a_part_without_a_digest() -> None:
    lost = item(0, "a", None, status="unreadable", error_code=1003, materialize_error="absent")
    (row,) = samples_of(lost, caption(1, "a", B))
    assert [part["digest"] for part in row["parts"]] == [None, B]


def test_the_order_of_tables_and_rows_never_shows() -> None:
    rows = [item(at, f"{at % 7}", [A, B, C][at % 3], at % 5, metadata_json=f'{{"n":{at % 2}}}') for at in range(40)]
    images = table(*rows)
    halves = [images.slice(20), images.slice(0, 20)]
    assert assemble([images.take(list(range(39, -1, -1)))]).equals(assemble(halves))


def test_no_items_are_no_samples_and_only_named_columns_are_read() -> None:
    assert assemble([schemas.empty(schemas.ITEMS)]).num_rows == 0
    assert assemble([table(item(0, "a", A)).select(list(COLUMNS))]).num_rows == 1


def test_an_item_in_two_tables_is_refused() -> None:
    with pytest.raises(ContractBroken, match="different items expected"):
        assemble([table(item(0, "a", A)), table(item(0, "a", A))])


def test_every_part_of_every_occurrence_is_an_item() -> None:
    rows = [item(at, f"{at // 3}", [A, B][at % 2], at % 3) for at in range(31)]
    made = assemble([table(*rows)])
    assert sum(row["num_occurrences"] * len(row["parts"]) for row in made.to_pylist()) == 31
    assert sorted(name for row in made.to_pylist() for name in row["sample_ids"]) == sorted(
        {row["sample_id"] for row in rows}
    )

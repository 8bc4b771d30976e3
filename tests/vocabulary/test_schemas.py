"""The schema contract: which tables keep it, and what is said of those that do not."""

from __future__ import annotations

import pyarrow as pa
import pytest

from mmlake import schemas
from mmlake.errors import SchemaMismatch
from mmlake.schemas import BLOBS, TABLES, TRACKS, VERDICTS, conform, empty, from_rows
from mmlake.schemas.table import TableSchema, is_sorted, whole

# a small table of numbers per digest
MEASURES = TableSchema(
    name="measures",
    version=1,
    key=("digest", "measure"),
    arrow=pa.schema(
        [
            pa.field("digest", pa.string(), nullable=False),
            pa.field("measure", pa.string(), nullable=False),
            pa.field("value", pa.float64(), metadata={"note": "null where it makes no sense"}),
        ]
    ),
)

TRACK = {
    "digest": "d",
    "modality": "text",
    "role": "document",
    "status": "ok",
    "size_bytes": 3,
    "transcript_source": "none",
}


def measures(**columns) -> pa.Table:
    return pa.table({"digest": ["b", "a"], "measure": ["m", "m"], "value": [1.0, None]} | columns)


@pytest.mark.parametrize("schema", TABLES.values(), ids=TABLES)
def test_key_columns_exist_and_are_required(schema) -> None:
    assert schema.key
    assert all(not schema.arrow.field(name).nullable for name in schema.key)


@pytest.mark.parametrize("schema", TABLES.values(), ids=TABLES)
def test_columns_have_distinct_names_and_tables_a_version(schema) -> None:
    assert len(set(schema.arrow.names)) == len(schema.arrow.names)
    assert schema.version >= 1
    assert TABLES[schema.name] is schema


@pytest.mark.parametrize("schema", TABLES.values(), ids=TABLES)
def test_an_empty_table_keeps_the_contract(schema) -> None:
    for table in (empty(schema), from_rows(schema, []), conform(schema, empty(schema))):
        assert (table.num_rows, table.schema) == (0, schema.arrow)


def test_a_table_that_keeps_the_contract_comes_back_sorted_by_key() -> None:
    table = conform(MEASURES, measures())
    assert table.schema.equals(MEASURES.arrow, check_metadata=True)
    assert table.column("digest").to_pylist() == ["a", "b"]


def test_rows_are_sorted_by_every_column_of_the_key() -> None:
    rows = [{"digest": digest, "measure": measure, "value": 0.0} for digest, measure in ("bz", "ay", "az", "by")]
    assert [row["digest"] + row["measure"] for row in from_rows(MEASURES, rows).to_pylist()] == ["ay", "az", "by", "bz"]


def test_the_order_of_columns_is_the_schemas() -> None:
    assert conform(MEASURES, measures().select(["value", "measure", "digest"])).column_names == [
        "digest",
        "measure",
        "value",
    ]


def test_columns_that_the_schema_does_not_have_are_left_out() -> None:
    assert conform(MEASURES, measures(note=["x", "y"])).column_names == MEASURES.arrow.names


def test_foreign_metadata_is_left_out() -> None:
    """It would change the data version of equal rows."""
    assert conform(MEASURES, measures().replace_schema_metadata({"pandas": "{}"})).schema.equals(
        MEASURES.arrow, check_metadata=True
    )


def test_a_narrower_type_is_widened() -> None:
    assert conform(MEASURES, measures(value=pa.array([1.5, 2.5], pa.float32()))).column("value").to_pylist() == [
        2.5,
        1.5,
    ]


def test_missing_columns_are_named_with_the_remedy() -> None:
    with pytest.raises(
        SchemaMismatch, match=r"measures: columns \['measure', 'value'\] are missing .schema v1.; re-materialize"
    ):
        conform(MEASURES, pa.table({"digest": ["a"]}))


def test_a_column_of_a_wrong_type_is_named_with_both_types() -> None:
    with pytest.raises(
        SchemaMismatch, match=r"measures: 'value' is string, expected double .schema v1.; re-materialize"
    ):
        conform(MEASURES, measures(value=["high", "low"]))


@pytest.mark.parametrize(("value", "fits"), [(2**31 - 1, True), (2**31, False)])
def test_a_number_that_does_not_fit_is_refused_rather_than_wrapped(value, fits) -> None:
    table = pa.table(
        {
            "digest": ["a"],
            "size_bytes": [1],
            "num_occurrences": [value],
            "status": ["ok"],
            "error_code": pa.nulls(1, pa.int32()),
        }
    )
    if fits:
        assert conform(BLOBS, table).column("num_occurrences").to_pylist() == [value]
    else:
        with pytest.raises(SchemaMismatch, match="'num_occurrences' is int64, expected int32"):
            conform(BLOBS, table)


@pytest.mark.parametrize("column", ["digest", "measure"])
def test_nulls_in_a_required_column_are_refused(column) -> None:
    with pytest.raises(SchemaMismatch, match="measures.*nulls"):
        conform(MEASURES, measures(**{column: pa.array(["a", None])}))


def test_nulls_in_an_optional_column_pass() -> None:
    assert conform(MEASURES, measures()).column("value").null_count == 1


def test_absent_fields_of_a_row_are_null_and_absent_lists_are_empty() -> None:
    (row,) = from_rows(TRACKS, [dict(TRACK)]).to_pylist()
    assert (row["text"], row["width_px"], row["keyframes"], row["cues"]) == (None, None, [], [])


def test_a_column_that_is_not_in_the_schema_is_refused_in_rows() -> None:
    """A misspelt column would be lost without a word."""
    with pytest.raises(
        SchemaMismatch, match=r"tracks: a row has the columns \['widht_px'\], which schema v\d+ does not have"
    ):
        from_rows(TRACKS, [TRACK | {"widht_px": 3}])


@pytest.mark.parametrize("name", [name for name in TRACK if name != "digest"])
def test_a_row_without_a_required_field_is_refused(name) -> None:
    with pytest.raises(SchemaMismatch, match="tracks.*null"):
        from_rows(TRACKS, [{key: value for key, value in TRACK.items() if key != name}])


def test_a_required_field_inside_a_struct_is_required_too() -> None:
    finding = {"rule": "blank", "severity": "P1", "error_code": 4202, "reason": None}
    with pytest.raises(SchemaMismatch, match="verdicts.*null"):
        from_rows(VERDICTS, [{"digest": "d", "status": "ok", "weight": 1.0, "findings": [finding]}])


def test_nested_values_survive() -> None:
    keyframes = [{"time_s": 0.5, "digest": "k", "shot": 0}]
    assert from_rows(TRACKS, [TRACK | {"keyframes": keyframes}]).column("keyframes").to_pylist() == [keyframes]


def test_units_and_meanings_travel_in_the_table() -> None:
    note = from_rows(TRACKS, []).schema.field("container_duration_s").metadata[b"note"]
    assert note == b"what the header claims"


def test_every_note_is_kept_apart_from_the_type() -> None:
    assert schemas.ITEMS.arrow.equals(schemas.ITEMS.arrow.remove_metadata())


@pytest.mark.parametrize(
    ("rows", "is_in_order"),
    [
        ([], True),
        ([("b", "a")], True),
        ([("a", "x"), ("a", "y"), ("b", "a")], True),
        ([("a", "z"), ("b", "a")], True),
        ([("a", "y"), ("a", "x"), ("b", "a")], False),
        ([("b", "a"), ("a", "b")], False),
        ([("a", "x"), ("a", "x")], False),
        ([("a", "x"), (None, "y")], False),
        ([("a", "x"), ("a", None)], False),
    ],
)
def test_order_by_a_key_of_two_columns(rows, is_in_order):
    columns = {name: pa.array([row[at] for row in rows], pa.string()) for at, name in enumerate(("one", "two"))}
    assert is_sorted(pa.table(columns), ("one", "two")) is is_in_order


def test_rows_that_are_sorted_by_a_key_of_two_columns_are_not_copied():
    """Each table was sorted where it was made and once more where it was written, hashes and all."""
    rows = [{"digest": f"{at // 3:064d}", "measure": "abc"[at % 3], "value": 1.0, "producer": "p", "revision": "1",
             "status": "ok"} for at in range(30)]  # fmt: skip
    table = schemas.from_rows(schemas.MEASURES, rows)
    again = schemas.conform(schemas.MEASURES, table)
    places = [one["digest"].chunk(0).buffers()[2].address for one in (table, again)]
    assert places[0] == places[1]
    parts = schemas.conform(schemas.MEASURES, pa.concat_tables([table.slice(0, 9), table.slice(9)]))
    assert parts.equals(table) and parts["digest"].num_chunks == 1  # equal rows are equal bytes of a file


def test_parts_are_one_sorted_table_of_one_chunk_each_column() -> None:
    """And the function keeps its name, its parameters and what is said of it."""

    def parts(*digests: str, num: int = 1):
        """Some at a time."""
        for digest in digests:
            yield from_rows(BLOBS, [{"digest": digest, "size_bytes": 1, "num_occurrences": num, "status": "ok"}])

    made = whole(BLOBS, parts)
    table = made("b", "a", num=2)
    assert table.column("digest").to_pylist() == ["a", "b"] and table.column("num_occurrences").to_pylist() == [2, 2]
    assert all(column.num_chunks == 1 for column in table.columns)
    assert (made.__name__, made.__doc__) == ("parts", "Some at a time.")

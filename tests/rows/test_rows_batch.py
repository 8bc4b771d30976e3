"""The batch of rows, its columns and its locators."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy
import pandas
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows_media import SETTINGS, MemoryLanding, batch_of, column, one, png, record, tar

from mmlake import rows, sources
from mmlake.errors import SchemaMismatch
from mmlake.records import SourceRef
from mmlake.rows import RESERVED, SCHEMA, RowBatch
from mmlake.schemas import ITEMS

_QUICK = settings(max_examples=60)
TABLE = pa.table({"sample_id": ["a", "a", "b"], "position": [0, 1, 0], "modality": ["text", "image", "image"]})
FORMS = {
    "table": TABLE,
    "record batch": TABLE.to_batches()[0],
    "data frame": TABLE.to_pandas(),
    "data frame with labels": TABLE.to_pandas().set_index(pandas.Index([7, 3, 9])),
}


@pytest.mark.parametrize("form", FORMS)
def test_arrow_and_pandas_are_taken_and_given_back(form):
    batch = RowBatch.of(FORMS[form], source_files=["a.tar"])
    assert batch.to_arrow().to_pylist() == TABLE.to_pylist()
    assert batch.to_pandas().to_dict("records") == TABLE.to_pylist() and list(batch.to_pandas().index) == [0, 1, 2]
    assert RowBatch.of(batch) is batch and batch.source_files == ("a.tar",)


@pytest.mark.parametrize("given", [[{"sample_id": "a"}], {"sample_id": ["a"]}, "a", None])
def test_other_types_are_refused(given):
    with pytest.raises(TypeError, match=type(given).__name__):
        RowBatch.of(given)


@pytest.mark.parametrize("form", FORMS)
def test_the_column_names_are_those_of_the_rows(form):
    assert RowBatch.of(FORMS[form]).columns == ["sample_id", "position", "modality"]


def test_good_rows_are_valid():
    assert RowBatch.of(TABLE).is_valid and RowBatch.of(TABLE).problems() == []


@pytest.mark.parametrize("table, words", [
    (TABLE.slice(0, 0), "no rows"),
    (TABLE.drop_columns(["position"]), "'position' is missing"),
    (TABLE.set_column(0, "sample_id", pa.array(["a", None, "b"])), "'sample_id' holds 1 nulls"),
    (TABLE.set_column(1, "position", pa.array(["first", "second", "third"])), "'position' is string"),
])  # fmt: skip
def test_what_keeps_rows_from_being_valid_is_said(table, words):
    batch = RowBatch.of(table)
    assert not batch.is_valid and words in " ".join(batch.problems())


@pytest.mark.parametrize("form", FORMS)
def test_samples_are_counted_once_and_rows_by_modality(form):
    batch = RowBatch.of(FORMS[form])
    assert batch.num_samples == 2 and batch.num_rows == 3
    assert [batch.count(modality) for modality in ("text", "image", "video")] == [1, 2, 0]


def test_counting_needs_no_rows():
    assert (
        rows.empty_batch().num_samples,
        rows.empty_batch().count("image"),
        RowBatch(pa.table({})).count("text"),
    ) == (0, 0, 0)


def test_a_batch_cannot_be_changed():
    batch = RowBatch.of(TABLE)
    with pytest.raises(dataclasses.FrozenInstanceError):
        batch.table = TABLE.slice(1)
    assert not hasattr(batch, "add_rows") and not hasattr(batch, "delete_rows")
    assert batch.replace(TABLE.slice(1)).num_rows == 2 and batch.num_rows == 3


def test_the_columns_are_those_of_the_items_table():
    assert {field.name: field.type for field in SCHEMA} == {field.name: field.type for field in ITEMS.arrow}
    assert [field.name for field in SCHEMA if not field.nullable] == ["sample_id", "position", "modality"]


# Locators


@pytest.mark.parametrize("value", [None, "", math.nan, pandas.NA, "{}", '{"path":null,"member":null}'])
def test_no_locator_parses_to_none(value):
    assert SourceRef.parse(value) is None


@pytest.mark.parametrize(
    "value",
    [
        "[]",
        '"a.tar"',
        "7",
        "null",
        "{",
        "[" * 100_000,
        '{"path":7}',
        '{"path":"a","byte_offset":-1}',
        '{"path":"a","byte_size":true}',
        '{"path":"a","v":99}',
        7,
    ],
)
def test_what_is_no_locator_raises(value):
    with pytest.raises(ValueError, match="source_ref"):
        SourceRef.parse(value)


@pytest.mark.parametrize("text, ref", [
    ('{"content_path":"a.tar","content_key":"x.jpg"}', SourceRef("a.tar", "x.jpg")),
    ((
        '{"content_path":"a.tar","content_key":null,"content_offset":512,'
        '"content_size":3.0}'
    ), SourceRef("a.tar", None, 512, 3)),
    ('{"content_path":"old","path":"new"}', SourceRef("new")),
    ((
        '{"byte_offset":512,"byte_size":9,"frame_index":null,"member":"m",'
        '"path":"a.tar"}'
    ), SourceRef("a.tar", "m", 512, 9)),
    ('{"path":"a.tar","etag":"x","v":2}', SourceRef("a.tar")),
])  # fmt: skip
def test_locators_of_older_forms_are_read(text, ref):
    assert SourceRef.parse(text) == ref
    assert json.loads(ref.to_json())["v"] == 2 and SourceRef.parse(ref.to_json()) == ref


def test_a_frame_index_round_trips_and_is_absent_where_none_is_picked():
    assert SourceRef.parse(SourceRef("a.tif", frame_index=0).to_json()).frame_index == 0
    assert "frame_index" not in json.loads(SourceRef("a.tif").to_json())


_numbers = st.none() | st.integers(0, 2**62)
_refs = st.builds(
    SourceRef,
    st.text(st.characters(exclude_categories=())),
    st.none() | st.text(st.characters(exclude_categories=())),
    _numbers,
    _numbers,
    _numbers,
)


@_QUICK
@given(_refs)
def test_every_locator_survives_a_table(ref):
    stored = pa.array([ref.to_json()], pa.string()).to_pylist()[0]
    assert SourceRef.parse(stored) == ref


@_QUICK
@given(
    st.text()
    | st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.sampled_from(["path", "member", "byte_offset", "v", "content_path", "x"]), inner)
        ),
    ).map(json.dumps)
)
def test_every_text_is_a_locator_or_none_or_a_value_error(text):
    try:
        ref = SourceRef.parse(text)
    except ValueError:
        return
    assert ref is None or SourceRef.parse(ref.to_json()) == ref


def test_the_parts_of_locators_become_columns_under_a_prefix():
    batch = rows.with_locator_columns(
        batch_of(
            [
                {"source_ref": SourceRef("a.tar", "m", 512, 9).to_json()},
                {"source_ref": None},
                {"source_ref": SourceRef("b.tif", frame_index=2).to_json()},
            ]
        )
    )
    assert [column(batch, f"_src_{name}") for name in ("path", "member", "byte_offset", "byte_size",
    "frame_index")] == [
        ["a.tar", None, "b.tif"], ["m", None, None], [512, None, None], [9, None, None], [None, None, 2]
    ]  # fmt: skip


def test_columns_of_the_user_that_begin_like_ours_survive():
    batch = batch_of([{"source_ref": SourceRef("a.png").to_json(), "_src_note": "mine", "_src_path": "old"}])
    done = rows.with_locator_columns(batch)
    assert (column(done, "_src_note"), column(done, "_src_path")) == (["mine"], ["a.png"])
    filled = rows.materialize(batch, rows.Places(landing=MemoryLanding({"a.png": png()})))
    assert column(filled, "_src_note") == ["mine"] and column(filled, "_src_path") == ["old"]


def test_rows_without_a_column_of_locators_have_none():
    done = rows.with_locator_columns(batch_of([{}]), prefix="at_")
    assert column(done, "at_path") == [None]


def test_credentials_of_the_storage_enter_no_row(tmp_path):
    class Guarded(MemoryLanding):
        secret = "AKIA-SECRET"

    landing = Guarded({"a.tar": tar({"0.json": record(texts=["t", None], images=[None, "p.png"]), "0.p.png": png()})})
    batch = one(landing)
    filled = rows.materialize(batch, rows.Places(landing=landing))
    assert column(filled, "binary_content", "image") == [png()]
    assert "AKIA" not in str(filled.table.to_pylist()) + str(
        filled.table.schema.to_string(show_schema_metadata=True)
    ) + str(filled.source_files) + repr(filled.name)


# Schemas


def test_nobody_asking_resolves_to_no_schema():
    assert rows.resolve(None) is None


def test_overrides_merge_onto_the_columns_and_may_retype_reserved_ones():
    schema = rows.resolve(None, overrides={"position": pa.int64(), "score": pa.float32()})
    assert schema.field("position").type == pa.int64() and schema.field("score").type == pa.float32()
    assert schema.names == [*SCHEMA.names, "score"]


def test_a_whole_schema_wins_over_overrides_and_says_so(caplog):
    wanted = pa.schema([("sample_id", pa.string())])
    assert rows.resolve(wanted, overrides={"position": pa.int64()}) is wanted
    assert "position" in caplog.text


def test_reserved_columns_get_their_types_and_wide_texts_stay_wide():
    given = pa.table({
        "sample_id": pa.array(["a"], pa.large_string()), "position": pa.array([3], pa.int64()),
        "text_content": pa.array(["t"], pa.string()),
        "modality": pa.array(["text"]).dictionary_encode(), "lang": pa.array(["en"]).dictionary_encode(),
        "score": pa.array([1], pa.int64()),
    })  # fmt: skip
    types = {field.name: field.type for field in rows.reconcile(given).schema}
    assert types == {
        "sample_id": pa.large_string(),
        "position": pa.int32(),
        "text_content": pa.large_string(),
        "modality": pa.string(),
        "lang": pa.string(),
        "score": pa.int64(),
    }


def test_a_position_that_no_int32_holds_is_refused():
    with pytest.raises(SchemaMismatch, match="position"):
        rows.reconcile(pa.table({"position": pa.array([1 << 40])}))


def test_aligning_fills_drops_and_orders_exactly():
    target = pa.schema([("position", pa.int32()), ("note", pa.large_string()), ("sample_id", pa.string())])
    done = rows.align(pa.table({"extra": [1], "sample_id": ["a"], "position": pa.array([2], pa.int64())}), target)
    assert done.schema == target and done.to_pylist() == [{"position": 2, "note": None, "sample_id": "a"}]


_records = st.dictionaries(
    st.text(st.characters(exclude_categories=()), max_size=6),
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=()), max_size=6)
    | st.lists(st.integers(), max_size=2),
    max_size=4,
)


@_QUICK
@given(st.lists(_records, min_size=1, max_size=4))
def test_every_set_of_records_becomes_rows_that_keep_the_contract(records):
    from mmlake.rows.passthrough import Passthrough

    made = Passthrough(None)
    for at, fields in enumerate(records):
        made.add(fields, f"s/{at}", row=at)
    columns, _ = made.take(len(records))
    assert not RESERVED & columns.keys()
    assert all(len(values) == len(records) for values in columns.values())
    for name in {name for fields in records for name in fields} - RESERVED:
        stored = columns[name.encode("utf-8", "backslashreplace").decode()].to_pylist()
        clashing = any(
            other != name and other.encode("utf-8", "backslashreplace") == name.encode("utf-8", "backslashreplace")
            for fields in records
            for other in fields
        )
        assert clashing or [value is None for value in stored] == [fields.get(name) is None for fields in records]


@_QUICK
@given(st.dictionaries(st.integers(0, 9), _records, max_size=4), st.integers(10, 12))
def test_fields_stand_on_the_rows_that_have_them_and_nowhere_else(records, num_rows):
    from mmlake.rows.passthrough import Passthrough

    made = Passthrough(["a", "b"])
    stated = {row: {"a": at, **fields} for at, (row, fields) in enumerate(records.items())}
    for row, fields in stated.items():
        made.add(fields, "s/0", row=row)
    columns, _ = made.take(num_rows)
    assert list(columns) == ["a", "b"]
    for name in columns:
        filled = {row for row, value in enumerate(columns[name].to_pylist()) if value is not None}
        assert len(columns[name]) == num_rows and filled == {
            row for row, fields in stated.items() if fields.get(name) is not None
        }


@_QUICK
@given(
    st.lists(
        st.text(st.characters(exclude_categories=(), exclude_characters="\0/"), min_size=1, max_size=12).filter(
            lambda name: name not in (".", "..")
        ),
        min_size=1,
        max_size=4,
        unique=True,
    )
)
def test_members_of_every_name_are_rows_whose_locators_lead_back(names):
    members = [
        (f"{at}{name}.png".encode("utf-8", "surrogateescape" if _escapable(name) else "replace"), png(at))
        for at, name in enumerate(names)
    ]
    landing = MemoryLanding({"s.tar": _raw_tar(members)})
    (shard,) = sources.scan(landing, settings=SETTINGS)
    batches = list(rows.read_rows(shard, landing=landing))
    filled = [rows.materialize(batch, rows.Places(landing=landing)) for batch in batches]
    assert [data for batch in filled for data in column(batch, "binary_content", "image")] == [
        data for _, data in members
    ]
    assert all(batch.is_valid for batch in filled)


def _escapable(name: str) -> bool:
    try:
        name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def _raw_tar(members: list[tuple[bytes, bytes]]) -> bytes:
    """A tar in the old Unix format, whose names are the bytes given."""
    parts = []
    for name, data in members:
        head = (
            name[:100].ljust(100, b"\0") + b"0000644\0" + b"0000000\0" * 2 + b"%011o\0" % len(data) + b"00000000000\0"
        )
        header = (head + b" " * 8 + b"0").ljust(512, b"\0")
        parts += [header[:148] + b"%06o\0 " % sum(header) + header[156:], data, bytes(-len(data) % 512)]
    return b"".join(parts) + bytes(1024)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, "a", 2.5], ["1", "a", "2.5"]),
        ([{"k": 1}, [1], None], ['{"k": 1}', "[1]", None]),
        (["x", float("nan"), 3], ["x", None, "3"]),
        ([numpy.int64(3), "x", numpy.array([1, 2])], ["3", "x", "[1, 2]"]),
        ([b"\xff", 1, "x"], ['{"base64": "/w=="}', "1", "x"]),
    ],
)
def test_a_column_of_a_data_frame_with_values_of_several_types_is_text_and_reported(values, expected):
    frame = pandas.DataFrame({**TABLE.to_pydict(), "odd": values, "even": [1, 2, 3]}, index=["q", "q", 5])
    batch = RowBatch.of(frame)
    assert batch.to_arrow()["odd"].to_pylist() == expected and batch.to_arrow()["even"].to_pylist() == [1, 2, 3]
    assert [conflict.field for conflict in batch.conflicts] == ["odd"] and batch.is_valid

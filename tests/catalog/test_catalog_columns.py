"""Measures, source fields and the vectors of several encoders as columns of the catalog."""

from __future__ import annotations

import json
from functools import partial

import pyarrow as pa
import pytest

from mmlake import catalog as catalogs
from mmlake import schemas
from mmlake.catalog import CATALOG_SCHEMA, FieldTypes, rows
from mmlake.errors import SettingsError
from mmlake.modalities import MODALITIES
from mmlake.preprocess import UNIT_TRACKS
from mmlake.records import digest_of

Catalog = partial(catalogs.Catalog, modalities=tuple(MODALITIES))


def digest(word: str) -> str:
    return digest_of(word.encode())


def made(said: dict[str, dict], *, snr_db: dict[str, float] | None = None, vectors=None, encoder="e", modality="text"):
    """Catalog rows of these words, each with what its source says."""
    items = [
        {
            "item_id": f"a#{at:06d}", "digest": digest(word), "sample_id": f"a/{word}", "position": 0,
            "modality": modality, "role": "document", "source_ref": "{}", "source": "news", "licence": "MIT",
            "size_bytes": 1, "status": "ok", "metadata_json": json.dumps(fields),
        }
        for at, (word, fields) in enumerate(said.items())
    ]  # fmt: skip
    measures = [
        {"digest": digest(word), "measure": "snr_db", "value": value, "status": "ok", "producer": "p", "revision": "1"}
        for word, value in (snr_db or {}).items()
    ]
    embeddings = [
        {"digest": digest(word), "encoder": encoder, "revision": "1", "dimension": 2, "vector": one, "status": "ok"}
        for word, one in (vectors or {}).items()
    ]
    types = FieldTypes()
    types.add(row["metadata_json"] for row in items)
    empty = [UNIT_TRACKS.empty_table(), schemas.empty(schemas.VERDICTS), schemas.empty(schemas.CLUSTERS)]
    return rows(
        schemas.from_rows(schemas.ITEMS, items),
        *empty,
        schemas.from_rows(schemas.EMBEDDINGS, embeddings),
        modality=modality,
        measures=schemas.from_rows(schemas.MEASURES, measures),
        measure_columns=["snr_db"] if snr_db is not None else [],
        source_fields=types.struct()[0],
    )


def filtered(catalog, where: str) -> set[str]:
    return set(catalog.search(where=where)["digest"].to_pylist())


def test_a_measure_is_a_column_that_search_filters_and_shows(tmp_path) -> None:
    (catalog := Catalog(tmp_path)).upsert(made({"x": {}, "y": {}, "z": {}}, snr_db={"x": 12.5, "y": 9.0}))
    assert filtered(catalog, "snr_db > 10") == {digest("x")}
    assert filtered(catalog, "snr_db IS NULL") == {digest("z")}
    assert catalog.get(digest("y"))["snr_db"] == 9.0


def test_source_fields_are_filtered_under_metadata(tmp_path) -> None:
    said = {"x": {"label": "cat", "page no.": 3}, "y": {"label": "dog", "tags": ["a"], "box": {"w": 1}}, "z": {}}
    (catalog := Catalog(tmp_path)).upsert(made(said))
    assert filtered(catalog, "metadata.label = 'cat'") == {digest("x")}
    assert filtered(catalog, "metadata.`page no.` >= 3") == {digest("x")}
    found = catalog.search(where="metadata.label = 'dog'").to_pylist()[0]
    assert found["metadata"] == {"label": "dog", "page no.": None}


def test_a_wrong_column_is_refused_with_those_there_are(tmp_path) -> None:
    (catalog := Catalog(tmp_path)).upsert(made({"x": {"label": "cat", "page no.": 3}}, snr_db={"x": 1.0}))
    for wrong, named, near in (
        ("snr > 10", "snr", r"snr_db"),
        ("metadata.lable = 'cat'", r"metadata\.lable", r"metadata\.label"),
        ("widht_px > 10", "widht_px", "width_px"),
    ):
        there_are = (
            rf"names the column '{named}', which the catalog does not have \(near: .*{near}.*snr_db, metadata\.label"
        )
        with pytest.raises(SettingsError, match=there_are):
            catalog.search(where=wrong)
    with pytest.raises(SettingsError, match=r"names the column 'label', which .*; its columns are .*metadata\.label"):
        catalog.search(where="label = 'cat'")


def test_a_field_of_several_types_has_one_that_holds_them_all() -> None:
    types = FieldTypes()
    for said in (
        {"flag": True, "count": 1, "share": 1, "mixed": True, "deep": {"a": 1}, "none": None, "huge": 2**80},
        {"flag": False, "count": 2, "share": 0.5, "mixed": 7, "deep": [1], "nan": float("nan")},
    ):
        types.add([json.dumps(said), None, "[1]", "no json"])
    fields = [
        ("count", pa.int64()),
        ("flag", pa.bool_()),
        ("huge", pa.string()),
        ("mixed", pa.string()),
        ("share", pa.float64()),
    ]
    assert types.struct() == (pa.struct(fields), 0)


def test_too_many_fields_and_names_that_no_filter_can_say_are_left_out_and_counted() -> None:
    types = FieldTypes()
    odd = ["", "x" * 65, "tab\t", "Common"]
    types.add([json.dumps({"common": 1} | dict.fromkeys(odd, 1)), json.dumps({"common": 1})])
    types.add([json.dumps({f"f{at:03d}": at for at in range(300)})])
    struct, left_out = types.struct()
    names = [field.name for field in struct]
    assert names == ["common", *(f"f{at:03d}" for at in range(255))]
    assert left_out == len(odd) + 45


def test_values_of_a_widened_field_keep_their_spelling(tmp_path) -> None:
    (catalog := Catalog(tmp_path)).upsert(made({"x": {"v": True}, "y": {"v": 7}, "z": {"v": "\ud800a"}}))
    values = {row["digest"]: row["metadata"]["v"] for row in catalog.read().to_pylist()}
    assert values == {digest("x"): "true", digest("y"): "7", digest("z"): "?a"}


@pytest.mark.parametrize("second", [{"n": 0.5}, {"n": "many"}, {"n": 2, "new": "field"}, {"other": 1}])
def test_a_table_whose_source_fields_changed_is_as_one_made_anew(tmp_path, second) -> None:
    before, after = {"x": {"n": 1}, "y": {"n": 3}}, {"x": {"n": 1}, "y": second}
    (grown := Catalog(tmp_path / "grown")).upsert(made(before, vectors={"x": [1.0, 0.0]}))
    (anew := Catalog(tmp_path / "anew")).upsert(made(after, vectors={"x": [1.0, 0.0]}))
    grown.upsert(made(after, vectors={"x": [1.0, 0.0]}))
    assert grown.read().equals(anew.read().select(grown.read().column_names))
    assert (grown.data_version(), grown.verify()) == (anew.data_version(), [])
    assert list(grown.vector(digest("x"), encoder="e")) == [1.0, 0.0]


def test_a_new_source_field_writes_no_row_that_lacks_it(tmp_path) -> None:
    (catalog := Catalog(tmp_path)).upsert(made({"x": {"n": 1}, "y": {}}))
    counts = catalog.upsert(made({"x": {"n": 1}, "y": {"new": "field"}}))
    assert counts == {"inserted": 0, "updated": 1, "unchanged": 1}


@pytest.mark.parametrize("step", ["catalog._with_old_vectors", "catalog._split", "catalog._as_stored"])
def test_a_writer_that_dies_after_the_fields_changed_is_completed_by_the_next(tmp_path, monkeypatch, step) -> None:
    (catalog := Catalog(tmp_path / "a")).upsert(made({"x": {"n": 1}}))
    (whole := Catalog(tmp_path / "b")).upsert(made({"x": {"n": "one"}}))
    with monkeypatch.context() as patch:
        patch.setattr(f"mmlake.catalog.{step}", _dies)
        with pytest.raises(KeyboardInterrupt):
            catalog.upsert(made({"x": {"n": "one"}}))
    assert (catalog.count(), catalog.verify()) == (1, [])
    catalog.upsert(made({"x": {"n": "one"}}))
    assert catalog.data_version() == whole.data_version()


def _dies(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_damage_to_a_measure_or_a_source_field_is_found_by_verify(tmp_path) -> None:
    said = {"x": {"n": 1}, "y": {"n": 2}}
    for column in ("snr_db", "metadata"):
        (catalog := Catalog(tmp_path / column)).upsert(made(said, snr_db={"x": 1.0, "y": 2.0}))
        other = made(said if column == "snr_db" else {"x": {"n": 1}, "y": {"n": 9}}, snr_db={"x": 1.0, "y": 9.0})
        table = catalog._open()
        whole = table.search().limit(None).to_arrow().sort_by("digest")
        damaged = whole.set_column(whole.schema.get_field_index(column), whole.schema.field(column), other[column])
        table.add(damaged, mode="overwrite")
        assert catalog.verify() == [digest("y")]


def test_switching_the_encoder_keeps_the_old_vectors_next_to_the_new(tmp_path) -> None:
    catalog = Catalog(tmp_path)
    catalog.upsert(made({"x": {}, "y": {}}, vectors={"x": [1.0, 0.0], "y": [0.0, 1.0]}, encoder="old"))
    new = made({"x": {}, "y": {}}, vectors={"x": [0.6, 0.8], "y": [0.8, 0.6]}, encoder="new")
    assert catalog.upsert(new)["updated"] == 2
    assert catalog.encoders() == ["new", "old"]
    assert list(catalog.vector(digest("x"), encoder="old")) == [1.0, 0.0]
    best = catalog.search(vector=[1.0, 0.0], encoder="old", limit=1)
    assert best["digest"].to_pylist() == [digest("x")]
    assert catalog.upsert(new) == {"inserted": 0, "updated": 0, "unchanged": 2}
    assert catalog.verify() == []


def test_a_damaged_row_keeps_no_old_vector(tmp_path) -> None:
    """A vector that nothing can be compared with must not get a fresh hash."""
    catalog = Catalog(tmp_path)
    catalog.upsert(made({"x": {}, "y": {}}, vectors={"x": [1.0, 0.0], "y": [0.0, 1.0]}, encoder="old"))
    catalog._open().update(where=f"digest = '{digest('x')}'", values={"size_bytes": 999})
    catalog.upsert(made({"x": {}, "y": {}}, vectors={"x": [0.6, 0.8]}, encoder="new"))
    assert catalog.vector(digest("x"), encoder="old") is None
    assert list(catalog.vector(digest("y"), encoder="old")) == [0.0, 1.0]


def test_a_lake_without_source_fields_has_no_such_column() -> None:
    assert made({"x": {}}).column_names == CATALOG_SCHEMA.names

"""A catalog keeps its table open and remembers sound filters; what any writer does is seen at once all the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mmlake.catalog import opened, search
from mmlake.errors import SettingsError, TableCorrupt
from tests.catalog.test_catalog_table import Catalog, name, simple


@pytest.fixture
def opens(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The roots of the databases that were connected to."""
    seen: list[Path] = []
    original = opened.connect
    monkeypatch.setattr(opened, "connect", lambda root: seen.append(root) or original(root))
    return seen


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The filters that were given to the planner."""
    seen: list[Any] = []
    original = search.checked
    monkeypatch.setattr(search, "checked", lambda table, where: seen.append(where) or original(table, where))
    return seen


def test_a_table_is_opened_once_between_two_writers(tmp_path: Path, opens) -> None:
    catalog = Catalog(tmp_path)
    catalog.upsert(simple("one"))
    opens.clear()
    assert [catalog.count(), catalog.read().num_rows, len(catalog.columns()) > 3] == [1, 1, True]
    assert len(opens) == 1


def test_the_columns_are_asked_of_lance_once_between_two_writers(tmp_path: Path, monkeypatch) -> None:
    catalog, asked = Catalog(tmp_path), []
    catalog.upsert(simple("one"))
    table = type(catalog._open())
    schema = table.schema.fget
    monkeypatch.setattr(table, "schema", property(lambda self: asked.append(1) or schema(self)))
    before = catalog.encoders(), catalog.source_field_types(), catalog.encoders()
    assert (len(asked), before[0]) == (1, before[2])
    Catalog(tmp_path).upsert(_with_another_encoder(simple("two")))
    assert set(catalog.encoders()) == {*before[0], "other"}


def _with_another_encoder(rows: pa.Table) -> pa.Table:
    vectors = pa.array([[1.0, 0.0]] * rows.num_rows, pa.list_(pa.float32(), 2))
    return rows.append_column("vector_other", vectors)


@pytest.mark.parametrize("writer", ["itself", "another"])
def test_what_a_writer_wrote_is_read_at_once(tmp_path: Path, writer: str) -> None:
    catalog, other = Catalog(tmp_path), Catalog(tmp_path)
    catalog.upsert(simple("one"))
    assert (catalog.count(), other.count()) == (1, 1)
    writing = catalog if writer == "itself" else other
    writing.upsert(simple("two"))
    assert (catalog.count(), other.count()) == (2, 2)
    writing.remove_absent([name("two")])
    assert catalog.read(["digest"])["digest"].to_pylist() == [name("two")]


def test_a_table_that_another_dropped_is_gone_and_the_next_one_has_no_row_of_it(tmp_path: Path) -> None:
    catalog, other = Catalog(tmp_path), Catalog(tmp_path)
    catalog.upsert(simple("one"))
    assert catalog.count("modality = 'text'") == 1
    other.drop()
    assert catalog.count() == 0
    other.upsert(simple("two", "three"))
    assert (catalog.count(), catalog.get(name("one"))) == (2, None)


def test_rows_are_read_while_a_writer_is_at_work(tmp_path: Path) -> None:
    catalog, other = Catalog(tmp_path), Catalog(tmp_path)
    catalog.upsert(simple("one"))
    assert catalog.count() == 1
    with other._writing():
        other._open().add(other._open().search().limit(1).to_arrow())
        assert catalog.count() == 2  # what is not settled is opened anew


def test_a_changed_file_of_an_open_table_is_noticed(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path)
    catalog.upsert(simple("one"))
    assert catalog.count() == 1
    path = next((tmp_path / "catalog.lance" / "data").iterdir())
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(TableCorrupt):
        catalog.count()


def test_a_filter_is_planned_once_and_again_after_a_writer(tmp_path: Path, planned) -> None:
    catalog, where = Catalog(tmp_path), "modality = 'text'"
    catalog.upsert(simple("one"))
    assert [catalog.count(where), catalog.read(where=where).num_rows, planned] == [1, 1, [where]]
    catalog.upsert(simple("two"))
    assert [catalog.count(where), planned] == [2, [where, where]]


def test_a_refused_filter_is_refused_each_time(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path)
    catalog.upsert(simple("one"))
    for where in ("no_column = 1", "modality = 'text') OR (1 = 1", "") * 2:
        with pytest.raises(SettingsError):
            catalog.read(where=where)

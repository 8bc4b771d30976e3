"""Rows read back from Parquet files and Lance datasets."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rows_media import SETTINGS, batch_of, column, land, one, png, record, tar

from mmlake import rows, sources
from mmlake.errors import SchemaMismatch, SettingsError, TableCorrupt
from mmlake.rows import SCHEMA, RowBatch, read_lance_rows, read_parquet_rows
from mmlake.rows.row_writer import WriteSettings, write_rows


def sample(name: str, **extra) -> list[dict]:
    """A sample with a field on each kind of row."""
    return [
        {"sample_id": name, "position": -1, "modality": "metadata", "url": f"u/{name}"},
        {"sample_id": name, "position": 0, "modality": "text", "text_content": "t" * 50, "lang": "en"},
        {"sample_id": name, "position": 1, "modality": "image", "binary_content": png(), "alt": [1, 2], **extra},
    ]


def table(*names: str, **extra) -> pa.Table:
    return batch_of([row for name in names for row in sample(name, **extra)]).table


def write(root: Path, files: dict[str, pa.Table]) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    for name, rows_of_file in files.items():
        pq.write_table(rows_of_file, root / name)
    return root


def parquet(root: Path, *paths: str, **options) -> list[RowBatch]:
    return list(read_parquet_rows(paths, landing=root, **options))


def plain(batch: RowBatch, *names: str) -> list[dict]:
    return batch.table.select(list(names)).to_pylist()


# Parquet


def test_a_batch_comes_back_from_parquet_as_it_was(tmp_path):
    batch = one(
        tmp_path,
        {"s.tar": tar({"0.json": record(texts=["t", None], images=[None, "p"], url="u", score=1), "0.p.png": png()})},
        materialize="read",
    )
    (back,) = parquet(write(tmp_path / "out", {"a.parquet": batch.table}), "a.parquet")
    assert back.table.equals(batch.table) and back.table.schema.equals(batch.table.schema)
    assert back.source_files == ("a.parquet",) and back.is_valid


def test_columns_of_the_contract_that_a_file_lacks_are_null(tmp_path):
    (back,) = parquet(
        write(tmp_path, {"a.parquet": pa.table({"sample_id": ["a"], "position": [0], "modality": ["text"]})}),
        "a.parquet",
    )
    assert back.columns == SCHEMA.names and plain(back, "sample_id", "text_content", "digest") == [
        {"sample_id": "a", "text_content": None, "digest": None}
    ]
    assert [field.type for field in back.table.schema] == [field.type for field in SCHEMA]


def test_a_choice_of_fields_keeps_the_reserved_columns_and_drops_the_others(tmp_path):
    (back,) = parquet(write(tmp_path, {"a.parquet": table("a")}), "a.parquet", fields=["url", "unknown"])
    assert back.columns == [*SCHEMA.names, "url", "unknown"]
    assert plain(back, "url", "unknown")[0] == {"url": "u/a", "unknown": None} and column(
        back, "text_content", "text"
    ) == ["t" * 50]


def test_without_a_choice_every_column_stays_on_its_kind_of_row(tmp_path):
    (back,) = parquet(write(tmp_path, {"a.parquet": table("a")}), "a.parquet")
    assert plain(back, "modality", "url", "lang", "alt") == [
        {"modality": "metadata", "url": "u/a", "lang": None, "alt": None},
        {"modality": "text", "url": None, "lang": "en", "alt": None},
        {"modality": "image", "url": None, "lang": None, "alt": [1, 2]},
    ]  # fmt: skip


FIELDS = {
    "texts": ["t", None, "u"],
    "images": [None, "p.png", None],
    "url": "u",
    "lang": ["en", "fr"],
    "alt": [{"k": 1}],
}
SPREAD = {"per_image_fields": ["alt"], "per_text_fields": ["lang"]}


def _written(batch: RowBatch, out: Path, to: str) -> list[str]:
    write_rows([batch], out, to=to, settings=WriteSettings())
    return sorted(str(path.relative_to(out)) for path in out.rglob(f"*.{'tar' if to == 'webdataset' else to}"))


def _content(batch: RowBatch) -> list[tuple]:
    names = ("position", "modality", "text_content", "binary_content", "url", "lang")
    alt = [json.loads(value) if isinstance(value, str) else value for value in column(batch, "alt")]
    return [*zip(*(column(batch, name) for name in names), alt, strict=True)]


def test_fields_of_samples_texts_and_images_survive_the_way_through_tars_and_parquet(tmp_path):
    start = one(
        tmp_path / "in", {"s.tar": tar({"0.json": record(**FIELDS), "0.p.png": png()})}, materialize="read", **SPREAD
    )
    (name,) = _written(start, tmp_path / "parquet", "parquet")
    (stored,) = parquet(tmp_path / "parquet", name)
    _written(stored, tmp_path / "tars", "webdataset")
    again = one(tmp_path / "tars", materialize="read", fields=["url"], **SPREAD)
    assert _content(stored) == _content(start) == _content(again)
    (name,) = _written(again, tmp_path / "parquet2", "parquet")
    (back,) = parquet(tmp_path / "parquet2", name)
    assert _content(back) == _content(start)


def test_batches_split_between_samples_and_name_the_file_that_fed_them(tmp_path):
    root = write(tmp_path, {"a.parquet": table("a0", "a1"), "b.parquet": table("b0")})
    batches = parquet(root, "a.parquet", "b.parquet", max_batch_bytes=1)
    assert [(set(column(batch, "sample_id")), batch.source_files, batch.name) for batch in batches] == [
        ({"a0"}, ("a.parquet",), "rows::split_0001"), ({"a1"}, ("a.parquet",), "rows::split_0002"),
        ({"b0"}, ("b.parquet",), "rows::split_0003")
    ]  # fmt: skip
    assert [batch.num_rows for batch in batches] == [3, 3, 3]


def test_files_that_fit_are_one_batch_with_the_columns_of_all(tmp_path):
    root = write(tmp_path, {"a.parquet": table("a", score=1), "b.parquet": table("b", other="x")})
    (back,) = parquet(root, "a.parquet", "b.parquet")
    assert (
        back.source_files == ("a.parquet", "b.parquet")
        and column(back, "score", "image") == [1, None]
        and column(back, "other", "image") == [None, "x"]
    )


def test_batches_end_at_a_number_of_rows_too(tmp_path):
    root = write(tmp_path, {"a.parquet": table("a0", "a1", "a2")})
    assert [batch.num_rows for batch in parquet(root, "a.parquet", max_batch_rows=6)] == [6, 3]
    assert [batch.num_rows for batch in parquet(root, "a.parquet", max_batch_rows=8, max_batch_bytes=None)] == [6, 3]
    assert [batch.num_rows for batch in parquet(root, "a.parquet", max_batch_rows=1)] == [3, 3, 3]
    with pytest.raises(ValueError, match="max_batch_rows"):
        parquet(root, "a.parquet", max_batch_rows=0)


def test_a_sample_longer_than_what_is_read_at_once_stays_whole(tmp_path):
    long = batch_of(
        [
            {"sample_id": "long" if at < 700 else "next", "position": at, "modality": "text", "text_content": str(at)}
            for at in range(900)
        ]
    ).table
    batches = parquet(write(tmp_path, {"a.parquet": long}), "a.parquet", max_batch_bytes=1)
    assert [batch.num_rows for batch in batches] == [700, 200]


@pytest.mark.parametrize("paths", [(), ("empty.parquet",)])
def test_no_rows_are_an_empty_batch_of_the_right_types(tmp_path, paths):
    root = write(tmp_path, {"empty.parquet": table("a").slice(0, 0)})
    (back,) = parquet(root, *paths, fields=["url"])
    assert back.num_rows == 0 and back.columns == [*SCHEMA.names, "url"] and back.source_files == ()
    assert [field.type for field in back.table.schema][: len(SCHEMA)] == [field.type for field in SCHEMA]


def test_rows_without_an_id_name_every_file_and_are_said(tmp_path, caplog):
    nameless = table("b").set_column(0, "sample_id", pa.array([None] * 3, pa.string()))
    root = write(tmp_path, {"a.parquet": table("a"), "b.parquet": nameless, "c.parquet": table("c")})
    batches = parquet(root, "a.parquet", "b.parquet", "c.parquet", max_batch_bytes=1)
    assert [batch.source_files for batch in batches] == [
        ("a.parquet",),
        ("a.parquet", "b.parquet", "c.parquet"),
        ("c.parquet",),
    ]
    assert "b.parquet has 3 rows without a sample_id" in caplog.text and not batches[1].is_valid


def test_a_file_that_is_no_parquet_says_so(tmp_path):
    land(tmp_path, {"a.parquet": b"PAR1 no more"})
    with pytest.raises(TableCorrupt, match=r"a\.parquet"):
        parquet(tmp_path, "a.parquet")


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_of_nothing_is_refused(tmp_path, limit):
    with pytest.raises(ValueError, match="max_batch_bytes"):
        parquet(tmp_path, "a.parquet", max_batch_bytes=limit)
    with pytest.raises(ValueError, match="reserved"):
        parquet(tmp_path, "a.parquet", fields=["position"])


# Lance

lance = pytest.importorskip("lance", reason="pylance is an optional library")


def lance_rows(root: Path, **options) -> list[RowBatch]:
    return list(read_lance_rows(["a.lance"], landing=root, **options))


def test_lance_gives_rows_with_its_own_names_for_them(tmp_path):
    lance.write_dataset(table("a", "b"), tmp_path / "a.lance", max_rows_per_file=3)
    (back,) = lance_rows(tmp_path, fields=["url"])
    assert plain(back, "sample_id", "position") == table("a", "b").select(["sample_id", "position"]).to_pylist()
    assert back.columns == [*SCHEMA.names, "url", "lance_row_id", "lance_row_address", "lance_fragment"]
    assert column(back, "lance_fragment") == [0] * 3 + [1] * 3 and column(back, "lance_row_address")[3:] == [
        (1 << 32) + at for at in range(3)
    ]
    assert len(set(column(back, "lance_row_id"))) == 6


def test_a_version_of_a_dataset_is_kept_to_and_recorded(tmp_path):
    lance.write_dataset(table("old"), tmp_path / "a.lance")
    lance.write_dataset(table("new"), tmp_path / "a.lance", mode="append")
    (pinned,), (newest,) = lance_rows(tmp_path, version=1), lance_rows(tmp_path)
    assert (set(column(pinned, "sample_id")), pinned.source_files) == ({"old"}, ("a.lance@1",))
    assert (set(column(newest, "sample_id")), newest.source_files) == ({"old", "new"}, ("a.lance@2",))
    with pytest.raises(TableCorrupt, match="version 9"):
        lance_rows(tmp_path, version=9)


def test_lance_batches_split_between_samples(tmp_path):
    lance.write_dataset(table("a", "b"), tmp_path / "a.lance")
    assert [set(column(batch, "sample_id")) for batch in lance_rows(tmp_path, max_batch_bytes=1, scan_rows=2)] == [
        {"a"},
        {"b"},
    ]


def test_chosen_fragments_of_a_dataset_are_read_alone(tmp_path):
    lance.write_dataset(table("a", "b", "c"), tmp_path / "a.lance", max_rows_per_file=3)
    (back,) = lance_rows(tmp_path, fragments=[0, 2])
    assert column(back, "lance_fragment") == [0] * 3 + [2] * 3 and set(column(back, "sample_id")) == {"a", "c"}
    assert [batch.num_rows for batch in lance_rows(tmp_path, fragments=[1, 2], max_batch_rows=3)] == [3, 3]
    with pytest.raises(SettingsError, match=r"no fragment 7, only \[0, 1, 2\]"):
        lance_rows(tmp_path, fragments=[7])


def test_a_dataset_without_the_required_columns_says_which(tmp_path):
    lance.write_dataset(pa.table({"sample_id": ["a"], "text": ["t"]}), tmp_path / "a.lance")
    with pytest.raises(SchemaMismatch, match=r"\['position', 'modality'\]"):
        lance_rows(tmp_path)


def test_rows_of_a_dataset_without_an_id_are_refused(tmp_path):
    lance.write_dataset(table("a").set_column(0, "sample_id", pa.array(["a", None, "a"])), tmp_path / "a.lance")
    with pytest.raises(SchemaMismatch, match="'sample_id' holds 1 nulls"):
        lance_rows(tmp_path)


@pytest.mark.parametrize(
    "limits", [{"max_batch_bytes": 0}, {"max_batch_rows": 0}, {"scan_rows": 0}, {"version": 0}, {"scan_rows": -1}]
)
def test_limits_of_nothing_are_refused_for_lance(tmp_path, limits):
    with pytest.raises(ValueError, match="must be above 0"):
        lance_rows(tmp_path, **limits)


def test_a_dataset_outside_of_the_landing_zone_is_refused(tmp_path):
    lance.write_dataset(table("a"), tmp_path / "out.lance")
    (tmp_path / "in").mkdir()
    with pytest.raises(SettingsError, match="outside"):
        list(read_lance_rows(["../out.lance"], landing=tmp_path / "in"))


def test_a_lance_dataset_of_another_make_is_a_source(tmp_path):
    lance.write_dataset(
        pa.table({"id": ["x"], "image": pa.array([png()], pa.binary()), "caption": ["c"], "score": [1]}),
        tmp_path / "a.lance",
    )
    (shard,) = sources.scan(tmp_path, settings=SETTINGS)
    (batch,) = rows.read_rows(shard, landing=tmp_path, materialize="read")
    assert (
        column(batch, "binary_content", "image") == [png()]
        and column(batch, "text_content", "text") == ["c"]
        and column(batch, "score", "metadata") == [1]
    )


def test_a_sample_of_very_many_rows_is_read_in_time_that_grows_with_it(tmp_path, monkeypatch):
    """What was held of a sample was joined and searched anew for every 256 rows that came."""
    split_rows = []
    original = rows.stored_rows._bounds
    monkeypatch.setattr(rows.stored_rows, "_bounds", lambda table: split_rows.append(table.num_rows) or original(table))
    many = pa.table(
        {
            "sample_id": ["a"] * 20_000 + ["b"],
            "position": [*range(20_000), 0],
            "modality": ["text"] * 20_001,
            "text_content": ["x"] * 20_001,
        }
    )
    found = parquet(write(tmp_path, {"a.parquet": many}), "a.parquet")
    assert sum(batch.num_rows for batch in found) == 20_001
    assert sum(split_rows) < 4 * 20_001

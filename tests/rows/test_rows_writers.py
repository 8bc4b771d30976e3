"""Writers: what stands in the files, that they are whole or absent, and that what was read comes back."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rows_made import JPEG, PNG, back, batch, files, image, meta, records, rows_in, sample, text

from mmlake import sources
from mmlake.errors import LakeLocked, RowsUnreadable, SettingsError
from mmlake.locks import exclusive_lock
from mmlake.rows import Places, RowBatch, materialize, read_parquet_rows, read_rows
from mmlake.rows.filters import FILTERS, apply_filters
from mmlake.rows.identity import DistinctIds
from mmlake.rows.row_writer import WriteSettings, write_rows
from mmlake.rows.schema import SCHEMA
from mmlake.rows.staged_files import PROVENANCE
from mmlake.store import BlobStore
from tests import make

FORMATS = (("parquet", ".parquet"), ("webdataset", ".tar"))


def broken(*batches: RowBatch):
    """The batches, and then a failure."""
    yield from batches
    raise OSError("the source is gone")


# Both formats


@pytest.mark.parametrize(("to", "suffix"), FORMATS)
def test_equal_sources_and_name_give_equal_file_names_and_others_do_not(to: str, suffix: str, tmp_path: Path) -> None:
    names = []
    for at, (origin, name) in enumerate([(("a.tar",), "n"), (("a.tar",), "n"), (("b.tar",), "n"), (("a.tar",), "m")]):
        write_rows(batch(*sample(), origin=origin, name=name), tmp_path / str(at), to=to)
        names += [file.name for file in files(tmp_path / str(at), suffix)]
    assert names[0] == names[1]
    assert len(set(names)) == 3


@pytest.mark.parametrize(("to", "suffix"), FORMATS)
def test_rows_without_sources_get_a_random_name(to: str, suffix: str, tmp_path: Path) -> None:
    for at in range(2):
        write_rows(batch(*sample(), origin=()), tmp_path / str(at), to=to)
    assert files(tmp_path / "0", suffix)[0].name != files(tmp_path / "1", suffix)[0].name


@pytest.mark.parametrize(("to", "suffix"), FORMATS)
def test_equal_rows_give_equal_bytes(to: str, suffix: str, tmp_path: Path) -> None:
    digests = set()
    for at in range(2):
        written = write_rows(batch(*sample()), tmp_path / str(at), to=to)
        digests |= {file.digest for file in written.files} | {
            hashlib.sha256(file.read_bytes()).hexdigest() for file in files(tmp_path / str(at), suffix)
        }
    assert len(digests) == 1


@pytest.mark.parametrize(("to", "suffix"), FORMATS)
def test_a_failure_half_way_leaves_nothing_under_a_final_name(to: str, suffix: str, tmp_path: Path) -> None:
    many = [batch(*sample(str(number)), origin=(f"{number}.tar",)) for number in range(4)]
    with pytest.raises(OSError, match="gone"):
        write_rows(broken(*many), tmp_path / "out", to=to, settings=WriteSettings(samples_per_file=1))
    assert not (tmp_path / "out").exists()


_KILLED = """
import os, sys
from rows_made import batch, sample
from mmlake.rows.row_writer import WriteSettings, write_rows

def batches():
    yield from (batch(*sample(str(number))) for number in range(3))
    os._exit(9)  # no handler runs, no file is closed

write_rows(batches(), sys.argv[1], to="webdataset", settings=WriteSettings(samples_per_file=1))
"""


def test_a_killed_writer_leaves_nothing_under_a_final_name(tmp_path: Path) -> None:
    here = Path(__file__).parent
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(here), str(here.parents[1])])}
    run = subprocess.run([sys.executable, "-c", _KILLED, str(tmp_path / "out")], env=environment, check=False)
    assert run.returncode == 9
    assert {path.suffix for path in (tmp_path / "out").iterdir()} == {".part", ".lock"}
    written = write_rows(batch(*sample()), tmp_path / "out", to="webdataset")
    assert [path.name for path in (tmp_path / "out").iterdir() if path.suffix in (".part", ".tar")] == [
        written.files[0].name
    ]


@pytest.mark.parametrize(("to", "suffix"), FORMATS)
def test_a_failed_overwrite_leaves_what_was_there(to: str, suffix: str, tmp_path: Path) -> None:
    write_rows(batch(*sample()), tmp_path, to=to)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(OSError, match="gone"):
        write_rows(
            broken(batch(*sample("other"))),
            tmp_path,
            to=to,
            settings=WriteSettings(mode="overwrite", samples_per_file=1),
        )
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


@pytest.mark.parametrize(("to", "suffix"), FORMATS)
def test_modes(to: str, suffix: str, tmp_path: Path) -> None:
    """error refuses, ignore writes nothing, append writes next to it, overwrite leaves its own files alone."""
    first = write_rows(batch(*sample(), origin=("1",)), tmp_path, to=to).files[0].name
    with pytest.raises(SettingsError, match="overwrite or append"):
        write_rows(batch(*sample(), origin=("2",)), tmp_path, to=to)
    assert write_rows(broken(), tmp_path, to=to, settings=WriteSettings(mode="ignore")).is_ignored
    second = (
        write_rows(batch(*sample(), origin=("2",)), tmp_path, to=to, settings=WriteSettings(mode="append"))
        .files[0]
        .name
    )
    assert {file.name for file in files(tmp_path, suffix)} == {first, second}
    third = (
        write_rows(batch(*sample(), origin=("3",)), tmp_path, to=to, settings=WriteSettings(mode="overwrite"))
        .files[0]
        .name
    )
    assert [file.name for file in files(tmp_path, suffix)] == [third]


def test_overwrite_never_touches_files_that_it_did_not_write(tmp_path: Path) -> None:
    (tmp_path / "theirs.parquet").write_bytes(b"PAR1")
    with pytest.raises(SettingsError, match="not ours"):
        write_rows(batch(*sample()), tmp_path, to="parquet", settings=WriteSettings(mode="overwrite"))
    (tmp_path / "theirs.parquet").rename(tmp_path.parent / "theirs.parquet")
    (tmp_path / PROVENANCE).write_text(json.dumps({"writes": [{"files": [{"name": "../theirs.parquet"}]}]}))
    write_rows(batch(*sample()), tmp_path, to="parquet", settings=WriteSettings(mode="overwrite"))
    assert (tmp_path.parent / "theirs.parquet").read_bytes() == b"PAR1"


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    with exclusive_lock(tmp_path / ".writer.lock", what="it"), pytest.raises(LakeLocked):
        write_rows(batch(*sample()), tmp_path, to="parquet")


def test_what_a_killed_writer_left_is_swept_away(tmp_path: Path) -> None:
    (tmp_path / "0123456789abcdef.part").write_bytes(b"half")
    write_rows(batch(*sample()), tmp_path, to="parquet")
    assert list(tmp_path.glob("*.part")) == []


def test_a_format_without_a_writer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="parquet"):
        write_rows(batch(*sample()), tmp_path / "out", to="csv")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "wrong", [{"mode": "replace"}, {"compression": "rar"}, {"on_error": "shrug"}, {"samples_per_file": 0}]
)
def test_settings_that_are_none_are_refused(wrong) -> None:
    with pytest.raises(SettingsError, match=str(next(iter(wrong.values())))):
        WriteSettings(**wrong)


@pytest.mark.parametrize(("to", "suffix"), FORMATS)
def test_samples_per_file_is_kept_to_across_batches(to: str, suffix: str, tmp_path: Path) -> None:
    many = (batch(*sample(f"{at}a"), *sample(f"{at}b"), *sample(f"{at}c"), origin=(f"{at}.tar",)) for at in range(3))
    written = write_rows(many, tmp_path, to=to, settings=WriteSettings(samples_per_file=2))
    assert [file.num_samples for file in written.files] == [2, 2, 2, 2, 1]
    assert len(files(tmp_path, suffix)) == 5


def test_a_file_is_closed_when_it_is_large(tmp_path: Path) -> None:
    written = write_rows(
        (batch(*sample(str(at))) for at in range(4)),
        tmp_path,
        to="webdataset",
        settings=WriteSettings(file_bytes=2 * len(PNG)),
    )
    assert [file.num_samples for file in written.files] == [2, 2]


@pytest.mark.parametrize(("to", "suffix"), FORMATS)
def test_two_samples_with_one_id_from_two_shards_both_survive(to: str, suffix: str, tmp_path: Path) -> None:
    given = [
        batch(meta("x"), text(0, "from a", "x"), origin=("a.tar",)),
        batch(meta("x"), text(0, "from b", "x"), origin=("b.tar",)),
    ]
    written = write_rows(given, tmp_path, to=to)
    assert written.renamed == (("x", "x#2"),)
    found = (
        {one["sample_id"]: one["texts"] for one in records(tmp_path)}
        if to == "webdataset"
        else _texts(rows_in(tmp_path))
    )
    assert found == {"x": ["from a"], "x#2": ["from b"]}


def _texts(table: pa.Table) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in table.to_pylist():
        if row["modality"] == "text":
            found.setdefault(row["sample_id"], []).append(row["text_content"])
    return found


def test_two_samples_with_one_id_in_one_batch_are_distinguished_by_the_files_of_their_rows(tmp_path: Path) -> None:
    rows = [
        text(at, f"{name}{at}", "x", source_ref=json.dumps({"path": f"{name}.tar"}))
        for at in range(3)
        for name in ("a", "b")
    ]
    rows += [text(3, "b3", "x", source_ref=json.dumps({"path": "b.tar"}))]
    write_rows(batch(*rows), tmp_path, to="webdataset")
    assert {one["sample_id"]: one["texts"] for one in records(tmp_path)} == {
        "x": ["a0", "a1", "a2"],
        "x#2": ["b0", "b1", "b2", "b3"],
    }


def test_two_samples_with_one_id_and_no_locators_are_distinguished_by_their_order(tmp_path: Path) -> None:
    write_rows(
        batch(meta("x"), text(0, "short", "x"), meta("x"), text(0, "one", "x"), text(1, "two", "x")),
        tmp_path,
        to="webdataset",
    )
    assert {one["sample_id"]: one["texts"] for one in records(tmp_path)} == {"x": ["short"], "x#2": ["one", "two"]}


def test_a_sample_whose_rows_lie_apart_in_its_file_stays_one(tmp_path: Path) -> None:
    ref = {"source_ref": json.dumps({"path": "a.tar"})}
    write_rows(
        batch(
            meta("x", n=1, **ref),
            text(0, "one", "x", **ref),
            text(0, "else", "y", **ref),
            meta("x", n=1, **ref),
            text(1, "two", "x", **ref),
        ),
        tmp_path,
        to="webdataset",
    )
    assert [(one["sample_id"], one["texts"]) for one in records(tmp_path)] == [("x", ["one", "two"]), ("y", ["else"])]


def test_a_new_id_never_takes_one_that_is_there(tmp_path: Path) -> None:
    ids = DistinctIds()
    first = ids.distinct(batch(text(0, sample="x"), text(0, sample="x#2")).to_arrow())
    second = ids.distinct(batch(text(0, sample="x"), text(0, sample="x#3")).to_arrow())
    assert (first["sample_id"].to_pylist(), second["sample_id"].to_pylist()) == (["x", "x#2"], ["x#4", "x#3"])


@pytest.mark.parametrize(("to", "suffix"), FORMATS)
def test_order_survives_a_filter_and_a_write(to: str, suffix: str, tmp_path: Path) -> None:
    made = batch(text(3, "d"), text(1, "b"), image(0), image(2, b"broken"), meta())
    left, _ = apply_filters(made, [FILTERS["aspect_ratio"]])
    write_rows(left, tmp_path, to=to)
    rows = [(row["position"], row["modality"], row["text_content"]) for row in back(tmp_path, to)]
    assert sorted(rows)[-3:] == [(0, "image", None), (1, "text", "b"), (2, "text", "d")]


# Bytes on write


@pytest.fixture
def lost(tmp_path: Path) -> tuple[RowBatch, Places]:
    """A sample with a picture whose bytes are in the store, and one whose file does not exist."""
    make.land(tmp_path / "landing", {"here.png": PNG})
    refs = [json.dumps({"path": "here.png"}), json.dumps({"path": "gone.png"})]
    return batch(text(0), image(1, None, source_ref=refs[0]), image(2, None, source_ref=refs[1])), Places(
        landing=tmp_path / "landing"
    )


@pytest.mark.parametrize(("policy", "left"), [("warn", [0, 1, 2]), ("drop_row", [0, 1]), ("drop_sample", [])])
def test_a_bad_path_follows_the_policy(policy: str, left: list[int], lost, tmp_path: Path) -> None:
    made, places = lost
    written = write_rows(
        made,
        tmp_path / "out",
        to="parquet",
        settings=WriteSettings(on_error=policy),
        fill=lambda part: materialize(part, places),
    )
    rows = rows_in(tmp_path / "out").to_pylist() if written.files else []
    assert [row["position"] for row in rows] == left
    assert written.num_rows + sum(written.dropped.values()) == written.num_rows_in == 3
    if policy == "warn":
        assert (rows[1]["binary_content"], rows[1]["materialize_error"]) == (PNG, None)
        assert rows[2]["binary_content"] is None
        assert rows[2]["materialize_error"]
        assert written.num_failed == 1


def test_under_error_nothing_is_written(lost, tmp_path: Path) -> None:
    made, places = lost
    with pytest.raises(RowsUnreadable, match="1 of 3 rows"):
        write_rows(made, tmp_path / "out", to="webdataset", fill=lambda part: materialize(part, places))
    assert not (tmp_path / "out").exists()


def test_without_materialization_bytes_stay_null(lost, tmp_path: Path) -> None:
    write_rows(lost[0], tmp_path / "out", to="parquet")
    assert rows_in(tmp_path / "out")["binary_content"].null_count == 3


def test_bytes_come_from_the_store_by_digest(tmp_path: Path) -> None:
    store = BlobStore(tmp_path / "blobs")
    made = batch(image(0, None, digest=store.put(JPEG)))
    write_rows(made, tmp_path / "out", to="parquet", fill=lambda part: materialize(part, Places(store=store)))
    assert rows_in(tmp_path / "out")["binary_content"].to_pylist() == [JPEG]


def test_only_a_part_of_a_batch_is_in_memory_with_its_bytes(tmp_path: Path) -> None:
    seen = []

    def fill(part: RowBatch) -> RowBatch:
        seen.append(part.num_rows)
        return part

    made = batch(*(image(0, None, str(at), size_bytes=1000) for at in range(10)))
    write_rows(made, tmp_path / "out", to="parquet", settings=WriteSettings(part_bytes=3000), fill=fill)
    assert seen == [3, 3, 3, 1]


# Parquet


@pytest.mark.parametrize("compression", ["snappy", "zstd", "gzip", "none"])
def test_the_compression_is_the_one_that_was_asked_for(compression: str, tmp_path: Path) -> None:
    write_rows(batch(*sample()), tmp_path, to="parquet", settings=WriteSettings(compression=compression))
    group = pq.ParquetFile(files(tmp_path, ".parquet")[0]).metadata.row_group(0)
    assert {group.column(at).compression for at in range(group.num_columns)} == {
        "UNCOMPRESSED" if compression == "none" else compression.upper()
    }


def test_row_groups_have_the_rows_that_were_asked_for(tmp_path: Path) -> None:
    write_rows(
        (batch(*sample(str(at))) for at in range(5)), tmp_path, to="parquet", settings=WriteSettings(row_group_rows=8)
    )
    file = pq.ParquetFile(files(tmp_path, ".parquet")[0]).metadata
    assert [file.row_group(at).num_rows for at in range(file.num_row_groups)] == [8, 8, 4]


def test_a_flipped_bit_is_found_by_the_page_checksums(tmp_path: Path) -> None:
    write_rows(batch(text(0, "a word " * 500)), tmp_path, to="parquet", settings=WriteSettings(compression="none"))
    path = files(tmp_path, ".parquet")[0]
    data = bytearray(path.read_bytes())
    data[data.index(b"a word a word") + 5] ^= 1
    path.write_bytes(data)
    with pytest.raises(OSError, match="(?i)crc|checksum"):
        pq.read_table(path, page_checksum_verification=True)


def test_the_index_of_a_data_frame_is_never_written(tmp_path: Path) -> None:
    frame = batch(*sample()).to_pandas()
    frame.index = [9, 8, 7, 6]
    frame.index.name = "mine"
    write_rows(RowBatch.of(frame, source_files=["a"]), tmp_path, to="parquet")
    schema = pq.read_schema(files(tmp_path, ".parquet")[0])
    assert not [name for name in schema.names if "index" in name or name == "mine"]
    assert b"pandas" not in (schema.metadata or {})
    table = pa.Table.from_pandas(frame).append_column("extra", pa.array([1, 2, 3, 4]))
    write_rows(RowBatch(table.drop_columns(["mine"]), ("b",)), tmp_path / "2", to="parquet")
    assert b"pandas" not in (pq.read_schema(files(tmp_path / "2", ".parquet")[0]).metadata or {})


def test_a_schema_drops_extras_and_none_keeps_them(tmp_path: Path) -> None:
    made = batch(*sample(score=0.5, url="u"))
    write_rows(made, tmp_path / "all", to="parquet")
    write_rows(
        made,
        tmp_path / "some",
        to="parquet",
        settings=WriteSettings(schema=pa.schema([*SCHEMA, ("score", pa.float64()), ("absent", pa.int32())])),
    )
    assert {"score", "url"} <= set(rows_in(tmp_path / "all").column_names)
    assert rows_in(tmp_path / "some").column_names == [*SCHEMA.names, "score", "absent"]
    assert rows_in(tmp_path / "some")["score"].to_pylist() == [0.5, None, None, None]
    write_rows(
        made,
        tmp_path / "tar",
        to="webdataset",
        settings=WriteSettings(schema=pa.schema([*SCHEMA, ("score", pa.float64())])),
    )
    assert ("url" in records(tmp_path / "tar")[0], records(tmp_path / "tar")[0]["score"]) == (False, 0.5)


@pytest.mark.parametrize("row_group_rows", [1, 100])
def test_shards_with_different_extras_are_one_table_with_nulls(row_group_rows: int, tmp_path: Path) -> None:
    """Also where the first rows are written before the second shard shows its columns."""
    given = [
        batch(meta("a", score=1), text(0, sample="a")),
        batch(meta("b", score=0.5, url="u"), text(0, sample="b")),
        batch(meta("c", url="v"), text(0, sample="c")),
    ]
    written = write_rows(given, tmp_path, to="parquet", settings=WriteSettings(row_group_rows=row_group_rows))
    table = rows_in(tmp_path)
    assert len(written.files) == 1
    assert table["score"].to_pylist() == [1.0, None, 0.5, None, None, None]
    assert table["url"].to_pylist() == [None, None, "u", None, "v", None]


def test_types_that_do_not_go_together_become_text_and_are_reported(tmp_path: Path) -> None:
    given = [
        batch(meta("a", tag=7), text(0, sample="a")),
        batch(meta("b", tag=["x", "y"]), text(0, sample="b")),
        batch(meta("c", tag="plain"), text(0, sample="c")),
    ]
    written = write_rows(given, tmp_path, to="parquet", settings=WriteSettings(row_group_rows=1))
    assert [value for value in rows_in(tmp_path)["tag"].to_pylist() if value] == ["7", '["x", "y"]', "plain"]
    assert ["'tag'" in problem for problem in written.problems] == [True]


def test_parquet_comes_back_as_it_was(tmp_path: Path) -> None:
    made = batch(*sample("a", score=1.5), *sample("b", score=2.5), image(3, None, "b", materialize_error="why"))
    write_rows(made, tmp_path, to="parquet", settings=WriteSettings(on_error="warn"))
    names = [file.name for file in files(tmp_path, ".parquet")]
    back = pa.concat_tables(one.to_arrow() for one in read_parquet_rows(names, landing=tmp_path))
    assert back.select(made.columns).to_pylist() == made.to_arrow().to_pylist()


@pytest.mark.parametrize(("to", "suffix"), FORMATS)
def test_appending_rows_of_the_same_source_keeps_those_that_are_there(to: str, suffix: str, tmp_path: Path) -> None:
    """The second write took the name, and so the place, of the first."""
    for words in ("first", "second"):
        write_rows(batch(*sample(words), origin=("1",)), tmp_path, to=to, settings=WriteSettings(mode="append"))
    assert len(files(tmp_path, suffix)) == 2
    (first, second) = json.loads((tmp_path / "_provenance.json").read_bytes())["writes"]
    for write in (first, second):
        (file,) = write["files"]
        assert hashlib.sha256((tmp_path / file["name"]).read_bytes()).hexdigest() == file["digest"]


def test_a_tar_of_ours_is_read_back_without_a_word_about_reserved_names(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its JSON says sample_id and licence, which the columns of these names say as well."""
    write_rows(
        batch(*[{**row, "licence": "MIT"} for row in sample("a/b.1")], origin=("1",)),
        tmp_path / "tars",
        to="webdataset",
    )
    settings = sources.SourceSettings()
    found = [
        one
        for shard in sources.scan(tmp_path / "tars", settings=settings)
        for one in read_rows(shard, landing=tmp_path / "tars", settings=settings)
    ]
    assert [one.conflicts for one in found] == [()] and {*found[0].table["licence"].to_pylist()} == {"MIT"}
    assert "reserved" not in caplog.text

"""`mmlake rows`: a lake, a version of it, or a landing zone as files of rows, with an account of every row."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from rows_made import JPEG, PNG, SETTINGS, WAV, back, files, flat_picture, records, rows_in
from typer.testing import CliRunner

from mmlake import schemas, sources
from mmlake.cli import app
from mmlake.errors import MmlakeError, ModelMissing, RefMissing, RowsUnreadable, SettingsError
from mmlake.lake import Lake
from mmlake.recipes import RECIPES
from mmlake.records import canonical_json
from mmlake.rows.lake_rows import lake_rows
from mmlake.tables import Slot, Tables
from mmlake.versions import VERSION_SAMPLES
from tests import make


def record(number: int, **fields: object) -> bytes:
    return json.dumps(
        {
            "texts": [make.prose(number), None, "An end."],
            "images": [None, f"k{number}.1.png", None],
            "score": number,
            **fields,
        }
    ).encode()


def landing_of(root: Path) -> Path:
    """Two tars of interleaved samples with equal stems, one with a sound, and lines of text of which one repeats."""
    one = {
        "k0.json": record(0, hash=["h0"]),
        "k0.1.png": PNG,
        "k1.json": record(1, nested={"a": [1]}),
        "k1.1.png": flat_picture(),
    }
    other = {"k0.json": record(5, licence="CC-BY-4.0"), "k0.1.png": JPEG, "s.wav": WAV}
    return make.land(
        root,
        {
            "a.tar": make.tar(one),
            "b.tar": make.tar(other),
            "text/t.jsonl": make.jsonl([make.prose(9), make.prose(9), make.prose(11)]),
        },
    )


@pytest.fixture(scope="module")
def landing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return landing_of(tmp_path_factory.mktemp("zone"))


@pytest.fixture(scope="module")
def lake(landing: Path, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """The landing zone ingested, without any later stage."""
    made = Lake(tmp_path_factory.mktemp("lake"), landing=landing)
    made.remember_landing()
    for shard in sources.scan(landing, settings=SETTINGS):
        for modality in shard.modalities:
            table = sources.ingest(shard, modality, landing=landing, store=made.store, settings=SETTINGS)
            made.tables.write(
                Slot("items", modality, shard.key),
                schemas.ITEMS,
                table,
                code_version="1",
                settings_digest="0",
                inputs={},
            )
    items = pa.concat_tables(made.tables.concat("items", modality) for modality in ("text", "image"))
    chosen: dict[str, dict] = {}
    for row in items.to_pylist():
        if row["text_content"] != "An end.":
            names = ("position", "role", "modality", "digest", "content_type", "size_bytes")
            chosen[row["digest"]] = {
                "sample": row["digest"], "lead": row["digest"], "modality": row["modality"], "weight": 1.0,
                "sources": [row["source"]], "licences": [row["licence"]], "sample_ids": [row["sample_id"]],
                "num_occurrences": 1, "parts": [{name: row[name] for name in names} | {"parent_digest": row["digest"]}],
            }  # fmt: skip
    made.versions.build(
        pa.Table.from_pylist(list(chosen.values()), schema=VERSION_SAMPLES),
        recipe=RECIPES["everything"],
        settings_digest="0",
        encoders={},
        name="v1",
    )
    return made


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., dict]:
    def call(*words: object, out: str = "out") -> dict:
        result = CliRunner().invoke(app, ["rows", *map(str, words), "--out", str(tmp_path / out), "--json"])
        if isinstance(result.exception, MmlakeError):
            raise result.exception
        assert result.exit_code == 0, result.output
        data = json.loads(result.stdout)
        assert data["num_rows_in"] == data["num_rows"] + sum(data["dropped"].values())
        return data

    return call


# A lake


def test_a_lake_gives_every_item_once_in_the_order_of_its_source(lake: Lake) -> None:
    rows = [row for one in lake_rows(lake.tables) for row in one.to_arrow().to_pylist()]
    ids = [row["item_id"] for row in rows if row["item_id"]]
    expected = [
        one
        for modality in ("text", "image", "audio")
        for one in lake.tables.concat("items", modality)["item_id"].to_pylist()
    ]
    assert sorted(ids) == sorted(expected)
    assert ids == sorted(ids)


def test_what_a_record_says_stands_on_a_metadata_row_and_what_a_row_says_with_the_row(lake: Lake) -> None:
    rows = [row for one in lake_rows(lake.tables, shards=["a.tar"]) for row in one.to_arrow().to_pylist()]
    first = [row for row in rows if row["sample_id"] == "a.tar/k0"]
    assert [(row["position"], row["modality"]) for row in first] == [
        (-1, "metadata"),
        (0, "text"),
        (1, "image"),
        (2, "text"),
    ]
    assert json.loads(first[0]["metadata_json"])["score"] == 0
    assert {row["metadata_json"] for row in first[1:]} == {None}


def test_fields_become_columns_in_place_of_the_record(lake: Lake) -> None:
    tables = [one.to_arrow() for one in lake_rows(lake.tables, shards=["a.tar"], fields=("score", "nested", "absent"))]
    rows = [row for table in tables for row in table.to_pylist() if row["modality"] == "metadata"]
    assert [(row["score"], row["nested"], row["absent"], row["metadata_json"]) for row in rows] == [
        (0, None, None, None),
        (1, '{"a":[1]}', None, None),
    ]


@pytest.mark.parametrize(
    ("given", "match"), [({"shards": ["gone.tar"]}, "gone.tar"), ({"fields": ["digest"]}, "digest")]
)
def test_a_shard_or_field_that_cannot_be_had_is_refused(given: dict, match: str, lake: Lake) -> None:
    with pytest.raises(SettingsError, match=match):
        list(lake_rows(lake.tables, **given))


def test_a_lake_is_written_with_the_bytes_of_its_store(lake: Lake, run, tmp_path: Path) -> None:
    data = run("--lake", lake.root)
    table = rows_in(tmp_path / "out")
    held = [row["binary_content"] for row in table.to_pylist() if row["modality"] in ("image", "audio")]
    assert held == [PNG, flat_picture(), JPEG, WAV]
    assert data["num_rows"] == table.num_rows
    assert json.loads(Path(data["provenance"]).read_text())["writes"][0]["from"]["manifest"] is None


def test_a_version_is_written_with_its_items_alone_each_time_that_they_occur(lake: Lake, run, tmp_path: Path) -> None:
    run("v1", "--lake", lake.root)
    content = [row for row in rows_in(tmp_path / "out").to_pylist() if row["modality"] != "metadata"]
    assert {row["digest"] for row in content} == set(lake.versions.items("v1")["digest"].to_pylist())
    assert [row["position"] for row in content if row["sample_id"] == "a.tar/k0"] == [0, 1]
    texts = [row["text_content"] for row in content if row["sample_id"].startswith("text/")]
    assert texts == [make.prose(9), make.prose(9), make.prose(11)]


def test_a_version_whose_source_changed_is_not_written_short_without_a_word(lake: Lake, run, tmp_path: Path) -> None:
    """Samples lost parts, or were not there, and the command ended well."""
    now = lake.versions.samples("v1")
    text = lake.store.put(b"what a file said before it was corrected")
    row = {"position": 0, "role": "document", "modality": "text", "digest": text, "parent_digest": text}
    before = now.slice(0, 1).to_pylist()[0] | {"sample": text, "lead": text, "modality": "text", "parts": [row]}
    samples = pa.concat_tables([now, pa.Table.from_pylist([before], schema=VERSION_SAMPLES)])
    lake.versions.build(samples, recipe=RECIPES["everything"], settings_digest="0", encoders={}, name="older")
    with pytest.raises(RowsUnreadable, match=f"older has 1 texts and media, such as {text}, that no source"):
        run("older", "--lake", lake.root)
    assert not list((tmp_path / "out").glob("*.parquet"))
    data = run("older", "--lake", lake.root, "--on-error", "warn")
    assert data["num_absent"] == 1
    assert json.loads(Path(data["provenance"]).read_text())["writes"][0]["from"]["num_absent"] == 1
    assert run("v1", "--lake", lake.root, out="now")["num_absent"] == 0


def test_a_distinct_version_has_each_item_once(lake: Lake, run, tmp_path: Path) -> None:
    run("v1", "--lake", lake.root, "--distinct")
    content = [row for row in rows_in(tmp_path / "out").to_pylist() if row["modality"] != "metadata"]
    assert sorted(row["digest"] for row in content) == sorted(lake.versions.items("v1")["digest"].to_pylist())


def test_a_distinct_lake_has_each_digest_once(lake: Lake) -> None:
    tables = [one.to_arrow() for one in lake_rows(lake.tables, is_distinct=True)]
    digests = [one for table in tables for one in table["digest"].drop_null().to_pylist()]
    assert sorted(digests) == sorted(
        {
            one
            for modality in ("text", "image", "audio")
            for one in lake.tables.concat("items", modality)["digest"].to_pylist()
        }
    )


def captioned(tables: Tables) -> list[tuple[str, int, str | None]]:
    """(sample, position, digest) of two shards of pictures that share a caption, one picture lost."""
    expected = []
    for shard in ("one.tar", "two.tar"):
        names = [("0", 0, f"{shard}-0"), ("0", 1, "same"), ("0", 2, "same"), ("1", 0, None), ("1", 1, "same")]
        rows = [
            {"item_id": f"{shard}#{at:06d}", "sample_id": f"{shard}/{sample}", "position": position, "digest": digest}
            | ({"modality": "text", "role": "caption"} if position else {"modality": "image", "role": "media"})
            | {"source": "news", "licence": "MIT", "size_bytes": 7, "source_ref": "{}", "status": "ok"}
            for at, (sample, position, digest) in enumerate(names)
        ]
        for modality in ("text", "image"):
            table = schemas.from_rows(schemas.ITEMS, [row for row in rows if row["modality"] == modality])
            slot = Slot("items", modality, shard)
            tables.write(slot, schemas.ITEMS, table, code_version="1", settings_digest="0", inputs={})
        expected += [(f"{shard}/{sample}", position, digest) for sample, position, digest in names]
    return expected


def test_a_caption_of_several_pictures_is_a_part_of_each(tmp_path: Path) -> None:
    expected = captioned(tables := Tables(tmp_path))
    every = [one.to_arrow().select(["sample_id", "position", "digest"]) for one in lake_rows(tables)]
    assert [tuple(row.values()) for table in every for row in table.to_pylist()] == expected


def test_a_version_has_every_part_that_it_admits_in_every_sample(tmp_path: Path) -> None:
    expected = captioned(tables := Tables(tmp_path))
    found = [one.to_arrow() for one in lake_rows(tables, digests=["same", "two.tar-0"])]
    digests = [(row["sample_id"], row["digest"]) for table in found for row in table.to_pylist()]
    assert digests == [(sample, digest) for sample, _, digest in expected if digest in ("same", "two.tar-0")]


def test_distinct_digests_come_once_over_all_shards(tmp_path: Path) -> None:
    captioned(tables := Tables(tmp_path))
    found = [one.to_arrow() for one in lake_rows(tables, is_distinct=True)]
    digests = [row["digest"] for table in found for row in table.to_pylist()]
    assert digests == ["one.tar-0", "same", None, "two.tar-0", None]


def test_a_version_as_tars_is_ingested_again_with_its_fields(lake: Lake, run, tmp_path: Path) -> None:
    run("v1", "--lake", lake.root, "--to", "webdataset")
    found = {one["sample_id"]: one for one in records(tmp_path / "out")}
    assert (found["a.tar/k1"]["score"], found["a.tar/k1"]["nested"], found["b.tar/k0"]["licence"]) == (
        1,
        {"a": [1]},
        "CC-BY-4.0",
    )
    # the provenance is no item
    assert [shard.format for shard in sources.scan(tmp_path / "out", settings=SETTINGS)] == ["webdataset"]
    assert {row["sample_id"].partition("/")[2] for row in back(tmp_path / "out", "webdataset")} == set(found)


def test_the_provenance_names_inputs_settings_counts_and_the_digests_of_the_files(
    lake: Lake, run, tmp_path: Path
) -> None:
    import hashlib

    data = run("v1", "--lake", lake.root, "--filter", "aspect_ratio=1:3", "--compression", "zstd")
    write = json.loads(Path(data["provenance"]).read_text())["writes"][0]
    assert write["from"]["manifest"] == lake.versions.resolve("v1")
    assert (
        write["from"]["tables"][str(Slot("items", "image", "a.tar"))]
        == lake.tables.stamp(Slot("items", "image", "a.tar")).data_version
    )
    assert [one["filter"] for one in write["filters"]] == ["validity", "aspect_ratio"]
    assert (write["settings"]["compression"], write["num_rows"]) == ("zstd", data["num_rows"])
    assert [one["digest"] for one in write["files"]] == [
        hashlib.sha256(path.read_bytes()).hexdigest() for path in files(tmp_path / "out", ".parquet")
    ]


# A landing zone


def test_a_landing_zone_needs_no_lake(landing: Path, run, tmp_path: Path) -> None:
    data = run("--landing", landing, "--to", "webdataset", "--per-image-fields", "hash")
    found = {one["sample_id"]: one for one in records(tmp_path / "out")}
    assert {"a.tar/k0", "a.tar/k1", "b.tar/k0", "b.tar/s", "text/t.jsonl/d0"} <= set(found)
    assert (found["a.tar/k0"]["hash"], found["a.tar/k1"]["nested"]) == (["h0"], {"a": [1]})
    assert data["per_image_fields"] == ["hash"]


def test_files_of_rows_are_read_as_rows(landing: Path, run, tmp_path: Path) -> None:
    first = run("--landing", landing, "--fields", "score", out="first")
    second = run("--landing", tmp_path / "first", out="second")
    assert second["num_rows"] == first["num_rows"]
    names = ["sample_id", "position", "modality", "text_content", "binary_content", "score"]
    assert rows_in(tmp_path / "second").select(names).equals(rows_in(tmp_path / "first").select(names))


def test_only_the_fields_that_were_asked_for_are_kept(landing: Path, run, tmp_path: Path) -> None:
    run("--landing", landing, "--to", "webdataset", "--fields", "score", "--shard", "a.tar")
    assert [sorted(one) for one in records(tmp_path / "out")] == [["images", "sample_id", "score", "texts"]] * 2


@pytest.mark.parametrize("moment", ["read", "write", "never"])
def test_filters_see_the_pictures_whenever_bytes_are_kept(moment: str, landing: Path, run, tmp_path: Path) -> None:
    data = run("--landing", landing, "--shard", "a.tar", "--filter", "blur=100:", "--materialize", moment)
    assert data["dropped"] == {"blur": 1}
    kept = [row["binary_content"] for row in rows_in(tmp_path / "out").to_pylist() if row["modality"] == "image"]
    assert kept == [None if moment == "never" else PNG]


def test_rows_are_written_per_file_as_asked(landing: Path, run) -> None:
    assert len(run("--landing", landing, "--samples-per-file", 2)["files"]) == 4


# What is refused


@pytest.mark.parametrize(
    ("words", "error", "match"),
    [
        (["--to", "csv"], SettingsError, "csv"),
        (["--filter", "sparkle"], SettingsError, "sparkle"),
        (["--filter", "clip_score"], ModelMissing, "needs a model"),
        (["--materialize", "later"], SettingsError, "later"),
        (["--on-error", "shrug"], SettingsError, "shrug"),
        (["--shard", "gone"], SettingsError, "gone"),
        (["--fields", "digest"], SettingsError, "digest"),
        (["--overwrite", "--append"], SettingsError, "exclude"),
        (["--distinct"], SettingsError, "--distinct"),
        (["v1"], SettingsError, "not both"),
    ],
)
def test_what_cannot_be_done_is_refused_and_leaves_nothing(
    words: list[str], error: type[MmlakeError], match: str, landing: Path, run, tmp_path: Path
) -> None:
    with pytest.raises(error, match=match):
        run("--landing", landing, *words)
    assert not (tmp_path / "out").exists()


def test_an_unknown_version_or_landing_zone_is_reported(lake: Lake, run, tmp_path: Path) -> None:
    with pytest.raises(RefMissing, match="nosuch"):
        run("nosuch", "--lake", lake.root)
    with pytest.raises(SettingsError, match="not a directory"):
        run("--landing", tmp_path / "nowhere")


def test_rows_without_bytes_stop_the_command_unless_a_policy_lets_them_go(landing: Path, run, tmp_path: Path) -> None:
    make.land(tmp_path / "cut", {"a.tar": (landing / "a.tar").read_bytes()[:-2000]})
    with pytest.raises(RowsUnreadable, match="rows have no bytes"):
        run("--landing", tmp_path / "cut")
    assert run("--landing", tmp_path / "cut", "--on-error", "drop_row")["dropped"]["materialize_error"] >= 1


def test_a_second_run_needs_a_mode(landing: Path, run, tmp_path: Path) -> None:
    first = run("--landing", landing, "--shard", "a.tar")
    with pytest.raises(SettingsError, match="holds rows already"):
        run("--landing", landing, "--shard", "b.tar")
    second = run("--landing", landing, "--shard", "b.tar", "--append")
    assert len(rows_in(tmp_path / "out")) == first["num_rows"] + second["num_rows"]
    third = run("--landing", landing, "--shard", "b.tar", "--overwrite")
    assert len(rows_in(tmp_path / "out")) == third["num_rows"] == second["num_rows"]


def test_people_see_where_the_rows_went(landing: Path, tmp_path: Path) -> None:
    shown = (
        CliRunner()
        .invoke(app, ["rows", "--landing", str(landing), "--out", str(tmp_path / "out"), "--filter", "blur"])
        .stdout
    )
    assert "dropped: blur" in shown
    assert "sharpness=0 not in [100, inf)" in shown


def test_the_filters_are_listed() -> None:
    assert "aspect_ratio" in CliRunner().invoke(app, ["rows", "--filter", "list"]).stdout


def test_equal_input_gives_equal_files(landing: Path, run, tmp_path: Path) -> None:
    one, two = (run("--landing", landing, "--to", "webdataset", out=out) for out in ("one", "two"))
    assert one["files"] == two["files"]
    assert canonical_json([path.read_bytes().hex() for path in files(tmp_path / "one", ".tar")]) == canonical_json(
        [path.read_bytes().hex() for path in files(tmp_path / "two", ".tar")]
    )


def test_one_file_is_one_file(landing: Path, tmp_path: Path) -> None:
    words = ["rows", "--landing", str(landing), "--shard", "text/t.jsonl", "--out", str(tmp_path / "out")]
    assert "1 file in " in CliRunner().invoke(app, words).stdout

"""Tars of interleaved samples: what stands in them, and that every way of reading them gives back what was written."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows_made import (
    JPEG,
    PNG,
    SETTINGS,
    WAV,
    back,
    batch,
    files,
    image,
    layout,
    media,
    members,
    meta,
    records,
    sample,
    text,
)

from mmlake import sources
from mmlake.rows import RowBatch, read_parquet_rows, read_rows
from mmlake.rows.columns import is_null
from mmlake.rows.identity import STEM_CHARS, stem_of
from mmlake.rows.row_writer import write_rows
from mmlake.store import BlobStore
from tests import make

# Tar


def test_a_tar_holds_the_lists_and_the_members_of_a_sample(tmp_path: Path) -> None:
    write_rows(batch(*sample(score=0.5)), tmp_path, to="webdataset")
    found = members(files(tmp_path, ".tar")[0])
    assert list(found) == ["s.1.png", "s.json"]
    assert found["s.1.png"] == PNG
    assert json.loads(found["s.json"]) == {
        "sample_id": "s",
        "texts": ["Grüße", None, "zwei"],
        "images": [None, "s.1.png", None],
        "score": 0.5,
    }


def test_non_ascii_stands_in_the_json_as_raw_utf_8(tmp_path: Path) -> None:
    write_rows(batch(*sample(title="日本")), tmp_path, to="webdataset")
    data = members(files(tmp_path, ".tar")[0])["s.json"]
    assert "Grüße".encode() in data
    assert "日本".encode() in data


def test_a_sample_of_text_alone_has_null_images_and_no_image_member(tmp_path: Path) -> None:
    write_rows(batch(text(0), text(1)), tmp_path, to="webdataset")
    assert list(members(files(tmp_path, ".tar")[0])) == ["s.json"]
    assert records(tmp_path)[0]["images"] == [None, None]


def test_an_unsupported_modality_is_named_in_a_value_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="hologram"):
        write_rows(batch(text(0), {**text(1), "modality": "hologram"}), tmp_path / "out", to="webdataset")
    assert not (tmp_path / "out").exists()


ODD_IDS = [
    "a/b",
    "../../etc/passwd",
    "a.b.c",
    "",
    "%",
    "%2F",
    "~",
    "ü-日本",
    "a b\tc\n",
    "x" * 5000,
    "é" * 400,
    "CON",
    ".",
    "..",
    "a\x00b",
    "-",
]


def test_every_id_is_a_safe_member_name_and_comes_back(tmp_path: Path) -> None:
    write_rows(
        batch(*(row for name in ODD_IDS for row in (text(0, "t", name), image(1, PNG, name)))),
        tmp_path,
        to="webdataset",
    )
    found = members(files(tmp_path, ".tar")[0])
    assert all(re.fullmatch(r"[A-Za-z0-9_%~-]+\.(1\.png|json)", name) for name in found)
    assert [one["sample_id"] for one in records(tmp_path)] == ODD_IDS
    assert all(
        len({name.partition(".")[0] for name in pair}) == 1
        for pair in zip(list(found)[::2], list(found)[1::2], strict=True)
    )


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=300), unique=True, max_size=5))
@settings(max_examples=200)
def test_stems_are_safe_distinct_and_reversible(ids: list[str]) -> None:
    stems = [stem_of(one) for one in ids]
    assert len(set(stems)) == len(ids)
    assert all(len(stem) <= STEM_CHARS and re.fullmatch(r"[A-Za-z0-9_%~-]+", stem) for stem in stems)
    # what is cut is recognised by the JSON alone
    assert all(unquote(stem) == one for stem, one in zip(stems, ids, strict=True) if one and "~" not in stem)


@pytest.mark.parametrize(
    ("kind", "extension"),
    [
        ("image/jpeg", "jpg"),
        ("image/png", "png"),
        ("image/tiff", "tif"),
        ("IMAGE/WEBP; q=1", "webp"),
        ("image/made-up", "bin"),
        (None, "bin"),
        ("text/html", "bin"),
    ],
)
def test_the_extension_goes_by_the_content_type(kind: str | None, extension: str, tmp_path: Path) -> None:
    write_rows(batch(image(0, b"data", content_type=kind)), tmp_path, to="webdataset")
    assert list(members(files(tmp_path, ".tar")[0])) == [f"s.0.{extension}", "s.json"]


def test_null_bytes_leave_no_member_but_the_name(tmp_path: Path) -> None:
    write_rows(batch(image(0), image(1, None)), tmp_path, to="webdataset")
    assert list(members(files(tmp_path, ".tar")[0])) == ["s.0.png", "s.json"]
    assert records(tmp_path)[0]["images"] == ["s.0.png", "s.1.png"]


def test_another_picture_never_stands_in_for_one_without_bytes(tmp_path: Path) -> None:
    write_rows(batch(image(0), image(1, None)), tmp_path, to="webdataset")
    rows = back(tmp_path, "webdataset")
    assert [
        (row["position"], row["modality"])
        for row in rows
        if row["binary_content"] is None and row["status"] == "ok" and row["modality"] == "image"
    ] == [(0, "image")]
    assert [row["position"] for row in rows if row["status"] == "unreadable"] == [1]


def test_fields_of_the_sample_stand_once_and_fields_of_rows_in_lists(tmp_path: Path) -> None:
    rows = (
        meta(score=3, blank=None),
        text(0, lang="de", both="t0"),
        image(1, hash="h1", both="i1"),
        text(2),
        image(3),
        image(4, hash="h4"),
    )
    written = write_rows(batch(*rows), tmp_path, to="webdataset")
    record = records(tmp_path)[0]
    assert (record["score"], record["lang"], record["hash"]) == (3, ["de", None], ["h1", None, "h4"])
    assert record["both"] == ["t0", "i1", None, None, None]
    assert "blank" not in record
    assert (written.per_image_fields, written.per_text_fields) == (("hash",), ("lang",))


def test_a_field_of_texts_and_pictures_is_read_back_as_json_on_the_metadata_row(tmp_path: Path) -> None:
    write_rows(batch(text(0, both="t"), image(1, both="i"), text(2)), tmp_path, to="webdataset")
    assert [(row["position"], row["both"]) for row in back(tmp_path, "webdataset") if row["both"]] == [
        (-1, '["t","i",null]')
    ]


def test_a_field_on_the_sample_and_on_its_rows_loses_neither(tmp_path: Path) -> None:
    written = write_rows(
        batch(meta(f="sample"), text(0, f="row"), image(0, f="picture"), text(1)), tmp_path, to="webdataset"
    )
    record = records(tmp_path)[0]
    assert (record["f"], record["f_by_position"]) == ("sample", [{"text": "row", "image": "picture"}, None])
    assert "f_by_position" in written.problems[0]


def test_a_column_with_the_name_of_a_list_hides_nothing(tmp_path: Path) -> None:
    write_rows(batch(meta(texts="column"), text(0, "words")), tmp_path, to="webdataset")
    assert (records(tmp_path)[0]["texts"], records(tmp_path)[0]["texts_"]) == (["words"], "column")


def test_sound_and_films_are_members_too(tmp_path: Path) -> None:
    write_rows(
        batch(text(0), media("audio", 1, WAV, "audio/wav"), media("video", 2, b"film", "video/mp4"), text(3)),
        tmp_path,
        to="webdataset",
    )
    assert list(members(files(tmp_path, ".tar")[0])) == ["s.1.wav", "s.2.mp4", "s.json"]
    assert (records(tmp_path)[0]["audios"], records(tmp_path)[0]["videos"]) == (
        [None, "s.1.wav", None, None],
        [None, None, "s.2.mp4", None],
    )


def test_sound_comes_back_between_the_texts_where_it_stood(tmp_path: Path) -> None:
    write_rows(
        batch(text(0, "before"), media("audio", 1, WAV, "audio/wav"), text(2, "after")), tmp_path, to="webdataset"
    )
    rows = [row for row in back(tmp_path, "webdataset") if row["position"] >= 0]
    assert [(row["position"], row["modality"]) for row in rows] == [(0, "text"), (1, "audio"), (2, "text")]


def test_two_media_of_unknown_types_at_one_position_are_two_members(tmp_path: Path) -> None:
    write_rows(batch(media("image", 0, b"i", None), media("video", 0, b"v", None)), tmp_path, to="webdataset")
    found = members(files(tmp_path, ".tar")[0])
    assert {data for name, data in found.items() if not name.endswith(".json")} == {b"i", b"v"}


def test_rows_that_a_tar_cannot_hold_are_counted(tmp_path: Path) -> None:
    written = write_rows(batch(text(0), text(-5), {**text(1), "text_content": None}), tmp_path, to="webdataset")
    assert (written.num_rows, written.dropped) == (1, {"position_below_0": 1, "text_is_null": 1})


def test_one_wrong_position_does_not_take_all_memory(tmp_path: Path) -> None:
    written = write_rows(batch(text(0, "a"), text(2_000_000_000, "b")), tmp_path, to="webdataset")
    assert records(tmp_path)[0]["texts"] == ["a", "b"]
    assert "position=2000000000" in written.problems[0]


def test_values_that_json_does_not_have_are_spelled_out(tmp_path: Path) -> None:
    import datetime
    import decimal

    fields = {
        "when": datetime.datetime(2026, 1, 2, 3, 4),
        "exact": decimal.Decimal("1.10"),
        "raw": b"\x00\xff",
        "nan": float("nan"),
        "nest": {"a": [float("inf"), 1]},
    }
    write_rows(batch(meta(**fields), text(0)), tmp_path, to="webdataset")
    record = records(tmp_path)[0]
    assert (record["when"], record["exact"], record["raw"], record["nest"]) == (
        "2026-01-02T03:04:00",
        "1.10",
        {"base64": "AP8="},
        {"a": [None, 1]},
    )
    assert "nan" not in record


def test_a_licence_goes_along(tmp_path: Path) -> None:
    write_rows(
        batch(text(0, licence="CC-BY-4.0"), image(1, licence="CC-BY-4.0"), text(0, sample="t", licence="NOASSERTION")),
        tmp_path,
        to="webdataset",
    )
    assert [one.get("licence") for one in records(tmp_path)] == ["CC-BY-4.0", None]
    assert {row["licence"] for row in back(tmp_path, "webdataset") if row["sample_id"].endswith("/s")} == {"CC-BY-4.0"}


class Sulky:
    def __ne__(self, other: object) -> bool:
        raise TypeError("not comparable")

    __hash__ = object.__hash__


def test_null_is_none_nan_and_na_but_nothing_that_cannot_be_compared() -> None:
    import pandas

    assert [is_null(value) for value in (None, float("nan"), np.float32("nan"), pandas.NA, pandas.NaT)] == [True] * 5
    assert [is_null(value) for value in (0, "", False, [], np.array([1.0, np.nan]), Sulky(), {}, "nan")] == [False] * 8


# Round trips


_READ_BY_WEBDATASET = """
import hashlib, json, sys, webdataset
samples = webdataset.WebDataset(sys.argv[1], shardshuffle=False, empty_check=False)
names = [(json.loads(sample["json"])["sample_id"], sample["1.png"]) for sample in samples]
print(json.dumps([[name, hashlib.sha256(data).hexdigest()] for name, data in names]))
"""


@pytest.mark.slow
def test_the_webdataset_library_reads_the_tars(tmp_path: Path) -> None:
    """The real library, in a process of its own, because its secure mode is read at import."""
    write_rows(batch(*sample("a.b/c"), *sample("d")), tmp_path, to="webdataset")
    command = [sys.executable, "-c", _READ_BY_WEBDATASET, str(files(tmp_path, ".tar")[0])]
    run = subprocess.run(command, env=os.environ | {"WDS_SECURE": "1"}, capture_output=True, text=True, check=True)
    assert json.loads(run.stdout) == [
        ["a.b/c", hashlib.sha256(PNG).hexdigest()],
        ["d", hashlib.sha256(PNG).hexdigest()],
    ]


def test_the_members_follow_the_convention_of_interleaved_tars(tmp_path: Path) -> None:
    """Each name in `images` is a member of the tar, texts and images are as long as one another, and never two stand
    at one position."""
    write_rows(batch(*sample("a"), *sample("b")), tmp_path, to="webdataset")
    found = members(files(tmp_path, ".tar")[0])
    for record in records(tmp_path):
        assert len(record["texts"]) == len(record["images"])
        assert all(
            (said is None) != (shown is None) for said, shown in zip(record["texts"], record["images"], strict=True)
        )
        assert all(name in found for name in record["images"] if name)


LEVELS = {"per_image_fields": ("hash",), "per_text_fields": ("lang",)}


def levels(rows: list[dict]) -> list[tuple]:
    """What must survive: by the last part of the id, position and modality: the content and the fields of each
    level."""
    names = ("text_content", "binary_content", "score", "nested", "hash", "lang")
    return sorted(
        (row["sample_id"].rpartition("/")[2], row["position"], row["modality"], *(str(row.get(name)) for name in names))
        for row in rows
    )


def interleaved() -> RowBatch:
    made = [
        (meta(name, score=number, nested='{"a":[1]}'), text(0, f"ä {number}", name, lang="de"),
        image(1, PNG, name, hash=f"h{number}"), image(2, JPEG, name, content_type="image/jpeg"), text(3, "z", name))
        for number, name in enumerate(("one", "two"))
    ]  # fmt: skip
    return batch(*(row for rows in made for row in rows))


def through(directory: Path, to: str, given: list[RowBatch]) -> list[RowBatch]:
    """The rows once they went through files of that format."""
    write_rows(given, directory, to=to)
    if to == "parquet":
        return list(read_parquet_rows([file.name for file in files(directory, ".parquet")], landing=directory))
    shards = sources.scan(directory, settings=SETTINGS)
    return list(read_rows(shards, landing=directory, settings=SETTINGS, materialize="read", **LEVELS))


@pytest.mark.parametrize(
    "order",
    [("parquet", "webdataset", "parquet"), ("webdataset", "parquet", "webdataset"), ("webdataset", "webdataset")],
    ids="-".join,
)
def test_round_trips_keep_fields_of_every_level(order: tuple[str, ...], tmp_path: Path) -> None:
    rows = [interleaved()]
    for at, to in enumerate(order):
        rows = through(tmp_path / str(at), to, rows)
    assert levels([row for one in rows for row in one.to_arrow().to_pylist()]) == levels(
        interleaved().to_arrow().to_pylist()
    )


def test_nested_fields_are_nested_again_in_the_next_tar(tmp_path: Path) -> None:
    record = {"texts": ["t"], "images": [None], "nested": {"a": [1, {"b": None}]}, "number": 2, "text": "x"}
    make.land(tmp_path / "in", {"s.tar": make.tar({"k.json": json.dumps(record).encode()})})
    rows = list(read_rows(sources.scan(tmp_path / "in", settings=SETTINGS), landing=tmp_path / "in", settings=SETTINGS))
    write_rows(through(tmp_path / "pq", "parquet", rows), tmp_path / "out", to="webdataset")
    assert {name: records(tmp_path / "out")[0][name] for name in ("nested", "number")} == {
        "nested": record["nested"],
        "number": 2,
    }


def test_the_ingest_takes_the_tars_with_every_byte_and_field(tmp_path: Path) -> None:
    write_rows(interleaved(), tmp_path / "landing", to="webdataset")
    store, shards = BlobStore(tmp_path / "blobs"), sources.scan(tmp_path / "landing", settings=SETTINGS)
    assert [shard.format for shard in shards] == ["webdataset"]
    items = {
        modality: sources.ingest(shards[0], modality, landing=tmp_path / "landing", store=store, settings=SETTINGS)
        for modality in ("text", "image")
    }
    assert items["text"]["text_content"].to_pylist() == ["ä 0", "z", "ä 1", "z"]
    assert [store.read(digest) for digest in items["image"]["digest"].to_pylist()] == [PNG, JPEG, PNG, JPEG]
    assert items["image"]["position"].to_pylist() == [1, 2, 1, 2]
    assert all(json.loads(said)["score"] in (0, 1) for said in items["text"]["metadata_json"].to_pylist())


@st.composite
def _batches(draw) -> RowBatch:
    rows = []
    for name in draw(st.lists(st.text(min_size=1, max_size=20), unique=True, min_size=1, max_size=4)):
        if draw(st.booleans()):
            rows.append(meta(name, note=draw(st.text(max_size=10))))
        kinds = draw(st.lists(st.sampled_from(["text", "image"]), min_size=1, max_size=6))
        rows += [
            text(at, draw(st.text(max_size=20)), name)
            if kind == "text"
            else image(at, draw(st.sampled_from([PNG, JPEG])), name)
            for at, kind in enumerate(kinds)
        ]
    order = draw(st.permutations(range(len(rows))))
    return batch(*(rows[at] for at in order))


@given(made=_batches())
@settings(max_examples=60)
def test_whatever_rows_go_into_a_tar_come_out_of_it(made: RowBatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = tmp_path_factory.mktemp("tar")
    write_rows(made, directory, to="webdataset")
    with tarfile.open(files(directory, ".tar")[0]) as archive:
        found = {member.name: archive.extractfile(member).read() for member in archive.getmembers()}
    back = []
    for record in (json.loads(data) for name, data in found.items() if name.endswith(".json")):
        for at, (said, shown) in enumerate(zip(record["texts"], record["images"], strict=True)):
            back += [(record["sample_id"], at, said)] if said is not None else []
            back += [(record["sample_id"], at, found[shown])] if shown is not None else []
    given_rows = [
        (
            row["sample_id"],
            row["position"],
            row["text_content"] if row["modality"] == "text" else row.get("binary_content"),
        )
        for row in made.to_arrow().to_pylist()
    ]
    assert sorted(back, key=str) == sorted((row for row in given_rows if row[1] >= 0), key=str)
    assert layout(made)


@pytest.mark.parametrize("name", ["caption", "text", "transcript", "captions", "messages", "prompt"])
def test_a_column_that_is_called_like_a_text_stays_a_column(name: str, tmp_path: Path) -> None:
    write_rows(batch(*sample(**{name: "said of the sample"})), tmp_path, to="webdataset")
    rows = back(tmp_path, "webdataset")
    assert [(row["position"], row["modality"], row[name]) for row in rows] == [
        (-1, "metadata", "said of the sample"),
        (0, "text", None),
        (1, "image", None),
        (2, "text", None),
    ]


@pytest.mark.parametrize("words", ["a\x1b$Bb", "\ufeffmarked", "a\0b\0c\0d\0", "\r\n\t "])
def test_a_text_that_resembles_another_encoding_comes_back_as_it_was(words: str, tmp_path: Path) -> None:
    write_rows(batch(text(0, words), image(1)), tmp_path, to="webdataset")
    assert [row["text_content"] for row in back(tmp_path, "webdataset") if row["modality"] == "text"] == [words]


def test_columns_that_are_called_like_lists_are_recognised_by_their_names_in_the_tar(tmp_path: Path) -> None:
    written = write_rows(
        batch(text(0, audios="t", audios_="u"), image(1, videos="i"), text(2)), tmp_path, to="webdataset"
    )
    assert (written.per_text_fields, written.per_image_fields) == (("audios_", "audios__"), ("videos_",))
    assert (records(tmp_path)[0]["audios_"], records(tmp_path)[0]["audios__"], records(tmp_path)[0]["videos_"]) == (
        ["t", None],
        ["u", None],
        ["i"],
    )

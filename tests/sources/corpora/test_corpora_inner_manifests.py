"""Manifests and lists that lie in one archive with the media that they name: the rows are those of the unpacked
directory, whatever the file is called."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mmlake import sources
from mmlake.records import SourceRef
from mmlake.sources.shard import limited
from tests.sources.corpora.test_corpora_packed import PACKED, said, zipped
from tests.sources.source_builders import SETTINGS, jsonl, land, png, rows_of, tar, wav

WORDS = ["A red boat on a lake", "Two dogs play in the snow", "An old church with a tower", "A bowl of fruit"]
PICTURES = {f"images/p{at}.png": png(at) for at in range(3)}
RECORDINGS = {f"wavs/w{at}.wav": wav(at) for at in range(3)}


def _lines(form: str) -> bytes:
    """A line for each of three media, and of one that is missing."""
    return "".join(form.format(at=at, words=words) for at, words in enumerate(WORDS)).encode()


def _llava(at: int) -> dict:
    said = [{"from": "human", "value": "<image>\nWhat is it?"}, {"from": "gpt", "value": WORDS[at]}]
    return {"id": str(at), "image": f"p{at}.png", "conversations": said}


CORPORA: dict[str, dict[str, bytes]] = {
    "separated values, names alone": PICTURES | {"captions.csv": b"image,caption\n" + _lines("p{at}.png,{words}\n")},
    "separated values, paths": PICTURES
    | {"train.csv": b"filepath,label,caption\n" + _lines("images/p{at}.png,x,{words}\n")},
    "JSON lines": PICTURES
    | {"data.jsonl": jsonl(*({"image": f"images/p{at}.png", "caption": one} for at, one in enumerate(WORDS)))},
    "a list of dialogues": PICTURES | {"llava.json": json.dumps([_llava(at) for at in range(4)]).encode()},
    "one object by names": PICTURES
    | {"captions.json": json.dumps({f"p{at}.png": WORDS[at] for at in (0, 1, 2)}).encode()},
    "numbered captions": PICTURES | {"results.token": _lines("p{at}.png#0\t{words}\n")},
    "a list of recordings": RECORDINGS | {"filelists/train.txt": _lines("wavs/w{at}.wav|{words}\n")},
    "a folder around all": {f"all/{name}": data for name, data in PICTURES.items()}
    | {"all/captions.csv": b"image,caption\n" + _lines("images/p{at}.png,{words}\n")},
    "a manifest and a table by its name": PICTURES
    | {
        "images/metadata.csv": b"file_name,text\np0.png,Of the table\n",
        "more.csv": b"image,caption\nimages/p1.png,Of the manifest\n",
    },
}  # fmt: skip


def _compared(rows: list[dict], home: str) -> list[tuple]:
    """What rows say; why a file is missing is said in fewer words where all names are known."""
    return [(*row[:-1], row[-1].partition(" is missing")[0]) for row in said(rows, home)]


@pytest.mark.parametrize("name", PACKED)
@pytest.mark.parametrize("corpus", CORPORA)
def test_a_packed_manifest_gives_the_rows_of_the_unpacked_one(tmp_path: Path, corpus: str, name: str) -> None:
    files = {f"of/{path}": data for path, data in CORPORA[corpus].items()}
    loose = _compared(rows_of(land(tmp_path / "loose" / "in", files)), "")
    root = land(tmp_path / "packed" / "in", {name: PACKED[name](files)})
    packed = rows_of(root)
    assert _compared(packed, f"{name}/") == loose
    assert sum(bool(row["sample_text"]) for row in packed) >= 2, "media have their words"
    for row in packed:
        if row["role"] in ("caption", "transcript") and row["digest"]:
            found = sources.fetch(SourceRef.from_json(row["source_ref"]), landing=root)
            assert found.decode() == row["text_content"], "a locator leads to the words"


def test_a_table_that_names_no_member_stays_what_it_was(tmp_path: Path) -> None:
    table = b"image,caption\n" + _lines("q{at}.png,{words}\n")
    rows = rows_of(land(tmp_path / "in", {"x.zip": zipped(PICTURES | {"notes.csv": table})}))
    assert [row["text_content"] for row in rows if row["modality"] == "text"] == WORDS
    assert not [row for row in rows if row["error_code"] or row["sample_text"]]


def test_a_record_next_to_its_medium_is_of_that_alone(tmp_path: Path) -> None:
    """The samples of WebDataset have a JSON object each, which may name another sample's picture."""
    said = ({"caption": WORDS[at], "image": f"{(at + 1) % 3}.png"} for at in range(3))
    files = {f"{at}.json": json.dumps(one).encode() for at, one in enumerate(said)}
    files |= {f"{at}.png": png(at) for at in range(3)}
    rows = rows_of(land(tmp_path / "in", {"x.tar": tar(files)}))
    assert [row["sample_text"] for row in rows if row["modality"] == "image"] == WORDS[:3]


@pytest.mark.parametrize(("num_files", "is_joined"), [(64, True), (65, False)])
def test_more_files_than_an_archive_has_manifests_are_its_samples(
    tmp_path: Path, num_files: int, is_joined: bool
) -> None:
    others = {f"{at}.csv": b"name,text\na,Some words\n" for at in range(num_files - 1)}
    files = PICTURES | others | {"captions.csv": b"image,caption\np0.png,A boat\n"}
    rows = rows_of(land(tmp_path / "in", {"x.zip": zipped(files)}))
    assert ("A boat" in {row["sample_text"] for row in rows}) is is_joined
    assert sum(row["text_content"] == "A boat" for row in rows) == 1, "nothing is lost"


def test_a_table_by_its_name_counts_among_any_number_of_texts(tmp_path: Path) -> None:
    texts = {f"about/{at}.txt": b"Some words about a place" for at in range(200)}
    files = PICTURES | texts | {"captions.txt": b"image,caption\np0.png,A boat\n"}
    rows = rows_of(land(tmp_path / "in", {"x.zip": zipped(files)}))
    assert "A boat" in {row["sample_text"] for row in rows}


def test_under_a_limit_nothing_is_said_of_media_that_were_not_listed(tmp_path: Path) -> None:
    files = {"captions.csv": b"image,caption\n" + b"".join(b"%05d.png,Number %d\n" % (at, at) for at in range(500))}
    files |= {f"{at:05}.png": png(at % 50) for at in range(500)}
    root = land(tmp_path / "in", {"x.tar": tar(files)})
    (shard,) = sources.scan(root, settings=SETTINGS)
    rows = list(sources.read(limited(shard, 3), landing=root, settings=SETTINGS))
    assert not [row for row in rows if row.fault]
    assert {row.sample_id for row in rows} == {f"x.tar/{at:05}" for at in range(3)}


def test_a_manifest_that_breaks_is_rows_and_no_picture_is_lost(tmp_path: Path) -> None:
    table = b"image,caption\np0.png,fine\np1.png,\xff\xfe\np2.png,fine too\n"
    rows = rows_of(land(tmp_path / "in", {"x.zip": zipped(PICTURES | {"captions.csv": table})}))
    assert [row["error_code"] for row in rows if row["error_code"]] == [1004]
    assert sorted(row["sample_text"] or "" for row in rows if row["modality"] == "image") == ["", "fine", "fine too"]

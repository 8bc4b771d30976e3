"""Manifests, tables and lists that lie next to the archive with the media that they name, or above it: the rows are
those of the unpacked directory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mmlake import sources
from mmlake.records import SourceRef
from mmlake.sources.shard import limited
from tests.sources.corpora.test_corpora_packed import PACKED, zipped
from tests.sources.source_builders import SETTINGS, jsonl, land, png, rows_of, tar, wav

WORDS = ["A red boat on a lake", "Two dogs play in the snow", "An old church with a tower", "A bowl of fruit"]
FLAT = {f"p{at}.png": png(at) for at in range(3)}
SOUNDS = {f"w{at}.wav": wav(at) for at in range(3)}


def _lines(form: str) -> bytes:
    """A line for each of three media, and of one that is missing."""
    return "".join(form.format(at=at, words=words) for at, words in enumerate(WORDS)).encode()


def _below(folder: str, files: dict[str, bytes]) -> dict[str, bytes]:
    return {f"{folder}/{name}": data for name, data in files.items()}


def _llava(path: str) -> bytes:
    turns = ([{"from": "human", "value": "<image>\nWhat is it?"}, {"from": "gpt", "value": one}] for one in WORDS)
    return json.dumps([{"image": path.format(at=at), "conversations": one} for at, one in enumerate(turns)]).encode()


# name -> (the file of records, its bytes; where the archive lies without its extension, its members)
LAYOUTS: dict[str, tuple[str, bytes, str, dict[str, bytes]]] = {
    "LLaVA-Pretrain": ("blip.json", _llava("00/p{at}.png"), "images", _below("00", FLAT)),
    "LLaVA-Instruct": ("mix.json", _llava("coco/train2017/p{at}.png"), "coco/train2017", _below("train2017", FLAT)),
    "ShareGPT4V": ("share.json", _llava("sam/images/p{at}.png"), "sam/images", FLAT),
    "a table": ("captions.csv", b"image,caption\n" + _lines("p{at}.png,{words}\n"), "images", FLAT),
    "paths that the archive lacks": (
        "train.csv",
        b"image,caption\n" + _lines("images/p{at}.png,{words}\n"),
        "data",
        FLAT,
    ),
    "a table by its name": ("metadata.csv", b"file_name,text\n" + _lines("p{at}.png,{words}\n"), "pictures", FLAT),
    "JSON lines": (
        "train.jsonl",
        jsonl(*({"audio": f"audio/w{at}.wav", "text": one} for at, one in enumerate(WORDS))),
        "audio/train",
        SOUNDS,
    ),
    "FLEURS": (
        "train.tsv",
        _lines("90{at}\tw{at}.wav\t{words}\tmale\n"),
        "audio/train",
        _below("train", SOUNDS),
    ),
    "ids": (
        "train.txt",
        _lines("rec000{at} {words}\n"),
        "wav/train",
        {f"rec000{at}.wav": wav(at) for at in range(3)},
    ),
    "an object": ("captions.json", json.dumps({f"p{at}.png": WORDS[at] for at in range(4)}).encode(), "images", FLAT),
}  # fmt: skip


@pytest.mark.parametrize("ending", [".zip", ".tar", ".tar.gz"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_members_have_the_words_that_a_file_next_to_their_archive_says(
    tmp_path: Path, layout: str, ending: str
) -> None:
    name, records, archive, members = LAYOUTS[layout]
    root = land(tmp_path / "in", {name: records, f"{archive}{ending}": PACKED[f"x{ending}"](members)})
    rows = rows_of(root)
    media = [row for row in rows if row["role"] == "media"]
    assert all(words in row["sample_text"] for words, row in zip(WORDS[:3], media, strict=True))
    (missing,) = [row for row in rows if row["error_code"]]
    assert missing["error_code"] == 1011 and f'"path":"{name}"' in missing["source_ref"]
    for row in rows:
        if row["role"] in ("caption", "transcript") and row["digest"]:
            found = sources.fetch(SourceRef.from_json(row["source_ref"]), landing=root)
            assert found.decode() == row["text_content"], "a locator leads to the words"


def _captions(*names: str, words: str = "Of") -> bytes:
    return b"image,caption\n" + "".join(f"{name},{words} {name[:-4]}\n" for name in names).encode()


def _said(root: Path) -> dict[str, str | None]:
    """Locator of a medium -> its words."""
    return {row["source_ref"]: row["sample_text"] for row in rows_of(root) if row["role"] == "media"}


def _faults(root: Path) -> list[int]:
    return [row["error_code"] for row in rows_of(root) if row["error_code"]]


def test_parts_of_one_set_are_named_as_one(tmp_path: Path) -> None:
    files = {f"images_{at}.zip": zipped({f"p{at}.png": png(at)}) for at in range(3)}
    root = land(tmp_path / "in", files | {"captions.csv": _captions("p0.png", "p1.png", "p2.png")})
    assert set(_said(root).values()) == {"Of p0", "Of p1", "Of p2"} and not _faults(root)


def test_of_two_archives_with_the_same_names_none_is_guessed(tmp_path: Path) -> None:
    files = {"left.zip": zipped(FLAT), "right.zip": zipped(FLAT), "captions.csv": _captions("p0.png", "p1.png")}
    root = land(tmp_path / "in", files)
    assert set(_said(root).values()) == {None}
    assert [row["text_content"] for row in rows_of(root) if row["modality"] == "text"] == ["Of p0", "Of p1"]


def test_the_directory_of_a_record_says_which_archive_is_meant(tmp_path: Path) -> None:
    files = {"left.zip": zipped(FLAT), "right.zip": zipped(FLAT), "captions.csv": _captions("left/p0.png")}
    said = _said(land(tmp_path / "in", files))
    assert [words for ref, words in said.items() if "left" in ref] == ["Of left/p0", None, None]
    assert {words for ref, words in said.items() if "right" in ref} == {None}


def test_images_are_described_and_what_else_has_their_names_is_not(tmp_path: Path) -> None:
    files = {"images.zip": zipped(FLAT), "masks.zip": zipped(FLAT), "captions.csv": _captions("p0.png")}
    said = _said(land(tmp_path / "in", files))
    assert [ref.partition(".zip")[0].rpartition('"')[2] for ref, words in said.items() if words] == ["images"]


def test_a_table_of_one_split_describes_that_split(tmp_path: Path) -> None:
    files = {f"{split}.zip": zipped(FLAT) for split in ("train", "val")}
    files |= {f"{split}.csv": _captions("p0.png", words=split) for split in ("train", "val")}
    said = _said(land(tmp_path / "in", files))
    assert sorted(filter(None, said.values())) == ["train p0", "val p0"]
    assert all(f'{words.split()[0]}.zip"' in ref for ref, words in said.items() if words)


def test_what_an_archive_holds_and_what_is_said_of_it_may_come_in_any_order(tmp_path: Path) -> None:
    root = land(tmp_path / "in", {"captions.csv": _captions("p0.png", "p1.png", "p2.png")})
    before = {shard.key: shard for shard in sources.scan(root, settings=SETTINGS)}
    assert len([row for row in rows_of(root) if row["modality"] == "text"]) == 3
    land(root, {"images.tar": tar({"p0.png": png(0)})})
    after = {shard.key: shard for shard in sources.scan(root, settings=SETTINGS, known=before)}
    assert before["captions.csv"].revision != after["captions.csv"].revision, "its rows are others"
    assert after["images.tar"].modalities == ("text", "image")
    assert set(_said(root).values()) == {"Of p0"} and _faults(root) == [1011, 1011]
    land(root, {"captions.csv": _captions("p0.png", words="Now of")})
    last = {shard.key: shard for shard in sources.scan(root, settings=SETTINGS, known=after)}
    assert after["images.tar"].revision != last["images.tar"].revision
    assert set(_said(root).values()) == {"Now of p0"} and not _faults(root)
    assert list(last.values()) == sources.scan(root, settings=SETTINGS, known=last), "nothing changed, nothing is read"


def test_a_table_that_names_no_member_stays_a_table(tmp_path: Path) -> None:
    root = land(tmp_path / "in", {"x.tar": tar(FLAT), "notes.csv": _captions("q0.png", "q1.png")})
    shards = {shard.key: shard.modalities for shard in sources.scan(root, settings=SETTINGS)}
    assert shards == {"x.tar": ("image",), "notes.csv": ("text",)}
    assert [row["text_content"] for row in rows_of(root) if row["modality"] == "text"] == ["Of q0", "Of q1"]


def test_of_two_tables_the_nearer_one_counts(tmp_path: Path) -> None:
    table = b"file_name,text\np0.png,%s\n"
    files = {"metadata.csv": table % b"far", "in/metadata.csv": table % b"near", "in/x.zip": zipped(FLAT)}
    said = _said(land(tmp_path / "in", files))
    assert list(said.values()) == ["near", None, None]


def test_under_a_limit_members_have_their_words(tmp_path: Path) -> None:
    files = {"x.tar": tar({f"{at:05}.png": png(at % 50) for at in range(500)})}
    root = land(tmp_path / "in", files | {"captions.csv": _captions(*(f"{at:05}.png" for at in range(500)))})
    shard = next(shard for shard in sources.scan(root, settings=SETTINGS) if shard.key == "x.tar")
    rows = list(sources.read(limited(shard, 3), landing=root, settings=SETTINGS))
    assert [row.content.read().decode() for row in rows if row.role == "caption"] == [f"Of {at:05}" for at in range(3)]


def test_a_broken_archive_has_its_rows_and_loses_no_words(tmp_path: Path) -> None:
    packed = tar({f"{at}.png": png(at) for at in range(9)})[:4000]
    root = land(tmp_path / "in", {"x.tar": packed, "captions.csv": _captions(*(f"{at}.png" for at in range(9)))})
    rows = rows_of(root)
    words = {row["text_content"] for row in rows if row["role"] == "caption" and row["text_content"]}
    lost = [row for row in rows if row["error_code"] == 1011]
    assert len(words) + len(lost) == 9

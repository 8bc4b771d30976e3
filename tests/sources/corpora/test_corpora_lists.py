"""Lists of media and words without a line of names, as recipes for speech and Flickr's captions are kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mmlake import sources
from tests.sources.source_builders import SETTINGS, gz, land, png, rows_of, wav

SAID = ["Good morning.", "Good night, all."]


def words_of(rows: list[dict]) -> list[str | None]:
    return [row["sample_text"] for row in rows if row["modality"] in ("image", "audio")]


def documents(rows: list[dict]) -> list[tuple[str, int | None]]:
    return [(row["role"], row["error_code"]) for row in rows if row["modality"] == "text"]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("train.txt", "wavs/{}.wav|{}"),  # Tacotron, VITS
        ("train.txt", "wavs/{}.wav|0|{}"),  # of several voices
        ("train.list", "wavs/{}.wav|anna|EN|{}"),  # GPT-SoVITS
        ("transcript.txt", "wavs/{}.wav|{}|good thing|2.5"),  # CSS10
        ("train.tsv", "7\t{}.wav\t{}\tgood thing\tg o o d | t\t9600\tMALE"),  # FLEURS
        ("train.csv", "wavs/{}.wav|{}"),
        ("train.txt", "{}.wav\t{}"),
        ("train.txt", "wavs\\{}.wav\t{}\r"),
        ("\u00fcbung.txt", "wavs/{}.wav|{}"),
    ],
)
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_recordings_get_the_words_behind_their_names(tmp_path: Path, name: str, line: str, mark: str) -> None:
    """The list was a document, and the recordings had no words."""
    lines = "".join(line.format(stem, words) + "\n" for stem, words in zip("ab", SAID, strict=True))
    rows = rows_of(land(tmp_path / "in", {name: (mark + lines).encode(), "wavs/a.wav": wav(), "wavs/b.wav": wav(9)}))
    assert words_of(rows) == SAID
    assert documents(rows) == [("transcript", None)] * 2


def test_the_other_cells_are_metadata_by_their_places(tmp_path: Path) -> None:
    rows = rows_of(land(tmp_path / "in", {"a.list": b"wavs/a.wav|anna|EN|Good morning.\n", "wavs/a.wav": wav()}))
    (sound,) = [row for row in rows if row["modality"] == "audio"]
    assert json.loads(sound["metadata_json"]) == {"column_2": "anna", "column_3": "EN"}


@pytest.mark.parametrize("folder", ["Flicker8k_Dataset/", "flickr30k-images/", "images/", ""])
@pytest.mark.parametrize("name", ["Flickr8k.token.txt", "results_20130124.token", "captions.txt"])
def test_all_captions_of_flickrs_lists_are_of_their_picture(tmp_path: Path, folder: str, name: str) -> None:
    lines = b"a.png#0\tTwo dogs play .\na.png#1\tDogs in the snow .\nb.png#0\tA cat .\n"
    rows = rows_of(land(tmp_path / "in", {name: lines, f"{folder}a.png": png(1), f"{folder}b.png": png(2)}))
    assert words_of(rows) == ["Two dogs play .\nDogs in the snow .", "A cat ."]


def test_flickr30k_in_one_table_has_comments(tmp_path: Path) -> None:
    table = b"image_name| comment_number| comment\na.png| 0| Two dogs play .\na.png| 1| Dogs .\n"
    rows = rows_of(land(tmp_path / "in", {"results.csv": table, "flickr30k_images/a.png": png()}))
    assert [words.split() for words in words_of(rows)[0].split("\n")] == [["Two", "dogs", "play", "."], ["Dogs", "."]]


@pytest.mark.parametrize(
    "line",
    [
        "wavs/{}.wav|3",  # a label
        "wavs/{}.wav|dog",
        "wavs/{}.wav 3",  # UCF-101 and ImageNet
        "{}|Good morning.",  # names without an extension: any text with bars may have them
        "wavs/{}.wav",
        "Good morning.|wavs/{}.wav",
        "gone/{}.wav|Good morning.",
        "/wavs/{}.wav|Good morning.",
        "../in/wavs/{}.wav|Good morning.",
        "https://a.example/{}.wav|Good morning.",
    ],
)
def test_what_says_nothing_of_files_that_are_there_is_a_document(tmp_path: Path, line: str) -> None:
    lines = "".join(line.format(stem) + "\n" for stem in "ab").encode()
    rows = rows_of(land(tmp_path / "in", {"train.txt": lines, "wavs/a.wav": wav(), "wavs/b.wav": wav(9)}))
    assert words_of(rows) == [None, None]
    assert documents(rows) == [("document", None)]


def test_a_text_with_one_such_line_is_a_document(tmp_path: Path) -> None:
    lines = b"wavs/a.wav|Good morning.\nThis is how lists of recordings look.\n"
    assert documents(rows_of(land(tmp_path / "in", {"a.txt": lines, "wavs/a.wav": wav()}))) == [("document", None)]


@pytest.mark.parametrize("name", ["CREDITS.txt", "licenses.txt", "Attribution.list", "sound_authors.txt"])
def test_who_made_a_file_is_not_said_in_it(tmp_path: Path, name: str) -> None:
    rows = rows_of(land(tmp_path / "in", {name: b"a.wav|CC BY 3.0|John Smith\n", "a.wav": wav()}))
    assert (words_of(rows), documents(rows)) == ([None], [("document", None)])


def test_a_text_next_to_its_medium_stays_its_text(tmp_path: Path) -> None:
    rows = rows_of(land(tmp_path / "in", {"a.txt": b"In this text a.wav is no name.\n", "a.wav": wav()}))
    assert words_of(rows) == ["In this text a.wav is no name.\n"]


def test_lines_whose_file_is_missing_or_that_are_cut_are_rows(tmp_path: Path) -> None:
    lines = b"wavs/a.wav|Good morning.\nwavs/gone.wav|Good night.\n" + b"wavs/a.wav|Yes, all.\n" * 15 + b"wavs/a.wav\n"
    rows = rows_of(land(tmp_path / "in", {"train.txt": lines, "wavs/a.wav": wav()}))
    assert [code for _, code in documents(rows) if code is not None] == [1011, 1003]


def test_a_directory_of_very_many_texts_has_no_lists(tmp_path: Path) -> None:
    files = {f"{at}.txt": b"a.wav|Good morning.\n" for at in range(65)}
    assert words_of(rows_of(land(tmp_path / "in", {**files, "a.wav": wav()}))) == [None]


def test_a_list_in_gzip_is_a_list(tmp_path: Path) -> None:
    rows = rows_of(land(tmp_path / "in", {"train.txt.gz": gz(b"a.wav|Good morning.\n"), "a.wav": wav()}))
    assert words_of(rows) == ["Good morning."]


def test_thousands_of_captions_leave_tables_what_they_are(tmp_path: Path) -> None:
    """Captions next to their pictures are no lists, and do not count as such."""
    captions = {f"{at}.{end}": data for at in range(70) for end, data in (("png", png(at)), ("txt", b"a dog"))}
    files = {**captions, "z.png": png(99), "all.txt": b"z.png\tTwo dogs play.\n"}
    assert words_of(rows_of(land(tmp_path / "in", files)))[-1] == "Two dogs play."


def test_a_list_that_lands_before_its_media_describes_them(tmp_path: Path) -> None:
    """Programs that copy go by names: `train.txt` comes before `wavs`, and does not change when that comes."""
    root = land(tmp_path / "in", {"train.txt": b"wavs/a.wav|Good morning.\n"})
    before = sources.scan(root, settings=SETTINGS)
    assert documents(rows_of(root)) == [("document", None)]
    land(root, {"wavs/a.wav": wav()})
    after = sources.scan(root, settings=SETTINGS, known={shard.key: shard for shard in before})
    assert [(shard.key, shard.modalities) for shard in after] == [("train.txt", ("text",)), ("wavs", ("text", "audio"))]
    assert after[0].revision != before[0].revision
    assert words_of(rows_of(root)) == ["Good morning."]

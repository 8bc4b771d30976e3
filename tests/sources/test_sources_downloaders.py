"""Files as the programs write them that fetch corpora: video2dataset, yt-dlp, and the scripts that caption."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from source_builders import land, png, rows_of, tar, wav

CAPTION = "A man gives a talk."


def in_tar(files: dict[str, bytes]) -> dict[str, bytes]:
    return {"00000.tar": tar(files)}


def texts_of(rows: list[dict]) -> list[tuple[str, str | None]]:
    """(role, error) of the texts, in order."""
    return [(row["role"], row["error_code"]) for row in rows if row["modality"] == "text"]


@pytest.mark.parametrize("pack", [in_tar, dict], ids=["tar", "folder"])
@pytest.mark.parametrize("written", [CAPTION, f"\ufeff{CAPTION}\r\n"])
def test_a_caption_that_is_written_twice_is_no_transcript(tmp_path: Path, pack, written: str) -> None:
    """video2dataset writes the caption of a film into its record and into a text; the text was what is said in it."""
    record = json.dumps({"caption": CAPTION, "url": "https://a.example/1"}).encode()
    files = {"0_0.json": record, "0_0.wav": wav(), "0_0.txt": written.encode()}
    rows = rows_of(land(tmp_path / "in", pack(files)))
    (sound,) = [row for row in rows if row["modality"] == "audio"]
    assert {role for role, _ in texts_of(rows)} == {"caption"}
    assert (sound["sample_text"].partition("\n")[0], sound["sample_text_role"]) == (CAPTION, "caption")


@pytest.mark.parametrize("said", [f"{CAPTION} Hello.", "A man", ""])
def test_another_text_than_the_caption_stays_the_transcript(tmp_path: Path, said: str) -> None:
    files = {"a.json": json.dumps({"caption": CAPTION}).encode(), "a.wav": wav(), "a.txt": said.encode()}
    rows = rows_of(land(tmp_path / "in", files))
    assert [role for role, _ in texts_of(rows)] == ["caption", "transcript"]


@pytest.mark.parametrize("ending", ["caption", "captions", "cap", "tags", "wd14cap"])
def test_what_is_called_a_caption_is_one_of_a_film_too(tmp_path: Path, ending: str) -> None:
    rows = rows_of(land(tmp_path / "in", {"a.wav": wav(), f"a.{ending}": b"A woman is running."}))
    (sound,) = [row for row in rows if row["modality"] == "audio"]
    assert texts_of(rows) == [("caption", None)]
    assert (sound["sample_text"], sound["sample_text_role"]) == ("A woman is running.", "caption")


def test_captions_with_times_are_what_is_said(tmp_path: Path) -> None:
    cues = b"WEBVTT\n\n00:00:00.000 --> 00:00:01.000\nHello.\n"
    assert texts_of(rows_of(land(tmp_path / "in", {"a.wav": wav(), "a.caption": cues}))) == [("transcript", None)]


def test_a_chat_next_to_a_film_is_one_row(tmp_path: Path) -> None:
    """Each of its events was a record without a text: a stream has up to 100,000 of them."""
    event = json.dumps({"replayChatItemAction": {"videoOffsetTimeMsec": "0"}}).encode() + b"\n"
    rows = rows_of(land(tmp_path / "in", {"a.wav": wav(), "a.live_chat.json": event * 3}))
    assert texts_of(rows) == [("document", 1005)]
    assert "--sub-langs all,-live_chat" in next(row["materialize_error"] for row in rows if row["error_code"])


def test_a_description_is_said_of_its_film(tmp_path: Path) -> None:
    """It was a document of its own, next to the film's record that has the same words."""
    rows = rows_of(land(tmp_path / "in", {"a [x1].wav": wav(), "a [x1].description": b"Filmed in a zoo.\n"}))
    (row,) = rows
    assert json.loads(row["metadata_json"]) == {"description": "Filmed in a zoo."}
    assert row["sample_text"] is None


def test_metadata_in_a_text_are_no_transcript(tmp_path: Path) -> None:
    """ST-CMDS has both; the first by name was what the speaker says."""
    files = {"a.wav": wav(), "a.metadata": b"Collection ID:1\nSEX:M\n", "a.txt": "他们走到四楼".encode()}
    rows = rows_of(land(tmp_path / "in", files))
    (sound,) = [row for row in rows if row["modality"] == "audio"]
    assert sound["sample_text"] == "他们走到四楼"
    assert json.loads(sound["metadata_json"]) == {"metadata": "Collection ID:1\nSEX:M"}


def test_what_downloaders_note_of_unfinished_files_is_left_out(tmp_path: Path) -> None:
    (row,) = rows_of(land(tmp_path / "in", {"a.png": png(), "b.webm.ytdl": b"{}", "b.zip.aria2": b"\0\1"}))
    assert row["modality"] == "image"

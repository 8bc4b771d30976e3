"""Texts next to a medium that programs read (phones, landmarks, places of letters) are fields, no captions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from source_builders import land, png, rows_of, tar, wav

PHONES, WORDS, MARKS = b"0 3050 h#\n3050 4559 sh\n", b"3050 5723 she\n", b"version: 1\nn_points: 2\n{\n1.5 2\n3 4\n}\n"


@pytest.mark.parametrize("pack", [lambda files: {"s.tar": tar(files)}, lambda files: files], ids=["tar", "folder"])
def test_a_transcript_is_what_was_said_and_not_its_phones(tmp_path: Path, pack) -> None:
    """The first text by name was the phones."""
    files = {"SA1.WAV": wav(), "SA1.PHN": PHONES, "SA1.TXT": b"She had your dark suit.", "SA1.WRD": WORDS}
    rows = rows_of(land(tmp_path / "in", pack(files)))
    text, sound = sorted(rows, key=lambda row: row["modality"], reverse=True)
    assert (sound["modality"], sound["sample_text"], text["role"]) == ("audio", "She had your dark suit.", "transcript")
    assert json.loads(sound["metadata_json"]) == {"phn": PHONES.decode().strip(), "wrd": WORDS.decode().strip()}


def test_a_picture_with_landmarks_alone_has_no_caption(tmp_path: Path) -> None:
    (row,) = rows_of(land(tmp_path / "in", {"a.png": png(), "a.pts": MARKS}))
    assert (row["modality"], row["sample_text"]) == ("image", None)
    assert json.loads(row["metadata_json"]) == {"pts": MARKS.decode().strip()}


def test_without_a_medium_it_is_a_document_as_any_text(tmp_path: Path) -> None:
    rows = rows_of(land(tmp_path / "in", {"a.log": b"It began to rain.", "b.yaml": b"a: 1"}))
    assert [(row["role"], row["status"]) for row in rows] == [("document", "ok")] * 2


def test_one_that_is_too_large_is_a_row_that_says_so(tmp_path: Path) -> None:
    rows = rows_of(land(tmp_path / "in", {"a.png": png(), "a.box": b"A 1 2 3 4 0\n" * 6000}))
    assert sorted(row["error_code"] or 0 for row in rows) == [0, 1008]
    assert all(row["sample_text"] is None for row in rows)


RTTM, FRAMES = b"SPEAKER talk 1 0.1 1.5 <NA> <NA> A <NA> <NA>\n", b"0 1000000 sil\n1000000 2500000 ax\n"


CUES = b'FILE "a.wav" WAVE\n  TRACK 01 AUDIO\n'
TRACK = b'<?xml version="1.0"?>\n<gpx version="1.1"><trk/></gpx>'


@pytest.mark.parametrize(
    ("ending", "data"),
    [
        ("rttm", RTTM),
        ("lab", FRAMES),
        ("PitchTier", b"File type = 1\n"),
        ("DurationTier", b"File type = 1\n"),
        ("PointProcess", b"File type = 1\n"),
        ("cue", CUES),
        ("gpx", TRACK),
        ("xml", TRACK),
        ("geojson", b'{"type": "Feature"}'),
    ],
)
def test_what_programs_write_next_to_a_recording_is_no_transcript(tmp_path: Path, ending: str, data: bytes) -> None:
    (row,) = rows_of(land(tmp_path / "in", {"a.wav": wav(), f"a.{ending}": data}))
    assert (row["modality"], row["sample_text"]) == ("audio", None)
    assert json.loads(row["metadata_json"]) == {ending.lower(): data.decode().strip()}


def test_labels_that_are_words_are_a_transcript(tmp_path: Path) -> None:
    """As the Montreal Forced Aligner takes them."""
    rows = rows_of(land(tmp_path / "in", {"a.wav": wav(), "a.lab": b"he began 20 years ago"}))
    assert [row["sample_text"] for row in rows if row["modality"] == "audio"] == ["he began 20 years ago"]


def test_edits_of_a_telephone_are_no_caption(tmp_path: Path) -> None:
    plist = b'<?xml version="1.0"?>\n<!DOCTYPE plist PUBLIC "a" "b">\n<plist><dict/></plist>'
    (row,) = rows_of(land(tmp_path / "in", {"IMG_1.png": png(), "IMG_1.AAE": plist}))
    assert (row["modality"], row["sample_text"]) == ("image", None)


def test_what_is_said_in_a_film_is_no_caption_of_its_picture(tmp_path: Path) -> None:
    """Words without times are: they were written of both."""
    timed = b"WEBVTT\n\n00:00:00.000 --> 00:00:01.000\nHello.\n"
    rows = rows_of(land(tmp_path / "in", {"a.png": png(), "a.wav": wav(), "a.vtt": timed}))
    assert {row["modality"]: row["sample_text"] for row in rows if row["role"] == "media"} == {
        "image": None,
        "audio": timed.decode(),
    }
    rows = rows_of(land(tmp_path / "in2", {"a.png": png(), "a.wav": wav(), "a.txt": b"A bell."}))
    assert {row["sample_text"] for row in rows if row["role"] == "media"} == {"A bell."}


@pytest.mark.parametrize("ending", ["json", "supplemental-metadata.json", "supplemental-met.json"])
def test_what_google_takeout_says_of_a_picture_is_its_metadata(tmp_path: Path, ending: str) -> None:
    files = {"IMG_1.png": png(), f"IMG_1.png.{ending}": json.dumps({"title": "IMG_1.png"}).encode()}
    (row,) = rows_of(land(tmp_path / "in", files))
    assert (row["status"], json.loads(row["metadata_json"])) == ("ok", {"title": "IMG_1.png"})


def test_a_chapter_next_to_a_picture_is_no_note_on_it(tmp_path: Path) -> None:
    """What is as long as that is a text, as it was."""
    chapter = b'<?xml version="1.0"?>\n<chapter>' + b"<para>It rained.</para>" * 4_000 + b"</chapter>"
    rows = rows_of(land(tmp_path / "in", {"intro.png": png(), "intro.docbook": chapter}))
    assert sorted((row["modality"], row["status"]) for row in rows) == [("image", "ok"), ("text", "ok")]

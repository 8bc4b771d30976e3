"""JSON objects that are keyed by media or list what is said of them, and records that name media by ids."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from tests.sources.source_builders import SETTINGS, jsonl, land, mp4, png, rows_of, wav

ONE, TWO, THREE = "A dog plays.", "A cat sleeps.", "Two birds."
VIDEOS = {"clips/x/video0.mp4": mp4(b"vide"), "clips/x/video1.mp4": mp4(b"vide") + b"\0" * 9}
PICTURES = {"a/000041.png": png(1), "a/000042.png": png(2)}
KARPATHY = [
    {"filename": name, "split": "val", "sentences": [{"raw": words, "tokens": ["a"]} for words in said]}
    for name, said in (("000041.png", [ONE, TWO]), ("000042.png", [THREE]))
]


def words_of(rows: list[dict]) -> list[str | None]:
    return [row["sample_text"] for row in rows if row["modality"] != "text"]


def faults_of(rows: list[dict]) -> list[int]:
    return [row["error_code"] for row in rows if row["error_code"] is not None]


@pytest.mark.parametrize(
    ("data", "media", "words"),
    [
        ({"000041.png": ONE, "000042.png": [TWO, THREE]}, {"000041.png": png(1), "000042.png": png(2)}, [0, 12]),
        ({"a/000041": {"caption": ONE}, "a/000042": {"tags": TWO}}, PICTURES, [0, 1]),  # Kohya's meta_lat.json
        ({"1": {"caption": ONE}, "2": {"caption": TWO}}, {"1.png": png(1), "2.png": png(2)}, [0, 1]),
        (
            {
                "info": {"year": "2016"},
                "videos": [{"video_id": "video0", "id": 0}],
                "sentences": [{"video_id": f"video{at}", "caption": (ONE, TWO)[at], "sen_id": at} for at in (0, 1)],
            },
            VIDEOS,
            [0, 1],
        ),  # MSR-VTT
        ({"images": KARPATHY, "dataset": "coco"}, PICTURES, [13, 2]),
    ],
)
def test_media_get_the_words_of_objects_that_name_them(
    tmp_path: Path, data: dict[str, Any], media: dict[str, bytes], words: list[int]
) -> None:
    """Such a file was one row that could not be read (1003), and the media had no words."""
    expected = {0: ONE, 1: TWO, 2: THREE, 12: f"{TWO}\n{THREE}", 13: f"{ONE}\n{TWO}"}
    rows = rows_of(land(tmp_path / "in", {"words.json": json.dumps(data).encode(), **media}))
    assert words_of(rows) == [expected[one] for one in words]
    assert faults_of(rows) == []


def test_a_film_gets_all_sentences_of_activitynet(tmp_path: Path) -> None:
    data = {"v_QOlSCBRmfWY": {"duration": 2.0, "sentences": [ONE, TWO], "timestamps": [[0, 1], [1, 2]]}}
    rows = rows_of(land(tmp_path / "in", {"t.json": json.dumps(data).encode(), "v/v_QOlSCBRmfWY.mp4": mp4(b"vide")}))
    assert [(row["role"], row["sample_id"]) for row in rows if row["modality"] == "text"] == [
        ("caption", "v/v_QOlSCBRmfWY")
    ] * 2
    (film,) = [row for row in rows if row["modality"] == "video"]
    assert json.loads(film["metadata_json"]) == {"duration": 2.0, "timestamps": [[0, 1], [1, 2]]}


def test_lines_that_name_images_or_recordings_by_ids_are_joined(tmp_path: Path) -> None:
    """Localized narratives of Open Images, and the supervisions of Lhotse."""
    narratives = jsonl(*({"image_id": f"00004{at}", "caption": words} for at, words in ((1, ONE), (2, TWO))))
    said = jsonl({"id": "s1", "recording_id": "rec-1", "start": 0.0, "duration": 1.0, "text": THREE})
    files = {"captions.jsonl": narratives, **PICTURES, "supervisions.jsonl": said, "wav/rec-1.wav": wav()}
    assert words_of(rows_of(land(tmp_path / "in", files))) == [ONE, TWO, THREE]


@pytest.mark.parametrize(
    "data",
    [
        {"home": {"text": "Home"}, "pt-BR": {"text": "Casa"}, "about_us": {"text": "About"}},  # words of a page
        {"name": "mmlake", "version": "1.0", "scripts": {"000041": "run"}},
        {"000041": "A dog plays."},  # of any two strings
        {"gone/000043.png": ONE},
        {"../a/000041.png": ONE},
    ],
)
def test_objects_that_name_no_medium_that_is_there_stay_one_unreadable_document(
    tmp_path: Path, data: dict[str, Any]
) -> None:
    rows = rows_of(land(tmp_path / "in", {"b.json": json.dumps(data).encode(), **PICTURES}))
    assert words_of(rows) == [None, None]
    assert [(row["role"], row["error_code"]) for row in rows if row["modality"] == "text"] == [("document", 1003)]


def test_a_name_of_few_letters_is_no_medium_elsewhere(tmp_path: Path) -> None:
    data = json.dumps({"1": {"caption": ONE}, "x7y": {"caption": TWO}}).encode()
    rows = rows_of(land(tmp_path / "in", {"m.json": data, "1.png": png(1), "b/1.png": png(2), "b/x7y.png": png(3)}))
    assert sorted(words_of(rows), key=str) == [ONE, None, None]
    assert faults_of(rows) == [1011]


def test_an_object_next_to_its_picture_describes_it_alone(tmp_path: Path) -> None:
    sidecar = json.dumps({"caption": ONE, "ocr": {"text": "STOP"}}).encode()
    rows = rows_of(land(tmp_path / "in", {"000041.json": sidecar, "000041.png": png(1), "000042.png": png(2)}))
    assert words_of(rows) == [ONE, None]


def test_what_breaks_or_is_too_long_in_an_object_is_a_row_and_the_rest_stays(tmp_path: Path) -> None:
    settings = dataclasses.replace(SETTINGS, max_line_bytes=200)
    data = json.dumps({"000041.png": ONE, "gone.png": TWO, "c.png": "x" * 300, "000042.png": TWO}).encode()
    files = {"words.json": data[:-1] + b', "d.png": "A bi', "000041.png": png(1), "000042.png": png(2)}
    rows = rows_of(land(tmp_path / "in", files), settings=settings)
    assert words_of(rows) == [ONE, TWO]
    assert sorted(faults_of(rows)) == [1002, 1008, 1011]


@pytest.mark.parametrize(
    "head",
    [
        b'{["a.png"]: "A dog plays."}',
        b'{5: "A dog plays.", "a.png": "b"}',
        b'{"images": [{"file_name": "a.png", "caption": "A dog plays."}, 5, null, ["x"]]}',
        b'{"a.png": {"caption": null}, "b.png": [1, 2], "c.png": [["d"]]}',
        b'{"a.png": "A dog',
    ],
)
def test_what_is_no_such_object_is_none_and_one_row_at_the_most(head: bytes, tmp_path: Path) -> None:
    land(tmp_path, {"a.png": png(1), "list.json": head})
    rows = rows_of(tmp_path)
    assert "ok" in [row["status"] for row in rows if row["modality"] == "image"]
    assert all(row["status"] in ("ok", "unreadable") for row in rows)

"""What describes a film or a recording is a caption of it, and not what is said in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from source_builders import jsonl, land, mp4, parquet, png, rows_of, tar, wav

FILM = mp4(b"vide")
RECORD = {"caption": "a dog runs"}


def texts(rows: list[dict]) -> list[tuple[str, str, str | None]]:
    """(modality, role of the text next to it, that text) of media, (modality, role, text) of texts."""
    return sorted(
        (row["modality"], row["sample_text_role"] or row["role"], row["text_content"] or row["sample_text"])
        for row in rows
    )


@pytest.mark.parametrize(
    "files",
    [
        {"s.tar": tar({"a.mp4": FILM, "a.json": json.dumps(RECORD).encode()})},
        {"a.mp4": FILM, "a.json": json.dumps(RECORD).encode()},
        {"a.mp4": FILM, "metadata.jsonl": jsonl({"file_name": "a.mp4", **RECORD})},
        {"p.parquet": parquet({"video": [{"bytes": FILM, "path": "a.mp4"}], "caption": ["a dog runs"]})},
    ],
    ids=["tar", "folder", "table", "parquet"],
)
def test_a_caption_of_a_film_is_not_its_transcript(tmp_path: Path, files) -> None:
    found = texts(rows_of(land(tmp_path / "in", files)))
    assert found == [("text", "caption", "a dog runs"), ("video", "caption", "a dog runs")]


def test_of_both_the_transcript_is_what_is_said(tmp_path: Path) -> None:
    record = {**RECORD, "transcript": "good dog"}
    found = texts(
        rows_of(land(tmp_path / "in", {"s.tar": tar({"a.wav": wav(), "a.json": json.dumps(record).encode()})}))
    )
    assert found == [
        ("audio", "transcript", "good dog"),
        ("text", "caption", "a dog runs"),
        ("text", "transcript", "good dog"),
    ]


def test_a_plain_text_next_to_a_picture_and_its_spoken_caption_is_of_both(tmp_path: Path) -> None:
    files = {"s.tar": tar({"a.png": png(), "a.wav": wav(), "a.txt": b"a dog runs"})}
    found = texts(rows_of(land(tmp_path / "in", files)))
    assert found == [
        ("audio", "transcript", "a dog runs"), ("image", "caption", "a dog runs"), ("text", "caption", "a dog runs")
    ]  # fmt: skip

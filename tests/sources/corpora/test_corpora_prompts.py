"""Media that are named inside the turns of a dialogue, and media with the prompt that they are of."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.sources.source_builders import jsonl, land, png, rows_of, wav

ASKED, ANSWERED = {"type": "text", "text": "What is it?"}, {"role": "assistant", "content": "A fish."}


def media_of(rows: list[dict]) -> list[tuple[str | None, str | None]]:
    return [(row["sample_text"], row["sample_text_role"]) for row in rows if row["modality"] in ("image", "audio")]


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image", "image": "a.png"},  # Qwen2-VL
        {"type": "image", "path": "a.png"},  # transformers' chat templates
        {"type": "image_url", "image_url": {"url": "a.png"}},  # OpenAI's
        {"type": "image", "image": ["a.png"]},
    ],
)
@pytest.mark.parametrize("field", ["messages", "conversations"])
def test_a_picture_gets_the_dialogue_that_shows_it(tmp_path: Path, part: dict, field: str) -> None:
    """The picture had no words, and the dialogue no picture."""
    record = {field: [{"role": "user", "content": [part, ASKED]}, ANSWERED]}
    rows = rows_of(land(tmp_path / "in", {"a.png": png(), "train.jsonl": jsonl(record)}))
    assert media_of(rows) == [("user: What is it?\n\nassistant: A fish.", "caption")]
    (text,) = [row for row in rows if row["modality"] == "text"]
    assert json.loads(text["metadata_json"])[field] == record[field]


@pytest.mark.parametrize("url", ["https://a.example/a.png", "data:image/png;base64,AAAA", "b.txt", 7, None])
def test_what_is_no_file_next_to_a_dialogue_leaves_it_a_document(tmp_path: Path, url: object) -> None:
    record = {"messages": [{"role": "user", "content": [{"type": "image", "image": url}, ASKED]}, ANSWERED]}
    rows = rows_of(land(tmp_path / "in", {"a.png": png(), "train.jsonl": jsonl(record)}))
    assert media_of(rows) == [(None, None)]
    assert [(row["role"], row["status"]) for row in rows if row["modality"] == "text"] == [("document", "ok")]


def test_a_prompt_of_turns_is_a_dialogue_with_its_completion(tmp_path: Path) -> None:
    """TRL's form: only prompts that are strings were read, and the record had no text (1003)."""
    record = {"prompt": [{"role": "user", "content": "What is it?"}], "completion": [ANSWERED]}
    (row,) = rows_of(land(tmp_path / "in", {"t.jsonl": jsonl(record)}))
    said = (row["status"], row["role"], row["text_content"])
    assert said == ("ok", "document", "user: What is it?\n\nassistant: A fish.")


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("metadata.csv", b"video,prompt\nm.wav,from sunset to night\n"),  # DiffSynth-Studio
        ("metadata.csv", b"file_name,prompt\nm.wav,from sunset to night\n"),
        ("metadata.jsonl", jsonl({"file_name": "m.wav", "prompt": "from sunset to night"})),
        ("list.jsonl", jsonl({"audio": "m.wav", "prompt": "from sunset to night"})),
    ],
)
def test_a_prompt_is_the_caption_of_its_medium(tmp_path: Path, name: str, table: bytes) -> None:
    """It was metadata, or a table of its own."""
    rows = rows_of(land(tmp_path / "in", {"m.wav": wav(), name: table}))
    assert media_of(rows) == [("from sunset to night", "caption")]


def test_a_prompt_next_to_a_caption_or_an_answer_is_none(tmp_path: Path) -> None:
    records = [
        {"image": "a.png", "prompt": "high quality", "caption": "a fish"},
        {"image": "b.png", "prompt": "What is it?", "response": "A fish."},
        {"image": "c.png", "edit_prompt": "make it snow", "text": ""},
    ]
    files = {"a.png": png(1), "b.png": png(2), "c.png": png(3), "list.jsonl": jsonl(*records)}
    found = [text for text, _ in media_of(rows_of(land(tmp_path / "in", files)))]
    assert found == ["a fish", "prompt: What is it?\n\nresponse: A fish.", None]

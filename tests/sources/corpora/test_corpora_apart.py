"""Media of one name that records name each alone are samples of their own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.sources.source_builders import land, mp4, png, rows_of, wav

MEDIA = {"data/1.png": png(), "data/1.wav": wav(), "data/1.mp4": mp4(b"vide")}


def dialogue(field: str, name: str, words: str) -> dict:
    return {"messages": [{"role": "user", "content": words}, {"role": "assistant", "content": "Yes."}], field: [name]}


def words_by_sample(rows: list[dict]) -> dict[str, set[str | None]]:
    found: dict[str, set[str | None]] = {}
    for row in rows:
        if row["modality"] != "text":
            found.setdefault(row["sample_id"], set()).add(row["sample_text"])
    return found


def test_media_that_three_manifests_name_have_each_its_own_words(tmp_path: Path) -> None:
    """As the demo data of LLaMA-Factory is: each of the three had all dialogues."""
    lists = {
        f"{field}.json": json.dumps([dialogue(field, name, f"What about {name}?")]).encode()
        for field, name in zip(("images", "audios", "videos"), MEDIA, strict=True)
    }
    rows = rows_of(land(tmp_path / "in", {**MEDIA, **lists}))
    said = {name: f"user: What about {name}?\n\nassistant: Yes." for name in MEDIA}
    assert words_by_sample(rows) == {f"data/{name[5:]}": {words} for name, words in said.items()}
    assert [row["error_code"] for row in rows] == [None] * 6


@pytest.mark.parametrize(
    "records",
    [
        [{"images": ["data/1.png"], "audios": ["data/1.wav"], "text": "Good morning."}],  # of both
        [{"images": ["data/1.png"], "text": "Good morning."}],  # of one alone
        [
            {"images": ["data/1.png"], "text": "One."},
            {"images": ["data/1.png"], "audios": ["data/1.wav"], "text": "Two."},
        ],
    ],
)
def test_media_of_one_name_that_belong_together_are_one_sample(tmp_path: Path, records: list[dict]) -> None:
    files = {name: data for name, data in MEDIA.items() if "mp4" not in name}
    rows = rows_of(land(tmp_path / "in", {**files, "all.json": json.dumps(records).encode()}))
    assert words_by_sample(rows).keys() == {"data/1"}


def test_media_with_a_text_of_their_name_are_one_sample(tmp_path: Path) -> None:
    records = [{"image": "data/1.png", "text": "One."}, {"audio": "data/1.wav", "text": "Two."}]
    files = {"data/1.png": png(), "data/1.wav": wav(), "data/1.txt": b"Three."}
    rows = rows_of(land(tmp_path / "in", {**files, "all.json": json.dumps(records).encode()}))
    assert words_by_sample(rows).keys() == {"data/1"}

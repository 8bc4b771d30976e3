"""A program next to a medium of its name is a document: it makes the medium, and says nothing about it."""

from __future__ import annotations

from pathlib import Path

import pytest
from source_builders import land, png, rows_of, wav

PROGRAM = b"import math\n\nprint([math.sin(x) for x in range(8)])\n"


@pytest.mark.parametrize("ending", ["py", "c", "R", "csd", "js"])
@pytest.mark.parametrize(("medium", "modality"), [("plot.png", "image"), ("plot.wav", "audio")])
def test_a_program_is_a_document(tmp_path: Path, ending: str, medium: str, modality: str) -> None:
    """It was the caption of the plot that it draws, so that a trainer learnt the picture by its program."""
    made = png() if modality == "image" else wav()
    rows = rows_of(land(tmp_path / "in", {medium: made, f"plot.{ending}": PROGRAM}))
    assert {row["modality"]: row["role"] for row in rows} == {"text": "document", modality: "media"}
    assert [row["sample_text"] for row in rows if row["modality"] == modality] == [None]


@pytest.mark.parametrize("ending", ["txt", "caption", "md", "prompt"])
def test_other_texts_are_captions(tmp_path: Path, ending: str) -> None:
    files = {"plot.png": png(), f"plot.{ending}": b"A wave of eight points.", "plot.py": PROGRAM}
    rows = rows_of(land(tmp_path / "in", files))
    assert sorted(row["role"] for row in rows) == ["caption", "document", "media"]
    assert [row["sample_text"] for row in rows if row["modality"] == "image"] == ["A wave of eight points."]

"""Of subtitles in several languages a film gets those in the language that it speaks, where something says which."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from source_builders import rows_of, wav

from tests import make

VTT = "WEBVTT\n\n00:00:00.000 --> 00:00:01.000\n{}\n"


def transcript_of(root: Path, *tags: str, language: object = None, name: str = "Talk 2 [a1]") -> str:
    files = {f"{name}.wav": wav()} | {f"{name}.{tag}.vtt".replace("..", "."): VTT.format(tag).encode() for tag in tags}
    if language is not None:
        files[f"{name}.info.json"] = json.dumps({"title": "Talk", "language": language}).encode()
    make.land(root, files)
    (row,) = [row for row in rows_of(root) if row["modality"] == "audio"]
    return row["sample_text"].split("\n")[3]


@pytest.mark.parametrize(
    ("tags", "language", "expected"),
    [
        (("ar", "de", "en", "fr"), "en", "en"),
        (("ar", "de", "en-US"), "en-GB", "en-US"),
        (("ar", "de", "en-orig"), None, "en-orig"),
        (("ar", "en", "en-orig"), None, "en"),  # a person wrote it
        (("de", "pt-BR"), "pt", "pt-BR"),
        (("de", "en"), None, "de"),
        (("de", "en"), ["en"], "de"),
        (("de", "en"), "fr", "de"),
        (("", "de"), "fr", ""),
    ],
)
def test_the_transcript_is_in_the_language_that_is_spoken(tmp_path: Path, tags, language, expected: str) -> None:
    """It was the one whose name comes first: Arabic, of an English film."""
    assert transcript_of(tmp_path, *tags, language=language) == expected

"""What is said in a sample, wherever the version knows it from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def spoken_text(facts: Mapping[str, Any]) -> str:
    """The first transcript that came with a film, recording or span; where none did, its lines of subtitles or of a
    recognizer; else its aligned words, in order. "" where nobody speaks, nobody knows, or the version leaves it out.

    facts: the object of the sample's JSON member; of an interleaved sample, `tracks` of one of its parts.
    """
    if transcripts := facts.get("transcripts"):
        return str(transcripts[0])
    for name, key in (("cues", "text"), ("words", "word")):
        if said := facts.get(name):
            return " ".join(" ".join(one[key].split()) for one in said)
    return ""

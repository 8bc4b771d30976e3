"""What is said in a sample, from the best that the version knows."""

from __future__ import annotations

import pytest

from mmlake.loader import spoken_text

CUES = [
    {"text": "Foxes are\nomnivores.", "start_s": 0.0, "end_s": 1.0},
    {"text": "They eat", "start_s": 1.0, "end_s": 2.0},
]
WORDS = [{"word": "Foxes", "start_s": 0.0, "end_s": 0.5}, {"word": "are", "start_s": 0.5, "end_s": 0.9}]


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"transcripts": ["As it was read.", "Another."], "cues": CUES, "words": WORDS}, "As it was read."),
        ({"transcripts": [], "cues": CUES, "words": WORDS}, "Foxes are omnivores. They eat"),
        ({"transcripts": [], "cues": [], "words": WORDS}, "Foxes are"),
        ({"transcripts": [], "cues": [], "words": []}, ""),
        ({"cues": CUES}, "Foxes are omnivores. They eat"),  # the tracks of a part
        ({}, ""),
    ],
    ids=["transcript", "subtitles", "words", "nothing", "tracks of a part", "a picture"],
)
def test_the_first_that_is_known_counts(facts, expected) -> None:
    assert spoken_text(facts) == expected

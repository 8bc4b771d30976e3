"""What recognizers write next to a recording is its transcript with times, whatever else they write next to it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from source_builders import land, rows_of, tar, wav

from mmlake.preprocess.transcripts.subtitles import parse_cues

SEGMENTS = [
    {"id": 0, "start": 0.1, "end": 1.6, "text": " He began.", "words": []},
    {"start": 2, "end": 3, "text": "No."},
]
WHISPER = {"text": " He began. No.", "segments": SEGMENTS, "language": "en"}
WHISPERX = {"segments": SEGMENTS, "word_segments": [], "language": "en"}
EXPECTED = [("He began.", 0.1, 1.6), ("No.", 2.0, 3.0)]
GRID = (
    'File type = "ooTextFile"\nObject class = "TextGrid"\n\n0\n3\n<exists>\n1\n"IntervalTier"\n"A"\n0\n3\n2\n'
    '0.1\n1.6\n"He began."\n2\n3\n"No."\n'
)


def cues_of(root: Path) -> list[tuple]:
    (row,) = [row for row in rows_of(root) if row["modality"] == "audio"]
    return [(cue.text, cue.start_s, cue.end_s) for cue in parse_cues(row["sample_text"] or "")]


@pytest.mark.parametrize("record", [WHISPER, WHISPERX], ids=["whisper", "whisperx"])
@pytest.mark.parametrize("pack", [lambda files: {"s.tar": tar(files)}, lambda files: files], ids=["tar", "folder"])
def test_segments_of_a_record_are_the_transcript_with_times(tmp_path: Path, pack, record: dict) -> None:
    """WhisperX writes no other text, and of Whisper's the times were lost."""
    files = {"a.wav": wav(), "a.json": json.dumps(record).encode()}
    assert cues_of(land(tmp_path / "in", pack(files))) == EXPECTED


def test_of_all_that_whisper_writes_something_with_times_is_taken(tmp_path: Path) -> None:
    files = {"a.wav": wav(), "a.json": json.dumps(WHISPER).encode(), "a.txt": b"He began.\nNo.\n"}
    files["a.tsv"] = b"start\tend\ttext\n100\t1600\tHe began.\n2000\t3000\tNo.\n"
    assert cues_of(land(tmp_path / "in", files)) == EXPECTED
    files["a.srt"] = b"1\n00:00:00,100 --> 00:00:01,600\nHe began.\n\n2\n00:00:02,000 --> 00:00:03,000\nNo.\n"
    assert cues_of(land(tmp_path / "in2", files)) == EXPECTED


@pytest.mark.parametrize("name", ["a.TextGrid", "a.en.textgrid"])
def test_a_textgrid_goes_before_words_without_times(tmp_path: Path, name: str) -> None:
    """As the Montreal Forced Aligner leaves them: its text was the transcript as it lies."""
    for encoding in ("utf-8", "utf-16"):
        files = {"a.wav": wav(), "a.lab": b"he began no", name: GRID.encode(encoding)}
        assert cues_of(land(tmp_path / encoding, files)) == EXPECTED


def test_without_a_recording_the_words_are_a_document(tmp_path: Path) -> None:
    rows = rows_of(land(tmp_path / "in", {"a.jsonl": json.dumps(WHISPER).encode() + b"\n"}))
    assert [(row["role"], row["text_content"][:12]) for row in rows] == [
        ("document", " He began. N"),
        ("transcript", "WEBVTT\n\n00:0"),
    ]

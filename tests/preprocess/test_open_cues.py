"""Lines of a transcript that last as long as their recording does, as Kaldi's -1 says, or as long as they say."""

from __future__ import annotations

import time

import pytest
from preprocess_media import tone, wav

from mmlake.film_decoders import DecodeSettings
from mmlake.formats.timed_text import transcript_of
from mmlake.preprocess import PreprocessSettings
from mmlake.preprocess.decoding import AUDIO_DECODER, Encoded
from mmlake.preprocess.transcripts.subtitles import parse_cues


def spans(lines: list[dict]) -> list[tuple[str, float, float]]:
    found = transcript_of(lines)
    assert found is not None and not found.broken
    return [(cue.text, cue.start_s, cue.end_s) for cue in parse_cues(found.text)]


def test_a_line_without_an_end_lasts_until_the_next_one() -> None:
    assert spans([{"start": 0, "text": "a"}, {"start": 1.5, "end": 2, "text": "b"}]) == [("a", 0, 1.5), ("b", 1.5, 2)]


def test_a_line_may_say_how_long_it_lasts() -> None:
    assert spans([{"start": 1.5, "duration": 2.25, "text": "a"}]) == [("a", 1.5, 3.75)]


@pytest.mark.parametrize("length", [-1, 0, "long", float("nan")])
def test_a_length_that_is_none_is_no_time(length: object) -> None:
    found = transcript_of([{"start": 1.5, "duration": length, "text": "a"}])
    assert found is not None and found.broken == ("a",)


@pytest.mark.parametrize("said", [{"start_s": 1.5, "end_s": None, "text": "b"}, {"start": 1.5, "text": "b"}])
def test_what_lasts_to_the_end_of_the_recording_ends_with_it(tmp_path, said: dict) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(wav(tone(3.0)))
    found = transcript_of([{"start": 0, "end": 1.5, "text": "a"}, said])
    assert found is not None
    kernel = AUDIO_DECODER.kernel_with(PreprocessSettings(), DecodeSettings())
    columns = kernel(Encoded("audio/wav", found.text, path=path)).columns
    assert [(cue["text"], cue["start_s"], cue["end_s"]) for cue in columns["cues"]] == [("a", 0, 1.5), ("b", 1.5, 3)]
    assert columns["transcript"] == "a b"


FIRST, LAST = "1\n00:00:00,000 --> 00:00:01,000\na\n\n", "3\n00:00:02,000 --> 00:00:03,000\nc\n"
UNREAD = {
    "00:00:01,000 --> garbage": ("a b c", (1, 2)),
    "00:00:01,000 --> 00:00:0x,000": ("a b c", (1, 2)),
    "00:00:01,000 -->": ("a b c", (1, 2)),
    "00:00:0l,000 --> 00:00:02,000": ("a b c", (None, None)),
    "garbage --> garbage": ("a b c", (None, None)),
}


@pytest.mark.parametrize("times", UNREAD)
def test_a_line_of_subtitles_keeps_its_words_where_its_times_cannot_be_read(times: str) -> None:
    said, span = UNREAD[times]
    cues = parse_cues(f"{FIRST}2\n{times}\nb\n\n{LAST}")
    assert " ".join(cue.text for cue in cues) == said
    assert [(cue.start_s, cue.end_s) for cue in cues] == [(0, 1), span, (2, 3)]


def test_a_last_line_of_subtitles_without_an_end_ends_with_the_recording(tmp_path) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(wav(tone(3.0)))
    kernel = AUDIO_DECODER.kernel_with(PreprocessSettings(), DecodeSettings())
    said = f"{FIRST}2\n? --> ?\nb\n\n3\n00:00:02,000 --> ?\nc"
    columns = kernel(Encoded("audio/wav", said, path=path)).columns
    assert [(cue["text"], cue["start_s"], cue["end_s"]) for cue in columns["cues"]] == [("a", 0, 1), ("c", 2, 3)]
    assert columns["transcript"] == "a b c"


def test_an_arrow_in_the_words_of_a_line_is_said() -> None:
    (cue, _) = parse_cues(f"1\n00:00:00,000 --> 00:00:01,000\npress A --> B\n\nfrom a --> b\n\n{LAST}")
    assert cue.text == "press A --> B from a --> b"


def test_a_first_line_without_a_time_is_said_first_and_many_cost_no_more_than_their_number() -> None:
    assert [cue.text for cue in parse_cues(f"0\n? --> ?\nb\n\n{FIRST}{LAST}")] == ["b", "a", "c"]
    began_s = time.process_time()
    assert len(parse_cues("1\n00:00:01,000 --> ?\na\n\n" * 60_000 + "1\n? --> ?\nb\n\n" * 60_000 + LAST)) > 60_000
    assert time.process_time() - began_s < 8.0

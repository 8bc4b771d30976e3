"""Captions whose lines scroll say each line once."""

from __future__ import annotations

import pytest

from mmlake.preprocess.transcripts.subtitles import parse_cues

YOUTUBE = """WEBVTT
Kind: captions
Language: en

00:00:00.160 --> 00:00:02.869 align:start position:0%
_
hello<00:00:00.640><c> everyone</c><00:00:01.120><c> and</c><00:00:01.360><c> welcome</c>

00:00:02.869 --> 00:00:02.879 align:start position:0%
hello everyone and welcome
_

00:00:02.879 --> 00:00:05.030 align:start position:0%
hello everyone and welcome
to<00:00:03.120><c> this</c><00:00:03.600><c> lecture</c>

00:00:05.030 --> 00:00:05.040 align:start position:0%
to this lecture
_

00:00:05.040 --> 00:00:08.000 align:start position:0%
to this lecture
today<00:00:05.520><c> we</c><00:00:06.000><c> begin</c>
""".replace("_\n", " \n")


def spoken(text: str) -> list[tuple[str, float | None, float | None]]:
    return [(cue.text, cue.start_s, cue.end_s) for cue in parse_cues(text)]


def srt(*cues: tuple[float, float, str]) -> str:
    clock = lambda at_s: f"00:{int(at_s // 60):02d}:{at_s % 60:06.3f}".replace(".", ",")
    return "\n\n".join(f"{n}\n{clock(a)} --> {clock(b)}\n{words}" for n, (a, b, words) in enumerate(cues, 1))


def test_automatic_captions_say_each_line_once() -> None:
    """Each stood in three cues, and so three times in the transcript."""
    assert spoken(YOUTUBE) == [
        ("hello everyone and welcome", 0.16, 2.879),
        ("to this lecture", 2.879, 5.04),
        ("today we begin", 5.04, 8.0),
    ]


@pytest.mark.parametrize("num_lines", [2, 3])
def test_captions_of_a_broadcast_that_roll_up_say_each_line_once(num_lines: int) -> None:
    lines = [f"line number {at}" for at in range(12)]
    shown = [lines[max(0, at - num_lines + 1) : at + 1] for at in range(12)]
    text = srt(*((2.0 * at, 2.0 * at + 2, "\n".join(one)) for at, one in enumerate(shown)))
    assert [words for words, _, _ in spoken(text)] == lines


@pytest.mark.parametrize(
    "cues",
    [
        [(0, 2, "la la la"), (2, 4, "la la la"), (4, 6, "la la la"), (6, 8, "hey")],
        [(0, 2, "yes"), (2, 4, "yes\nno"), (4, 6, "who\nwhat"), (6, 8, "where"), (8, 10, "there"), (10, 12, "here")],
        [(0, 2, "one\ntwo"), (30, 32, "two\nthree"), (60, 62, "three\nfour")],
    ],
    ids=["a refrain", "one word that is said again", "far apart"],
)
def test_what_is_said_twice_stands_twice(cues: list[tuple[float, float, str]]) -> None:
    assert [words for words, _, _ in spoken(srt(*cues))] == [words.replace("\n", " ") for _, _, words in cues]

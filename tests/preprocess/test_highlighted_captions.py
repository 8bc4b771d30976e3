"""Captions that show a line anew for each word, with that word marked, say the line once."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from mmlake.media.decoders import open_media
from mmlake.preprocess.transcripts.embedded_subtitles import embedded_cues
from mmlake.preprocess.transcripts.subtitles import parse_cues

LINES = ["the harbour was empty", "that that is is", "seven children carried\nthe ladder"]
MARKS = {
    "underlined": "<u>{}</u>",
    "coloured": '<font color="#00ff00">{}</font>',
    "two marks": '<font color="#00ff00"><b>{}</b></font>',
    "a class": "<c.now>{}</c>",
    "overrides": "{{\\c&H00FF00&}}{}{{\\r}}",
}
Shown = tuple[float, float, str]


def highlighted(mark: str, *, has_gaps: bool) -> list[Shown]:
    """A cue of half a second for each word, and one without a mark between each two where words have gaps."""
    shown: list[Shown] = []
    at_s = 0.0
    for line in LINES:
        words = line.replace("\n", "\n ").split(" ")
        for number, word in enumerate(words):
            bare = word.rstrip("\n")
            marked = [*words[:number], mark.format(bare) + word[len(bare) :], *words[number + 1 :]]
            shown.append((at_s, at_s + 0.5, " ".join(marked)))
            at_s += 0.5
            if has_gaps and number + 1 < len(words):
                shown.append((at_s, at_s + 0.2, line))
                at_s += 0.2
        at_s += 1.0
    return [(a, b, words.replace("\n ", "\n")) for a, b, words in shown]


def srt(shown: list[Shown]) -> str:
    return "".join(f"{n}\n{clock(a)} --> {clock(b)}\n{words}\n\n" for n, (a, b, words) in enumerate(shown, 1))


def webvtt(shown: list[Shown]) -> str:
    return "WEBVTT\n\n" + "".join(f"{clock(a, '.')} --> {clock(b, '.')}\n{words}\n\n" for a, b, words in shown)


def sub_station(shown: list[Shown]) -> str:
    rows = (f"Dialogue: 0,{clock(a, '.')},{clock(b, '.')},D,,0,0,0,,{words}\n" for a, b, words in shown)
    return "[Script Info]\n\n[Events]\n" + "".join(row.strip().replace("\n", "\\N") + "\n" for row in rows)


def clock(at_s: float, point: str = ",") -> str:
    return f"00:{int(at_s // 60):02d}:{at_s % 60:06.3f}".replace(".", point)


def said(text: str) -> list[str]:
    return [cue.text for cue in parse_cues(text)]


@pytest.mark.parametrize("has_gaps", [False, True])
@pytest.mark.parametrize("write", [srt, webvtt])
@pytest.mark.parametrize("mark", MARKS)
def test_a_line_is_said_once_however_its_words_are_marked(
    mark: str, write: Callable[[list[Shown]], str], has_gaps: bool
) -> None:
    """Of Whisper's own captions with marked words, the transcript was 15 times as long as what was said."""
    shown = highlighted(MARKS[mark], has_gaps=has_gaps)
    found = parse_cues(write(shown))
    assert [cue.text for cue in found] == [line.replace("\n", " ") for line in LINES]
    assert found[0].start_s == 0.0 and found[-1].end_s == pytest.approx(shown[-1][1])


def test_so_is_one_of_sub_station() -> None:
    text = sub_station(highlighted(MARKS["overrides"], has_gaps=True))
    assert said(text) == [line.replace("\n", " ") for line in LINES]


def test_a_line_that_is_said_twice_is_there_twice() -> None:
    twice = ["<u>no</u> way out", "no <u>way</u> out", "no way <u>out</u>"] * 2
    assert said(srt([(float(at), at + 1.0, words) for at, words in enumerate(twice)])) == ["no way out"] * 2


@pytest.mark.parametrize(
    "shown",
    [
        ["No.", "No.", "<i>No.</i>", "No."],
        ["I <i>said</i> no.", "I said <i>no.</i>", "All right.", "Go on."],
        ["{\\an8}Come here!", "Come here!", "{\\an8}Come here!"],
        ["<i>Wait</i> for me.", "<i>Wait</i> for me.", "<i>Wait</i> for me."],
        ["Wait for <i>me.</i>", "Wait <i>for</i> me.", "<i>Wait</i> for me."],
        ["<v Ann>Yes.", "<v Ben>Yes.", "<v Ann>Yes."],
    ],
)
def test_repeated_lines_in_which_no_mark_moves_on_stay(shown: list[str]) -> None:
    found = said(srt([(float(at), at + 1.0, words) for at, words in enumerate(shown)]))
    assert len(found) == len(shown)


def test_lines_with_a_pause_between_them_stay() -> None:
    shown = [(2.0 * at, 2.0 * at + 1, words) for at, words in enumerate(["<u>no</u> way out", "no <u>way</u> out"] * 3)]
    assert len(said(srt(shown))) == 6


def test_within_a_film_a_line_is_said_once(tmp_path: Path) -> None:
    import imageio_ffmpeg

    lines = tmp_path / "lines.srt"
    lines.write_text(srt(highlighted(MARKS["underlined"], has_gaps=True)))
    film = tmp_path / "film.mkv"
    inputs = ["-f", "lavfi", "-i", "testsrc=d=14:s=96x72:r=5", "-i", str(lines)]
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-loglevel", "error", *inputs, "-c:s", "srt", str(film)]
    subprocess.run(command, check=True)
    with open_media(film) as container:
        assert len(container.streams.subtitles) == 1
    found = embedded_cues(film, "video/x-matroska")
    assert [cue.text for cue in found] == [line.replace("\n", " ") for line in LINES]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (srt([(0.0, 1.0, "[SPEAKER_00]: Good morning."), (1.0, 2.0, "[SPEAKER_01]: Yes.")]), ["Good morning.", "Yes."]),
        (webvtt([(0.0, 1.0, "[SPEAKER_00]: <u>So</u> it"), (1.0, 2.0, "[SPEAKER_00]: So <u>it</u>")]), ["So it"]),
        ("start\tend\ttext\n0\t900\t[SPEAKER_12]: Yes.\n", ["Yes."]),
        ("[SPEAKER_00]: Good morning.\n[SPEAKER_01]: Yes.\n", ["Good morning. Yes."]),
        ("He said [SPEAKER_00]: no.", ["He said [SPEAKER_00]: no."]),
        ("[Anna]: Good morning.", ["[Anna]: Good morning."]),
    ],
)
def test_names_that_a_diarizer_gives_voices_are_not_said(text: str, words: list[str]) -> None:
    """WhisperX writes them before each line; they were aligned as words, and counted as errors."""
    assert said(text) == words

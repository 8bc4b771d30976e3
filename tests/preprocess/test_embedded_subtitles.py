"""Subtitles within a film are what is said in it, at their times, in the language that is spoken."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from mmlake.film_decoders import DecodeSettings
from mmlake.preprocess import PreprocessSettings
from mmlake.preprocess.decoding import AUDIO_DECODER, VIDEO_DECODER, Encoded

SRT = "1\n00:00:00,500 --> 00:00:01,500\n<i>{} there</i>\n\n2\n00:00:02,000 --> 00:00:03,250\nsecond line\nof two\n"
EXPECTED = [("Hello there", 0.5, 1.5), ("second line of two", 2.0, 3.25)]


def film(
    path: Path, *subtitles: tuple[str, str, str], codec: str, spoken: str = "", more: tuple[str, ...] = ()
) -> Path:
    """A film of four seconds. subtitles: first word, language and disposition of each stream."""
    import imageio_ffmpeg

    inputs, maps = ["-f", "lavfi", "-i", "testsrc=d=4:s=96x72:r=10", "-f", "lavfi", "-i", "sine=d=4"], []
    for at, (word, language, disposition) in enumerate(subtitles):
        lines = path.with_name(f"{path.stem}-{at}.txt")
        lines.write_text(SRT.format(word))
        inputs += ["-f", "srt", "-i", str(lines)]
        maps += [
            "-map",
            str(at + 2),
            f"-metadata:s:s:{at}",
            f"language={language}",
            f"-disposition:s:{at}",
            disposition,
        ]
    sound = ["-metadata:s:a:0", f"language={spoken}"] if spoken else []
    kept = ["-map", "1"] if path.suffix in (".m4a", ".mka") else ["-map", "0", "-map", "1"]
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-y", "-loglevel", "error", *inputs, *kept, *maps, *sound, *more]
    subprocess.run([*command, "-c:s", codec, str(path)], check=True)
    return path


def cues(path: Path, *, content_type: str = "video/x-matroska", said: str | None = None) -> list[tuple]:
    encoded, settings = Encoded(content_type, said, path=path), PreprocessSettings(voice_detector="none")
    decoder = AUDIO_DECODER if content_type.startswith("audio/") else VIDEO_DECODER
    columns = decoder.kernel_with(settings, DecodeSettings())(encoded).columns
    if not columns.get("cues"):
        assert "transcript" not in columns
        return []
    assert columns["transcript_source"] == "source"
    return [(cue["text"], round(cue["start_s"], 3), round(cue["end_s"], 3)) for cue in columns["cues"]]


@pytest.mark.parametrize(
    ("ending", "codec", "content_type"),
    [
        ("mkv", "srt", "video/x-matroska"),
        ("mkv", "ass", "video/x-matroska"),
        ("mp4", "mov_text", "video/mp4"),
        ("webm", "webvtt", "video/webm"),
        ("mka", "srt", "audio/x-matroska"),
    ],
)
def test_a_film_has_its_words_at_their_times(tmp_path: Path, ending: str, codec: str, content_type: str) -> None:
    made = film(tmp_path / f"a.{ending}", ("Hello", "eng", "0"), codec=codec, spoken="eng")
    assert cues(made, content_type=content_type) == EXPECTED


def test_they_lie_on_the_clock_of_the_film_where_that_begins_later(tmp_path: Path) -> None:
    made = film(tmp_path / "a.mkv", ("Hello", "eng", "0"), codec="srt", more=("-output_ts_offset", "7"))
    assert [(text, round(start_s, 1)) for text, start_s, _ in cues(made)] == [(text, at) for text, at, _ in EXPECTED]


def test_words_next_to_the_film_go_before_those_within_it(tmp_path: Path) -> None:
    made = film(tmp_path / "a.mkv", ("Hello", "eng", "0"), codec="srt")
    assert cues(made, said=SRT.format("Goodbye"))[0][0] == "Goodbye there"
    assert cues(made, said="") == EXPECTED


@pytest.mark.parametrize(
    ("spoken", "streams", "expected"),
    [
        ("eng", [("Bonjour", "fre", "default"), ("Hello", "eng", "0")], "Hello"),
        ("eng", [("Sign", "eng", "default+forced"), ("Hello", "eng", "0")], "Hello"),
        ("eng", [("Bang", "eng", "hearing_impaired"), ("Hello", "eng", "0")], "Hello"),
        ("", [("First", "fre", "0"), ("Second", "eng", "default")], "Second"),
        ("jpn", [("Hello", "eng", "default")], None),
        ("jpn", [("Hello", "und", "default")], "Hello"),
    ],
)
def test_of_several_streams_the_spoken_one_counts(tmp_path: Path, spoken: str, streams, expected: str | None) -> None:
    """A translation is not what is said."""
    found = cues(film(tmp_path / "a.mkv", *streams, codec="srt", spoken=spoken))
    assert (found[0][0].split()[0] if found else None) == expected


def test_a_film_without_subtitles_and_one_whose_subtitles_break_off_stay_films(tmp_path: Path) -> None:
    assert cues(film(tmp_path / "a.mkv", codec="copy")) == []
    whole = film(
        tmp_path / "b.mp4", ("Hello", "eng", "0"), codec="mov_text", more=("-movflags", "+faststart")
    ).read_bytes()
    damaged = tmp_path / "c.mp4"
    damaged.write_bytes(whole.replace(b"Hello", b"\xff\xfe\xfd\xfc\x00"))
    assert [text for text, _, _ in cues(damaged, content_type="video/mp4")][-1:] == ["second line of two"]

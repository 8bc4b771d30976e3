"""Files laid end to end of formats whose readers stop behind the first: none of the second is lost without a word."""

from __future__ import annotations

import io
import struct
from dataclasses import replace
from functools import cache
from pathlib import Path

import av
import numpy as np
import pytest
from films import film, flashes
from preprocess_media import tone, wav

from mmlake.errors import UnreadableItem
from mmlake.media.joined_files import second_file
from mmlake.preprocess.audio import audio_track
from mmlake.preprocess.settings import PreprocessSettings
from mmlake.preprocess.video import video_track

SETTINGS = PreprocessSettings()
FILMS = ("mp4", "mov", "flv", "asf")
SOUNDS = ("wav", "aiff", "au", "m4a", "wma")


@cache
def made(directory: Path, ending: str, seconds: float) -> bytes:
    """A film of one keyframe a second, or a tone."""
    if ending in FILMS:
        times_ms = [40 * number for number in range(round(25 * seconds))]
        return film(directory / f"{seconds}.{ending}", times_ms, flashes(len(times_ms))).read_bytes()
    if ending in ("wav", "aiff", "au"):
        return wav(tone(seconds), kind=ending.upper())
    sink = io.BytesIO()
    with av.open(sink, "w", format={"m4a": "ipod", "wma": "asf"}[ending]) as container:
        stream = container.add_stream({"m4a": "aac", "wma": "wmav2"}[ending], rate=44_100, layout="mono")
        stream.bit_rate = 96_000
        frame = av.AudioFrame.from_ndarray(tone(seconds, 44_100)[None].astype(np.float32), "fltp", "mono")
        frame.sample_rate = 44_100
        resampler = av.AudioResampler("fltp", "mono", 44_100, frame_size=stream.frame_size)
        for piece in [*resampler.resample(frame), *resampler.resample(None)]:
            container.mux(stream.encode(piece))
        container.mux(stream.encode(None))
    return sink.getvalue()


def columns_of(path: Path, settings: PreprocessSettings = SETTINGS) -> dict[str, object]:
    """Of the track."""
    if path.suffix[1:] in FILMS:
        return video_track(path, settings=settings).columns
    return audio_track(path, settings=settings)[0]


@pytest.mark.parametrize("ending", FILMS + SOUNDS)
def test_two_of_a_length_are_refused_by_a_code_of_their_own(tmp_path, ending: str) -> None:
    """All of them were sound, and half of the bytes was in no row."""
    one = made(tmp_path, ending, 4.0)
    (path := tmp_path / f"joined.{ending}").write_bytes(one + one)
    with pytest.raises(UnreadableItem, match=f"a second file begins at byte {len(one)}, not read") as caught:
        columns_of(path)
    assert caught.value.code == 3012


@pytest.mark.parametrize("ending", FILMS + SOUNDS)
def test_a_short_one_behind_a_long_one_is_a_place_among_the_damages(tmp_path, ending: str) -> None:
    long, short = made(tmp_path, ending, 4.0), made(tmp_path, ending, 0.2)
    (path := tmp_path / f"joined.{ending}").write_bytes(long + short)
    columns = columns_of(path, replace(SETTINGS, min_decoded_fraction=0.5))  # headers are much of so short a file
    (damage,) = [one for one in columns["damages"] if "a second file begins" in one["what"]]  # type: ignore[attr-defined]
    assert damage["at_byte"] == len(long)


@pytest.mark.parametrize("ending", FILMS + SOUNDS)
@pytest.mark.parametrize("rest", [b"", bytes(100), b"TAG" + bytes(125), b"free"], ids="none zeros tag rest".split())
def test_one_file_with_something_behind_it_is_one(tmp_path, ending: str, rest: bytes) -> None:
    assert second_file(io.BytesIO(made(tmp_path, ending, 1.0) + rest)) is None


def test_parts_that_bring_their_own_index_are_one_film(tmp_path) -> None:
    """As players fetch them: each rendition begins with an index, and all of its fragments are read."""
    options = {"movflags": "frag_keyframe+empty_moov"}
    path = film(tmp_path / "part.mp4", range(0, 1000, 40), flashes(25), container_options=options)
    assert second_file(io.BytesIO(path.read_bytes() * 2)) is None


def test_a_wav_whose_header_counts_itself_is_whole(tmp_path) -> None:
    """Some writers give the size of the file, or of the RIFF chunk, for that of the data; it was 3002."""
    data = wav(tone(1.0))
    for size in (len(data), len(data) - 8):
        (path := tmp_path / "memo.wav").write_bytes(data[:40] + struct.pack("<I", size) + data[44:])
        columns = columns_of(path)
        assert (columns["duration_s"], columns["damages"]) == (1.0, [])

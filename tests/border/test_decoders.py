"""Opening files of sound and moving pictures: what one stage reads, every stage reads."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from mmlake.compute import Executor
from mmlake.cuts import CutSettings, Span, cut_film
from mmlake.dedup import DedupSettings
from mmlake.dedup.video import fingerprints
from mmlake.embed import EmbedSettings, encode_file_query
from mmlake.errors import UnreadableItem
from mmlake.media.decoders import frames, open_media, picture_stream
from mmlake.preprocess import PreprocessSettings
from mmlake.preprocess.audio import audio_track
from mmlake.preprocess.video import video_track
from mmlake.quality.audio import blocks
from tests import make

LATIN_1 = b"Caf\xe9"


def film(path: Path) -> Path:
    path.write_bytes(make.film(1))
    return _titled(path)


def recording(path: Path) -> Path:
    with av.open(str(path), "w", format="mp4") as container:
        stream = container.add_stream("aac", rate=16_000, layout="mono")
        times_s = np.arange(16_000) / 16_000
        for at in range(0, 16_000, 1_024):
            piece = (8_000 * np.sin(2 * np.pi * 440 * times_s[at : at + 1_024])).astype(np.int16)
            frame = av.AudioFrame.from_ndarray(piece[None], format="s16", layout="mono")
            frame.sample_rate, frame.pts, frame.time_base = 16_000, at, Fraction(1, 16_000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return _titled(path)


def _titled(path: Path) -> Path:
    """The same streams under a title in Latin-1, as old tools wrote it."""
    titled = path.with_stem("titled")
    with av.open(str(path)) as source, av.open(str(titled), "w", format="mp4") as sink:
        sink.metadata["title"] = "Caf@"
        copies = {stream.index: sink.add_stream_from_template(stream) for stream in source.streams}
        for packet in source.demux():
            if packet.dts is not None:
                packet.stream = copies[packet.stream.index]
                sink.mux(packet)
    data = titled.read_bytes()
    assert data.count(b"Caf@") == 1
    titled.write_bytes(data.replace(b"Caf@", LATIN_1))
    return titled


READERS = {
    "the track of a film": (film, lambda path: video_track(path, settings=PreprocessSettings()).keyframes),
    "the fingerprint of a film": (
        film,
        lambda path: fingerprints.fingerprint(path, settings=DedupSettings())["frame-phash"],
    ),
    "a query by a film": (
        film,
        lambda path: encode_file_query(
            path, "video", encoder="frame-motion", executor=Executor("cpu"), settings=EmbedSettings()
        ),
    ),
    "the track of a recording": (recording, lambda path: audio_track(path, settings=PreprocessSettings())[1]),
    "the levels of a recording": (recording, lambda path: list(blocks(path))),
    "a query by a recording": (
        recording,
        lambda path: encode_file_query(
            path, "audio", encoder="mel-statistics", executor=Executor("cpu"), settings=EmbedSettings()
        ),
    ),
}


@pytest.mark.parametrize("name", READERS)
def test_a_tag_in_latin_1_loses_nothing(name, tmp_path):
    made, read = READERS[name]
    path = made(tmp_path / "a.mp4")
    assert LATIN_1 in path.read_bytes()
    assert len(read(path))


@pytest.mark.parametrize("text", ["ffconcat version 1.0\nfile a.mp4\n", "#EXTM3U\n#EXTINF:1,\na.mp4\n"])
def test_a_file_that_names_others_is_not_followed(tmp_path, text):
    (tmp_path / "a.mp4").write_bytes(make.film(1))
    (tmp_path / "list.mp4").write_text(text)
    with pytest.raises(UnreadableItem, match="no demuxer among the allowed formats"):
        open_media(tmp_path / "list.mp4")


def test_a_file_without_the_right_to_read_it_is_no_fault_of_the_item(tmp_path):
    """Nor is one that is gone: both are of the machine, for the bytes were never seen."""
    with pytest.raises(OSError, match="No such file"):
        open_media(tmp_path / "gone.mp4")


def test_one_wild_time_stamp_does_not_fill_the_memory(tmp_path):
    """A gap repeats the last frame; thirty years of them would be 8 billion."""
    path = tmp_path / "a.mkv"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mjpeg", rate=10)
        stream.width, stream.height, stream.pix_fmt = 64, 64, "yuvj420p"
        stream.codec_context.time_base = Fraction(1, 1_000)
        for pts in (0, 100, 10**12):
            frame = av.VideoFrame.from_ndarray(np.full((64, 64, 3), 90, np.uint8), format="rgb24")
            frame.pts, frame.time_base = pts, Fraction(1, 1_000)
            for packet in stream.encode(frame):
                container.mux(packet)
        container.mux(stream.encode(None))
    planes, _ = fingerprints.sampled_planes(path, step_s=0.125)
    assert len(planes) == 40_000


def film_of_old_x264(path: Path) -> Path:
    """Chroma of full size, and a message that says build 142: decoders read it as that build wrote."""
    rng = np.random.default_rng(5)
    with av.open(str(path), "w") as container:
        picture = container.add_stream("libx264", rate=25, options={"crf": "12", "g": "1"})
        picture.width, picture.height, picture.pix_fmt = 160, 96, "yuv444p"
        for _ in range(60):
            noise = np.kron(rng.integers(0, 256, (12, 20, 3)), np.ones((8, 8, 1))).astype(np.uint8)
            container.mux(picture.encode(av.VideoFrame.from_ndarray(noise, format="rgb24")))
        container.mux(picture.encode())
    held = path.read_bytes()
    message = re.search(rb"x264 - core \d{3}", held)
    path.write_bytes(held.replace(message[0], b"x264 - core 142"))
    return path


def pictures(path: Path, *, from_s: float) -> dict[float, bytes]:
    """The pixels of each frame behind that time, by its time."""
    with open_media(path) as container:
        container.seek(int(from_s * 1e6))
        found = frames(container, picture_stream(container))
        return {frame.time: frame.to_ndarray().tobytes() for frame in found if frame.time >= from_s}


@pytest.mark.parametrize("ending", ["mp4", "mkv"])
def test_a_film_of_an_old_x264_has_the_same_pictures_from_any_keyframe_on(tmp_path: Path, ending: str) -> None:
    path = film_of_old_x264(tmp_path / f"film.{ending}")
    whole = pictures(path, from_s=0.0)
    behind = pictures(path, from_s=1.7)
    assert len(whole) == 60
    assert len(behind) == 17
    assert behind == {time_s: whole[time_s] for time_s in behind}


def test_a_clip_of_a_film_of_an_old_x264_is_encoded_and_shows_what_the_film_shows(tmp_path: Path) -> None:
    path = film_of_old_x264(tmp_path / "film.mp4")
    span = Span(digest="1", parent_digest="2", start_us=1_000_000, end_us=2_000_000, start_frame=25, end_frame=50)
    assert cut_film(path, tmp_path / "clip.mp4", span, settings=CutSettings(media="copy")).media == "encode"
    with open_media(tmp_path / "clip.mp4") as container:
        clip = [frame.to_ndarray(format="gray") for frame in frames(container, picture_stream(container))]
    with open_media(path) as container:
        film = [frame.to_ndarray(format="gray") for frame in frames(container, picture_stream(container))]
    assert len(clip) == 25
    for one, other in zip(clip, film[25:50], strict=True):
        assert np.abs(one.astype(int) - other.astype(int)).mean() < 4

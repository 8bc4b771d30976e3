"""Frame times by packets are those of decoding, in every container and order; where they cannot be, it is decoded."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from films import film, flashes, shown_us

from mmlake.errors import UnreadableItem
from mmlake.preprocess.containers import frame_times as module
from mmlake.preprocess.containers.frame_times import frame_times
from mmlake.preprocess.settings import PreprocessSettings
from mmlake.preprocess.video import video_track

STEADY = [40 * number for number in range(100)]
B_FRAMES = {"bf": "3", "b-adapt": "0", "preset": "fast", "g": "50"}


def times_us(path: Path) -> np.ndarray:
    """What the film's own track asks for."""
    columns = video_track(path, settings=PreprocessSettings()).columns
    return frame_times(
        path,
        num_frames=columns["num_frames"],
        num_errors=columns["num_decode_errors"],
        shot_starts_s=[shot["start_s"] for shot in columns["shots"]],
    )


def ffmpeg(*arguments: str | Path) -> None:
    imageio_ffmpeg = pytest.importorskip("imageio_ffmpeg")
    subprocess.run([imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-y", *map(str, arguments)], check=True)


@pytest.fixture
def undecoded(monkeypatch):
    """No film may be decoded for its times."""
    monkeypatch.setattr(module, "_by_decoding", lambda *_: pytest.fail("the film was decoded"))


@pytest.mark.parametrize("name", ["a.mp4", "a.mkv", "a.ts", "a.mov"])
def test_b_frames_are_put_in_order(tmp_path, undecoded, name):
    path = film(tmp_path / name, STEADY, flashes(100), options=B_FRAMES)
    assert times_us(path).tolist() == shown_us(path)


def test_frames_of_uneven_length_keep_their_times(tmp_path, undecoded):
    times_ms = np.cumsum(np.random.default_rng(0).integers(5, 400, 60)).tolist()
    path = film(tmp_path / "a.mkv", times_ms, flashes(60), options=B_FRAMES)
    found = times_us(path)
    assert found.tolist() == shown_us(path)
    np.testing.assert_allclose(np.diff(found), np.diff(times_ms) * 1000, atol=1)


@pytest.mark.parametrize("name", ["a.mp4", "a.ts"])
def test_a_picture_that_begins_after_the_sound_is_on_the_same_clock(tmp_path, undecoded, name):
    path = film(tmp_path / name, [500 + time for time in STEADY], flashes(100), options=B_FRAMES, sound=np.zeros(64000))
    found = times_us(path)
    assert found.tolist() == shown_us(path)
    assert found[0] > 400_000


def test_frames_that_an_edit_list_cuts_off_are_not_counted(tmp_path):
    whole = film(tmp_path / "a.mp4", STEADY, flashes(100), options=B_FRAMES)
    # copied from the middle of a group of pictures: the frames before are in the file, and not shown
    ffmpeg("-ss", "0.9", "-i", whole, "-c", "copy", tmp_path / "b.mp4")
    assert times_us(tmp_path / "b.mp4").tolist() == shown_us(tmp_path / "b.mp4")


def test_avi_without_presentation_times_is_decoded(tmp_path):
    path = film(tmp_path / "a.avi", STEADY, flashes(100), codec="mpeg4", options={"bf": "2"})
    assert len(times_us(path)) == len(shown_us(path))


def test_fields_that_are_packets_of_their_own_are_no_frames(tmp_path):
    whole = film(tmp_path / "a.mp4", STEADY, flashes(100, size=(64, 64)))
    ffmpeg("-i", whole, "-c:v", "mpeg2video", "-flags", "+ildct+ilme", "-f", "mpegts", tmp_path / "b.ts")
    assert times_us(tmp_path / "b.ts").tolist() == shown_us(tmp_path / "b.ts")


def test_a_broken_packet_makes_the_film_be_decoded(tmp_path):
    path = film(tmp_path / "a.ts", STEADY, flashes(100), options={"g": "10", "bf": "0"})
    data = bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 3000] = bytes(3000)
    path.write_bytes(data)
    assert len(times_us(path)) == video_track(path, settings=PreprocessSettings()).columns["num_frames"]


def test_another_number_of_frames_than_the_track_has_is_said(tmp_path):
    path = film(tmp_path / "a.mp4", STEADY, flashes(100))
    with pytest.raises(UnreadableItem, match="num_frames=100, expected the 101 of its track") as raised:
        frame_times(path, num_frames=101, num_errors=0, shot_starts_s=[])
    assert raised.value.code == 3302


def test_shots_that_start_between_frames_make_the_film_be_decoded(tmp_path, monkeypatch):
    path = film(tmp_path / "a.mp4", STEADY, flashes(100))
    decoded = []
    original = module._by_decoding
    monkeypatch.setattr(module, "_by_decoding", lambda *of: decoded.append(1) or original(*of))
    frame_times(path, num_frames=100, num_errors=0, shot_starts_s=[0.0, 1.04])
    assert not decoded
    frame_times(path, num_frames=100, num_errors=0, shot_starts_s=[0.0, 1.05])
    assert decoded

"""Clips hold just the frames of their span: the parent's own, each with its time, from time 0 on."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import av
import numpy as np
import pytest

from mmlake.cuts import CutSettings, Span, cut_film
from mmlake.cuts.runner import program
from mmlake.errors import UnreadableItem
from tests.cuts.counted_films import counted_film, numbers, span_of, tone_hz

SETTINGS = CutSettings()
UNEVEN_MS = [number * 40 + (number % 3) * 7 for number in range(120)]
FILMS = {
    "mp4": {},
    "mkv": {},
    "ts": {},
    "mov": {"codec": "mpeg4"},
    "avi": {"codec": "mpeg4"},
    "out_of_order.avi": {},
    "uneven.mkv": {"times_ms": UNEVEN_MS},
    "uneven.mp4": {"times_ms": UNEVEN_MS},
    "one_keyframe.mp4": {"gop": 1000},
    "10_bit.mkv": {"pix_fmt": "yuv420p10le"},
}


def made(folder: Path, name: str) -> Path:
    return counted_film(folder / f"film.{name}", **FILMS[name])


@pytest.mark.parametrize("bounds", [(0, 25), (48, 73), (49, 50), (95, 120)])
@pytest.mark.parametrize("name", FILMS)
def test_a_clip_has_the_frames_of_its_span_at_their_times(tmp_path, name: str, bounds: tuple[int, int]) -> None:
    film = made(tmp_path, name)
    span, parent = span_of(film, *bounds), numbers(film)[slice(*bounds)]
    clip = cut_film(film, tmp_path / "clip.mp4", span, settings=SETTINGS)
    found = numbers(tmp_path / "clip.mp4")
    assert [number for number, _ in found] == [number for number, _ in parent] == list(range(*bounds))
    first_s = parent[0][1]
    assert [time_s for _, time_s in found] == pytest.approx([time_s - first_s for _, time_s in parent], abs=1.1e-3)
    assert (clip.num_frames, clip.is_exact, clip.media, clip.media_start_s) == (len(parent), True, "encode", 0.0)


@pytest.mark.parametrize("ending", ["mkv", "mp4"])
def test_pictures_that_begin_behind_the_sound_do_so_in_the_first_clip(tmp_path, ending: str) -> None:
    """WMV begins so; the pictures of the clip came as much too early."""
    film = counted_film(tmp_path / f"film.{ending}", 75, times_ms=[120 + 40 * number for number in range(75)])
    whole = span_of(film, 0, 50)
    cut_film(film, tmp_path / "clip.mp4", replace(whole, start_us=0), settings=SETTINGS)
    found = numbers(tmp_path / "clip.mp4")
    assert [number for number, _ in found] == list(range(50))
    assert (found[0][1], found[-1][1]) == pytest.approx((0.12, 0.12 + 49 * 0.04), abs=2e-3)


def test_neighbouring_clips_hold_every_frame_of_the_film_once(tmp_path) -> None:
    film = made(tmp_path, "uneven.mkv")
    held = []
    for first in range(0, 120, 17):
        cut_film(film, tmp_path / "clip.mp4", span_of(film, first, min(120, first + 17)), settings=SETTINGS)
        held += [number for number, _ in numbers(tmp_path / "clip.mp4")]
    assert held == list(range(120))


def test_equal_cuts_have_equal_bytes(tmp_path) -> None:
    film = made(tmp_path, "mp4")
    for name in ("one.mp4", "two.mp4"):
        cut_film(film, tmp_path / name, span_of(film, 30, 90), settings=SETTINGS)
    assert (tmp_path / "one.mp4").read_bytes() == (tmp_path / "two.mp4").read_bytes()


def sound_of(path: Path) -> tuple[np.ndarray, int]:
    with av.open(str(path)) as container:
        frames = list(container.decode(container.streams.audio[0]))
        return np.concatenate([frame.to_ndarray()[0] for frame in frames]), frames[0].sample_rate


def test_the_sound_is_that_of_the_span_and_as_long_as_the_picture(tmp_path) -> None:
    film = made(tmp_path, "mp4")
    cut_film(film, tmp_path / "clip.mp4", span_of(film, 55, 105), settings=SETTINGS)
    samples, rate_hz = sound_of(tmp_path / "clip.mp4")
    assert len(samples) / rate_hz == pytest.approx(2.0, abs=0.07)  # AAC comes in frames of 1,024 samples
    for middle_s in (0.4, 1.3):  # the film's second 2.6 and 3.5
        part = samples[int((middle_s - 0.1) * rate_hz) : int((middle_s + 0.1) * rate_hz)]
        loudest = np.argmax(np.abs(np.fft.rfft(part * np.hanning(len(part)))))
        assert loudest * rate_hz / len(part) == pytest.approx(tone_hz(2.2 + middle_s), abs=8)


def test_a_film_without_sound_gives_a_clip_without_sound(tmp_path) -> None:
    film = counted_film(tmp_path / "film.mp4", with_sound=False)
    cut_film(film, tmp_path / "clip.mp4", span_of(film, 10, 30), settings=SETTINGS)
    with av.open(str(tmp_path / "clip.mp4")) as container:
        assert not container.streams.audio
    assert len(numbers(tmp_path / "clip.mp4")) == 20


def test_a_picture_of_odd_sides_loses_a_line(tmp_path) -> None:
    film = counted_film(tmp_path / "film.mkv", size=(97, 73), pix_fmt="yuv444p")
    cut_film(film, tmp_path / "clip.mp4", span_of(film, 10, 30), settings=SETTINGS)
    with av.open(str(tmp_path / "clip.mp4")) as container:
        stream = container.streams.video[0]
        assert (stream.width, stream.height, stream.pix_fmt) == (96, 72, "yuv420p")


def test_a_film_that_lies_on_its_side_stands_up(tmp_path) -> None:
    upright = counted_film(tmp_path / "upright.mp4")
    command = [program(), "-loglevel", "error", "-display_rotation", "90", "-i", str(upright), "-c", "copy"]
    subprocess.run([*command, str(tmp_path / "film.mp4")], check=True, stdin=subprocess.DEVNULL)
    film = tmp_path / "film.mp4"
    cut_film(film, tmp_path / "clip.mp4", span_of(film, 20, 45), settings=SETTINGS)
    with av.open(str(tmp_path / "clip.mp4")) as container:
        stream = container.streams.video[0]
        assert (stream.width, stream.height) == (72, 96)
        grey = [frame.to_ndarray(format="gray") for frame in container.decode(stream)]
    assert {frame.shape for frame in grey} == {(96, 72)}
    assert len(grey) == 25
    bars = [int((bar + 0.5) * 8) for bar in range(12)]
    lying = [sum(1 << bar for bar, row in enumerate(bars) if one[95 - row, 36] > 130) for one in grey]
    assert lying == list(range(20, 45))


def test_frames_of_another_number_are_said_to_be_inexact(tmp_path) -> None:
    film = made(tmp_path, "mp4")
    span = span_of(film, 100, 120)
    longer = Span(
        digest=span.digest,
        parent_digest=span.parent_digest,
        start_us=span.start_us,
        end_us=span.end_us + 2_000_000,
        start_frame=100,
        end_frame=170,
    )
    clip = cut_film(film, tmp_path / "clip.mp4", longer, settings=SETTINGS)
    assert (clip.num_frames, clip.is_exact) == (20, False)


def test_a_span_behind_the_end_is_no_clip(tmp_path) -> None:
    film = made(tmp_path, "mp4")
    behind = Span(digest="a" * 64, parent_digest="b" * 64, start_us=9_000_000, end_us=10_000_000)
    with pytest.raises(UnreadableItem) as raised:
        cut_film(film, tmp_path / "clip.mp4", behind, settings=SETTINGS)
    assert raised.value.code == 3303


@pytest.mark.parametrize("name", ["mp4", "mkv", "ts"])
def test_copied_packets_begin_at_the_keyframe_before_and_say_where_the_span_begins(tmp_path, name: str) -> None:
    film = made(tmp_path, name)
    clip = cut_film(film, tmp_path / "clip.mp4", span_of(film, 60, 80), settings=CutSettings(media="copy"))
    found = numbers(tmp_path / "clip.mp4")
    assert (clip.media, clip.num_frames) == ("copy", len(found))
    at = dict(found)
    assert at[60] - found[0][1] == pytest.approx(clip.media_start_s, abs=2e-3)
    assert at.keys() >= set(range(60, 80))
    with av.open(str(tmp_path / "clip.mp4")) as container:
        assert next(container.decode(container.streams.video[0])).key_frame


def test_packets_that_no_mp4_takes_are_encoded(tmp_path) -> None:
    film = counted_film(tmp_path / "film.avi", codec="msmpeg4", b_frames=0, with_sound=False)
    clip = cut_film(film, tmp_path / "clip.mp4", span_of(film, 60, 80), settings=CutSettings(media="copy"))
    assert (clip.media, clip.is_exact) == ("encode", True)

"""Single frames that do not belong between their neighbours are found, with their time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from films import film

from mmlake.preprocess.settings import PreprocessSettings
from mmlake.preprocess.video import video_track
from mmlake.preprocess.visual.odd_frames import OddFrames
from mmlake.preprocess.visual.planes import SHOT_LUMA_HW

H, W = SHOT_LUMA_HW


def moving(num: int) -> list[np.ndarray]:
    """Luma cells of a camera that pans over a soft ground by half a cell per frame."""
    import cv2

    coarse = np.random.default_rng(5).integers(60, 180, (7, 24)).astype(np.float32)
    ground = cv2.resize(coarse, (2 * 96, 27), interpolation=cv2.INTER_CUBIC)
    return [np.clip(ground[:, at : at + 2 * W : 2], 0, 255).astype(np.uint8) for at in range(num)]


def found(frames: list[np.ndarray], *, rate_hz: float = 25.0) -> list[int]:
    """The numbers of the frames."""
    odd, before = OddFrames(), frames[0]
    for number, frame in enumerate(frames):
        steps = np.sort(np.abs(frame.astype(float) - before).ravel())
        brighter = float(np.median(frame.astype(float) - before))
        odd.add(number / rate_hz, frame.ravel(), moved=steps[-65:].mean(), brighter=brighter)
        before = frame
    return [round(time_s * rate_hz) for time_s in odd.finish()]


@pytest.mark.parametrize("level", [0, 20, 255])
@pytest.mark.parametrize("at", [2, 17, 28])
def test_a_frame_with_a_hole_is_found_at_its_time(level: int, at: int) -> None:
    frames = moving(30)
    frames[at][4:9, 10:30] = level
    frames[at][15:22, 20:44] = 255 - level
    assert found(frames) == [at]


def test_of_frames_that_are_seconds_apart_nobody_can_say() -> None:
    frames = moving(30)
    frames[17][4:20, 10:30] = 0
    assert found(frames) == [17]
    assert found(frames, rate_hz=2.0) == []


def test_whole_frames_are_not_found() -> None:
    assert found(moving(30)) == []


def test_a_flash_is_no_broken_frame() -> None:
    frames = moving(30)
    frames[12] = np.clip(frames[12] * 1.4 + 30, 0, 255).astype(np.uint8)
    assert found(frames) == []


def test_what_happens_in_every_frame_is_no_broken_frame() -> None:
    frames, rng = moving(30), np.random.default_rng(2)
    for frame in frames:
        y, x = rng.integers(0, H - 6), rng.integers(0, W - 9)
        frame[y : y + 6, x : x + 9] = 250  # flakes near the lens
    assert found(frames) == []


def test_a_cut_and_a_frame_that_is_repeated_are_no_broken_frames() -> None:
    frames = moving(12) + [255 - frame for frame in moving(12)]
    assert found(frames) == []
    assert found([frame for frame in frames for _ in range(2)]) == []


def test_a_thing_that_moves_by_two_cells_is_no_broken_frame() -> None:
    frames = [frame.copy() for frame in moving(1) * 20]
    for number, frame in enumerate(frames):
        frame[5:20, 10 + 2 * (number == 9) : 14 + 2 * (number == 9)] = 250
    assert found(frames) == []


@pytest.mark.parametrize("step", [8, 12, 16])
def test_what_flies_through_the_picture_in_a_few_frames_is_no_broken_frame(step: int) -> None:
    """A nut in a cartoon: it was a broken frame where it was farther than its own length in both neighbours."""
    frames = [frame.copy() for frame in moving(1) * 24]
    for number in range(8, 11):  # nearer to the camera in the middle one
        left = step * (number - 8)
        frames[number][8 : 11 + (number == 9), left : left + 6] = 250
    assert found(frames) == []


def test_a_circle_that_opens_and_closes_is_no_broken_frame() -> None:
    y, x = np.mgrid[0:H, 0:W]
    frames = [np.zeros((H, W), np.uint8) for _ in range(24)]
    for number, radius in enumerate((4, 5, 8, 13, 8, 4), 9):
        frames[number][(y - 13) ** 2 + (x - 24) ** 2 <= radius**2] = 200
    assert found(frames) == []


def test_a_broken_frame_is_found_while_the_camera_moves() -> None:
    frames = [frame.copy() for frame in moving(90)[::3]]
    frames[14][16:25] = 0
    assert found(frames) == [14]


def test_a_film_has_the_place_of_its_broken_frame(tmp_path: Path) -> None:
    """It decodes without complaint, since it was recorded so."""
    pictures = [np.repeat(np.kron(frame, np.ones((5, 5), np.uint8))[..., None], 3, axis=2) for frame in moving(20)]
    pictures = [picture[:134] for picture in pictures]
    pictures[11][30:80, 40:200] = 0
    path = film(tmp_path / "film.mkv", [40 * number for number in range(20)], pictures)
    (place,) = video_track(path, settings=PreprocessSettings()).columns["damages"]  # type: ignore[misc]
    assert place["what"] == "a frame does not belong between those before and behind it"
    assert place["at_s"] == pytest.approx(11 * 0.04)


def test_an_hevc_frame_whose_checksum_does_not_hold_is_damaged_and_shown(tmp_path: Path) -> None:
    """The frames carry an MD5 (ITU-T H.265, D.3.19), without which no decoder notices a flipped bit."""
    import av

    options = {"preset": "ultrafast", "x265-params": "hash=1:log-level=error:pools=1"}
    pictures = [np.repeat(np.kron(frame, np.ones((5, 5), np.uint8))[:134, :, None], 3, axis=2) for frame in moving(12)]
    whole = film(tmp_path / "whole.mp4", range(12), pictures, codec="libx265", options=options)
    with av.open(str(whole)) as source, av.open(str(tmp_path / "hit.mp4"), "w") as sink:
        stream = sink.add_stream_from_template(source.streams.video[0])
        for number, packet in enumerate(one for one in source.demux(video=0) if one.size):
            data = bytearray(bytes(packet))
            data[-8] ^= 0x10 if number == 9 else 0
            hit = av.Packet(bytes(data))
            hit.pts, hit.dts, hit.time_base, hit.duration = packet.pts, packet.dts, packet.time_base, packet.duration
            hit.is_keyframe, hit.stream = packet.is_keyframe, stream
            sink.mux(hit)
    assert video_track(whole, settings=PreprocessSettings()).columns["damages"] == []
    columns = video_track(tmp_path / "hit.mp4", settings=PreprocessSettings()).columns
    assert columns["num_frames"] == 12
    assert columns["damages"]

"""Boundaries are found where they were put, to the frame for cuts, and nowhere else."""

from __future__ import annotations

import av
import cv2
import numpy as np
import pytest
from preprocess_media import photo, scene

from mmlake.preprocess import PreprocessSettings
from mmlake.preprocess.visual.camera_motion import unexplained
from mmlake.preprocess.visual.gradual import colours
from mmlake.preprocess.visual.planes import small_planes
from mmlake.preprocess.visual.shots import ShotFinder

RATE = 25
SETTINGS = PreprocessSettings()


def found(frames, rate=RATE):
    finder = ShotFinder(SETTINGS)
    for index, frame in enumerate(frames):
        luma, vector = small_planes(av.VideoFrame.from_ndarray(frame, format="rgb24"), SETTINGS.analysis_side_px)
        finder.push(index / rate, vector, luma)
    return [(boundary.time_s, boundary.transition) for boundary in finder.finish()]


def blend(left, right, share):
    return (left * (1 - share) + right * share).astype(np.uint8)


def dissolve(first, second, count):
    """Both scenes, with `count` blended frames between them."""
    first, second = list(first), list(second)
    mixed = [blend(first[index - count], second[index], (index + 1) / (count + 1)) for index in range(count)]
    return [*first[:-count], *mixed, *second[count:]]


@pytest.mark.parametrize("seed", [1, 11, 21])
def test_hard_cuts_are_exact_to_the_frame(seed):
    frames = [frame for part, count in enumerate((30, 17, 41, 25)) for frame in scene(seed + part, count)]
    assert found(frames) == [(at / RATE, "cut") for at in (30, 47, 88)]


def test_a_cut_between_two_plain_colours_counts():
    frames = [np.full((90, 160, 3), colour, np.uint8) for colour in ((200, 30, 30), (30, 30, 200)) for _ in range(20)]
    assert found(frames) == [(20 / RATE, "cut")]


def test_a_dissolve_is_found_near_its_middle():
    frames = dissolve(scene(3, 50), scene(4, 50), 20)
    [(time_s, transition)] = found(frames)
    assert transition == "dissolve"
    assert abs(time_s - 40 / RATE) < 0.25


@pytest.mark.parametrize("seed", [3, 5, 13])
def test_a_dissolve_under_a_shaking_hand_is_found_near_its_middle(seed):
    frames = dissolve(scene(seed, 60, shake_px=4.0), scene(seed + 1, 60, shake_px=4.0), 24)
    [(time_s, transition)] = found(frames)
    assert transition == "dissolve"
    assert abs(time_s - 48 / RATE) < 0.25


@pytest.mark.parametrize(("is_whole", "num_found"), [(True, 1), (False, 0)])
def test_every_frame_of_a_dissolve_is_a_blend(is_whole, num_found):
    """A thing that leaves the lens within a few frames resembles a blend ten times a second, but not in between."""
    frames = dissolve(scene(3, 60, shake_px=4.0), scene(4, 60, shake_px=4.0), 24)
    for index in range(37, 59, 3):  # every third frame is sampled, these are not
        frames[index] = frames[index] if is_whole else frames[index][:, ::-1]
    assert len(found(frames)) == num_found


def test_the_camera_explains_a_pan_and_no_blend():
    pan, other = (cv2.cvtColor(photo(seed, size=(200, 120)), cv2.COLOR_RGB2GRAY) for seed in (1, 2))
    before, after = (np.ascontiguousarray(pan[:90, left : left + 160]) for left in (8, 14))
    assert unexplained(before, after) < 0.3
    assert unexplained(before, cv2.addWeighted(before, 0.8, other[:90, :160], 0.2, 0)) > 0.85
    assert unexplained(np.full((90, 160), 90, np.uint8), before) is None


def test_colours_stay_while_the_camera_moves_and_change_with_the_scene():
    views = [np.ascontiguousarray(frame[::3, ::3]) for frame in (*scene(3, 2, step_px=8.0), next(iter(scene(4, 1))))]
    planes = [small_planes(av.VideoFrame.from_ndarray(view, format="rgb24"), 160)[1] for view in views]
    first, moved, other = colours(np.stack(planes))
    assert first.sum() == pytest.approx(1)
    assert np.abs(first - moved).sum() < 0.5 * np.abs(first - other).sum()


def test_a_fade_through_black_is_one_boundary():
    out = [(frame * (1 - index / 12)).astype(np.uint8) for index, frame in enumerate(scene(5, 12))]
    back = [(frame * (index / 12)).astype(np.uint8) for index, frame in enumerate(scene(6, 12))]
    frames = [*scene(5, 30), *out, *[np.zeros((240, 320, 3), np.uint8)] * 4, *back, *scene(6, 30)]
    [(time_s, transition)] = found(frames)
    assert transition == "fade"
    assert abs(time_s - 44 / RATE) < 0.2


@pytest.mark.parametrize("options", [{"step_px": 0.0}, {"noise": 25.0}, {"shake_px": 4.0}, {"step_px": 3.0}])
def test_one_shot_stays_one_shot(options):
    assert found(scene(7, 90, **options)) == []


def test_pure_noise_has_no_cuts():
    rng = np.random.default_rng(0)
    assert found(rng.integers(0, 256, (60, 90, 160, 3), dtype=np.uint8)) == []


@pytest.mark.parametrize("length", [1, 2, 4])
def test_a_flash_is_no_cut(length):
    frames = list(scene(8, 80))
    frames[40 : 40 + length] = [blend(frame, np.full_like(frame, 255), 0.8) for frame in frames[40 : 40 + length]]
    assert found(frames) == []


@pytest.mark.parametrize("level", [0, 255])
@pytest.mark.parametrize("length", [1, 2, 4])
def test_frames_without_a_picture_within_a_shot_are_no_boundary(length, level):
    """A flash that is white all over, and frames that were lost to black, were fades."""
    frames = list(scene(8, 80, step_px=1.0))
    frames[40 : 40 + length] = [np.full_like(frame, level) for frame in frames[40 : 40 + length]]
    assert found(frames) == []


def test_a_black_frame_between_two_shots_is_a_boundary():
    frames = [*scene(8, 40), np.zeros((240, 320, 3), np.uint8), *scene(12, 40)]
    [(time_s, _)] = found(frames)
    assert 40 / RATE <= time_s <= 41 / RATE


def test_a_light_that_is_switched_on_is_no_cut():
    frames = list(scene(9, 80))
    assert found([*(frame // 2 for frame in frames[:40]), *frames[40:]]) == []


def test_an_object_that_crosses_the_frame_is_no_boundary():
    ground = next(iter(scene(10, 1)))
    frames = []
    for index in range(80):
        frame = ground.copy()
        frame[60:200, max(0, index * 5 - 80) : index * 5 + 20] = (250, 240, 20)
        frames.append(frame)
    assert found(frames) == []


@pytest.mark.parametrize(("wall", "side_px", "num_found"), [(160, 130, 0), (160, 200, 1), (0, 130, 1)])
def test_a_thing_that_jumps_before_a_wall_is_no_cut(wall, side_px, num_found):
    """Ten frames a second, as drawn films have them: a fifth of the picture changes at once, and stays changed. Where
    all around is black, as next to an upright film, the thing is all that there is."""
    frames = [np.full((240, 320, 3), wall, np.uint8) for _ in range(20)]
    for index, frame in enumerate(frames):
        frame[20 : 20 + side_px, 20 : 20 + side_px] = photo(2 + (index >= 10), size=(200, 200))[:side_px, :side_px]
    assert len(found(frames, rate=10)) == num_found


def test_boundaries_do_not_depend_on_where_the_window_ends():
    rate = 5  # a long clip cheaply: windows are measured in seconds
    frames = [frame for part in range(9) for frame in scene(30 + part, 45, size=(96, 72), noise=1.0)]
    assert found(frames, rate) == [(45 * part / rate, "cut") for part in range(1, 9)]


def test_a_clock_that_runs_backwards_is_survived():
    finder = ShotFinder(SETTINGS)
    for time_s in (0.0, 0.1, 0.05, 0.2):
        finder.push(time_s, np.zeros(27 * 48 + 2 * 9 * 16, np.uint8), np.zeros((90, 160), np.uint8))
    assert finder.finish() == []


@pytest.mark.parametrize("shake_px", [0.0, 4.0])
@pytest.mark.parametrize("share", [0.35, 0.5, 0.65])
def test_a_cut_is_found_behind_a_frame_that_shows_both_shots(share, shake_px):
    """A cut between two fields, and one in a film whose frames were mixed for another rate, has one."""
    for seed in range(20, 34, 2):
        first, second = list(scene(seed, 40, shake_px=shake_px)), list(scene(seed + 1, 40, shake_px=shake_px))
        [(time_s, transition)] = found([*first, blend(first[-1], second[0], share), *second])
        assert transition == "cut"
        assert abs(time_s - 41 / RATE) <= 1 / RATE + 1e-9  # the mixed frame, or the one behind it


def test_a_frame_lit_by_half_a_flash_is_no_mixed_cut():
    frames = list(scene(5, 60))
    white = np.full_like(frames[0], 255)
    frames[30], frames[31], frames[32] = blend(frames[30], white, 0.5), white, blend(frames[32], white, 0.5)
    assert found(frames) == []

"""Each video rule with a case just inside and just outside of its range."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageFilter
from quality_media import measures_of, picture, rules_broken, signals, video_track

from mmlake.store import BlobStore


@pytest.fixture
def store(tmp_path):
    return BlobStore(tmp_path)


def test_a_moving_clip_is_clean(store):
    assert rules_broken(video_track(store, [picture(1), picture(2)]), store) == []


@pytest.mark.parametrize(("num_black", "is_broken"), [(7, False), (8, True)])
def test_eight_of_ten_black_frames_are_a_black_video(store, num_black, is_broken):
    frames = signals(10 - num_black) + signals(num_black, luma=5.0, luma_std=2.0)
    assert ("black" in rules_broken(video_track(store, [picture()], signals=frames), store)) == is_broken


def test_a_dark_scene_with_lights_is_not_black(store):
    assert (
        measures_of(video_track(store, [picture()], signals=signals(10, luma=15.0, luma_std=25.0)), store)[
            "black_fraction"
        ]
        == 0
    )


@pytest.mark.parametrize(("change", "is_broken"), [(0.9, True), (1.1, False)])
def test_sensor_noise_alone_is_static(store, change, is_broken):
    row = video_track(store, [picture()], signals=signals(24, change=change))
    assert ("static" in rules_broken(row, store)) == is_broken


def test_slow_motion_shows_between_keyframes(store):
    row = video_track(store, [picture(1), picture(2)], signals=signals(24, change=0.3))
    assert "static" not in rules_broken(row, store)


@pytest.mark.parametrize(("duration_s", "is_broken"), [(0.49, True), (0.5, False)])
def test_half_a_second_is_the_shortest_clip(store, duration_s, is_broken):
    assert ("too_short" in rules_broken(video_track(store, [picture()], duration_s=duration_s), store)) == is_broken


@pytest.mark.parametrize(("side_px", "is_broken"), [(63, True), (64, False)])
def test_sixty_four_pixels_are_the_smallest_frame(store, side_px, is_broken):
    assert ("too_small_video" in rules_broken(video_track(store, [picture()], height_px=side_px), store)) == is_broken


def test_a_clip_out_of_focus_is_blurred(store):
    assert rules_broken(video_track(store, [picture(seed, blur_px=5) for seed in range(3)]), store) == ["blurred_video"]


def test_a_film_that_is_sharp_now_and_then_was_in_focus(store):
    """A title before clouds, and the clouds alone."""
    soft = [picture(seed, blur_px=5) for seed in (3, 4)]
    assert rules_broken(video_track(store, [soft[0], picture(1), soft[1]]), store) == []


def test_one_blurred_keyframe_of_three_is_no_blurred_video(store):
    assert rules_broken(video_track(store, [picture(1), picture(2, blur_px=5), picture(3)]), store) == []


def test_soft_fog_is_not_out_of_focus(store):
    fog = picture(1, blur_px=5).point(lambda level: 140 + level // 16)
    assert measures_of(video_track(store, [fog]), store)["blur"] is None


def test_what_stands_sharp_before_a_soft_ground_is_in_focus(store):
    """A twentieth of the picture is enough; the same picture out of focus as a whole is blurred."""
    ground, thing = picture(1, blur_px=8), picture(2)
    ground.paste(thing.crop((200, 120, 320, 210)), (200, 120))
    assert "blurred_video" not in rules_broken(video_track(store, [ground]), store)
    assert "blurred_video" in rules_broken(video_track(store, [ground.filter(ImageFilter.GaussianBlur(6))]), store)


def test_a_flat_picture_with_detail_out_of_focus_is_blurred_all_the_same(store):
    grass = picture(4, blur_px=5).point(lambda level: 100 + level // 5)
    assert rules_broken(video_track(store, [grass]), store) == ["blurred_video"]


def test_blank_keyframes_have_no_say_in_sharpness(store):
    blank = Image.fromarray(np.zeros((120, 160), np.uint8))
    assert measures_of(video_track(store, [blank]), store)["blur"] is None


def test_a_clip_of_one_frame_is_measured(store):
    measures = measures_of(video_track(store, [], signals=signals(1)), store)
    assert measures["num_failures"] == 0
    assert measures["motion"] is None


def test_alternating_brightness_flickers(store):
    frames = [row | {"luma": 100.0 + 20 * (index % 2)} for index, row in enumerate(signals(12))]
    assert measures_of(video_track(store, [picture()], signals=frames), store)["flicker"] == 20.0

"""Each rule on damaged pictures with a case just inside and just outside of its range."""

from __future__ import annotations

from fractions import Fraction

import pytest
from quality_media import measures_of, picture, rules_broken, signals, verdict_of, video_track

from mmlake.quality.pixel_aspect import pixel_aspect_error
from mmlake.store import BlobStore

SOUND = {
    "num_frames": 3.0, "num_black": 0.0, "num_repeated": 0.0, "num_missing": 0.0, "num_swings": 0.0, "flicker": 0.3,
    "luma_low": 119.0, "luma_high": 121.0, "shift_x": 0.01, "shift_y": 0.0, "path": 0.01, "motion": 6.0,
    "spoiled": 0.0, "bar_top": 0.0, "bar_bottom": 0.0, "bar_left": 0.0, "bar_right": 0.0, "bar_edge": 0.0,
    "lost_rows": 0.0, "blockiness": 0.0, "pixelation": 0.0, "noise": 1.0, "combing": 0.0, "smoothness": 1.5,
}  # fmt: skip
STILL = {"motion": 0.0, "num_repeated": 3.0, "path": 0.0, "shift_x": 0.0}


@pytest.fixture
def store(tmp_path):
    return BlobStore(tmp_path)


def broken(store, *stretches: tuple[int, dict[str, float]], shots_s=(0.0,), transition="cut") -> list[str]:
    """The rules that a clip breaks that has, one after the other, that many signals with those fields."""
    shots = [{"start_s": start_s, "end_s": 99.0, "transition": transition} for start_s in shots_s]
    rows = signals(sum(count for count, _ in stretches))
    fields = [SOUND | other for count, other in stretches for _ in range(count)]
    return rules_broken(
        video_track(
            store,
            [picture(1), picture(2)],
            signals=[row | one for row, one in zip(rows, fields, strict=True)],
            shots=shots,
        ),
        store,
    )


def test_sound_pictures_break_no_rule(store):
    assert broken(store, (24, {})) == []


def test_signals_without_traces_break_no_rule(store):
    row = video_track(store, [picture(1), picture(2)])
    assert rules_broken(row, store) == []
    assert measures_of(row, store)["flash_fraction"] is None


@pytest.mark.parametrize(("num_swings", "is_broken"), [(6, []), (8, ["strobe"])])
def test_more_than_three_flashes_a_second_are_a_strobe(store, num_swings, is_broken):
    """A flash is two turns; eight signals are a second."""
    assert broken(store, (24, {"num_swings": num_swings / 8})) == is_broken


def test_a_short_burst_of_flashes_is_no_strobe(store):
    assert broken(store, (32, {}), (8, {"num_swings": 2.0}), (32, {})) == []


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"num_black": 2.3}, None),
        ({"num_black": 2.5}, "black"),
        ({"flicker": 17.0}, None),
        ({"flicker": 19.0}, "flicker"),
        ({"num_repeated": 1.6}, None),
        ({"num_repeated": 2.0}, "repeated_frames"),
        ({"num_missing": 0.3}, None),
        ({"num_missing": 0.4}, "dropped_frames"),
        ({"path": 0.049, "shift_x": 0.0}, None),
        ({"path": 0.06, "shift_x": 0.0}, "shaken"),
        ({"path": 0.2, "shift_x": 0.2}, None),  # a pan
        ({"motion": 70.0}, None),
        ({"motion": 75.0}, "motion_overload"),
        ({"bar_top": 0.04, "bar_bottom": 0.05, "bar_edge": 0.9}, None),
        ({"bar_top": 0.05, "bar_bottom": 0.06, "bar_edge": 0.51}, "black_bars"),
        ({"bar_top": 0.05, "bar_bottom": 0.06, "bar_edge": 0.49}, None),  # a thing before black
        ({"bar_left": 0.06, "bar_right": 0.06, "bar_edge": 0.9}, "black_bars"),
        ({"pixelation": 0.39}, None),
        ({"pixelation": 0.41}, "mosaic"),
        ({"blockiness": 0.02}, None),
        ({"blockiness": 0.022}, "overcompressed"),
        ({"noise": 11.9}, None),
        ({"noise": 12.1}, "noisy_video"),
        ({"spoiled": 0.02}, None),
        ({"spoiled": 0.04}, "spoiled_colour"),
        ({"lost_rows": 0.11}, None),
        ({"lost_rows": 0.13}, "half_frame"),
        ({"combing": 0.0011}, None),
        ({"combing": 0.0013}, "combed"),
        ({"combing": -0.01}, None),
        ({"smoothness": 2.45}, None),
        ({"smoothness": 2.55}, "smeared"),
    ],
)
def test_a_bound_has_two_sides(store, fields, rule):
    assert broken(store, (24, fields)) == ([] if rule is None else [rule])


@pytest.mark.parametrize(("num_smeared", "is_broken"), [(11, []), (12, ["smeared"])])
def test_a_clip_is_smeared_when_half_of_its_frames_are(store, num_smeared, is_broken):
    assert broken(store, (num_smeared, {"smoothness": 3.0}), (24 - num_smeared, {})) == is_broken


@pytest.mark.parametrize(("num_still", "is_broken"), [(11, []), (13, ["frozen"])])
def test_a_filmed_picture_that_stands_is_frozen(store, num_still, is_broken):
    assert broken(store, (20, {}), (num_still, STILL), (20, {})) == is_broken


@pytest.mark.parametrize(("resumed", "is_broken"), [(4.0, []), (5.5, ["frozen"])])
def test_what_starts_slowly_after_a_stand_was_at_rest(store, resumed, is_broken):
    """Words that are drawn stand until the next stroke begins; frames that were lost show as a jump."""
    assert broken(store, (20, {}), (20, STILL), (1, {"motion": resumed}), (20, {})) == is_broken


def test_what_starts_slowly_in_a_slow_film_was_at_rest(store):
    assert broken(store, (40, {"motion": 3.0}), (20, STILL), (1, {"motion": 3.0}), (4, {"motion": 9.0})) == []


def test_a_still_picture_that_is_cut_in_is_not_frozen(store):
    """The stand begins with its shot, 2.5 s into the clip."""
    assert broken(store, (20, {}), (20, STILL), (20, {}), shots_s=(0.0, 2.5, 5.0)) == []


@pytest.mark.parametrize(("transition", "is_broken"), [("fade", []), ("cut", ["frozen"])])
def test_a_title_that_fades_in_is_not_frozen(store, transition, is_broken):
    """The boundary of a fade is its middle, half a second before the title stands."""
    stretches = (20, {}), (20, STILL), (20, {})
    assert broken(store, *stretches, shots_s=(0.0, 1.9), transition=transition) == is_broken


@pytest.mark.parametrize(("stopped", "is_broken"), [(2.9, []), (3.1, ["frozen"])])
@pytest.mark.parametrize("num_behind", [0, 20])
def test_a_shot_that_comes_to_rest_before_its_end_is_not_frozen(store, stopped, is_broken, num_behind):
    stretches = (20, {}), (1, {"motion": stopped}), (20, STILL), (num_behind, {})
    assert broken(store, *stretches, shots_s=(0.0, 41 / 8)) == is_broken


@pytest.mark.parametrize("num_behind", [0, 30])
def test_a_slow_shot_of_a_fast_film_is_frozen_up_to_a_cut(store, num_behind):
    """It stops at its own pace, which is a third of that of the film; where the film ends there it may be a rest."""
    stretches = (15, {}), (6, {"motion": 2.0}), (20, STILL), (num_behind, {})
    assert broken(store, *stretches, shots_s=(0.0, 15 / 8, 41 / 8)) == (["frozen"] if num_behind else [])


def test_a_screen_that_stands_between_its_movements_is_not_frozen(store):
    assert "frozen" not in broken(store, (20, {"num_repeated": 1.0}), (20, STILL), (20, {"num_repeated": 1.0}))


def test_a_chart_that_stands_on_the_bottom_of_a_still_page_is_no_half_frame(store):
    assert "half_frame" not in broken(store, (40, STILL | {"lost_rows": 0.3}), (1, {}))


def test_a_still_clip_is_not_frozen(store):
    assert broken(store, (2, {}), (30, STILL)) == []


def test_bars_in_some_pictures_alone_are_none(store):
    assert broken(store, (20, {"bar_top": 0.2, "bar_bottom": 0.2}), (1, {})) == []


@pytest.mark.parametrize(
    ("fields", "status"), [({"pixelation": 0.9}, "quarantined"), ({"bar_top": 0.3, "bar_edge": 1.0}, "flagged")]
)
def test_a_mosaic_keeps_a_clip_out_and_bars_do_not(store, fields, status):
    rows = [row | SOUND | fields for row in signals(24)]
    assert verdict_of(video_track(store, [picture(1), picture(2)], signals=rows), store)["status"] == status


@pytest.mark.parametrize(
    ("size", "ratio", "error"),
    [
        ((1920, 1080), None, 0.0),
        ((1920, 1080), Fraction(1), 0.0),
        ((854, 480), Fraction(1280, 1281), 0.001),
        ((720, 576), Fraction(16, 15), 0.0),
        ((720, 576), Fraction(64, 45), 0.0),
        ((720, 576), Fraction(1), 0.0625),
        ((720, 480), Fraction(10, 11), 0.023),
        ((1440, 1080), Fraction(4, 3), 0.0),
        ((640, 360), Fraction(4, 3), 0.333),
        ((1280, 720), Fraction(8, 9), 0.111),
        ((1234, 500), Fraction(4, 3), 0.0),  # of a size of its own nobody can say
        ((640, 360), Fraction(9, 1), 1.0),
    ],
)
def test_pixels_fit_the_size_or_do_not(size, ratio, error):
    assert pixel_aspect_error(*size, ratio) == pytest.approx(error, abs=2e-3)

"""Traces of damage are taken from every frame, and from each for itself."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from mmlake.preprocess.visual.picture_faults import PictureFaults, still_faults
from mmlake.preprocess.visual.planes import small_planes
from mmlake.preprocess.visual.texture_faults import texture

RATE_HZ = 24


def scene(height: int = 360, width: int = 640, *, seed: int = 5) -> np.ndarray:
    """A soft picture with structure everywhere."""
    import cv2

    rng = np.random.default_rng(seed)
    coarse = rng.integers(60, 200, (18, 32)).astype(np.float32)
    picture = cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC) + rng.normal(0, 1, (height, width))
    return np.clip(picture, 16, 235).astype(np.uint8)


def texture_of(picture: np.ndarray) -> dict[str, float]:
    """The texture of one luma plane."""
    return texture(np.ascontiguousarray(picture), picture.shape[1])


def traces(frames: list[np.ndarray], *, times_s: list[float] | None = None) -> dict[str, float]:
    """The traces of these luma planes, grey in colour, as one stretch."""
    import av

    faults, held = PictureFaults(), None
    for number, picture in enumerate(frames):
        frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="gray").reformat(format="yuv420p")
        held = frame, small_planes(frame, 160)
        faults.add(*held[1], times_s[number] if times_s else number / RATE_HZ)
    assert held is not None
    return faults.take(held[0], held[1][0])


@pytest.mark.parametrize("period", [2, 4, 6])
def test_a_strobe_of_any_short_period_turns_twice_a_period(period: int) -> None:
    bright = scene()
    frames = [bright if number % period < period // 2 else bright // 2 + 8 for number in range(24)]
    assert traces(frames)["num_swings"] == pytest.approx(24 / (period / 2), abs=2)


def test_a_slow_change_of_light_has_no_turn() -> None:
    bright = scene().astype(np.float32)
    frames = [(bright * (0.4 + number / 40)).astype(np.uint8) for number in range(24)]
    assert traces(frames)["num_swings"] == 0


def test_repeated_frames_are_counted_and_moving_ones_are_not() -> None:
    pictures = [np.roll(scene(), 3 * number, axis=1) for number in range(6)]
    assert traces([pictures[number // 2] for number in range(12)])["num_repeated"] == 6
    assert traces(pictures)["num_repeated"] == 0


def test_a_repeated_frame_that_an_encoder_corrected_counts_amid_motion() -> None:
    pictures = [np.roll(scene(), 6 * number, axis=1) for number in range(8)]
    corrected = [picture.copy() for picture in pictures]
    for picture in corrected:
        picture[::3] += 1  # a third of a level
    frames = [frame for pair in zip(pictures, corrected, strict=True) for frame in pair]
    assert traces(frames)["num_repeated"] == 8 - 2  # the first and the last have motion on one side only


def test_frames_that_the_time_stamps_leave_out_are_counted() -> None:
    times_s = [number / RATE_HZ for number in range(12) if number not in (6, 7, 10)]
    assert traces([scene()] * len(times_s), times_s=times_s)["num_missing"] == 3


def test_time_stamps_in_whole_hundredths_leave_nothing_out() -> None:
    times_s = [round(number / RATE_HZ, 2) for number in range(24)]
    assert traces([scene()] * 24, times_s=times_s)["num_missing"] == 0


def test_a_pan_goes_somewhere_and_a_shake_goes_nowhere() -> None:
    wide = scene(360, 1280)
    pan = traces([wide[:, 8 * number : 640 + 8 * number] for number in range(12)])
    shake = traces([wide[:, 300 + 8 * (number % 2) : 940 + 8 * (number % 2)] for number in range(13)])
    assert abs(pan["shift_x"]) == pytest.approx(11 * 8 / 640, rel=0.1)
    assert pan["path"] == pytest.approx(abs(pan["shift_x"]), rel=0.05)
    assert shake["path"] == pytest.approx(12 * 8 / 640, rel=0.1)
    assert abs(shake["shift_x"]) < 0.01


def test_black_frames_are_counted_one_by_one() -> None:
    assert traces([scene(), np.full((360, 640), 16, np.uint8), scene()])["num_black"] == 1


def test_a_dark_scene_with_a_lamp_is_not_black() -> None:
    dark = np.full((360, 640), 20, np.uint8)
    assert traces([dark // 2])["num_black"] == 1
    dark[100:110, 200:210] = 235
    assert traces([dark])["num_black"] == 0


def test_bars_are_shares_of_the_picture() -> None:
    barred = scene()
    barred[:45], barred[-45:] = 0, 0
    found = traces([barred])
    assert (found["bar_top"], found["bar_bottom"]) == (pytest.approx(0.125, abs=0.02), pytest.approx(0.125, abs=0.02))
    assert (found["bar_left"], found["bar_right"]) == (0, 0)
    assert found["bar_edge"] > 0.9


def test_a_frame_that_is_drawn_on_black_has_no_bars_around_it() -> None:
    """Its lines are straight, and there is nothing in it."""
    drawn = np.zeros((360, 640), np.uint8)
    drawn[120:240, 240:400] = 200
    drawn[136:224, 256:384] = 0
    found = traces([drawn])
    assert found["bar_top"] > 0.3
    assert found["bar_edge"] < 0.5


def test_a_thing_before_black_has_no_bars_that_end_in_a_line() -> None:
    y, x = np.indices((360, 640))
    planet = np.where((y - 180) ** 2 + (x - 320) ** 2 < 130**2, scene(), 0).astype(np.uint8)
    found = traces([planet])
    assert found["bar_top"] > 0.1
    assert found["bar_edge"] < 0.4


@pytest.mark.parametrize("fill", [lambda line: line, lambda line: np.full_like(line, 130)])
def test_lines_that_were_never_received_are_lost(fill: Callable[[np.ndarray], np.ndarray]) -> None:
    half = scene()
    half[200:] = fill(half[199])
    assert traces([half])["lost_rows"] == pytest.approx(160 / 360, abs=0.03)
    assert traces([scene()])["lost_rows"] == 0


def test_bars_of_a_chart_below_words_are_no_lines_that_were_lost() -> None:
    """They go on to the bottom as a repeated line does, but have few sides where words have many."""
    import cv2

    slide = np.full((360, 640), 230, np.uint8)
    for at in range(4):
        cv2.putText(slide, "redohu oorh", (10, 50 + 50 * at), cv2.FONT_HERSHEY_SIMPLEX, 2.0, 120, 4)
    for left in range(20, 640, 100):
        slide[215:, left : left + 50] = 30
    assert traces([slide])["lost_rows"] == 0


def test_planes_of_zeros_are_a_colour_that_no_picture_has() -> None:
    import av

    def share(frame: av.VideoFrame) -> float:
        faults = PictureFaults()
        luma, vector = small_planes(frame, 160)
        faults.add(luma, vector, 0.0)
        return faults.take(frame, luma)["spoiled"]

    screen = np.empty((360, 640, 3), np.uint8)
    screen[:] = 0, 255, 0  # the purest green that a picture can have
    assert share(av.VideoFrame.from_ndarray(screen, format="rgb24").reformat(format="yuv420p")) == 0
    lost = np.zeros((540, 640), np.uint8)
    assert share(av.VideoFrame.from_ndarray(lost, format="yuv420p")) == 1


@pytest.mark.parametrize("side_px", [8, 16, 30])
def test_squares_are_a_mosaic_and_a_soft_picture_is_none(side_px: int) -> None:
    squares = scene()[::side_px, ::side_px].repeat(side_px, axis=0).repeat(side_px, axis=1)[:360, :640]
    assert texture_of(squares)["pixelation"] > 0.5
    assert texture_of(scene())["pixelation"] == 0


def test_a_wall_of_tiles_that_does_not_begin_with_the_picture_is_no_mosaic() -> None:
    wall = scene()[::20, ::20].repeat(20, axis=0).repeat(20, axis=1)
    assert texture_of(np.ascontiguousarray(wall[:340, 9:617]))["pixelation"] < 0.1


def test_blocks_of_a_codec_show_at_its_grid_alone() -> None:
    import cv2

    small = scene()[4::8, 4::8]
    blocks = cv2.resize(small, (640, 360), interpolation=cv2.INTER_NEAREST)
    assert texture_of(blocks)["blockiness"] > 0.5
    assert texture_of(np.roll(blocks, 3, axis=1))["blockiness"] == 0
    assert texture_of(scene())["blockiness"] < 0.05


def test_blocks_whose_edges_a_decoder_smoothed_show_as_well() -> None:
    """Filters of H.264 and H.265 spread the step between two blocks over six pixels."""
    import cv2

    levels = np.random.default_rng(9).integers(0, 2, (23, 40)) * 24.0 + 100
    smooth = cv2.blur(cv2.resize(levels, (640, 368), interpolation=cv2.INTER_NEAREST), (4, 4))[:360]
    assert texture_of(smooth.astype(np.uint8))["blockiness"] > 0.1
    assert texture_of(np.roll(smooth, 4, axis=1).astype(np.uint8))["blockiness"] == 0


def test_a_table_and_a_wall_of_tiles_on_the_grid_of_a_codec_are_no_blocks() -> None:
    """Their lines stand where blocks end, come back behind a pixel or two, and go from top to bottom."""
    page = np.full((360, 640), 240, np.uint8)
    page[180::18], page[180:, 7::24] = 120, 120
    assert texture_of(page)["blockiness"] < 0.01
    wall = np.kron(np.indices((23, 40)).sum(axis=0) % 2 * 60 + 90, np.ones((16, 16))).astype(np.uint8)[:360, :640]
    assert texture_of(wall)["blockiness"] < 0.01


def test_bars_of_a_chart_and_lines_next_to_the_grid_are_no_blocks() -> None:
    """Bars end at the grid of a codec in both directions, by more levels than a quantizer leaves; lines come back."""
    rng, page = np.random.default_rng(5), np.full((360, 640), 230, np.uint8)
    for left in range(0, 640, 16):
        page[8 * rng.integers(4, 30) :, left : left + 8] = rng.integers(30, 150)
    assert texture_of(page)["blockiness"] < 0.01
    page = np.full((360, 640), 230, np.uint8)
    for left in range(9, 640, 16):
        page[8 * rng.integers(4, 30) :, left] = 180
        page[rng.integers(0, 22) * 16 + 9, : 8 * rng.integers(10, 70)] = 180
    assert texture_of(page)["blockiness"] < 0.01


def test_a_patchwork_of_equal_squares_is_no_work_of_a_codec() -> None:
    rng = np.random.default_rng(7)
    quilt = np.kron(rng.integers(0, 2, (12, 20)) * 90 + 60, np.ones((32, 32)))[:360, :640].astype(np.uint8)
    codec = np.kron(rng.integers(0, 2, (45, 80)) * 12 + 90, np.ones((8, 8))).astype(np.uint8)
    assert texture_of(quilt)["blockiness"] < 0.01
    assert texture_of(codec)["blockiness"] > 0.2


def test_a_patchwork_with_diagonals_from_corner_to_corner_is_no_work_of_a_codec() -> None:
    """The mean of the eight lines of a block climbs along a slanting side from one edge of the grid to the next."""
    rng, quilt = np.random.default_rng(11), np.empty((360, 640), np.uint8)
    y, x = np.indices((40, 40))
    for top, left in np.ndindex(9, 16):
        half = x > y if rng.random() < 0.5 else x + y < 39
        quilt[40 * top : 40 * top + 40, 40 * left : 40 * left + 40] = np.where(half, *rng.integers(40, 200, 2))
    assert texture_of(quilt)["blockiness"] < 0.01


def test_blocks_in_one_direction_alone_are_no_work_of_a_codec() -> None:
    rng = np.random.default_rng(2)
    columns = scene() // 2 + np.kron(rng.integers(0, 40, (45, 80)), np.ones((8, 8))).astype(np.uint8)
    stripes = scene() // 2 + np.kron(rng.integers(0, 40, (1, 80)), np.ones((360, 8))).astype(np.uint8)
    assert texture_of(columns)["blockiness"] > 0.3
    assert texture_of(stripes)["blockiness"] < 0.01


@pytest.mark.parametrize("sigma", [5.0, 20.0])
def test_noise_is_measured_in_the_calm_parts(sigma: float) -> None:
    rng = np.random.default_rng(1)
    noisy = np.clip(scene() + rng.normal(0, sigma, (360, 640)), 0, 255).astype(np.uint8)
    assert texture_of(noisy)["noise"] == pytest.approx(sigma, rel=0.2)


def test_fields_of_two_moments_are_combed() -> None:
    woven = scene()
    woven[1::2] = np.roll(woven, 12, axis=1)[1::2]
    assert texture_of(woven)["combing"] > 0.1
    assert texture_of(scene())["combing"] == 0


def test_small_things_that_fall_are_combed() -> None:
    still, woven = np.full((2, 360, 640), 90, np.uint8)
    for x, y in np.random.default_rng(3).integers(0, (634, 348), (250, 2)):
        still[y : y + 5, x : x + 5] = 240
        woven[y + y % 2 : y + 5 : 2, x : x + 5] = 240  # lines of one field, and of the other four lines lower
        woven[y + 5 - y % 2 : y + 9 : 2, x : x + 5] = 240
    assert texture_of(woven)["combing"] > 0.002
    assert texture_of(still)["combing"] < 0.0005


def test_slow_waves_under_glints_are_combed() -> None:
    """Fields that differ by a few levels, where a fifth of the picture glitters."""
    rng = np.random.default_rng(6)
    y, x = np.mgrid[:360, :640]
    first, second = (90 + 20 * np.sin(x / 9 + y / 14 + phase) for phase in (0.0, 0.35))
    glints = 110 * (np.sin(x / 30 - y / 40) > 0.8) * (rng.random((360, 640)) < 0.5)
    woven = np.where(y % 2, second, first) + glints
    assert texture_of(woven.astype(np.uint8))["combing"] > 0.01
    assert texture_of((first + glints).astype(np.uint8))["combing"] < 0.0005


def test_glints_and_noise_are_no_combs_since_they_go_to_and_fro_across_as_well() -> None:
    """On the mean of some pictures, of which one has a little more of one direction by chance."""
    rng = np.random.default_rng(4)
    glints = [np.where(rng.random((360, 640)) < 0.5, 220, 90).astype(np.uint8) for _ in range(4)]
    noise = [rng.integers(0, 256, (360, 640), dtype=np.uint8) for _ in range(4)]
    assert np.mean([texture_of(picture)["combing"] for picture in glints]) < 0.0005
    assert np.mean([texture_of(picture)["combing"] for picture in noise]) < 0.0005


def test_noise_that_stands_is_no_comb() -> None:
    noisy = scene(144, 256).astype(np.float32) + np.random.default_rng(8).normal(0, 6, (144, 256))
    assert texture_of(np.clip(noisy, 0, 255).astype(np.uint8))["combing"] < 0.0005


def test_blinds_of_two_lines_at_a_slant_are_no_combs() -> None:
    y, x = np.mgrid[:360, :640]
    blinds = np.where((2 * y + x // 2) % 4 < 2, 200, 120).astype(np.uint8)
    assert texture_of(blinds)["combing"] == pytest.approx(0, abs=0.0005)


def test_thin_lines_of_a_table_are_no_combs() -> None:
    page = np.full((360, 640), 240, np.uint8)
    page[::6] = page[1::18] = 60
    assert texture_of(page)["combing"] == 0


def shapes(seed: int = 7) -> np.ndarray:
    """Outlined things before a calm ground."""
    import cv2

    picture, rng = np.full((360, 640), 100, np.uint8), np.random.default_rng(seed)
    for x, y in rng.integers(0, (600, 320), (30, 2)).tolist():
        cv2.rectangle(picture, (x, y), (x + 30, y + 30), int(rng.integers(20, 230)), -1)
        cv2.circle(picture, (y, x // 2), 18, int(rng.integers(20, 230)), -1)
    return picture


def smeared(picture: np.ndarray, length: int, turn: float) -> np.ndarray:
    """The mean over a straight path of so many pixels."""
    import cv2

    path = np.linspace(-length / 2, length / 2, 4 * length)
    kernel = np.zeros((length | 1, length | 1), np.float32)
    middle = length // 2
    for along in path:
        at = np.round([middle + along * np.sin(turn), middle + along * np.cos(turn)]).astype(int)
        kernel[tuple(np.clip(at, 0, (length | 1) - 1))] += 1 / len(path)
    return cv2.filter2D(picture, -1, kernel)


@pytest.mark.parametrize("turn", [0.0, 0.4, 0.8, 1.2, 1.57, 2.4])
def test_a_picture_is_smooth_along_the_way_of_the_camera(turn: float) -> None:
    assert texture_of(smeared(shapes(), 20, turn))["smoothness"] > 2.6
    assert texture_of(smeared(shapes(), 3, turn))["smoothness"] < 2.0


def test_grass_and_waves_are_smooth_along_their_blades_where_what_stands_in_them_is_sharp() -> None:
    grass = smeared(np.random.default_rng(2).integers(0, 256, (360, 640), dtype=np.uint8), 30, 0.0)
    standing = np.where(shapes() == 100, grass, shapes()).astype(np.uint8)
    assert texture_of(standing)["smoothness"] < 2.0
    assert texture_of(smeared(standing, 20, 0.0))["smoothness"] > 2.6


def test_noise_and_what_shows_nothing_is_not_smooth() -> None:
    rng = np.random.default_rng(3)
    assert texture_of(rng.integers(0, 256, (360, 640), dtype=np.uint8))["smoothness"] < 0.5
    fog = np.tile(np.linspace(120, 150, 640), (360, 1))
    assert texture_of(fog.astype(np.uint8))["smoothness"] == 0


@pytest.mark.parametrize("shape", [(1, 1), (2, 4000), (47, 640), (64, 20)])
def test_a_picture_too_small_for_blocks_has_no_texture_of(shape: tuple[int, int]) -> None:
    assert set(texture_of(np.zeros(shape, np.uint8)).values()) == {0.0}


def test_a_picture_of_one_column_has_no_steps_across() -> None:
    """A film one pixel wide whose lower half stands still was refused for a division by zero."""
    column = np.concatenate((np.arange(0, 224, 7), np.full(32, 128))).astype(np.uint8)[:, None]
    assert still_faults(column)["lost_rows"] == 0

"""What distinguishes the copies of a film: each number is worse for the copy that lost what it measures."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from mmlake.modalities import MODALITIES
from mmlake.quality.measurement import Subject
from mmlake.quality.pixel_aspect import PIXEL_ASPECT_MEASUREMENT
from mmlake.quality.video_fidelity import FIDELITY_MEASURES, video_fidelity


@cache
def frames(num: int = 40, height: int = 180, width: int = 240) -> tuple[np.ndarray, ...]:
    """A picture with detail at all scales that moves past, in colour, with the grain of a sensor."""
    from PIL import Image

    rng, ground = np.random.default_rng(1), np.zeros((height, width + 80, 3))
    for side in (4, 12, 36, 108):
        noise = Image.fromarray(rng.integers(0, 255, (side, side, 3), dtype=np.uint8))
        ground += np.asarray(noise.resize((width + 80, height), 3), float) / 4
    ground += rng.normal(0, 8, (height, width + 80, 1))
    grain = [rng.normal(0, 2, (height, width, 1)) for _ in range(num)]
    return tuple((ground[:, at : at + width] + grain[at]).clip(0, 255).astype(np.uint8) for at in range(num))


def film(
    path: Path, pixels: Sequence[np.ndarray], *, codec: str = "libx264", crf: int = 18, aspect: Fraction = Fraction(1)
) -> Path:
    """The frames as a file, 20 a second."""
    import av

    height, width = pixels[0].shape[:2]
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=20, options={"crf": str(crf), "threads": "1", "g": "20"})
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.codec_context.sample_aspect_ratio = aspect
        if codec == "mpeg4":
            stream.bit_rate, stream.gop_size = 100_000, 12
        for at, picture in enumerate(pixels):
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
            frame.pts, frame.time_base = at, Fraction(1, 20)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def measured(path: Path | None, span_s: tuple[float, float] | None = None) -> dict[str, float | None]:
    return video_fidelity(Subject({}, path=path, span_s=span_s))


def resized(pixels: Sequence[np.ndarray], factor: float) -> list[np.ndarray]:
    import cv2

    return [cv2.resize(one, None, fx=factor, fy=factor, interpolation=cv2.INTER_CUBIC) for one in pixels]


@pytest.fixture(scope="module")
def original(tmp_path_factory) -> dict[str, float | None]:
    return measured(film(tmp_path_factory.mktemp("film") / "original.mp4", frames()))


def test_an_original_has_all_numbers(original):
    assert set(original) == set(FIDELITY_MEASURES) and None not in original.values()
    assert (original["colourfulness"], original["bars_fraction"], original["num_shown_frames"]) == (1.0, 0.0, 40.0)


def test_a_grey_copy_has_no_colour(original, tmp_path):
    grey = [one.mean(axis=2, keepdims=True).repeat(3, axis=2).astype(np.uint8) for one in frames()]
    assert measured(film(tmp_path / "grey.mp4", grey))["colourfulness"] < 0.2


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_a_copy_of_another_size_has_less_detail(original, tmp_path, factor):
    copy = measured(film(tmp_path / "copy.mp4", resized(frames(), factor), crf=23))
    assert copy["detail_px"] < 0.85 * original["detail_px"]


def test_a_coarser_encoding_has_smaller_keyframes_and_less_detail(original, tmp_path):
    copy = measured(film(tmp_path / "coarse.mp4", frames(), crf=38))
    assert copy["detail_px"] < original["detail_px"]
    assert copy["keyframe_bytes"] < 0.5 * original["keyframe_bytes"]


def test_blocks_of_an_old_codec_are_seen(original, tmp_path):
    copy = measured(film(tmp_path / "old.mp4", frames(), codec="mpeg4"))
    assert copy["blockiness"] > 2 * original["blockiness"]


def test_black_bars_are_a_share_of_the_picture_and_the_margin_of_a_slide_is_none(tmp_path):
    for level, bars in ((0, 0.25), (255, 0.0)):
        boxed = [np.pad(one, ((30, 30), (0, 0), (0, 0)), constant_values=level) for one in frames()]
        assert measured(film(tmp_path / f"{level}.mp4", boxed))["bars_fraction"] == pytest.approx(bars, abs=0.02)


def test_a_clip_has_the_frames_of_its_span(tmp_path):
    path = film(tmp_path / "film.mp4", frames())
    assert measured(path, (0.5, 1.5))["num_shown_frames"] == pytest.approx(20, abs=1)
    assert measured(path, (0.5, 1.5))["detail_px"] == pytest.approx(measured(path)["detail_px"], rel=0.1)


@pytest.mark.parametrize("data", [b"no film", b""])
def test_what_is_no_film_has_no_numbers(tmp_path, data):
    (tmp_path / "junk.mp4").write_bytes(data)
    assert set(measured(tmp_path / "junk.mp4").values()) == set(measured(None).values()) == {None}


def test_a_black_film_has_no_detail_to_compare(tmp_path):
    found = measured(film(tmp_path / "black.mp4", [np.zeros((96, 96, 3), np.uint8)] * 20))
    assert found["detail_px"] is None and found["num_shown_frames"] is not None


def test_a_finer_quantizer_has_smaller_steps_in_one_unit(tmp_path):
    fine, coarse = (measured(film(tmp_path / f"{crf}.mp4", frames(), crf=crf)) for crf in (14, 34))
    assert fine["quantizer_step"] < 4 < coarse["quantizer_step"]
    old = measured(film(tmp_path / "old.mp4", frames(), codec="mpeg4"))
    assert old["quantizer_step"] > fine["quantizer_step"]


def test_light_contrast_and_colours_are_those_inside_the_bars(original, tmp_path):
    boxed = [np.pad(one, ((30, 30), (0, 0), (0, 0))) for one in frames()]
    framed = measured(film(tmp_path / "boxed.mp4", boxed))
    for name in ("luma_level", "contrast_levels", "chroma_levels"):
        assert framed[name] == pytest.approx(original[name], rel=0.03)
    lit = [(0.6 * one + 80).astype(np.uint8) for one in frames()]
    faded = measured(film(tmp_path / "faded.mp4", lit))
    assert faded["luma_level"] > original["luma_level"] + 10
    assert faded["contrast_levels"] < 0.7 * original["contrast_levels"]


def test_a_film_of_the_coarsest_quantizer_is_beyond_the_bound_of_its_rule(tmp_path) -> None:
    (rule,) = [one for one in MODALITIES["video"].rules if one.name == "coarse_quantizer"]
    pixels = frames(8, height=96, width=128)
    steps = [measured(film(tmp_path / f"{crf}.mp4", pixels, crf=crf))["quantizer_step"] for crf in (30, 51)]
    assert steps[0] < rule.high <= steps[1]


@pytest.mark.parametrize(("aspect", "error"), [(Fraction(1), 0.0), (Fraction(16, 11), 5 / 11)])
def test_a_film_that_claims_oblong_pixels_at_a_square_size_is_read_from_its_header(tmp_path, aspect, error) -> None:
    path = film(tmp_path / "film.mkv", frames(2, height=90, width=160), aspect=aspect)
    assert PIXEL_ASPECT_MEASUREMENT.take(Subject({}, path=path)) == {"pixel_aspect_error": pytest.approx(error)}

"""Films that say that they are PQ or HLG: their pictures are those of a standard screen wherever they are made."""

from __future__ import annotations

import io
import subprocess
from fractions import Fraction
from pathlib import Path

import av
import imageio_ffmpeg
import numpy as np
import pytest
from PIL import Image

from mmlake.film_decoders import DecodeSettings
from mmlake.media.high_dynamic_range import HLG, PQ, as_sdr, curve
from mmlake.preprocess.settings import PreprocessSettings
from mmlake.preprocess.video import video_track

# signals of BT.2408 (tables 1 and 2): a grey card of 18 %, and reference white of 203 cd/m2
GREY_CARD = {PQ: 0.38, HLG: 0.38}
WHITE = {PQ: 0.58, HLG: 0.75}
PEAK = {PQ: 0.7518, HLG: 1.0}  # 1,000 cd/m2
TAGS = {PQ: "smpte2084", HLG: "arib-std-b67"}


def deep(y: int, cb: int = 512, cr: int = 512, *, transfer: int, size: tuple[int, int] = (33, 17)) -> av.VideoFrame:
    """A frame of one colour, 10-bit Y'CbCr of BT.2020."""
    frame = av.VideoFrame(*size, "yuv420p10le")
    for plane, level in zip(frame.planes, (y, cb, cr), strict=True):
        plane.update(np.full(plane.buffer_size // 2, level, np.uint16).tobytes())
    frame.color_trc, frame.color_primaries, frame.colorspace, frame.color_range = transfer, 9, 9, 1
    return frame


def rgb(frame: av.VideoFrame) -> np.ndarray:
    """Its mean colour, 0 to 255."""
    pixels: np.ndarray = frame.to_ndarray(format="rgb24").mean(axis=(0, 1))
    return pixels


@pytest.mark.parametrize("transfer", [PQ, HLG])
def test_levels_of_bt2408_have_the_levels_of_a_standard_screen(transfer):
    """A grey card has the signal of 18 % within a tenth of its light; white is nearly white; the peak is white."""
    card, white, peak = (float(curve(transfer, np.full(3, one[transfer]))[0]) for one in (GREY_CARD, WHITE, PEAK))
    assert card == pytest.approx(1.055 * 0.128 ** (1 / 2.4) - 0.055, abs=0.06)  # 26 of 203 cd/m2
    assert 0.85 < white < 0.95
    assert peak == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("transfer", [PQ, HLG])
def test_brighter_is_never_darker_and_grey_is_grey(transfer):
    grey = np.linspace(0, 1, 1024)[:, None].repeat(3, axis=1)
    found = curve(transfer, grey)
    assert (np.diff(found[:, 0]) >= -1e-9).all()
    assert np.ptp(found, axis=1).max() < 0.002
    assert (found[0, 0], found[-1, 0]) == (pytest.approx(0.0, abs=1e-6), pytest.approx(1.0, abs=1e-6))


@pytest.mark.parametrize("transfer", [PQ, HLG])
@pytest.mark.parametrize("signal", [0.0, 0.05, 0.2, 0.4, 0.58, 0.75, 1.0])
def test_a_frame_has_the_colours_of_the_curve(transfer, signal):
    """Between the nodes of its table, too, to two levels of 255; odd sizes to their last line and column."""
    shown = as_sdr(deep(round(64 + 876 * signal), transfer=transfer))
    assert (shown.format.name, shown.color_trc, shown.colorspace, shown.color_range) == ("yuv420p", 1, 1, 1)
    expected = 255 * curve(transfer, np.full(3, signal))
    assert rgb(shown) == pytest.approx(expected, abs=3)
    assert np.ptp(shown.to_ndarray(format="gray")) <= 1


def test_a_saturated_red_stays_red_and_inside_the_levels():
    shown = rgb(as_sdr(deep(64 + 230, 512 - 110, 512 + 300, transfer=PQ)))
    assert shown[0] > 150 > 60 > max(shown[1:])


def test_a_frame_of_a_standard_screen_is_left_as_it_is():
    frame = av.VideoFrame(32, 16, "yuv420p10le")
    for transfer in (0, 1, 2, 6, 13, 14):
        frame.color_trc = transfer
        assert as_sdr(frame) is frame


def test_a_frame_keeps_its_time():
    frame = deep(500, transfer=PQ)
    frame.pts, frame.time_base, frame.duration = 7, Fraction(1, 25), 1
    shown = as_sdr(frame)
    assert (shown.pts, shown.time_base, shown.duration) == (7, frame.time_base, 1)


@pytest.mark.parametrize("transfer", [PQ, HLG])
def test_keyframes_and_signals_of_a_film_are_those_of_its_standard_rendition(tmp_path: Path, transfer: int) -> None:
    """They were grey: reference white at half of the levels, colours a third as strong."""
    out = tmp_path / "film.mp4"
    high = round(1023 * (64 + 876 * WHITE[transfer]) / 1023)
    graph = (
        f"color=black:size=96x64:rate=10:duration=1,format=yuv420p10le,geq=lum='if(lt(X,48),64,{high})':cb=512:cr=512"
    )
    tags = f"colorprim=bt2020:transfer={TAGS[transfer]}:colormatrix=bt2020nc:log-level=none"
    command = [
        imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-f", "lavfi", "-i", graph, "-c:v", "libx265", "-x265-params",
        tags, "-color_trc", TAGS[transfer], "-color_primaries", "bt2020", "-colorspace", "bt2020nc", str(out),
    ]  # fmt: skip
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    film = video_track(out, settings=PreprocessSettings())
    jpeg = film.keyframes[0].jpeg
    assert isinstance(jpeg, bytes)
    picture = np.asarray(Image.open(io.BytesIO(jpeg)).convert("RGB")).astype(float)
    assert picture[:, :40].mean() < 6
    assert picture[:, 56:].mean() == pytest.approx(230, abs=8)
    assert film.columns["signals"].scalar()[0]["luma"].as_py() == pytest.approx(115, abs=8)


def test_another_decoder_leaves_such_a_film_to_the_default_row(tmp_path: Path) -> None:
    """It gives the levels of PQ as if they were those of a standard screen."""
    out = tmp_path / "film.mp4"
    graph = "testsrc2=size=96x64:rate=10:duration=1,format=yuv420p,setparams=color_trc=smpte2084:colorspace=bt2020nc"
    command = [
        imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-f", "lavfi", "-i", graph,
        "-c:v", "libx264", str(out),
    ]  # fmt: skip
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    columns = video_track(out, settings=PreprocessSettings(), decode=DecodeSettings(decoder="torchcodec")).columns
    assert (columns["decoder"], columns["fallback_code"]) == ("pyav", 3113)

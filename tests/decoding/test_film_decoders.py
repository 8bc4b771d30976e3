"""Rows that decode films: equal pictures at equal times from each, and the CPU does what a GPU cannot.

The driver is the only thing that is played: a library that FFmpeg loads in place of NVIDIA's (driver.c).
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from mmlake.errors import MissingExtra, SettingsError, UnreadableItem
from mmlake.film_decoders import FILM_DECODERS, DecodeSettings, Film, Picture, Refused, decode_clip
from mmlake.film_decoders.streams import stream_slot
from mmlake.loader.decode import decoders
from mmlake.preprocess import PreprocessSettings
from mmlake.preprocess.video import video_track

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
# (row, device): those on the CPU run where their library is installed, those on a GPU where there is one
ROWS = [
    ("torchcodec", "cpu"),
    ("dali", "cpu"),
    *(pytest.param(name, "cuda:0", marks=pytest.mark.gpu) for name in ("nvdec", "torchcodec", "dali")),
]
LIBRARIES = {"torchcodec": "torchcodec", "dali": "nvidia.dali"}


def film(path: Path, times_ms: list[int], *, size: tuple[int, int] = (320, 240), codec: str = "libvpx-vp9") -> Path:
    """A film that gets brighter from frame to frame, with the frames at these times."""
    with av.open(str(path), "w") as sink:
        stream = sink.add_stream(codec, rate=25)
        stream.width, stream.height, stream.pix_fmt = *size, "yuv420p"
        stream.codec_context.time_base = Fraction(1, 1000)
        for number, at_ms in enumerate(times_ms):
            pixels = np.full((size[1], size[0], 3), 40 + 4 * number % 200, np.uint8)
            pixels[: size[1] // 2, : size[0] // 2] = (200, 40, 40)
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            frame.pts, frame.time_base = at_ms, Fraction(1, 1000)
            sink.mux(stream.encode(frame))
        sink.mux(stream.encode())
    return path


UNEVEN = [*range(0, 400, 40), *range(400, 1600, 100)]


def present(row: str, device: str) -> None:
    """Skip where the row's library or device is not there."""
    top = LIBRARIES.get(row, "av").partition(".")[0]
    if importlib.util.find_spec(top) is None:
        pytest.skip(f"{row} is not installed")
    if device != "cpu" and not Path("/dev/nvidiactl").exists():
        pytest.skip("there is no GPU")


@pytest.mark.parametrize(("row", "device"), ROWS)
def test_each_row_shows_the_pictures_of_the_default_row_at_their_times(row, device, tmp_path):
    """On uneven times that begin late, at a size that is shrunk within the decoder."""
    present(row, device)
    path = film(tmp_path / "a.mkv", [at_ms + 3_000 for at_ms in UNEVEN])
    expected = decode_clip(path, settings=DecodeSettings(shrink_above_px=120))
    found = decode_clip(path, settings=DecodeSettings(decoder=row, device=device, shrink_above_px=120))
    assert (found.decoder, found.fallback_reason) == (row, None)
    assert found.times_s == pytest.approx(expected.times_s, abs=1e-4)
    assert np.abs(found.frames_THWC.astype(int) - expected.frames_THWC).mean() < 4
    columns = video_track(
        path, settings=PreprocessSettings(), decode=DecodeSettings(decoder=row, device=device)
    ).columns
    usual = video_track(path, settings=PreprocessSettings()).columns
    for name in ("num_frames", "duration_s", "frame_rate", "width_px", "height_px", "orientation"):
        assert columns[name] == pytest.approx(usual[name])
    assert columns["decoder"] == row


def test_the_default_row_gives_so_many_pictures_a_second_upright_and_shrunk(tmp_path):
    """What is due at 0, .2, .4 ... is the first frame at or after it, whatever the film's own times are."""
    path = film(tmp_path / "a.mkv", UNEVEN)
    clip = decode_clip(path, settings=DecodeSettings(rate_hz=5, shrink_above_px=120))
    assert clip.frames_THWC.shape == (8, 120, 160, 3)
    assert clip.times_s == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4])
    through_the_loader = decoders({"mkv": "clip"}, DecodeSettings(rate_hz=5, shrink_above_px=120))
    assert np.array_equal(through_the_loader["mkv"](path.read_bytes()).frames_THWC, clip.frames_THWC)
    with pytest.raises(UnreadableItem, match="clip_bytes"):
        decode_clip(path, settings=DecodeSettings(max_clip_bytes=320 * 240 * 3))


@pytest.mark.parametrize(
    ("stored", "rotation", "expected"),
    [
        ((3840, 2160), 0, (1920, 1080)),
        ((2160, 3840), 0, (1080, 1920)),
        ((3840, 2160), 90, (1920, 1080)),
        ((7680, 4320), 0, (1920, 1080)),
        ((1920, 1080), 0, None),
        ((1, 1), 0, None),
    ],
)
def test_pictures_above_1080_lines_are_shrunk_by_the_decoder(stored, rotation, expected, tmp_path, monkeypatch):
    """A row is asked for the small size: what it gives at full size nobody makes RGB."""
    one = Film(
        path=tmp_path / "a.mkv",
        stream_index=0,
        codec="h264",
        width_px=stored[0],
        height_px=stored[1],
        rotation=rotation,
        time_base=Fraction(1, 25),
        first_pts=0,
    )
    assert one.shrunk(1080) == expected


def test_a_large_film_is_never_rgb_at_its_size(tmp_path, monkeypatch):
    path, asked, made = film(tmp_path / "a.mp4", [0, 40], size=(3840, 2160), codec="mpeg4"), [], []
    as_rgb = Picture.as_rgb

    def shown(film, device, size):
        asked.append(size)
        return FILM_DECODERS["pyav"].pictures(film, device, size)

    def noted(picture, size):
        pixels = as_rgb(picture, size)
        made.append(pixels.shape)
        return pixels

    monkeypatch.setattr(Picture, "as_rgb", noted)
    monkeypatch.setitem(FILM_DECODERS, "noted", _row("noted", shown))
    clip = decode_clip(path, settings=DecodeSettings(decoder="noted"))
    assert asked == [(1920, 1080)]
    assert {*made, clip.frames_THWC.shape[1:]} == {(1080, 1920, 3)}


def _row(name, pictures, devices=("cpu",)):
    from mmlake.film_decoders import FilmDecoderRow

    return FilmDecoderRow(name=name, what="of a test", licence="NONE", devices=devices, pictures=pictures)


def test_a_row_that_loses_frames_is_not_believed(tmp_path, monkeypatch):
    path = film(tmp_path / "a.mkv", UNEVEN)

    def halved(film, device, size):
        for number, picture in enumerate(FILM_DECODERS["pyav"].pictures(film, device, size)):
            if number % 2:
                yield picture

    monkeypatch.setitem(FILM_DECODERS, "halved", _row("halved", halved))
    columns = video_track(path, settings=PreprocessSettings(), decode=DecodeSettings(decoder="halved")).columns
    assert (columns["decoder"], columns["fallback_code"], columns["num_frames"]) == ("pyav", 3114, 22)
    assert columns["fallback_reason"] == "halved gave num_frames=11, the film has 22"


def test_a_film_that_finds_no_free_stream_is_decoded_by_the_cpu(tmp_path):
    """The locks are the kernel's: a holder that is gone holds nothing."""
    path = film(tmp_path / "a.mkv", UNEVEN)
    settings = DecodeSettings(decoder="nvdec", max_streams=2, stream_wait_s=0.05, slots_dir=str(tmp_path / "slots"))
    holding = "import sys; from mmlake.film_decoders.settings import *; from mmlake.film_decoders.streams import *\n"
    holding += f"with stream_slot('cuda:0', {settings!r}): print('held', flush=True); sys.stdin.read()"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with ExitStack() as open_:
        open_.enter_context(stream_slot("cuda:0", settings))
        other = subprocess.Popen(
            [sys.executable, "-c", holding], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )
        open_.enter_context(other)
        assert other.stdout is not None and other.stdout.readline() == b"held\n"
        columns = video_track(path, settings=PreprocessSettings(), decode=settings).columns
        assert (columns["decoder"], columns["fallback_code"], columns["num_frames"]) == ("pyav", 3112, 22)
        assert "max_streams=2" in columns["fallback_reason"]
        with stream_slot("cuda:1", settings):
            pass  # another device has streams of its own
        other.kill()
        other.wait()
        with stream_slot("cuda:0", settings), pytest.raises(Refused), stream_slot("cuda:0", settings):
            pass


_PROGRAM = """
import json, os, sys
from pathlib import Path
from mmlake.errors import SettingsError
from mmlake.film_decoders import DecodeSettings, decode_clip
from mmlake.preprocess import PreprocessSettings
from mmlake.preprocess.video import video_track
settings, found = DecodeSettings(decoder="nvdec", shrink_above_px=120), {}
for mode in ("memory", "codec", "failure", "absent"):
    os.environ["MMLAKE_DRIVER"] = mode
    try:
        columns = video_track(Path(sys.argv[1]), settings=PreprocessSettings(), decode=settings).columns
        clip = decode_clip(Path(sys.argv[1]), settings=settings)
        assert clip.fallback_code == columns["fallback_code"]
        found[mode] = [columns[name] for name in ("decoder", "num_frames", "fallback_code", "fallback_reason")]
    except SettingsError as error:
        found[mode] = str(error)
print(json.dumps(found))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the driver is built for Linux")
def test_a_driver_that_gives_up_leaves_the_film_to_the_cpu(tmp_path):
    libraries = Path(av.__file__).parents[1] / "av.libs"
    asked = {
        name.decode()
        for library in [*libraries.glob("libavutil*"), *libraries.glob("libavcodec*")]
        for name in re.findall(rb"\0(cu(?:vid)?[A-Z]\w+)(?=\0)", library.read_bytes())
    }
    code = (HERE / "driver.c").read_text()
    stubs = sorted(name for name in asked if not re.search(rf"\b{name}\(", code))
    (tmp_path / "driver.c").write_text(code.replace("\nSTUBS", "\n" + "\n".join(f"OK({name})" for name in stubs)))
    driver = tmp_path / "libcuda.so.1"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", driver, tmp_path / "driver.c"], check=True)
    (tmp_path / "libnvcuvid.so.1").write_bytes(driver.read_bytes())
    path = film(tmp_path / "a.mp4", UNEVEN[:5], codec="libx264")
    environment = os.environ | {"LD_LIBRARY_PATH": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", _PROGRAM, str(path)]
    said = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
    found = json.loads(said.splitlines()[-1])
    assert {mode: outcome[:3] for mode, outcome in found.items() if mode != "absent"} == {
        "memory": ["pyav", 5, 3111],
        "codec": ["pyav", 5, 3113],
        "failure": ["pyav", 5, 3114],
    }
    assert found["memory"][3] == ("nvdec on cuda:0 has no memory left after num_frames=0 (CUDA_ERROR_OUT_OF_MEMORY)")
    assert "finds no usable cuda:0" in found["absent"]


def test_what_cannot_work_at_all_says_what_to_do(tmp_path):
    path = film(tmp_path / "a.mkv", [0, 40])
    for settings, error, words in (
        (DecodeSettings(decoder="vlc"), SettingsError, "not one of"),
        (DecodeSettings(decoder="nvdec", device="cpu"), SettingsError, "none of those of decoder"),
        (DecodeSettings(decoder="pyav", device="cuda"), SettingsError, "none of those of decoder"),
    ):
        with pytest.raises(error, match=words):
            decode_clip(path, settings=settings)
    for row, library in LIBRARIES.items():
        if importlib.util.find_spec(library.partition(".")[0]) is None:
            with pytest.raises(MissingExtra, match=rf"pip install 'mmlake\[{row}\]'"):
                decode_clip(path, settings=DecodeSettings(decoder=row))
    with pytest.raises(SettingsError, match=r"decode\.device='gpu'"):
        DecodeSettings(device="gpu")

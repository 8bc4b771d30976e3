"""Films that are stored on their side, upside down or as a mirror shows them are shown as players show them."""

from __future__ import annotations

import io
import subprocess
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image

from mmlake.cuts.runner import program
from mmlake.embed.embedding import _pictures
from mmlake.film_decoders import DecodeSettings, decode_clip
from mmlake.preprocess import PreprocessSettings
from mmlake.preprocess.video import video_track

CORNERS = ((200, 40, 40), (40, 200, 40), (40, 40, 200), (200, 200, 40))  # of a picture, by lines


def stored(path: Path) -> Path:
    """A still film whose quarters have four colours."""
    pixels = np.array(CORNERS, np.uint8).reshape(2, 2, 3).repeat(48, axis=0).repeat(64, axis=1)
    with av.open(str(path), "w") as sink:
        stream = sink.add_stream("libx264", rate=25, options={"crf": "10"})
        stream.width, stream.height, stream.pix_fmt = 128, 96, "yuv420p"
        for _ in range(5):
            sink.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        sink.mux(stream.encode())
    return path


def ffmpeg(*arguments: object) -> bytes:
    """What the program writes to its standard output."""
    command = [program(), "-loglevel", "error", *map(str, arguments)]
    return subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE).stdout


def corners(pixels_HWC: np.ndarray) -> list[int]:
    """Which colour each quarter has, by lines."""
    height, width, _ = pixels_HWC.shape
    middles = [pixels_HWC[y, x] for y in (height // 4, height * 3 // 4) for x in (width // 4, width * 3 // 4)]
    return [int(np.abs(np.array(CORNERS) - middle).sum(axis=1).argmin()) for middle in middles]


@pytest.mark.parametrize("is_flipped", [False, True], ids="plain flipped".split())
@pytest.mark.parametrize("degrees", [0, 90, 180, 270])
def test_keyframes_clips_and_queries_are_as_players_show_them(tmp_path, degrees: int, is_flipped: bool) -> None:
    """What a mirror shows was upside down: of the display matrix only its angle was taken."""
    film, turns = tmp_path / "film.mp4", ["-display_rotation", degrees] + ["-display_hflip"] * is_flipped
    ffmpeg(*turns, "-i", stored(tmp_path / "stored.mp4"), "-c", "copy", film)
    size = (96, 128) if degrees % 180 else (128, 96)
    shown = ffmpeg("-i", film, "-frames:v", 1, "-f", "rawvideo", "-pix_fmt", "rgb24", "-")  # which turns it itself
    expected = corners(np.frombuffer(shown, np.uint8).reshape(size[1], size[0], 3))
    found = video_track(film, settings=PreprocessSettings())
    assert (found.columns["width_px"], found.columns["height_px"]) == size
    assert corners(np.asarray(Image.open(io.BytesIO(found.keyframes[0].jpeg)))) == expected
    assert corners(decode_clip(film, settings=DecodeSettings()).frames_THWC[0]) == expected
    assert corners(np.asarray(Image.open(io.BytesIO(_pictures(film)[0])))) == expected
    turned = Image.open(io.BytesIO(exif_picture(int(str(found.columns["orientation"])))))
    assert corners(np.asarray(turned)) == expected, "the orientation, as EXIF has it"


def exif_picture(orientation: int) -> bytes:
    """The stored picture as Pillow turns it by that tag."""
    from PIL import ImageOps

    pixels = np.array(CORNERS, np.uint8).reshape(2, 2, 3).repeat(48, axis=0).repeat(64, axis=1)
    tagged, sink, exif = io.BytesIO(), io.BytesIO(), Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(pixels).save(tagged, "PNG", exif=exif)
    ImageOps.exif_transpose(Image.open(tagged)).save(sink, "PNG")
    return sink.getvalue()

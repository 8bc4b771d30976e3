"""Odd, broken and lying media: each ends as a row with the right numbers, or with a code and a reason, in bounded time.

Files are made by the ffmpeg program; what is expected of them are the numbers that it was given.
"""

from __future__ import annotations

import io
import resource
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import imageio_ffmpeg
import numpy as np
import pytest
import soundfile
from preprocess_media import items

from mmlake.formats.sniff import HEAD_BYTES, kind_of
from mmlake.modalities import MODALITIES
from mmlake.preprocess import tracks
from mmlake.preprocess.visual import plane_kernels
from mmlake.store import BlobStore

GREY = "color=c=0x808080:size=64x48:rate=25:duration=1"
SCENE = "testsrc2=size=64x48:rate=25:duration=1"
TONE = "sine=frequency=440:sample_rate=16000:duration=1"
H264 = ("-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p")
COPY = ("-c", "copy")
WRAP_S = 2**33 / 90_000  # where the clock of MPEG-TS begins anew
Made = Callable[[Path], bytes]


def made(*words: object, suffix: str = ".mkv", source: Made | None = None, before: tuple[str, ...] = ()) -> Made:
    """What makes a file: the program's arguments behind its input, which is `source` where one is given."""

    def make(folder: Path) -> bytes:
        given: list[object] = []
        if source is not None:
            (folder / "source").write_bytes(source(folder))
            given = [*before, "-i", folder / "source"]
        out = folder / f"made{suffix}"
        command = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-y", "-nostdin", *given, *words, out]
        subprocess.run([str(word) for word in command], check=True, stdin=subprocess.DEVNULL)
        return out.read_bytes()

    return make


def lavfi(*graphs: str) -> tuple[str, ...]:
    """Inputs that are generated."""
    return tuple(word for graph in graphs for word in ("-f", "lavfi", "-i", graph))


def cut(source: Made, fraction: float) -> Made:
    """The first part of its bytes."""
    return lambda folder: (data := source(folder))[: int(len(data) * fraction)]


def pixels(format: str, *, codec: str = "ffv1", suffix: str = ".mkv") -> Made:
    """A second of middle grey in that pixel format."""
    return made(*lavfi(GREY), "-c:v", codec, "-pix_fmt", format, suffix=suffix)


FILM = made(*lavfi(SCENE, TONE), *H264, "-c:a", "aac", suffix=".mp4")
FRONT = made(*lavfi(SCENE, TONE), *H264, "-c:a", "aac", "-movflags", "+faststart", suffix=".mp4")
LONG = made(
    *lavfi(SCENE.replace("duration=1", "duration=3"), TONE.replace("duration=1", "duration=3")), *H264, "-bf", 2,
    "-c:a", "mp2", suffix=".ts",
)  # fmt: skip


def at(offset_s: float) -> Made:
    """The film of three seconds with its clock at that offset."""
    return made(*COPY, "-output_ts_offset", offset_s, suffix=".ts", source=LONG)


A_FILM = {"status": "ok", "width_px": 64, "height_px": 48, "num_frames": 25, "duration_s": 1.0, "frame_rate": 25.0}
GREY_FILM = A_FILM | {"luma": 128}
# its sound begins 30 ms before its pictures, which are reordered
THREE = A_FILM | {"num_frames": 75, "duration_s": 3.03, "sound_s": 3.0}
SILENT = {"audio_digest": None, "sound_s": None}
BAD = {"status": "unreadable"}


def sound(rate_hz: int, layout: str, codec: str = "pcm_s16le", suffix: str = ".wav") -> Made:
    """A second of a tone on every channel."""
    graph = f"sine=frequency=440:sample_rate={rate_hz}:duration=1,aformat=channel_layouts={layout}"
    return made(*lavfi(graph), "-c:a", codec, suffix=suffix)


# what it is -> (modality, what makes it, what the row says)
CASES: dict[str, tuple[str, Made, dict[str, Any]]] = {
    # streams
    "no picture": ("video", made(*lavfi(TONE), "-c:a", "aac", suffix=".mp4"), BAD | {"error_code": 3003}),
    "no sound": ("video", made(*lavfi(SCENE), *H264, suffix=".mp4"), A_FILM | SILENT),
    "a recording without sound": ("audio", made(*lavfi(SCENE), *H264, suffix=".mp4"), BAD | {"error_code": 3003}),
    "several of each": (
        "video",
        made(
            *lavfi(
                SCENE.replace("64x48", "32x32"),
                SCENE,
                TONE,
                "sine=sample_rate=48000:duration=1,aformat=channel_layouts=stereo",
            ),
            "-map",
            0,
            "-map",
            1,
            "-map",
            2,
            "-map",
            3,
            *H264,
            "-c:a",
            "aac",
            "-disposition",
            0,
            suffix=".mkv",
        ),
        A_FILM | {"num_channels": 2, "sample_rate_hz": 48_000},
    ),  # fmt: skip
    "the default stream is the smaller one": (
        "video",
        made(
            *lavfi(SCENE.replace("64x48", "32x32"), SCENE),
            "-map",
            0,
            "-map",
            1,
            *H264,
            "-disposition:v:0",
            "default",
            "-disposition:v:1",
            0,
            suffix=".mkv",
        ),
        A_FILM | {"width_px": 32, "height_px": 32},
    ),  # fmt: skip
    # length
    "no frame at all": ("video", made(*lavfi(SCENE), *H264, "-frames:v", 0, suffix=".mkv"), BAD | {"error_code": 3001}),
    "no sample at all": ("audio", made(*lavfi(TONE), "-t", 0, suffix=".wav"), BAD | {"error_code": 3001}),
    "one frame": (
        "video",
        made(*lavfi(SCENE), *H264, "-frames:v", 1, suffix=".mp4"),
        A_FILM | {"num_frames": 1, "duration_s": 0.04, "frame_rate": None},
    ),  # fmt: skip
    "one sample": (
        "audio",
        made(*lavfi(TONE), "-af", "atrim=end_sample=1", suffix=".wav"),
        {"status": "ok", "duration_s": 1 / 16_000},
    ),
    "cut off behind its index": ("video", cut(FRONT, 0.6), BAD | {"error_code": 3002}),
    "cut off before its index": ("video", cut(FILM, 0.6), BAD | {"error_code": 3002}),
    "cut off, framing of Matroska": ("video", cut(made(*lavfi(SCENE), *H264), 0.6), BAD | {"error_code": 3002}),
    "cut off, header of Matroska": ("video", lambda _: b"\x1aE\xdf\xa3\1" + b"~" * 60, BAD | {"error_code": 3002}),
    "cut off, framing of WAV": ("audio", cut(sound(16_000, "mono"), 0.6), BAD | {"error_code": 3002}),
    # clocks
    "times from 0": ("video", at(0), THREE),
    "a clock that wraps within": ("video", at(WRAP_S - 2), THREE),
    "a clock that wraps at its first frames": ("video", at(WRAP_S - 1.45), THREE),
    "a clock of half a day": ("video", at(43_200), THREE),
    "Matroska that begins late": (
        "video",
        made(*COPY, "-output_ts_offset", 7, suffix=".mkv", source=LONG),
        THREE,
    ),
    "an MP4 whose first times are negative": (
        "video",
        made(
            *COPY,
            "-output_ts_offset",
            -0.4,
            "-avoid_negative_ts",
            "disabled",
            suffix=".mp4",
            source=made(*lavfi(SCENE), *H264, "-bf", 0, suffix=".mp4"),
        ),
        A_FILM | {"num_frames": 15, "duration_s": 0.6},
    ),
    "a Matroska whose first times are negative": (
        "video",
        made(
            *COPY,
            "-output_ts_offset",
            -0.4,
            "-avoid_negative_ts",
            "disabled",
            source=made(*lavfi(SCENE), *H264, "-bf", 0, suffix=".mp4"),
        ),
        A_FILM | {"num_frames": 15, "duration_s": 0.6},
    ),
    "no times at all": ("video", made(*lavfi(SCENE), *H264, "-bf", 0, suffix=".h264"), A_FILM),
    "sound half a second late": (
        "video",
        made(*lavfi(SCENE), "-itsoffset", 0.5, *lavfi(TONE), *H264, "-c:a", "pcm_s16le", suffix=".mkv"),
        A_FILM | {"sound_s": 1.5, "first_sound_s": 0.5, "duration_s": 1.5},
    ),
    "an edit list that hides the first half second": (
        "video",
        made(*COPY, suffix=".mp4", source=made(*lavfi(SCENE), *H264, "-bf", 0, suffix=".mp4"), before=("-ss", "0.52")),
        A_FILM | {"num_frames": 12, "duration_s": 0.48},
    ),
    "uneven frames": (
        "video",
        made(*lavfi(SCENE), "-vf", "select='lt(n,10)+not(mod(n,5))'", "-fps_mode", "vfr", *H264),
        A_FILM | {"num_frames": 13, "duration_s": None, "frame_rate": None},
    ),
    "a frame a second": (
        "video",
        made(*lavfi("testsrc2=size=64x48:rate=1:duration=5"), *H264, suffix=".mp4"),
        A_FILM | {"num_frames": 5, "duration_s": 5.0, "frame_rate": 1.0},
    ),
    "240 frames a second": (
        "video",
        made(*lavfi("testsrc2=size=64x48:rate=240:duration=1"), *H264, suffix=".mp4"),
        A_FILM | {"num_frames": 240, "frame_rate": 240.0},
    ),
    # pictures
    **{
        f"pixels in {name}": ("video", pixels(name), GREY_FILM)
        for name in (
            "yuv444p10le",
            "yuv420p12le",
            "gbrp",
            "gbrp10le",
            "gray",
            "gray16le",
            "yuva420p",
            "yuva444p16le",
            "yuv410p",
            "bgra",
        )
    },
    "pixels in pal8": ("video", pixels("pal8", codec="png"), GREY_FILM),
    "pixels in rgb48": ("video", pixels("rgb48be", codec="png"), GREY_FILM),
    "pixels in yuvj420p": ("video", pixels("yuvj420p", codec="mjpeg", suffix=".avi"), GREY_FILM),
    "1 x 1": (
        "video",
        made(*lavfi(GREY.replace("64x48", "1x1")), "-c:v", "png", "-pix_fmt", "rgb24"),
        GREY_FILM | {"width_px": 1, "height_px": 1},
    ),
    "1 x 1,000": (
        "video",
        made(*lavfi(GREY.replace("64x48", "1x1000")), "-c:v", "png", "-pix_fmt", "gray"),
        GREY_FILM | {"width_px": 1, "height_px": 1000},
    ),
    "8K": (
        "video",
        made(*lavfi("color=c=0x808080:size=7680x4320:rate=25:duration=0.08"), "-c:v", "mpeg2video", "-q:v", 8),
        GREY_FILM | {"width_px": 7680, "height_px": 4320, "num_frames": 2, "duration_s": 0.08},
    ),
    **{
        f"turned by {turn}": (
            "video",
            made(
                *COPY,
                suffix=".mp4",
                source=made(*lavfi(SCENE), *H264, suffix=".mp4"),
                before=("-display_rotation", str(turn)),
            ),
            A_FILM | ({"width_px": 48, "height_px": 64} if turn % 180 else {}) | {"orientation": orientation},
        )
        for turn, orientation in ((90, 8), (180, 3), (270, 6))
    },
    "pixels twice as wide as high": (
        "video",
        made(*lavfi(SCENE), "-vf", "setsar=2", *H264),
        A_FILM | {"width_px": 128},
    ),
    "a pixel aspect that nothing has": ("video", made(*lavfi(SCENE), "-vf", "setsar=100", *H264), A_FILM),
    # sound
    "5.1": (
        "audio",
        sound(48_000, "5.1"),
        {"status": "ok", "num_channels": 6, "sample_rate_hz": 48_000, "sound_s": 1.0},
    ),
    "7.1 in FLAC": (
        "audio",
        sound(48_000, "7.1", "flac", ".flac"),
        {"status": "ok", "num_channels": 8, "sound_s": 1.0},
    ),
    "8 kHz": (
        "audio",
        sound(8_000, "mono"),
        {"status": "ok", "sample_rate_hz": 8_000, "sound_s": 1.0, "pitch_hz": 440},
    ),
    "192 kHz": (
        "audio",
        sound(192_000, "stereo", "pcm_s24le"),
        {"status": "ok", "sample_rate_hz": 192_000, "sound_s": 1.0, "pitch_hz": 440},
    ),
    "doubles": (
        "audio",
        sound(44_100, "mono", "pcm_f64le"),
        {"status": "ok", "sample_rate_hz": 44_100, "sound_s": 1.0, "pitch_hz": 440},
    ),
    # containers that lie
    "an MP4 among recordings": ("audio", FILM, {"status": "ok", "audio_codec": "aac", "sound_s": 1.0}),
    "MP3 in an MP4": (
        "audio",
        made(*lavfi(TONE), "-c:a", "libmp3lame", suffix=".mp4"),
        {"status": "ok", "audio_codec": "mp3float", "sound_s": 1.0},
    ),
    "a WAV among films": ("video", sound(16_000, "mono"), BAD | {"error_code": 3003}),
    "a JPEG in Matroska": (
        "video",
        made(*lavfi(GREY), "-frames:v", 1, "-c:v", "mjpeg", "-pix_fmt", "yuvj420p"),
        GREY_FILM | {"num_frames": 1, "duration_s": 0.04, "frame_rate": None},
    ),
    "a cover and no film": (
        "video",
        made(
            *lavfi(TONE, GREY),
            "-frames:v",
            1,
            "-c:v",
            "mjpeg",
            "-pix_fmt",
            "yuvj420p",
            "-c:a",
            "aac",
            "-disposition:v",
            "attached_pic",
            suffix=".mp4",
        ),
        BAD | {"error_code": 3003},
    ),
    "text": ("video", lambda _: b"not a film " * 100, BAD | {"error_code": 3001}),
    "a playlist": ("video", lambda _: b"#EXTM3U\n#EXTINF:1,\n/etc/passwd\n", BAD | {"error_code": 3005}),
}


@pytest.mark.parametrize("name", CASES)
def test_what_the_row_says(name: str, tmp_path: Path) -> None:
    modality, make, expected = CASES[name]
    store = BlobStore(tmp_path / "blobs")
    given = items(store, [make(tmp_path)], modality)
    plane_kernels.kernels()  # compiled before, where nothing compiled them yet
    before = resource.getrusage(resource.RUSAGE_SELF)
    (row,) = tracks(given, modality, decoder=MODALITIES[modality].decoder, store=store).to_pylist()
    after = resource.getrusage(resource.RUSAGE_SELF)
    found = row | _measured(row, store)
    if expected["status"] == "ok":
        assert (row["status"], row["error"]) == ("ok", None)
    else:
        assert row["error"]
    for key, value in expected.items():
        if value is None and key in ("duration_s", "frame_rate"):
            continue
        tolerance = {"luma": 3, "pitch_hz": 5, "sound_s": 0.08, "first_sound_s": 0.03, "duration_s": 0.005}.get(
            key, 1e-3
        )
        assert found[key] == (pytest.approx(value, abs=tolerance) if isinstance(value, (int, float)) else value), key
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 20
    assert (after.ru_maxrss - before.ru_maxrss) >> 10 < 512


def _measured(row: dict[str, Any], store: BlobStore) -> dict[str, Any]:
    """Of the picture its mean luma, of the sound its length, pitch and where it begins."""
    found: dict[str, Any] = {"sound_s": None}
    if row["signals"]:
        found["luma"] = float(np.mean([signal["luma"] for signal in row["signals"]]))
    if row["audio_digest"] is not None:
        samples, rate_hz = soundfile.read(io.BytesIO(store.read(row["audio_digest"])))
        found["sound_s"] = len(samples) / rate_hz
        loud = np.flatnonzero(np.abs(samples) > 0.02)
        if len(loud):
            found["first_sound_s"] = loud[0] / rate_hz
            found["pitch_hz"] = np.argmax(np.abs(np.fft.rfft(samples))) * rate_hz / len(samples)
    return found


@pytest.mark.parametrize(
    ("name", "make", "modality"),
    [
        ("film.wav", FILM, "video"),
        ("film.jpg", FILM, "video"),
        ("song.mkv", sound(16_000, "mono", "libmp3lame", ".mp3"), "audio"),
        ("song.mp4", made(*lavfi(TONE), "-c:a", "aac", suffix=".mp4"), "audio"),
        ("picture.mp4", made(*lavfi(GREY), "-frames:v", 1, suffix=".jpg"), "image"),
    ],
)
def test_a_name_that_lies_is_not_believed(name: str, make: Made, modality: str, tmp_path: Path) -> None:
    data = make(tmp_path)
    kind = kind_of(data[:HEAD_BYTES], name, stream=lambda: io.BytesIO(data))
    assert kind is not None and kind.modality == modality

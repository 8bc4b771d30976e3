"""Films that count their own frames: the number of a frame stands in it as bars, which every decoder reads back."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import av
import numpy as np

from mmlake.cuts import Span
from mmlake.media.decoders import frames, open_media, picture_stream

NUM_BARS = 12
RATE = 25
_READ: dict[tuple[str, bytes], list[tuple[int, float]]] = {}  # what was read of a film's bytes


def counted_film(
    path: Path,
    num_frames: int = 120,
    *,
    size: tuple[int, int] = (96, 72),
    times_ms: Sequence[int] | None = None,
    codec: str = "libx264",
    gop: int = 50,
    b_frames: int = 2,
    with_sound: bool = True,
    sound_rate_hz: int = 16000,
    layout: str = "mono",
    pix_fmt: str = "yuv420p",
) -> Path:
    """The film at the path, whose ending names its container. times_ms: of the frames, 25 a second where None is given.
    Its sound is a tone that climbs by 200 Hz each second."""
    times = None if times_ms is None else tuple(times_ms)
    path.write_bytes(
        _encoded(
            path.suffix,
            num_frames=num_frames,
            size=size,
            times_ms=times,
            codec=codec,
            gop=gop,
            b_frames=b_frames,
            with_sound=with_sound,
            sound_rate_hz=sound_rate_hz,
            layout=layout,
            pix_fmt=pix_fmt,
        )  # fmt: skip
    )
    return path


@lru_cache(maxsize=32)
def _encoded(suffix: str, **options: Any) -> bytes:
    """The bytes of the film, which several tests of a process cut."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"film{suffix}"
        _encode(path, **options)
        return path.read_bytes()


def _encode(
    path: Path,
    *,
    num_frames: int,
    size: tuple[int, int],
    times_ms: tuple[int, ...] | None,
    codec: str,
    gop: int,
    b_frames: int,
    with_sound: bool,
    sound_rate_hz: int,
    layout: str,
    pix_fmt: str,
) -> None:
    width, height = size
    clock = Fraction(1, 1000) if times_ms else Fraction(1, RATE)
    with av.open(str(path), "w") as container:
        picture = container.add_stream(codec, rate=RATE, options={"crf": "18", "g": str(gop), "bf": str(b_frames)})
        picture.width, picture.height, picture.pix_fmt = width, height, pix_fmt
        picture.time_base = picture.codec_context.time_base = clock
        sound = container.add_stream("aac", rate=sound_rate_hz, layout=layout) if with_sound else None
        for number in range(num_frames):
            frame = av.VideoFrame.from_ndarray(_pixels(number, width, height), format="rgb24")
            frame.pts, frame.time_base = times_ms[number] if times_ms else number, clock
            container.mux(picture.encode(frame))
        container.mux(picture.encode())
        if sound is not None:
            last_s = times_ms[-1] / 1000 + 0.04 if times_ms else num_frames / RATE
            _mux_tone(container, sound, last_s, sound_rate_hz, layout)


def tone_hz(time_s: float) -> float:
    """What the sound of a counted film sounds at that time."""
    return 300.0 + 200.0 * int(time_s)


def numbers(path: Path) -> list[tuple[int, float]]:
    """(number, time in seconds from the container's start) of each frame of a film, as they are shown."""
    key = path.suffix, hashlib.sha256(path.read_bytes()).digest()
    if key not in _READ:
        _READ[key] = _numbers(path)
    return [*_READ[key]]


def _numbers(path: Path) -> list[tuple[int, float]]:
    found = []
    with open_media(path) as container:
        origin_s = (container.start_time or 0) / 1e6
        for frame in frames(container, picture_stream(container)):
            grey = frame.to_ndarray(format="gray")
            if frame.rotation % 180:
                grey = np.rot90(grey, frame.rotation // 90)
            found.append((number_of(grey), float(frame.pts * frame.time_base) - origin_s))
    return found


def number_of(grey: np.ndarray) -> int:
    """The number that stands in a picture, uint8 of shape (height, width)."""
    height, width = grey.shape
    columns = [int((bar + 0.5) * (width // NUM_BARS)) for bar in range(NUM_BARS)]
    return sum(1 << bar for bar, column in enumerate(columns) if grey[height // 2, column] > 130)


def span_of(path: Path, first: int, last: int) -> Span:
    """The span of the frames first to last - 1 of a film, as a splitter snaps it."""
    times_s = [time_s for _, time_s in numbers(path)]
    end_s = times_s[last] if last < len(times_s) else times_s[-1] + 1 / RATE
    return Span(
        digest=f"{first:032x}{last:032x}",
        parent_digest="ab" * 32,
        start_us=round(times_s[first] * 1e6),
        end_us=round(end_s * 1e6),
        start_frame=first,
        end_frame=last,
    )


def _pixels(number: int, width: int, height: int) -> np.ndarray:
    pixels = np.full((height, width, 3), 40, np.uint8)
    bar_px = width // NUM_BARS
    for bar in range(NUM_BARS):
        if number >> bar & 1:
            pixels[height // 8 : -(height // 8), bar * bar_px : (bar + 1) * bar_px] = 220
    return pixels


def _mux_tone(container: av.container.OutputContainer, sound: object, last_s: float, rate_hz: int, layout: str) -> None:
    times_s = np.arange(int(last_s * rate_hz)) / rate_hz
    hz = 300.0 + 200.0 * np.floor(times_s)
    wave = (0.3 * np.sin(2 * np.pi * np.cumsum(hz) / rate_hz) * 32767).astype(np.int16)
    num_channels = 2 if layout == "stereo" else 1
    for start in range(0, len(wave), 1024):
        piece = np.repeat(wave[start : start + 1024], num_channels)[None]
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(piece), format="s16", layout=layout)
        frame.sample_rate, frame.pts, frame.time_base = rate_hz, start, Fraction(1, rate_hz)
        container.mux(sound.encode(frame))
    container.mux(sound.encode())

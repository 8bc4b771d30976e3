"""Small films whose frames are known: every container, order and clock that a frame may be shown in."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from preprocess_media import photo

CLOCK = Fraction(1, 1000)


def film(
    path: Path,
    times_ms: Sequence[int],
    pictures: Sequence[np.ndarray],
    *,
    codec: str = "libx264",
    options: dict[str, str] | None = None,
    sound: np.ndarray | None = None,
    sound_from_s: float = 0.0,
    container_options: dict[str, str] | None = None,
) -> Path:
    """A film that shows each picture from its time on; 16 kHz sound from that second on."""
    with av.open(str(path), "w", options=container_options or {}) as sink:
        stream = sink.add_stream(codec, rate=25, options=options or {})
        stream.height, stream.width, stream.pix_fmt = *pictures[0].shape[:2], "yuv420p"
        if codec == "libx264":
            stream.codec_context.time_base = CLOCK
        track = None if sound is None else sink.add_stream("aac", rate=16000, layout="mono")
        for number, (time_ms, picture) in enumerate(zip(times_ms, pictures, strict=True)):
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            frame.pts, frame.time_base = (time_ms, CLOCK) if codec == "libx264" else (number, Fraction(1, 25))
            sink.mux(stream.encode(frame))
        sink.mux(stream.encode())
        for offset in range(0, 0 if sound is None else len(sound), 1024):
            samples = (sound[offset : offset + 1024] * 32767).astype(np.int16)[None]
            piece = av.AudioFrame.from_ndarray(samples, format="s16", layout="mono")
            piece.sample_rate, piece.time_base = 16000, Fraction(1, 16000)
            piece.pts = round(sound_from_s * 16000) + offset
            sink.mux(track.encode(piece))
        if track is not None:
            sink.mux(track.encode())
    return path


def flashes(count: int, *, size: tuple[int, int] = (64, 48)) -> list[np.ndarray]:
    """Pictures that differ in brightness, so that each frame can be recognized: 40 levels, over and over."""
    ground = photo(1, size=size) // 8
    return [(ground + 5 * (number % 40)).astype(np.uint8) for number in range(count)]


def shown_us(path: Path) -> list[int]:
    """The time of each frame as PyAV decodes it, from the container's start."""
    with av.open(str(path)) as container:
        origin_us = container.start_time or 0
        return [round(frame.pts * frame.time_base * 1_000_000 - origin_us) for frame in container.decode(video=0)]

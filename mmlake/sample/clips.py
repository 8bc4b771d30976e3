"""Films: shapes that move over a panning picture, cut together from shots, with or without sound.

Enters: pictures and a random stream. Leaves: frames, uint8 RGB of shape (H, W, 3), and mp4 or mkv files that are the
same on every run.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from mmlake.sample.canvas import COLOURS
from mmlake.sample.chance import pick
from mmlake.sample.voices import RATE_HZ

WIDTH_PX, HEIGHT_PX, FRAME_RATE = 320, 240, 20
BACKDROP_PX = (400, 300)  # the frame pans over it
_AUDIO_FRAME = 1024  # samples in an AAC frame


@dataclass(frozen=True, slots=True)
class _Mover:
    kind: str
    colour: tuple[int, int, int]
    start: np.ndarray  # (x, y) px
    speed: np.ndarray  # px per s
    size_px: int


def shot(backdrop: np.ndarray, duration_s: float, rng: np.random.Generator) -> list[np.ndarray]:
    """The frames of one uninterrupted take of WIDTH_PX x HEIGHT_PX."""
    return list(take(backdrop, round(duration_s * FRAME_RATE), rng))


def take(
    backdrop: np.ndarray, num_frames: int, rng: np.random.Generator, *, size_px: tuple[int, int] = (WIDTH_PX, HEIGHT_PX)
) -> Iterator[np.ndarray]:
    """The frames of one uninterrupted take: a slow pan over the backdrop with two to four shapes on their way.

    size_px: (width, height) of the frames; the backdrop is larger.
    """
    width, height = size_px
    spare = np.array([backdrop.shape[1] - width, backdrop.shape[0] - height])
    start, end = rng.uniform(0, 1, (2, 2)) * spare
    movers = [_mover(rng, size_px) for _ in range(int(rng.integers(2, 5)))]
    grain = rng.normal(0, 2, (height + 16, width + 16, 1)).astype(np.float32)
    for number in range(num_frames):
        x, y = np.round(start + (end - start) * number / max(1, num_frames - 1)).astype(int)
        frame = backdrop[y : y + height, x : x + width].copy()
        for mover in movers:
            _draw(frame, mover, number / FRAME_RATE)
        dx, dy = rng.integers(0, 16, 2)
        yield np.clip(frame + grain[dy : dy + height, dx : dx + width], 0, 255).astype(np.uint8)


def _mover(rng: np.random.Generator, size_px: tuple[int, int]) -> _Mover:
    return _Mover(
        kind=pick(rng, ("disc", "box", "kite")),
        colour=COLOURS[pick(rng, tuple(COLOURS))],
        start=rng.uniform(0.1, 0.9, 2) * size_px,
        speed=rng.uniform(35, 90, 2) * rng.choice([-1, 1], 2),
        size_px=int(rng.integers(14, 34)),
    )


def _draw(frame: np.ndarray, mover: _Mover, time_s: float) -> None:
    import cv2

    # Reflected at the borders: a triangle wave of the distance gone.
    box = np.array(frame.shape[1::-1])
    x, y = (int(value) for value in box - np.abs((mover.start + mover.speed * time_s) % (2 * box) - box))
    size, dark = mover.size_px, tuple(value // 3 for value in mover.colour)
    if mover.kind == "disc":
        cv2.circle(frame, (x, y), size, mover.colour, -1, cv2.LINE_AA)
        cv2.circle(frame, (x, y), size // 2, dark, 3, cv2.LINE_AA)
    elif mover.kind == "box":
        cv2.rectangle(frame, (x - size, y - size), (x + size, y + size), mover.colour, -1)
        cv2.rectangle(frame, (x - size // 2, y - size // 2), (x + size // 2, y + size // 2), dark, 2)
    else:
        points = np.array([(x, y - size), (x + size // 2, y), (x, y + size), (x - size // 2, y)], np.int32)
        cv2.fillPoly(frame, [points], mover.colour, lineType=cv2.LINE_AA)
        cv2.line(frame, (x, y - size), (x, y + size), dark, 2, cv2.LINE_AA)


def cut_times(shots: Sequence[Sequence[np.ndarray]]) -> tuple[float, ...]:
    """Where the shots after the first begin, in seconds."""
    lengths = np.cumsum([len(frames) for frames in shots])[:-1]
    return tuple(round(float(length) / FRAME_RATE, 3) for length in lengths)


def smaller(frames: Sequence[np.ndarray], size_px: tuple[int, int]) -> list[np.ndarray]:
    """The frames at another size (width, height)."""
    import cv2

    return [cv2.resize(frame, size_px, interpolation=cv2.INTER_AREA) for frame in frames]


def encoded(
    frames: Iterable[np.ndarray],
    *,
    extension: str = "mp4",
    sound: np.ndarray | None = None,
    crf: int = 26,
    index_first: bool = True,
    preset: str = "veryfast",
) -> bytes:
    """The frames as an H.264 file, with AAC sound where samples are given.

    crf: x264's constant rate factor, larger is worse. index_first: mp4 only, whether a cut file still has its index.
    preset: x264's, which trades size for time.
    """
    import av

    pictures = iter(frames)
    first = next(pictures)
    # Without bitexact Matroska writes random identifiers and both write the encoder's version. One thread, since x264's
    # threads change the bits; no macroblock tree, since with AVX-512 it reads memory that nobody wrote (320x240 with
    # B-frames gave other bits in 12 of 12 runs over a used heap).
    options = {"fflags": "+bitexact"} | ({"movflags": "+faststart"} if extension == "mp4" and index_first else {})
    # A named file: faststart reads the finished file again to move its index.
    with tempfile.TemporaryDirectory(prefix="mmlake-sample-") as folder:
        path = Path(folder) / f"film.{extension}"
        with av.open(str(path), "w", format={"mp4": "mp4", "mkv": "matroska"}[extension], options=options) as container:
            video = container.add_stream("libx264", rate=FRAME_RATE)
            video.height, video.width, video.pix_fmt = *first.shape[:2], "yuv420p"
            video.time_base = video.codec_context.time_base = Fraction(1, FRAME_RATE)
            video.options = {
                "crf": str(crf),
                "preset": preset,
                "flags": "+bitexact",
                "x264-params": "threads=1:mbtree=0",
            }
            audio = None
            if sound is not None:
                audio = container.add_stream("aac", rate=RATE_HZ, layout="mono")
                audio.bit_rate, audio.options = 48000, {"flags": "+bitexact"}
            _mux(container, video, chain([first], pictures), audio, sound if sound is not None else np.empty(0))
        return path.read_bytes()


def _mux(container: Any, video: Any, pictures: Iterable[np.ndarray], audio: Any, sound: np.ndarray) -> None:
    """Pictures and sound in turn, so that a film of minutes is interleaved as a camera's is."""
    import av

    parts, at = _sound_parts(sound), 0
    for number, picture in enumerate(pictures):
        frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
        frame.pts, frame.duration, frame.time_base = number, 1, Fraction(1, FRAME_RATE)
        container.mux(video.encode(frame))
        while at * FRAME_RATE <= number * RATE_HZ and (part := next(parts, None)) is not None:
            container.mux(audio.encode(part))
            at += _AUDIO_FRAME
    container.mux(video.encode(None))
    if audio is not None:
        for part in (*parts, None):
            container.mux(audio.encode(part))


def _sound_parts(sound: np.ndarray) -> Iterator[Any]:
    import av

    for at in range(0, len(sound), _AUDIO_FRAME):
        part = av.AudioFrame.from_ndarray(
            np.ascontiguousarray(sound[None, at : at + _AUDIO_FRAME]), format="fltp", layout="mono"
        )
        part.sample_rate, part.pts, part.time_base = RATE_HZ, at, Fraction(1, RATE_HZ)
        yield part


def subtitles(sentences: Sequence[str], spans_s: Sequence[tuple[float, float]], extension: str) -> str:
    """The sentences as a subtitle file: `srt` or `vtt`."""
    mark = "," if extension == "srt" else "."
    cues = [
        f"{number}\n{_clock(start, mark)} --> {_clock(end, mark)}\n{sentence}\n"
        for number, (sentence, (start, end)) in enumerate(zip(sentences, spans_s, strict=True), 1)
    ]
    return ("WEBVTT\n\n" if extension == "vtt" else "") + "\n".join(cues)


def _clock(seconds: float, mark: str) -> str:
    whole = round(seconds * 1000)
    return f"{whole // 3600000:02d}:{whole // 60000 % 60:02d}:{whole // 1000 % 60:02d}{mark}{whole % 1000:03d}"

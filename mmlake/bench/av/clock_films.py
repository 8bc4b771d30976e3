"""Films whose clock is known: something is seen at known times, and sounds a planted offset later."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

LIGHT, JUMP, NOTHING = "light", "jump", "nothing"  # what is seen: a light that goes on, a thing that jumps
RATE_HZ = 16_000
_WH = (160, 96)
_TICK = Fraction(1, 90_000)
_LIT_S = 0.12
_CLICK_S = 0.15


def event_times(duration_s: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Times that follow no rhythm, half a second to 2.2 s apart, away from both ends."""
    steps = rng.uniform(0.5, 2.2, int(duration_s * 2))
    times = 1.0 + np.cumsum(steps)
    return times[times < duration_s - 1.2]


def clicks(
    times_s: Sequence[float] | NDArray[np.float64], duration_s: float, rng: np.random.Generator
) -> NDArray[np.float32]:
    """Sound with a tone or a burst of noise at each time, over soft noise; none for times outside."""
    sound = rng.normal(0, 0.003, round(duration_s * RATE_HZ)).astype(np.float32)
    clock = np.arange(round(_CLICK_S * RATE_HZ)) / RATE_HZ
    for time_s in times_s:
        start = round(time_s * RATE_HZ)
        is_tone = rng.random() < 0.5
        wave = np.sin(2 * np.pi * rng.uniform(300, 2000) * clock) if is_tone else rng.normal(0, 0.5, len(clock))
        if 0 <= start < len(sound):
            part = sound[start : start + len(clock)]
            part += (0.4 * wave * np.exp(-clock / 0.04)).astype(np.float32)[: len(part)]
    return sound


def event_film(
    path: Path, events_s: NDArray[np.float64], sound: NDArray[np.float32], *, kind: str, times_s: NDArray[np.float64],
    rng: np.random.Generator,
) -> Path:  # fmt: skip
    """A film that shows each event from its time on, in the frames that are shown at `times_s`."""
    width, height = _WH
    ground = np.kron(rng.uniform(60, 150, (height // 8, width // 8)), np.ones((8, 8)))
    places = rng.integers(0, (width - 40, height - 40), (len(events_s) + 1, 2))
    pictures = []
    for time_s in times_s:
        last = int(np.searchsorted(events_s, time_s + 1e-9, side="right")) - 1
        picture = ground + rng.normal(0, 2, ground.shape)
        if kind == LIGHT and last >= 0 and time_s - events_s[last] < _LIT_S:
            picture += 70
        elif kind == JUMP:
            left, top = places[last + 1]
            picture[top : top + 40, left : left + 40] = 235
        pictures.append(np.clip(picture, 0, 255).astype(np.uint8))
    return gray_film(path, pictures, times_s, sound)


def gray_film(
    path: Path, pictures: Sequence[NDArray[np.uint8]], times_s: NDArray[np.float64], sound: NDArray[np.float32] | None
) -> Path:
    """A film of grey pictures at these times with mono 16 kHz sound; H.264, with lossless sound in MKV, else AAC."""
    import av

    with av.open(str(path), "w") as sink:
        options = {"preset": "veryfast", "crf": "20"}
        stream: Any = sink.add_stream("libx264", rate=25, options=options)
        stream.height, stream.width, stream.pix_fmt = *pictures[0].shape, "yuv420p"
        stream.codec_context.time_base = _TICK
        codec = "flac" if path.suffix == ".mkv" else "aac"
        track: Any = None if sound is None else sink.add_stream(codec, rate=RATE_HZ, layout="mono")
        for time_s, picture in zip(times_s, pictures, strict=True):
            frame = av.VideoFrame.from_ndarray(picture, format="gray").reformat(format="yuv420p")
            frame.pts, frame.time_base = round(time_s / _TICK), _TICK
            sink.mux(stream.encode(frame))
        sink.mux(stream.encode())
        for start in range(0, 0 if sound is None else len(sound), 1024):
            assert sound is not None
            samples = np.clip(np.rint(sound[start : start + 1024] * 32767), -32768, 32767).astype(np.int16)
            piece = av.AudioFrame.from_ndarray(samples[None], format="s16", layout="mono")
            piece.sample_rate, piece.time_base = RATE_HZ, Fraction(1, RATE_HZ)
            piece.pts = start
            sink.mux(track.encode(piece))
        if track is not None:
            sink.mux(track.encode())
    return path

"""Films in which nothing is wrong, of the kinds that are easily taken for damaged: dark and still ones, slides,
screens, sport, stages, snow. Drawn from a seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mmlake.sample.canvas import noise
from mmlake.sample.clips import take
from mmlake.sample.scenes import SCENES, paint

# H height, W width, C=3 RGB
_SIZES = ((320, 180), (480, 270), (640, 360), (400, 300), (270, 480))  # (width, height)
_RATES = (24, 25, 30)
_CODECS: tuple[tuple[str, dict[str, str]], ...] = (
    ("libx264", {"crf": "20"}),
    ("libx264", {"crf": "28"}),
    ("mpeg4", {"qscale": "4"}),
)
Frames = Iterator[np.ndarray]


@dataclass(frozen=True, slots=True)
class Shape:
    """What is drawn."""

    width: int
    height: int
    num_frames: int
    rate: int


def _backdrop(shape: Shape, rng: np.random.Generator, *, by: float = 1.3, grain: float = 3.0) -> np.ndarray:
    scene = list(SCENES)[int(rng.integers(len(SCENES)))]
    return paint(scene, round(shape.width * by), round(shape.height * by), rng, grain=grain)[0]


def _camera(shape: Shape, rng: np.random.Generator) -> Frames:
    """A slow pan with things that move."""
    return take(_backdrop(shape, rng), shape.num_frames, rng, size_px=(shape.width, shape.height))


def _handheld(shape: Shape, rng: np.random.Generator) -> Frames:
    """A hand that breathes: slow sways of one percent of the width."""
    backdrop = _backdrop(shape, rng, by=1.2)
    phases, speeds = rng.uniform(0, 6, (2, 3)), rng.uniform(0.2, 1.6, (2, 3))
    for number in range(shape.num_frames):
        sway = np.sin(phases + 2 * np.pi * speeds * number / shape.rate).mean(axis=1) * 0.012 * shape.width
        yield _view(backdrop, shape, *sway)


def _view(backdrop: np.ndarray, shape: Shape, x: float, y: float) -> np.ndarray:
    """The frame around the middle of the backdrop, moved by a part of a pixel if need be."""
    import cv2

    middle = (backdrop.shape[1] / 2 + float(x), backdrop.shape[0] / 2 + float(y))
    return cv2.getRectSubPix(backdrop, (shape.width, shape.height), middle)


def _sport(shape: Shape, rng: np.random.Generator) -> Frames:
    """A camera that follows the game: pans of half a width per second, blurred by them, that turn now and then."""
    import cv2

    field = np.full((shape.height * 2, shape.width * 5, 3), (60, 130, 55), np.float32)
    field += 25 * noise(field.shape[0], field.shape[1], rng, coarsest=60, octaves=4)[..., None]
    field[:: max(20, shape.height // 5), :] += 60
    field[:, :: shape.width // 3] += 60
    picture = np.clip(field, 0, 255).astype(np.uint8)
    for _ in range(60):
        x, y = rng.integers(0, picture.shape[1]), rng.integers(0, picture.shape[0])
        cv2.ellipse(picture, (int(x), int(y)), (6, 14), 0, 0, 360, rng.integers(30, 250, 3).tolist(), -1)
    speed, turn = rng.uniform(0.3, 0.7) * shape.width, rng.uniform(1.2, 2.5)
    for number in range(shape.num_frames):
        time_s = number / shape.rate
        x = speed * turn / 2 * np.sin(2 * np.pi * time_s / (2 * turn))
        frame = _view(picture, shape, x, 10 * np.sin(time_s))
        length = max(1, round(speed / shape.rate / 2))
        yield cv2.blur(frame, (length, 1)) if length > 1 else frame


def _dark(shape: Shape, rng: np.random.Generator) -> Frames:
    """A scene at night: an eighth of the light, some lamps."""
    import cv2

    lamps = rng.uniform(0.1, 0.9, (5, 2)) * (shape.width, shape.height)
    gain = rng.uniform(0.1, 0.2)
    for frame in _camera(shape, rng):
        dim = (frame * gain).astype(np.uint8)
        for x, y in lamps:
            cv2.circle(dim, (int(x), int(y)), 4, (230, 210, 150), -1, cv2.LINE_AA)
        yield dim


def _night_noise(shape: Shape, rng: np.random.Generator) -> Frames:
    """A sensor at its limit: a dim picture with noise of some levels."""
    sigma = rng.uniform(4, 9)
    for frame in _camera(shape, rng):
        noisy = frame * 0.35 + rng.normal(0, sigma, frame.shape[:2])[..., None] + 12
        yield np.clip(noisy, 0, 255).astype(np.uint8)


def _title(shape: Shape, rng: np.random.Generator) -> Frames:
    """White words on black that fade in and out, between two takes."""
    third = shape.num_frames // 4
    take_ = list(take(_backdrop(shape, rng), third, rng, size_px=(shape.width, shape.height)))
    yield from take_
    card = _words(np.zeros((shape.height, shape.width, 3), np.uint8), rng, ink=(235, 235, 235), lines=3)
    num = shape.num_frames - 2 * third
    for number in range(num):
        light = min(1.0, 6 * number / num, 6 * (num - number) / num)
        yield (card * light).astype(np.uint8)
    yield from reversed(take_)


def _words(page: np.ndarray, rng: np.random.Generator, *, ink: tuple[int, int, int], lines: int) -> np.ndarray:
    import cv2

    height, width = page.shape[:2]
    size = height / 22 / max(1, lines) ** 0.5 / 11
    for line in range(lines):
        text = " ".join("".join(rng.choice(list("etaoinshrdlu"), rng.integers(2, 9))) for _ in range(14))
        place = (width // 12, round(height * (line + 1) / (lines + 1)))
        cv2.putText(page, text, place, cv2.FONT_HERSHEY_SIMPLEX, max(0.35, size * 4), ink, 1, cv2.LINE_AA)
    return page


def _slides(shape: Shape, rng: np.random.Generator) -> Frames:
    """Pages of a talk, one every second and a half, with a table or a chart of bars."""
    import cv2

    page = np.zeros((shape.height, shape.width, 3), np.uint8)
    for number in range(shape.num_frames):
        if number % round(1.5 * shape.rate) == 0:
            page = _words(
                np.full_like(page, rng.integers(225, 256)), rng, ink=(30, 30, 60), lines=int(rng.integers(3, 8))
            )
            if rng.random() < 0.5:
                bottom, step = shape.height, shape.width // 12
                for bar in range(6):
                    top = int(rng.uniform(0.4, 0.9) * shape.height)
                    colour = rng.integers(0, 255, 3).tolist()
                    cv2.rectangle(page, (step * (2 * bar), top), (step * (2 * bar + 1), bottom), colour, -1)
            else:
                page[shape.height // 2 :: 18, :] = 120
                page[shape.height // 2 :, :: shape.width // 10] = 120
        yield page


def _screen(shape: Shape, rng: np.random.Generator) -> Frames:
    """A desktop: windows, a page of text that is scrolled now and then, a pointer."""
    import cv2

    page = _words(np.full((shape.height * 3, shape.width, 3), 250, np.uint8), rng, ink=(20, 20, 20), lines=60)
    offset, pointer = 0, np.array([shape.width / 2, shape.height / 2])
    for number in range(shape.num_frames):
        if number // shape.rate % 2:
            offset = min(offset + (3 if number % 2 else 0), shape.height * 2 - 1)
        elif number % 3 == 0:
            pointer += rng.normal(0, 3, 2)
        frame = page[offset : offset + shape.height].copy()
        frame[:14], frame[:, :40] = (60, 70, 110), (225, 225, 230)
        cv2.circle(frame, (int(pointer[0]), int(pointer[1])), 3, (0, 0, 0), -1)
        yield frame


def _animation(shape: Shape, rng: np.random.Generator) -> Frames:
    """Flat shapes with outlines, drawn anew for every second frame."""
    import cv2

    ground = rng.integers(120, 255, 3).tolist()
    movers = [(rng.uniform(0, 1, 2), rng.uniform(-0.4, 0.4, 2), rng.integers(0, 255, 3).tolist()) for _ in range(7)]
    frame = np.zeros((shape.height, shape.width, 3), np.uint8)
    for number in range(shape.num_frames):
        if number % 2 == 0:
            frame = np.full_like(frame, ground)
            for start, speed, colour in movers:
                x, y = ((start + speed * number / shape.rate) % 1.0) * (shape.width, shape.height)
                radius = shape.height // 9
                cv2.circle(frame, (int(x), int(y)), radius, colour, -1, cv2.LINE_AA)
                cv2.circle(frame, (int(x), int(y)), radius, (10, 10, 10), 2, cv2.LINE_AA)
        yield frame


def _concert(shape: Shape, rng: np.random.Generator) -> Frames:
    """A dark stage under coloured lamps that swing, and lights that follow a beat of two in a second."""
    import cv2

    backdrop = _backdrop(shape, rng, by=1.1) * 0.25
    beat, hues = rng.uniform(1.5, 2.5), rng.integers(40, 255, (4, 3))
    for number in range(shape.num_frames):
        time_s = number / shape.rate
        light = 0.5 + 0.5 * max(0.0, np.sin(2 * np.pi * beat * time_s)) ** 2
        frame = np.clip(_view(backdrop.astype(np.float32), shape, 0, 0) * 2 * light, 0, 255).astype(np.uint8)
        for lamp, hue in enumerate(hues):
            angle = 0.6 * np.sin(time_s * (1 + lamp) + lamp)
            top = np.array([shape.width * (lamp + 1) / 5, 0])
            foot = top + shape.height * np.array([np.tan(angle), 1.0])
            beam = np.array([top, foot - (30, 0), foot + (30, 0)], np.int32)
            glow = cv2.fillPoly(np.zeros_like(frame), [beam], hue.tolist())
            frame = cv2.addWeighted(frame, 1.0, glow, 0.5 * light, 0)
        yield frame


def _flashes(shape: Shape, rng: np.random.Generator) -> Frames:
    """A press conference: a handful of photographers' flashes, a frame or two each."""
    at = set(rng.choice(shape.num_frames, 4, replace=False).tolist())
    for number, frame in enumerate(_camera(shape, rng)):
        yield np.clip(frame * 1.8 + 40, 0, 255).astype(np.uint8) if number in at else frame


def _snow(shape: Shape, rng: np.random.Generator) -> Frames:
    """Flakes of all sizes that fall past a still camera."""
    import cv2

    backdrop = _backdrop(shape, rng, by=1.0)[: shape.height, : shape.width]
    flakes = rng.uniform(0, 1, (250, 3))
    for number in range(shape.num_frames):
        frame = backdrop.copy()
        for x, y, near in flakes:
            down = (y + (0.2 + 0.6 * near) * number / shape.rate) % 1.0
            cv2.circle(frame, (int(x * shape.width), int(down * shape.height)), 1 + int(2 * near), (245,) * 3, -1)
        yield frame


def _water(shape: Shape, rng: np.random.Generator) -> Frames:
    """Waves over the whole picture: everything moves and nothing goes anywhere."""
    rows, columns = np.mgrid[: shape.height, : shape.width].astype(np.float32)
    waves = [(rng.uniform(0.02, 0.25, 2), rng.uniform(2, 8), rng.uniform(0, 6)) for _ in range(8)]
    tint = np.array([0.5, 0.8, 1.0], np.float32)
    for number in range(shape.num_frames):
        height = sum(
            np.sin(columns * across + rows * down + speed * number / shape.rate + phase)
            for (across, down), speed, phase in waves
        )
        glints = 90 * (height > 1.5) * (rng.random(height.shape) < 0.5)  # the sky in the crests
        yield np.clip((118 + 14 * height + glints)[..., None] * tint, 0, 255).astype(np.uint8)


def _montage(shape: Shape, rng: np.random.Generator) -> Frames:
    """A trailer: cuts twice a second."""
    length = shape.rate // 2
    for start in range(0, shape.num_frames, length):
        num = min(length, shape.num_frames - start)
        yield from take(_backdrop(shape, rng), num, rng, size_px=(shape.width, shape.height))


def _fog(shape: Shape, rng: np.random.Generator) -> Frames:
    """Little contrast: a field of clouds that drifts."""
    field = 150 + 22 * noise(shape.height * 2, shape.width * 2, rng, coarsest=3, octaves=5)
    picture = np.repeat(np.clip(field, 0, 255).astype(np.uint8)[..., None], 3, axis=2)
    for number in range(shape.num_frames):
        yield _view(picture, shape, number * 0.6, number * 0.1)


def _green_screen(shape: Shape, rng: np.random.Generator) -> Frames:
    """A studio with a wall of saturated green that is keyed out later."""
    import cv2

    for number in range(shape.num_frames):
        frame = np.full((shape.height, shape.width, 3), (10, 200, 30), np.uint8)
        x = int(shape.width * (0.5 + 0.1 * np.sin(number / shape.rate)))
        cv2.ellipse(frame, (x, shape.height), (shape.width // 5, shape.height // 2), 0, 0, 360, (70, 60, 120), -1)
        cv2.circle(frame, (x, shape.height // 3), shape.height // 7, (220, 180, 150), -1, cv2.LINE_AA)
        yield np.clip(frame + rng.normal(0, 2, frame.shape[:2])[..., None], 0, 255).astype(np.uint8)


def _tiles(shape: Shape, rng: np.random.Generator) -> Frames:
    """A wall of tiles of one size, passed slowly: edges at even distances that are no fault."""
    side = int(rng.integers(12, 40))
    cells = rng.integers(40, 230, (shape.height * 2 // side + 2, shape.width * 2 // side + 2, 3), dtype=np.uint8)
    wall = cells.repeat(side, axis=0).repeat(side, axis=1).astype(np.float32)
    wall[::side], wall[:, ::side] = 90, 90
    wall += 10 * noise(wall.shape[0], wall.shape[1], rng, coarsest=20, octaves=4)[..., None]
    picture = np.clip(wall, 0, 255).astype(np.uint8)
    for number in range(shape.num_frames):
        yield _view(picture, shape, number * 0.7, number * 0.2)


CLEAN: dict[str, Callable[[Shape, np.random.Generator], Frames]] = {
    "camera": _camera, "handheld": _handheld, "sport": _sport, "dark": _dark, "night noise": _night_noise,
    "title card": _title, "slides": _slides, "screen recording": _screen, "animation": _animation,
    "concert": _concert, "flashes": _flashes, "snow": _snow, "water": _water, "montage": _montage, "fog": _fog,
    "green screen": _green_screen, "tiles": _tiles,
}  # fmt: skip
# what moves so much that whatever is done to it shows: of a picture that hardly moves, a repeated frame is one like it
FILMED = ("camera", "sport", "snow", "water", "concert", "montage")


def clean_film(kind: str, seed: int, path: Path, *, duration_s: float = 4.0) -> None:
    """Write one film of the kind to `path` (mp4); size, rate, codec and quality are drawn as well."""
    rng = np.random.default_rng(seed)
    width, height = _SIZES[int(rng.integers(len(_SIZES)))]
    rate = _RATES[int(rng.integers(len(_RATES)))]
    codec, options = _CODECS[int(rng.integers(len(_CODECS)))]
    shape = Shape(width, height, round(duration_s * rate), rate)
    _write(CLEAN[kind](shape, rng), path, rate=rate, codec=codec, options=options)


def _write(frames: Frames, path: Path, *, rate: int, codec: str, options: dict[str, str]) -> None:
    import av

    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream(codec, rate=rate)
        stream.pix_fmt = "yuv420p"
        extra = {"preset": "veryfast"} if codec == "libx264" else {"flags": "+qscale"}
        stream.options = options | extra
        stream.codec_context.thread_count = 1
        for number, picture in enumerate(frames):
            if not number:
                stream.height, stream.width = picture.shape[:2]
                if codec == "mpeg4":
                    stream.codec_context.global_quality = int(options["qscale"]) * 118  # FF_QP2LAMBDA
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
            frame.pts = number
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))

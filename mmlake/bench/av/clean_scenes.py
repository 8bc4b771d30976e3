"""More films in which nothing is wrong: faces, soft grounds, drawings, skies at night, and photographs that a camera
pans over. Drawn from a seed, in many containers and codecs."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from mmlake.bench.av.clean_films import CLEAN, Frames, Shape
from mmlake.bench.av.clock_films import RATE_HZ, clicks
from mmlake.sample.canvas import noise
from mmlake.sample.scenes import SCENES, paint

# H height, W width, C=3 RGB
_SIZES = ((320, 180), (240, 320), (426, 240), (320, 240), (256, 144))  # (width, height)
_RATES = (Fraction(12), Fraction(24000, 1001), Fraction(25), Fraction(30000, 1001), Fraction(50), Fraction(60))
# (ending, codec, options)
_FILES: tuple[tuple[str, str, dict[str, str]], ...] = (
    ("mp4", "libx264", {"crf": "20", "preset": "veryfast"}),
    ("mkv", "libx264", {"crf": "29", "preset": "veryfast"}),
    ("mp4", "libx265", {"crf": "26", "preset": "ultrafast", "x265-params": "log-level=error:pools=1"}),
    ("webm", "libvpx-vp9", {"crf": "32", "b:v": "0", "deadline": "realtime", "cpu-used": "8"}),
    ("webm", "libvpx", {"crf": "12", "b:v": "1M", "deadline": "realtime", "cpu-used": "8"}),
    ("avi", "mpeg4", {"qscale": "4"}),
    ("ts", "mpeg2video", {"qscale": "4"}),
    ("mov", "mjpeg", {"qscale": "4"}),
)
_QP_TO_LAMBDA = 118  # FF_QP2LAMBDA
_WITH_SOUND_FRACTION = 0.4


def _photograph(picture: np.ndarray) -> Callable[[Shape, np.random.Generator], Frames]:
    """A camera that pans over a photograph, a hand that holds it, or a slow zoom into it."""

    def frames(shape: Shape, rng: np.random.Generator) -> Frames:
        import cv2

        scale = 1.35 * max(shape.width / picture.shape[1], shape.height / picture.shape[0])
        interpolation = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
        world = cv2.resize(picture, None, fx=scale, fy=scale, interpolation=interpolation)
        spare = np.array([world.shape[1] - shape.width, world.shape[0] - shape.height]) / 2
        start, end = rng.uniform(-0.8, 0.8, (2, 2)) * spare
        sway, zoom = rng.uniform(0, 0.006) * shape.width, rng.uniform(1.0, 1.2)
        phases = rng.uniform(0, 6, 2)
        for number in range(shape.num_frames):
            share, time_s = number / max(1, shape.num_frames - 1), number / shape.rate
            x, y = start + (end - start) * share + sway * np.sin(phases + 4 * time_s)
            middle = (world.shape[1] / 2 + float(x), world.shape[0] / 2 + float(y))
            factor = 1 / (1 + (zoom - 1) * share)
            view = cv2.getRectSubPix(world, (round(shape.width * factor), round(shape.height * factor)), middle)
            yield cv2.resize(view, (shape.width, shape.height), interpolation=cv2.INTER_LINEAR)

    return frames


def _scene(shape: Shape, rng: np.random.Generator, *, by: float = 1.3, grain: float = 3.0) -> np.ndarray:
    name = list(SCENES)[int(rng.integers(len(SCENES)))]
    return paint(name, round(shape.width * by), round(shape.height * by), rng, grain=grain)[0]


def _zoom(shape: Shape, rng: np.random.Generator) -> Frames:
    """A painted scene that a lens comes nearer to."""
    return _photograph(_scene(shape, rng, by=1.6))(shape, rng)


def _talking_head(shape: Shape, rng: np.random.Generator) -> Frames:
    """A face that speaks, nods and blinks before a room out of focus."""
    import cv2

    room = cv2.GaussianBlur(_scene(shape, rng, by=1.0), (0, 0), shape.width / 60)[: shape.height, : shape.width]
    skin, hair = rng.uniform((150, 100, 80), (240, 190, 165)), rng.uniform(10, 120, 3)
    speed, phase = rng.uniform(2.5, 5.0), rng.uniform(0, 6)
    texture = rng.normal(0, 5, (shape.height, shape.width, 1))
    for number in range(shape.num_frames):
        time_s, unit = number / shape.rate, shape.height // 4
        frame = room.copy()
        x = int(shape.width / 2 + unit * 0.25 * np.sin(1.3 * time_s + phase))
        y = int(shape.height / 2 + unit * 0.08 * np.sin(2.1 * time_s))
        cv2.ellipse(frame, (x, y + 3 * unit), (int(1.6 * unit), 2 * unit), 0, 0, 360, hair[::-1].tolist(), -1)
        cv2.ellipse(frame, (x, y - unit // 5), (int(0.95 * unit), int(1.2 * unit)), 0, 0, 360, hair.tolist(), -1)
        cv2.ellipse(frame, (x, y), (int(0.8 * unit), unit), 0, 0, 360, skin.tolist(), -1, cv2.LINE_AA)
        for side in (-1, 1):
            eye = (x + side * unit // 3, y - unit // 4)
            if int(time_s * 3 + phase) % 7:
                cv2.circle(frame, eye, max(2, unit // 12), (30, 30, 40), -1, cv2.LINE_AA)
            cv2.line(frame, (eye[0] - unit // 6, eye[1] - unit // 6), (eye[0] + unit // 6, eye[1] - unit // 6),
                     hair.tolist(), 2, cv2.LINE_AA)  # fmt: skip
        mouth = max(1, int(unit * 0.16 * abs(np.sin(speed * time_s * 2))))
        cv2.ellipse(frame, (x, y + unit // 2), (unit // 4, mouth), 0, 0, 360, (110, 30, 40), -1, cv2.LINE_AA)
        yield np.clip(frame + texture, 0, 255).astype(np.uint8)


def _close_up(shape: Shape, rng: np.random.Generator) -> Frames:
    """A sharp thing before a ground that is far out of focus."""
    import cv2

    ground = cv2.GaussianBlur(_scene(shape, rng, by=1.2), (0, 0), shape.width / 40)
    thing = _scene(shape, rng, by=1.0)[: shape.height, : shape.width]
    mask = np.zeros(thing.shape[:2], np.uint8)
    centre = (int(shape.width * rng.uniform(0.35, 0.65)), int(shape.height * rng.uniform(0.4, 0.7)))
    cv2.ellipse(mask, centre, (shape.width // 5, shape.height // 3), rng.uniform(0, 90), 0, 360, 1, -1)
    for number in range(shape.num_frames):
        middle = (ground.shape[1] / 2 + 0.3 * number, ground.shape[0] / 2)
        frame = cv2.getRectSubPix(ground, (shape.width, shape.height), middle)
        frame[mask > 0] = thing[mask > 0]
        yield frame


def _old_film(shape: Shape, rng: np.random.Generator) -> Frames:
    """Black and white stock with grain and a gate that weaves by a pixel."""
    backdrop = _scene(shape, rng, by=1.2).mean(axis=2)
    grain = rng.uniform(5, 10)
    for number in range(shape.num_frames):
        x, y = rng.integers(0, 2, 2) + (number // 3, 0)
        grey = backdrop[y : y + shape.height, x % 8 : x % 8 + shape.width] + rng.normal(
            0, grain, (shape.height, shape.width)
        )
        yield np.repeat(np.clip(grey, 0, 255).astype(np.uint8)[..., None], 3, axis=2)


def _sky(shape: Shape, rng: np.random.Generator) -> Frames:
    """A sunset: a smooth gradient, a disc that sinks, a dark skyline."""
    import cv2

    rows = np.linspace(0, 1, shape.height)[:, None, None]
    gradient = (1 - rows) * rng.uniform((30, 40, 90), (80, 90, 160)) + rows * rng.uniform((200, 90, 30), (255, 150, 80))
    sky = np.broadcast_to(gradient, (shape.height, shape.width, 3))
    tops = shape.height * (0.8 - 0.12 * np.abs(rng.normal(0, 1, 24)))
    for number in range(shape.num_frames):
        frame = np.clip(sky + rng.normal(0, 1.5, (shape.height, shape.width, 1)), 0, 255).astype(np.uint8)
        y = shape.height * (0.35 + 0.1 * number / shape.num_frames)
        cv2.circle(frame, (shape.width // 2, int(y)), shape.height // 8, (255, 230, 170), -1, cv2.LINE_AA)
        for at, top in enumerate(tops):
            left = int(at * shape.width / len(tops))
            cv2.rectangle(frame, (left, int(top)), (left + shape.width // len(tops), shape.height), (18, 14, 20), -1)
        bird = (int((0.1 + 0.8 * number / shape.num_frames) * shape.width), shape.height // 5)
        cv2.ellipse(frame, bird, (5, 2 + number % 3), 0, 180, 360, (20, 20, 25), 2)
        yield frame


def _starry(shape: Shape, rng: np.random.Generator) -> Frames:
    """Stars that turn above a black land, and a plane."""
    import cv2

    stars = rng.uniform(-1, 1, (140, 2)) * max(shape.width, shape.height)
    lights = rng.uniform(120, 255, 140)
    for number in range(shape.num_frames):
        frame = np.full((shape.height, shape.width, 3), (9, 10, 18), np.uint8)
        turn = 0.02 * number / shape.rate
        rotated = stars @ np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
        for (x, y), light in zip(rotated + (shape.width / 2, shape.height / 2), lights, strict=True):
            cv2.circle(frame, (int(x), int(y)), 1, (light,) * 3, -1)
        cv2.circle(frame, (int(0.2 * shape.width + 25 * number / shape.rate), 30), 2, (255, 80, 80), -1)
        yield frame


def _credits(shape: Shape, rng: np.random.Generator) -> Frames:
    """Names that run up a black screen."""
    import cv2

    names = ["".join(rng.choice(list("ETAOINSHRDLU"), rng.integers(4, 9))) for _ in range(24)]
    for number in range(shape.num_frames):
        frame = np.zeros((shape.height, shape.width, 3), np.uint8)
        for at, name in enumerate(names):
            y = int(shape.height * (0.2 + at * 0.14) - 34 * number / shape.rate)
            cv2.putText(frame, name, (shape.width // 3, y), cv2.FONT_HERSHEY_SIMPLEX, 0.55, (230,) * 3, 1, cv2.LINE_AA)
        yield frame


def _fireworks(shape: Shape, rng: np.random.Generator) -> Frames:
    """Sparks that burst and fall in the dark."""
    import cv2

    bursts = [(rng.uniform(0, shape.num_frames / shape.rate), rng.uniform(0.2, 0.7, 2), rng.integers(120, 256, 3))
              for _ in range(7)]  # fmt: skip
    ways = rng.normal(0, 1, (60, 2))
    for number in range(shape.num_frames):
        frame = np.full((shape.height, shape.width, 3), (14, 14, 24), np.uint8)
        for begun_s, place, hue in bursts:
            age_s = number / shape.rate - begun_s
            if 0 <= age_s < 1.2:
                sparks = place * (shape.width, shape.height) + ways * 0.22 * shape.height * np.sqrt(age_s)
                sparks[:, 1] += 60 * age_s**2
                for x, y in sparks:
                    cv2.circle(frame, (int(x), int(y)), 1, (hue * (1 - age_s / 1.3)).tolist(), -1)
        yield frame


def _driving(shape: Shape, rng: np.random.Generator) -> Frames:
    """A road that comes nearer: lines and posts grow from the vanishing point."""
    import cv2

    sky, road = rng.integers(120, 240, 3).tolist(), rng.integers(50, 90)
    hills = (noise(1, shape.width, rng, coarsest=6, octaves=4)[0] + 1) * shape.height / 12
    horizon = shape.height // 2
    for number in range(shape.num_frames):
        frame = np.full((shape.height, shape.width, 3), sky, np.uint8)
        for x, height in enumerate(hills):
            frame[horizon - max(1, int(height)) : horizon, x] = (60, 90, 70)
        frame[horizon:] = (int(road), int(road) + 4, int(road))
        for post in range(14):
            near = ((post / 14 + 0.55 * number / shape.rate) % 1.0) ** 2.2
            y = int(horizon + near * (shape.height - horizon))
            cv2.line(frame, (shape.width // 2, y), (shape.width // 2, y + max(1, int(20 * near))), (240, 240, 230),
                     max(1, int(7 * near)))  # fmt: skip
            for side in (-1, 1):
                x = int(shape.width / 2 + side * near * shape.width * 0.6)
                cv2.line(frame, (x, y), (x, y - int(70 * near)), (225, 225, 215), max(1, int(6 * near)))
        yield np.clip(frame + rng.normal(0, 2.5, frame.shape[:2])[..., None], 0, 255).astype(np.uint8)


def _surveillance(shape: Shape, rng: np.random.Generator) -> Frames:
    """A still camera with a clock in its corner; one person walks by."""
    import cv2

    yard = _scene(shape, rng, by=1.0)[: shape.height, : shape.width].astype(np.float32)
    for number in range(shape.num_frames):
        frame = np.clip(yard + rng.normal(0, 3, (shape.height, shape.width, 1)), 0, 255).astype(np.uint8)
        x = int(shape.width * (0.1 + 0.7 * number / shape.num_frames))
        cv2.ellipse(frame, (x, shape.height * 2 // 3), (6, 17), 0, 0, 360, (40, 35, 60), -1, cv2.LINE_AA)
        cv2.putText(frame, f"12:00:{number // shape.rate:02d}", (6, 14), cv2.FONT_HERSHEY_PLAIN, 0.9, (255,) * 3, 1)
        yield frame


def _whiteboard(shape: Shape, rng: np.random.Generator) -> Frames:
    """A hand that draws a line on white."""
    import cv2

    board = np.full((shape.height, shape.width, 3), 244, np.uint8)
    at = np.array([0.2 * shape.width, 0.5 * shape.height])
    course = 0.0
    for _ in range(shape.num_frames):
        course += rng.normal(0, 0.35)
        step = at + 4 * np.array([np.cos(course), np.sin(course)])
        step = np.clip(step, 12, (shape.width - 12, shape.height - 12))
        cv2.line(board, tuple(at.astype(int).tolist()), tuple(step.astype(int).tolist()), (30, 40, 120), 2, cv2.LINE_AA)
        at = step
        frame = board.copy()
        cv2.ellipse(frame, (int(at[0]) + 18, int(at[1]) + 26), (14, 30), -30, 0, 360, (205, 160, 135), -1, cv2.LINE_AA)
        yield frame


def _stop_motion(shape: Shape, rng: np.random.Generator) -> Frames:
    """A puppet that is moved by hand between pictures, each shown for a twelfth of a second."""
    import cv2

    table = _scene(shape, rng, by=1.0)[: shape.height, : shape.width]
    held, frame = max(1, round(shape.rate / 12)), table
    place = np.array([shape.width * 0.3, shape.height * 0.6])
    for number in range(shape.num_frames):
        if number % held == 0:
            place = place + rng.normal((2.0, 0), (2.0, 2.0))
            frame = np.clip(table * rng.uniform(0.97, 1.03), 0, 255).astype(np.uint8)
            cv2.circle(frame, tuple(place.astype(int).tolist()), shape.height // 7, (200, 120, 60), -1, cv2.LINE_AA)
            cv2.circle(frame, tuple(place.astype(int).tolist()), shape.height // 7, (40, 20, 10), 2, cv2.LINE_AA)
        yield frame


SCENES_CLEAN: dict[str, Callable[[Shape, np.random.Generator], Frames]] = {
    **CLEAN, "zoom": _zoom, "talking head": _talking_head, "close-up": _close_up, "old film": _old_film, "sky": _sky,
    "stars": _starry, "credits": _credits, "fireworks": _fireworks, "driving": _driving,
    "surveillance": _surveillance, "whiteboard": _whiteboard, "stop motion": _stop_motion,
}  # fmt: skip


def small_film(
    kind: str, seed: int, folder: Path, *, duration_s: float = 3.0, photograph: np.ndarray | None = None
) -> Path:
    """One small film of the kind, or of a photograph; size, rate, container, codec and whether it has sound are drawn
    as well."""
    rng = np.random.default_rng(seed)
    width, height = _SIZES[int(rng.integers(len(_SIZES)))]
    ending, codec, options = _FILES[int(rng.integers(len(_FILES)))]
    rate = _RATES[int(rng.integers(len(_RATES)))]
    if codec == "mpeg2video" and rate < 20:
        rate = Fraction(25)  # the codec knows no slower one
    sound = None
    if rng.random() < _WITH_SOUND_FRACTION:  # steps and knocks that have nothing to do with the picture
        sound = clicks(np.cumsum(rng.uniform(0.25, 0.6, 8)), duration_s, rng)
    shape = Shape(width, height, round(duration_s * rate), round(rate))
    frames = (SCENES_CLEAN[kind] if photograph is None else _photograph(photograph))(shape, rng)
    path = folder / f"clean.{ending}"
    _write(frames, path, rate=rate, codec=codec, options=options, sound=sound)
    return path


def _write(
    frames: Frames, path: Path, *, rate: Fraction, codec: str, options: dict[str, str], sound: np.ndarray | None
) -> None:
    import av

    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream(codec, rate=rate)
        stream.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
        stream.options = options
        stream.codec_context.thread_count = 1
        if "qscale" in options:
            stream.codec_context.global_quality = int(options["qscale"]) * _QP_TO_LAMBDA
            stream.options = {"flags": "+qscale"}
        track: Any = None
        if sound is not None:
            track = container.add_stream("libopus" if path.suffix == ".webm" else "aac", rate=48_000, layout="mono")
        for number, picture in enumerate(frames):
            if not number:
                stream.height, stream.width = picture.shape[:2]
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
            frame.pts = number
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
        if track is not None and sound is not None:
            for packet in _encoded(track, sound):
                container.mux(packet)


def _encoded(track: Any, sound: np.ndarray) -> list[Any]:
    """The packets of the samples, at the track's rate."""
    import av

    resampler = av.AudioResampler(format=track.codec_context.format, layout="mono", rate=48_000, frame_size=960)
    whole = av.AudioFrame.from_ndarray(np.ascontiguousarray(sound[None]), format="flt", layout="mono")
    whole.sample_rate, whole.pts, whole.time_base = RATE_HZ, 0, Fraction(1, RATE_HZ)
    packets = [packet for piece in resampler.resample(whole) for packet in track.encode(piece)]
    packets += [packet for piece in resampler.resample(None) for packet in track.encode(piece)]
    return [*packets, *track.encode(None)]

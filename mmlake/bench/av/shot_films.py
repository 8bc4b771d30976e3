"""Films made with a seed, whose shots are known: textured scenes that a camera pans over, zooms into or shakes above,
joined by cuts, fades and dissolves, with flashes that are none of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

RATE_HZ = 25
KINDS = ("cut", "fade", "dissolve")
_SIZE_HW = (180, 320)
_WORLD_HW = (540, 960)
_BLUR_STEPS = 3  # of the shutter, where the camera moves fast


@dataclass(frozen=True, slots=True)
class Transition:
    """One change of shots: what it is, and when half of it has gone by."""

    kind: str
    time_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Style:
    """How a film is shot and edited."""

    num_shots: int = 12
    shot_s: tuple[float, float] = (2.0, 4.5)
    kinds: tuple[str, ...] = KINDS
    shake: tuple[float, ...] = (0.0, 0.002, 0.008)  # RMS of the hand over the width of the frame, one drawn per shot
    flash_fraction: float = 0.25  # of the shots
    crf: tuple[int, int] = (18, 28)


SHAKEN = Style(num_shots=1, shot_s=(30.0, 30.0), shake=(0.015, 0.03, 0.05), flash_fraction=0.0)


def film(path: Path, style: Style, rng: np.random.Generator) -> list[Transition]:
    """The transitions of the film that is written there, in order of time."""
    import av

    shots = [_Shot(style, rng) for _ in range(style.num_shots)]
    kinds = [str(rng.choice(style.kinds)) for _ in shots[1:]]
    truth: list[Transition] = []
    with av.open(str(path), "w") as sink:
        options = {"crf": str(rng.integers(*style.crf)), "preset": "veryfast"}
        stream = sink.add_stream("libx264", rate=RATE_HZ, options=options)
        stream.height, stream.width, stream.pix_fmt = *_SIZE_HW, "yuv420p"
        stream.codec_context.thread_count = 1
        for number, pixels_HWC in enumerate(_edited(shots, kinds, truth, rng)):
            frame = av.VideoFrame.from_ndarray(pixels_HWC, format="bgr24")
            frame.pts, frame.time_base = number, Fraction(1, RATE_HZ)
            sink.mux(stream.encode(frame))
        sink.mux(stream.encode())
    return truth


def _edited(
    shots: list[_Shot], kinds: list[str], truth: list[Transition], rng: np.random.Generator
) -> Iterator[np.ndarray]:
    """The frames of the film; `truth` grows with them."""
    number = 0
    for before, after, kind in zip(shots, [*shots[1:], None], [*kinds, "end"], strict=True):
        for _ in range(before.num_frames):
            yield before.next()
            number += 1
        if kind == "cut":
            truth.append(Transition("cut", number / RATE_HZ))
        elif after is not None and kind == "dissolve":
            count = int(rng.integers(8, 50))
            truth.append(Transition("dissolve", (number + count / 2) / RATE_HZ))
            for step in range(count):
                share = (step + 1) / (count + 1)
                yield _mixed(before.next(), after.next(), share)
            number += count
        elif after is not None and kind == "fade":
            out, empty, back = (int(count) for count in rng.integers((6, 1, 6), (30, 20, 30)))
            level = np.full((*_SIZE_HW, 3), 255 if rng.random() < 0.3 else int(rng.integers(0, 12)), np.uint8)
            truth.append(Transition("fade", (number + out + empty / 2) / RATE_HZ))
            for step in range(out):
                yield _mixed(before.next(), level, (step + 1) / (out + 1))
            for _ in range(empty):
                yield level
            for step in range(back):
                yield _mixed(level, after.next(), (step + 1) / (back + 1))
            number += out + empty + back


def _mixed(left: np.ndarray, right: np.ndarray, share: float) -> np.ndarray:
    import cv2

    return cv2.addWeighted(left, 1 - share, right, share, 0)


class _Shot:
    """A camera above a world, with things that move across it, noise of the sensor and perhaps a flash."""

    def __init__(self, style: Style, rng: np.random.Generator) -> None:
        self._rng = rng
        self.num_frames = round(float(rng.uniform(*style.shot_s)) * RATE_HZ)
        self._world = textured(rng)
        total = self.num_frames + 4 * RATE_HZ  # transitions go on with it
        self._path = _camera(total, float(rng.choice(style.shake)), rng)
        self._exposure = 1 + 0.06 * _wander(total, 0.3, rng)
        self._noise = float(rng.uniform(0.5, 5))
        self._movers = [_Mover(textured(rng), total, rng) for _ in range(int(rng.choice((0, 1, 2))))]
        flashes = rng.random() < style.flash_fraction
        start = int(rng.integers(15, self.num_frames - 20))
        self._flash = range(start, start + int(rng.integers(1, 5))) if flashes else range(0)
        self._at = 0

    def next(self) -> np.ndarray:
        """The next frame, uint8 H W 3."""

        at, self._at = self._at, self._at + 1
        speed = np.abs(self._path[at + 1, :2] - self._path[at, :2]).max()
        steps = _BLUR_STEPS if speed > 3 else 1
        views = [self._view(at + 0.5 * step / steps) for step in range(steps)]
        frame = np.mean(views, axis=0) if steps > 1 else views[0].astype(np.float32)
        for mover in self._movers:
            mover.draw(frame, at, self._path[at])
        if at in self._flash:
            frame = 0.25 * frame + 0.75 * 255
        grain = self._rng.normal(0, self._noise, (_SIZE_HW[0], _SIZE_HW[1])).astype(np.float32)
        frame = frame * self._exposure[at] + grain[..., None]
        pixels: np.ndarray = np.clip(frame, 0, 255).astype(np.uint8)
        return pixels

    def _view(self, at: float) -> np.ndarray:
        import cv2

        left = int(at)
        x, y, zoom, roll = self._path[left] + (at - left) * (self._path[left + 1] - self._path[left])
        matrix = cv2.getRotationMatrix2D((0, 0), float(np.degrees(roll)), 1.0) / zoom
        centre = np.array([_WORLD_HW[1] / 2 + x, _WORLD_HW[0] / 2 + y])
        matrix[:, 2] = centre - matrix[:, :2] @ np.array([_SIZE_HW[1] / 2, _SIZE_HW[0] / 2])
        flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        return cv2.warpAffine(self._world, matrix, _SIZE_HW[::-1], flags=flags, borderMode=cv2.BORDER_REFLECT)


class _Mover:
    """Somebody who crosses the scene, nearer than it."""

    def __init__(self, texture: np.ndarray, total: int, rng: np.random.Generator) -> None:
        self._radius = rng.uniform((10, 20), (35, 60))  # px: half width and height
        self._from, self._to = rng.uniform(-200, 200, 2), rng.uniform(-200, 200, 2)
        self._level = float(rng.uniform(60, 110))
        self._texture, self._total = texture, total

    def draw(self, frame: np.ndarray, at: int, camera: np.ndarray) -> None:
        """Lay it over the frame."""
        import cv2

        share = at / self._total
        x = (1 - share) * self._from[0] + share * self._to[0] + _SIZE_HW[1] / 2 - 1.4 * camera[0]
        y = (1 - share) * self._from[1] + share * self._to[1] * 0.2 + _SIZE_HW[0] / 2 - 1.4 * camera[1]
        mask = np.zeros(_SIZE_HW, np.uint8)
        cv2.ellipse(mask, (int(x), int(y)), tuple(int(one) for one in self._radius), 0, 0, 360, 1, -1)
        rows, columns = np.nonzero(mask)
        if len(rows):
            frame[rows, columns] = self._texture[(rows - int(y)) % 200 + 100, (columns - int(x)) % 200 + 100]


def _camera(total: int, shake: float, rng: np.random.Generator) -> np.ndarray:
    """x, y in px, zoom and roll in radians for each frame, shape (total + 2, 4)."""
    times = np.arange(total + 2) / RATE_HZ
    speed = rng.normal(0, 12, 2) if rng.random() < 0.6 else np.zeros(2)  # px per second
    zoom = 1 + (rng.normal(0, 0.04) * times if rng.random() < 0.3 else 0 * times)
    width = _SIZE_HW[1]
    hand = [width * shake * (_wander(total + 2, 1.5, rng) + 0.35 * _wander(total + 2, 7.0, rng)) for _ in range(2)]
    step = 0.6 * width * shake * np.abs(np.sin(2 * np.pi * 0.95 * times + rng.uniform(0, 6)))
    roll = shake * _wander(total + 2, 1.5, rng)
    around = _turning(speed, times)
    return np.stack([around[0] + hand[0], around[1] + hand[1] + step, np.clip(zoom, 0.7, 1.6), roll], axis=1)


def _turning(speed: np.ndarray, times: np.ndarray) -> np.ndarray:
    """A pan that stays above the world: it turns round at 200 px."""
    turning: np.ndarray = np.abs((speed[:, None] * times + 200) % 800 - 400) - 200
    return turning


def _wander(total: int, rate_hz: float, rng: np.random.Generator) -> np.ndarray:
    """A random path of mean 0 and deviation 1 with most of its power below that rate."""
    spectrum = np.fft.rfft(rng.normal(0, 1, total + 64))
    at_hz = np.fft.rfftfreq(total + 64, 1 / RATE_HZ)
    path = np.fft.irfft(spectrum / (1 + (at_hz / rate_hz) ** 2), total + 64)[:total]
    wandering: np.ndarray = (path - path.mean()) / max(path.std(), 1e-9)
    return wandering


def textured(rng: np.random.Generator) -> np.ndarray:
    """A world: noise of all scales, shapes and lettering, in colours of its own; uint8 H W 3."""
    import cv2

    height, width = _WORLD_HW
    tint, ground = rng.normal(0, 1, 3), np.zeros((*_WORLD_HW, 3), np.float32)
    for cells in (3, 6, 12, 24, 48, 96, 192):
        grey = rng.normal(0, 1, (cells, 2 * cells, 1))
        layer = (grey + rng.normal(0, 0.4, (cells, 2 * cells, 3)) + 0.3 * tint * grey).astype(np.float32)
        ground += cv2.resize(layer, (width, height), interpolation=cv2.INTER_CUBIC) * cells**-0.6
    ground = (ground - ground.mean()) / ground.std()
    bright, contrast = rng.uniform(50, 190), rng.uniform(22, 60)
    world = np.clip(bright + 12 * tint + contrast * ground, 0, 255).astype(np.uint8)
    for _ in range(int(rng.integers(10, 60))):
        colour = tuple(int(one) for one in np.clip(bright + rng.normal(0, 60) + rng.normal(0, 35, 3), 0, 255))
        centre = (int(rng.integers(0, width)), int(rng.integers(0, height)))
        size = (int(rng.integers(4, 120)), int(rng.integers(4, 80)))
        shape = rng.integers(0, 4)
        if shape == 0:
            cv2.ellipse(world, centre, size, float(rng.uniform(0, 180)), 0, 360, colour, -1)
        elif shape == 1:
            cv2.rectangle(world, centre, (centre[0] + size[0], centre[1] + size[1]), colour, -1)
        elif shape == 2:
            cv2.fillPoly(world, [(centre + rng.normal(0, 50, (4, 2))).astype(np.int32)], colour)
        else:
            cv2.putText(world, "quick brown fox"[: size[0] // 6], centre, 0, size[1] / 40 + 0.3, colour, 2)
    return np.asarray(cv2.GaussianBlur(world, (3, 3), 0.8), np.uint8)

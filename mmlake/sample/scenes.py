"""Procedural scenes with the statistics of photographs: sharp edges, textures at all scales, light from somewhere, and
a true caption.

`paint` gives an RGB picture and the phrase that says what is on it. Everything is drawn with OpenCV on a canvas of the
final size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mmlake.sample.chance import pick

# H height, W width, C=3 RGB
COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (196, 40, 44),
    "orange": (232, 124, 28),
    "yellow": (240, 208, 62),
    "green": (58, 150, 66),
    "teal": (24, 136, 140),
    "blue": (42, 84, 190),
    "violet": (118, 62, 168),
    "pink": (232, 130, 170),
    "brown": (122, 76, 42),
    "white": (240, 238, 230),
    "grey": (128, 130, 134),
    "black": (28, 28, 34),
}
_SKIES = {
    "at dawn": ((92, 110, 170), (248, 190, 150)),
    "at noon": ((70, 130, 215), (190, 220, 245)),
    "at dusk": ((48, 34, 84), (240, 120, 70)),
    "under grey clouds": ((110, 116, 124), (200, 204, 206)),
    "by night": ((14, 18, 44), (56, 62, 104)),
}
_COUNTS = (
    "",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
)
Painter = Callable[[np.ndarray, np.random.Generator], str]


def noise(height: int, width: int, rng: np.random.Generator, *, coarsest: int = 3, octaves: int = 5) -> np.ndarray:
    """A field in about -1..1 with power falling as in nature: octaves of smoothed random grids, each half as strong.
    Shape (H, W), float32."""
    import cv2

    field = np.zeros((height, width), np.float32)
    for octave in range(octaves):
        cells = coarsest * 2**octave
        grid = rng.standard_normal((cells + 1, cells + 1)).astype(np.float32)
        field += cv2.resize(grid, (width, height), interpolation=cv2.INTER_CUBIC) * 0.55**octave
    return field / 1.6


def _colour(rng: np.random.Generator, *, without: tuple[str, ...] = ()) -> tuple[str, tuple[int, int, int]]:
    name = pick(rng, [name for name in COLOURS if name not in without])
    shift = rng.integers(-18, 19, 3)
    red, green, blue = (int(np.clip(value + delta, 0, 255)) for value, delta in zip(COLOURS[name], shift, strict=True))
    return name, (red, green, blue)


def _shade(colour: tuple[int, int, int], factor: float) -> tuple[int, int, int]:
    red, green, blue = (int(np.clip(value * factor, 0, 255)) for value in colour)
    return red, green, blue


def _polygon(canvas: np.ndarray, points: Any, colour: tuple[int, int, int]) -> None:
    import cv2

    cv2.fillPoly(canvas, [np.round(np.asarray(points, np.float64)).astype(np.int32)], colour, lineType=cv2.LINE_AA)


def _disc(canvas: np.ndarray, x: float, y: float, radius: float, colour: tuple[int, int, int]) -> None:
    import cv2

    cv2.circle(canvas, (round(x), round(y)), max(1, round(radius)), colour, -1, cv2.LINE_AA)


def _line(
    canvas: np.ndarray,
    start: tuple[float, float],
    end: tuple[float, float],
    colour: tuple[int, int, int],
    thickness: int,
) -> None:
    import cv2

    cv2.line(canvas, (round(start[0]), round(start[1])), (round(end[0]), round(end[1])), colour, thickness, cv2.LINE_AA)


def _sky(canvas: np.ndarray, rng: np.random.Generator) -> str:
    height, width = canvas.shape[:2]
    when = pick(rng, tuple(_SKIES))
    top, bottom = (np.array(colour, np.float32) for colour in _SKIES[when])
    tilt = rng.uniform(-0.8, 0.8)
    mix = np.clip(np.linspace(0, 1, height)[:, None] + tilt * np.linspace(-0.5, 0.5, width)[None], 0, 1)[..., None]
    clouds = noise(height, width, rng, coarsest=2)[..., None] * rng.uniform(20, 55)
    canvas[:] = np.clip(top * (1 - mix) + bottom * mix + clouds, 0, 255).astype(np.uint8)
    return when


def _hills(canvas: np.ndarray, rng: np.random.Generator) -> str:
    height, width = canvas.shape[:2]
    when = _sky(canvas, rng)
    sun, colour = rng.uniform(0.1, 0.9) * width, _colour(rng, without=("black", "brown", "green"))
    _disc(canvas, sun, rng.uniform(0.12, 0.4) * height, rng.uniform(0.06, 0.15) * width, colour[1])
    name, base = _colour(rng, without=("white", "yellow", "pink"))
    ridges = int(rng.integers(2, 6))
    x = np.arange(width)
    for ridge in range(ridges):
        phase, waves = rng.uniform(0, 6.28, 3), rng.uniform(0.6, 5, 3)
        line = sum(
            np.sin(x / width * 6.28 * wave + shift) / (1 + at)
            for at, (wave, shift) in enumerate(zip(waves, phase, strict=True))
        )
        level = height * (0.35 + 0.55 * (ridge + 1) / (ridges + 1)) - np.asarray(line) * height * rng.uniform(
            0.05, 0.16
        )
        _polygon(
            canvas,
            [*zip(x, level, strict=True), (width, height), (0, height)],
            _shade(base, 1.15 - 0.75 * ridge / ridges),
        )
    return f"{_COUNTS[ridges]} ridges of {name} mountains {when} with a {colour[0]} sun"


def _city(canvas: np.ndarray, rng: np.random.Generator) -> str:
    import cv2

    height, width = canvas.shape[:2]
    when = _sky(canvas, rng)
    wall, light = _colour(rng, without=("yellow", "white")), _colour(rng, without=("black", "brown", "grey"))
    towers, x = 0, -rng.uniform(0, 20)
    while x < width:
        broad, tall = rng.uniform(0.06, 0.2) * width, rng.uniform(0.15, 0.85) * height
        cv2.rectangle(
            canvas,
            (round(x), round(height - tall)),
            (round(x + broad), height),
            _shade(wall[1], rng.uniform(0.35, 1.2)),
            -1,
        )
        step = int(rng.integers(7, 14))
        for top in range(round(height - tall) + 5, height - 4, step):
            for left in range(round(x) + 4, round(x + broad) - 5, step):
                if rng.random() < 0.6:
                    cv2.rectangle(
                        canvas,
                        (left, top),
                        (left + step // 2, top + step // 2),
                        _shade(light[1], rng.uniform(0.4, 1.1)),
                        -1,
                    )
        x += broad + rng.uniform(0, 0.05) * width
        towers += 1
    return f"{wall[0]} tower blocks with {light[0]} windows {when}"


def _mosaic(canvas: np.ndarray, rng: np.random.Generator) -> str:
    import cv2

    height, width = canvas.shape[:2]
    count = int(rng.integers(14, 60))
    points = rng.uniform(0, 1, (count, 2)) * (width, height)
    lead = _colour(rng, without=("pink", "yellow", "orange"))
    names = [_colour(rng) for _ in range(int(rng.integers(3, 6)))]
    division = cv2.Subdiv2D((-width, -height, 3 * width, 3 * height))
    for x, y in points:
        division.insert((float(x), float(y)))
    facets, _ = division.getVoronoiFacetList([])
    for facet in facets:
        _polygon(canvas, facet, _shade(pick(rng, names)[1], rng.uniform(0.5, 1.25)))
        cv2.polylines(canvas, [np.round(facet).astype(np.int32)], True, lead[1], int(rng.integers(1, 4)), cv2.LINE_AA)
    return f"stained glass in {names[0][0]} and {names[1][0]} with {lead[0]} lead"


def _balloons(canvas: np.ndarray, rng: np.random.Generator) -> str:
    height, width = canvas.shape[:2]
    when = _sky(canvas, rng)
    count, colour = int(rng.integers(2, 10)), _colour(rng)
    for _ in range(count):
        x, y, radius = rng.uniform(0, width), rng.uniform(0, 0.8) * height, rng.uniform(0.05, 0.17) * width
        _line(canvas, (x - radius * 0.5, y + radius), (x, y + radius * 1.9), (60, 50, 40), 1)
        _line(canvas, (x + radius * 0.5, y + radius), (x, y + radius * 1.9), (60, 50, 40), 1)
        tone = _shade(colour[1], rng.uniform(0.7, 1.15))
        _disc(canvas, x, y, radius, tone)
        for stripe in (-0.5, 0, 0.5):
            _line(
                canvas,
                (x + stripe * radius, y - radius * 0.8),
                (x + stripe * radius * 0.7, y + radius * 0.85),
                _shade(tone, 0.55),
                max(1, round(radius / 8)),
            )
        _disc(canvas, x, y + radius * 1.9, radius * 0.22, (92, 62, 30))
    return f"{_COUNTS[count]} {colour[0]} hot-air balloons {when}"


def _flowers(canvas: np.ndarray, rng: np.random.Generator) -> str:
    height, width = canvas.shape[:2]
    ground, petal, heart = _colour(rng, without=("pink", "white", "yellow")), _colour(rng), _colour(rng)
    canvas[:] = np.clip(np.array(ground[1]) * (0.8 + 0.45 * noise(height, width, rng)[..., None]), 0, 255).astype(
        np.uint8
    )
    for _ in range(160):
        x, y = rng.uniform(0, width), rng.uniform(0, height)
        _line(
            canvas,
            (x, y),
            (x + rng.uniform(-9, 9), y - rng.uniform(8, 34)),
            _shade(ground[1], rng.uniform(0.5, 1.5)),
            1,
        )
    count = int(rng.integers(3, 13))
    for _ in range(count):
        x, y, size, petals = (
            rng.uniform(0, width),
            rng.uniform(0, height),
            rng.uniform(0.05, 0.16) * width,
            int(rng.integers(5, 11)),
        )
        for angle in np.linspace(0, 6.28, petals, endpoint=False) + rng.uniform(0, 1):
            _disc(
                canvas,
                x + np.cos(angle) * size * 0.6,
                y + np.sin(angle) * size * 0.6,
                size * 0.34,
                _shade(petal[1], rng.uniform(0.75, 1.15)),
            )
        _disc(canvas, x, y, size * 0.36, heart[1])
    return f"{_COUNTS[count]} {petal[0]} flowers with {heart[0]} hearts on {ground[0]} ground"


def _shelf(canvas: np.ndarray, rng: np.random.Generator) -> str:
    import cv2

    height, width = canvas.shape[:2]
    wood = _colour(rng, without=("pink", "violet", "blue"))
    canvas[:] = _shade(wood[1], 0.4)
    rows = int(rng.integers(2, 5))
    names = [_colour(rng) for _ in range(3)]
    for row in range(rows):
        floor, room = round(height * (row + 1) / rows), height / rows
        x = rng.uniform(0, 0.2) * width
        while x < width * rng.uniform(0.7, 1.05):
            broad, tall = rng.uniform(6, 26), room * rng.uniform(0.45, 0.92)
            tone = _shade(pick(rng, names)[1], rng.uniform(0.6, 1.2))
            cv2.rectangle(canvas, (round(x), round(floor - tall)), (round(x + broad), floor - 5), tone, -1)
            cv2.rectangle(
                canvas,
                (round(x) + 2, round(floor - tall * 0.8)),
                (round(x + broad) - 2, round(floor - tall * 0.7)),
                _shade(tone, 1.7),
                -1,
            )
            x += broad + 1
        cv2.rectangle(canvas, (0, floor - 6), (width, floor), wood[1], -1)
    return f"{_COUNTS[rows]} {wood[0]} shelves of {names[0][0]} and {names[1][0]} books"


def _bricks(canvas: np.ndarray, rng: np.random.Generator) -> str:
    import cv2

    height, width = canvas.shape[:2]
    brick, door = _colour(rng, without=("black",)), _colour(rng)
    canvas[:] = _shade((200, 196, 186), rng.uniform(0.5, 1))
    tall, broad = int(rng.integers(9, 20)), int(rng.integers(22, 48))
    light = 1 + 0.45 * noise(height // tall + 2, width // broad + 3, rng, coarsest=2, octaves=2)
    for row, top in enumerate(range(0, height, tall)):
        for column, left in enumerate(range(-broad * (row % 2) // 2, width, broad)):
            cv2.rectangle(
                canvas,
                (left, top),
                (left + broad - 3, top + tall - 3),
                _shade(brick[1], float(light[row, column]) * rng.uniform(0.85, 1.15)),
                -1,
            )
    count = int(rng.integers(2, 5))
    for _ in range(count):
        x, y, w, h = (
            rng.uniform(0, 0.75) * width,
            rng.uniform(0, 0.6) * height,
            rng.uniform(0.12, 0.3) * width,
            rng.uniform(0.2, 0.5) * height,
        )
        cv2.rectangle(canvas, (round(x), round(y)), (round(x + w), round(y + h)), _shade(door[1], 0.4), -1)
        cv2.rectangle(canvas, (round(x + 5), round(y + 5)), (round(x + w - 5), round(y + h - 5)), door[1], -1)
        _line(canvas, (x + w / 2, y), (x + w / 2, y + h), _shade(door[1], 0.4), 4)
    return f"a wall of {brick[0]} bricks with {_COUNTS[count]} {door[0]} shutters"


def _boats(canvas: np.ndarray, rng: np.random.Generator) -> str:
    height, width = canvas.shape[:2]
    when = _sky(canvas, rng)
    horizon = round(height * rng.uniform(0.25, 0.65))
    water = _colour(rng, without=("red", "orange", "yellow", "pink", "white"))
    swell = noise(height - horizon, width, rng, coarsest=4) * np.linspace(0.1, 0.4, height - horizon)[:, None]
    canvas[horizon:] = np.clip(np.array(water[1]) * (1 + swell[..., None]), 0, 255).astype(np.uint8)
    for _ in range(70):
        x, y = rng.uniform(0, width), rng.uniform(horizon, height)
        _line(canvas, (x, y), (x + rng.uniform(6, 30), y), _shade(water[1], rng.uniform(0.6, 1.7)), 1)
    count, sail = int(rng.integers(2, 8)), _colour(rng)
    for _ in range(count):
        x, y, size = (
            rng.uniform(0.05, 0.95) * width,
            rng.uniform(horizon, height * 0.92),
            rng.uniform(0.08, 0.28) * width,
        )
        _polygon(
            canvas,
            [
                (x - size / 2, y),
                (x + size / 2, y),
                (x + size * 0.35, y + size * 0.2),
                (x - size * 0.35, y + size * 0.2),
            ],
            (70, 40, 24),
        )
        _polygon(canvas, [(x, y - 3), (x, y - size * 1.1), (x + size * rng.uniform(0.3, 0.6), y - 3)], sail[1])
        _polygon(
            canvas,
            [(x - 3, y - 3), (x - 3, y - size * 0.9), (x - size * rng.uniform(0.2, 0.45), y - 3)],
            _shade(sail[1], 0.75),
        )
    return f"{_COUNTS[count]} boats with {sail[0]} sails on {water[0]} water {when}"


def _trees(canvas: np.ndarray, rng: np.random.Generator) -> str:
    height, width = canvas.shape[:2]
    when = _sky(canvas, rng)
    leaf, ground = _colour(rng, without=("black", "white", "grey", "blue")), _colour(rng, without=("pink", "violet"))
    horizon = round(height * rng.uniform(0.55, 0.85))
    canvas[horizon:] = np.clip(
        np.array(ground[1]) * (0.8 + 0.35 * noise(height - horizon, width, rng)[..., None]), 0, 255
    ).astype(np.uint8)
    count = int(rng.integers(2, 9))
    for _ in range(count):
        x, foot, tall = rng.uniform(0, width), rng.uniform(horizon, height * 0.95), rng.uniform(0.3, 0.7) * height
        _line(canvas, (x, foot), (x + rng.uniform(-8, 8), foot - tall), (64, 42, 26), int(rng.integers(3, 11)))
        for _ in range(45):
            spread = rng.normal(0, 0.09, 2) * (width, height)
            _disc(
                canvas,
                x + spread[0],
                foot - tall + spread[1],
                rng.uniform(2, 9),
                _shade(leaf[1], rng.uniform(0.5, 1.35)),
            )
    return f"{_COUNTS[count]} trees with {leaf[0]} leaves on {ground[0]} earth {when}"


def _quilt(canvas: np.ndarray, rng: np.random.Generator) -> str:
    height, width = canvas.shape[:2]
    size = width / int(rng.integers(4, 9))
    names = [_colour(rng) for _ in range(4)]
    for top in np.arange(0, height, size):
        for left in np.arange(0, width, size):
            corners = [(left, top), (left + size, top), (left + size, top + size), (left, top + size)]
            _polygon(canvas, corners, _shade(pick(rng, names)[1], rng.uniform(0.6, 1.2)))
            turn = int(rng.integers(4))
            _polygon(
                canvas,
                [corners[turn], corners[(turn + 1) % 4], corners[(turn + 2) % 4]],
                _shade(pick(rng, names)[1], rng.uniform(0.6, 1.2)),
            )
            for stitch in np.arange(0, size, 6):
                _line(canvas, (left + stitch, top + 3), (left + stitch + 2, top + 3), (235, 232, 220), 1)
    return f"a patchwork quilt of {names[0][0]}, {names[1][0]} and {names[2][0]} triangles"


def _planets(canvas: np.ndarray, rng: np.random.Generator) -> str:
    import cv2

    height, width = canvas.shape[:2]
    haze = _colour(rng, without=("black", "white", "grey"))
    glow = np.clip(noise(height, width, rng, coarsest=2)[..., None], 0, 1) * np.array(haze[1]) * 0.8
    canvas[:] = np.clip(np.array((10, 12, 26)) + glow, 0, 255).astype(np.uint8)
    for _ in range(320):
        _disc(
            canvas,
            rng.uniform(0, width),
            rng.uniform(0, height),
            rng.uniform(0.4, 2),
            _shade((255, 250, 240), rng.uniform(0.4, 1)),
        )
    count, skin = int(rng.integers(2, 5)), _colour(rng, without=("black",))
    for _ in range(count):
        x, y, radius = rng.uniform(0.1, 0.9) * width, rng.uniform(0.1, 0.9) * height, rng.uniform(0.08, 0.26) * width
        _disc(canvas, x, y, radius, skin[1])
        for band in rng.uniform(-0.7, 0.7, 4):
            half = radius * float(np.sqrt(1 - band**2)) * 0.97
            _line(
                canvas,
                (x - half, y + band * radius),
                (x + half, y + band * radius),
                _shade(skin[1], rng.uniform(0.5, 1.3)),
                max(1, round(radius / 9)),
            )
        cv2.ellipse(
            canvas,
            (round(x), round(y)),
            (round(radius * 1.7), round(radius * 0.4)),
            float(rng.uniform(-40, 40)),
            0,
            360,
            (224, 210, 180),
            2,
            cv2.LINE_AA,
        )
    return f"{_COUNTS[count]} {skin[0]} planets with rings in a {haze[0]} nebula"


def _fish(canvas: np.ndarray, rng: np.random.Generator) -> str:
    import cv2

    height, width = canvas.shape[:2]
    sea, scale = _colour(rng, without=("red", "white", "pink")), _colour(rng)
    light = np.linspace(1.35, 0.5, height)[:, None, None] + 0.3 * noise(height, width, rng, coarsest=3)[..., None]
    canvas[:] = np.clip(np.array(sea[1]) * light, 0, 255).astype(np.uint8)
    for _ in range(int(rng.integers(3, 10))):
        x = rng.uniform(0, width)
        for y in np.arange(height, height * rng.uniform(0.3, 0.8), -9):
            _line(canvas, (x, y), (x + rng.uniform(-9, 9), y - 11), (40, 92, 58), 3)
    count = int(rng.integers(3, 13))
    for _ in range(count):
        x, y, size, way = (
            rng.uniform(0, width),
            rng.uniform(0, height),
            rng.uniform(0.05, 0.17) * width,
            pick(rng, (-1, 1)),
        )
        tone = _shade(scale[1], rng.uniform(0.7, 1.2))
        cv2.ellipse(canvas, (round(x), round(y)), (round(size), round(size * 0.5)), 0, 0, 360, tone, -1, cv2.LINE_AA)
        _polygon(
            canvas,
            [(x - way * size * 0.8, y), (x - way * size * 1.6, y - size * 0.5), (x - way * size * 1.6, y + size * 0.5)],
            _shade(tone, 0.7),
        )
        _disc(canvas, x + way * size * 0.6, y - size * 0.1, size * 0.1, (250, 250, 250))
    return f"{_COUNTS[count]} {scale[0]} fish among weeds in {sea[0]} water"


def _umbrellas(canvas: np.ndarray, rng: np.random.Generator) -> str:
    height, width = canvas.shape[:2]
    sand, cloth, other = _colour(rng), _colour(rng), _colour(rng)
    canvas[:] = np.clip(
        np.array(sand[1]) * (0.85 + 0.4 * noise(height, width, rng, coarsest=2)[..., None]), 0, 255
    ).astype(np.uint8)
    count = int(rng.integers(3, 11))
    for _ in range(count):
        x, y, radius = rng.uniform(0, width), rng.uniform(0, height), rng.uniform(0.08, 0.22) * width
        _disc(canvas, x + radius * 0.25, y + radius * 0.25, radius, _shade(sand[1], 0.45))
        edges = np.linspace(0, 6.2832, 9) + rng.uniform(0, 1)
        for at in range(8):
            wedge = [
                (x, y),
                *(
                    (x + np.cos(angle) * radius, y + np.sin(angle) * radius)
                    for angle in np.linspace(edges[at], edges[at + 1], 4)
                ),
            ]
            _polygon(canvas, wedge, cloth[1] if at % 2 else other[1])
    return f"{_COUNTS[count]} {cloth[0]} and {other[0]} parasols seen from above on {sand[0]} sand"


def _keys(canvas: np.ndarray, rng: np.random.Generator) -> str:
    height, width = canvas.shape[:2]
    floor, stripe = _colour(rng), _colour(rng)
    canvas[:] = np.clip(np.array(floor[1]) * (0.8 + 0.4 * noise(height, width, rng)[..., None]), 0, 255).astype(
        np.uint8
    )
    horizon, middle = rng.uniform(-0.2, 0.4) * height, rng.uniform(0.1, 0.9) * width
    lanes = np.sort(rng.uniform(-0.6, 1.6, int(rng.integers(6, 13)))) * width
    for left, right in zip(lanes[::2], lanes[1::2], strict=False):
        _polygon(
            canvas,
            [(middle, horizon), (middle + 2, horizon), (right, height), (left, height)],
            _shade(stripe[1], rng.uniform(0.6, 1.2)),
        )
    y = horizon + 6
    while y < height:
        _line(canvas, (0, y), (width, y), _shade(floor[1], 0.5), max(1, round((y - horizon) / 50)))
        y += max(3.0, (y - horizon) * 0.22)
    return f"{stripe[0]} stripes that meet on a {floor[0]} floor"


SCENES: dict[str, Painter] = {
    "hills": _hills,
    "city": _city,
    "mosaic": _mosaic,
    "balloons": _balloons,
    "flowers": _flowers,
    "shelf": _shelf,
    "bricks": _bricks,
    "boats": _boats,
    "trees": _trees,
    "quilt": _quilt,
    "planets": _planets,
    "fish": _fish,
    "umbrellas": _umbrellas,
    "floor": _keys,
}


def paint(
    scene: str, width_px: int, height_px: int, rng: np.random.Generator, *, grain: float = 5
) -> tuple[np.ndarray, str]:
    """(picture, what is on it). Picture: uint8 RGB, shape (H, W, 3). grain: standard deviation of the sensor noise
    in grey levels."""
    canvas = np.zeros((height_px, width_px, 3), np.uint8)
    phrase = SCENES[scene](canvas, rng)
    light = (
        1
        + rng.uniform(0.1, 0.3) * noise(height_px, width_px, rng, coarsest=1, octaves=3)
        + 0.07 * noise(height_px, width_px, rng, coarsest=12, octaves=4)
    )
    picture = canvas.astype(np.float32) * light[..., None] + rng.normal(0, grain, (height_px, width_px, 1))
    return np.clip(picture, 0, 255).astype(np.uint8), phrase

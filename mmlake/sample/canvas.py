"""Shapes and textures drawn on an RGB canvas, and the words for their colours and counts."""

from __future__ import annotations

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


NUMERALS = (
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


def pick_colour(rng: np.random.Generator, *, without: tuple[str, ...] = ()) -> tuple[str, tuple[int, int, int]]:
    name = pick(rng, [name for name in COLOURS if name not in without])
    shift = rng.integers(-18, 19, 3)
    red, green, blue = (int(np.clip(value + delta, 0, 255)) for value, delta in zip(COLOURS[name], shift, strict=True))
    return name, (red, green, blue)


def shaded(colour: tuple[int, int, int], factor: float) -> tuple[int, int, int]:
    red, green, blue = (int(np.clip(value * factor, 0, 255)) for value in colour)
    return red, green, blue


def draw_polygon(canvas: np.ndarray, points: Any, colour: tuple[int, int, int]) -> None:
    import cv2

    cv2.fillPoly(canvas, [np.round(np.asarray(points, np.float64)).astype(np.int32)], colour, lineType=cv2.LINE_AA)


def draw_disc(canvas: np.ndarray, x: float, y: float, radius: float, colour: tuple[int, int, int]) -> None:
    import cv2

    cv2.circle(canvas, (round(x), round(y)), max(1, round(radius)), colour, -1, cv2.LINE_AA)


def draw_line(
    canvas: np.ndarray,
    start: tuple[float, float],
    end: tuple[float, float],
    colour: tuple[int, int, int],
    thickness: int,
) -> None:
    import cv2

    cv2.line(canvas, (round(start[0]), round(start[1])), (round(end[0]), round(end[1])), colour, thickness, cv2.LINE_AA)

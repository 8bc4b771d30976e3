"""Procedural scenes with the statistics of photographs: sharp edges, textures at all scales, light from somewhere, and
a true caption.

`paint` gives an RGB picture and the phrase that says what is on it. Everything is drawn with OpenCV on a canvas of the
final size.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mmlake.sample import landscapes, patterns
from mmlake.sample.canvas import noise

Painter = Callable[[np.ndarray, np.random.Generator], str]


SCENES: dict[str, Painter] = {
    "hills": landscapes.hills,
    "city": landscapes.city,
    "mosaic": patterns.mosaic,
    "balloons": landscapes.balloons,
    "flowers": landscapes.flowers,
    "shelf": patterns.shelf,
    "bricks": patterns.bricks,
    "boats": landscapes.boats,
    "trees": landscapes.trees,
    "quilt": patterns.quilt,
    "planets": landscapes.planets,
    "fish": patterns.fish,
    "umbrellas": patterns.umbrellas,
    "floor": patterns.stripes,
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

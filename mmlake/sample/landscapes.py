"""Scenes under a sky: each paints its canvas and returns the phrase that says what is on it."""

from __future__ import annotations

import numpy as np

from mmlake.sample.canvas import NUMERALS, draw_disc, draw_line, draw_polygon, noise, pick_colour, shaded
from mmlake.sample.chance import pick

_SKIES = {
    "at dawn": ((92, 110, 170), (248, 190, 150)),
    "at noon": ((70, 130, 215), (190, 220, 245)),
    "at dusk": ((48, 34, 84), (240, 120, 70)),
    "under grey clouds": ((110, 116, 124), (200, 204, 206)),
    "by night": ((14, 18, 44), (56, 62, 104)),
}


def _sky(canvas: np.ndarray, rng: np.random.Generator) -> str:
    height, width = canvas.shape[:2]
    when = pick(rng, tuple(_SKIES))
    top, bottom = (np.array(colour, np.float32) for colour in _SKIES[when])
    tilt = rng.uniform(-0.8, 0.8)
    mix = np.clip(np.linspace(0, 1, height)[:, None] + tilt * np.linspace(-0.5, 0.5, width)[None], 0, 1)[..., None]
    clouds = noise(height, width, rng, coarsest=2)[..., None] * rng.uniform(20, 55)
    canvas[:] = np.clip(top * (1 - mix) + bottom * mix + clouds, 0, 255).astype(np.uint8)
    return when


def hills(canvas: np.ndarray, rng: np.random.Generator) -> str:
    height, width = canvas.shape[:2]
    when = _sky(canvas, rng)
    sun, colour = rng.uniform(0.1, 0.9) * width, pick_colour(rng, without=("black", "brown", "green"))
    draw_disc(canvas, sun, rng.uniform(0.12, 0.4) * height, rng.uniform(0.06, 0.15) * width, colour[1])
    name, base = pick_colour(rng, without=("white", "yellow", "pink"))
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
        draw_polygon(
            canvas,
            [*zip(x, level, strict=True), (width, height), (0, height)],
            shaded(base, 1.15 - 0.75 * ridge / ridges),
        )
    return f"{NUMERALS[ridges]} ridges of {name} mountains {when} with a {colour[0]} sun"


def city(canvas: np.ndarray, rng: np.random.Generator) -> str:
    import cv2

    height, width = canvas.shape[:2]
    when = _sky(canvas, rng)
    wall, light = pick_colour(rng, without=("yellow", "white")), pick_colour(rng, without=("black", "brown", "grey"))
    towers, x = 0, -rng.uniform(0, 20)
    while x < width:
        broad, tall = rng.uniform(0.06, 0.2) * width, rng.uniform(0.15, 0.85) * height
        cv2.rectangle(
            canvas,
            (round(x), round(height - tall)),
            (round(x + broad), height),
            shaded(wall[1], rng.uniform(0.35, 1.2)),
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
                        shaded(light[1], rng.uniform(0.4, 1.1)),
                        -1,
                    )
        x += broad + rng.uniform(0, 0.05) * width
        towers += 1
    return f"{wall[0]} tower blocks with {light[0]} windows {when}"


def balloons(canvas: np.ndarray, rng: np.random.Generator) -> str:
    height, width = canvas.shape[:2]
    when = _sky(canvas, rng)
    count, colour = int(rng.integers(2, 10)), pick_colour(rng)
    for _ in range(count):
        x, y, radius = rng.uniform(0, width), rng.uniform(0, 0.8) * height, rng.uniform(0.05, 0.17) * width
        draw_line(canvas, (x - radius * 0.5, y + radius), (x, y + radius * 1.9), (60, 50, 40), 1)
        draw_line(canvas, (x + radius * 0.5, y + radius), (x, y + radius * 1.9), (60, 50, 40), 1)
        tone = shaded(colour[1], rng.uniform(0.7, 1.15))
        draw_disc(canvas, x, y, radius, tone)
        for stripe in (-0.5, 0, 0.5):
            draw_line(
                canvas,
                (x + stripe * radius, y - radius * 0.8),
                (x + stripe * radius * 0.7, y + radius * 0.85),
                shaded(tone, 0.55),
                max(1, round(radius / 8)),
            )
        draw_disc(canvas, x, y + radius * 1.9, radius * 0.22, (92, 62, 30))
    return f"{NUMERALS[count]} {colour[0]} hot-air balloons {when}"


def flowers(canvas: np.ndarray, rng: np.random.Generator) -> str:
    height, width = canvas.shape[:2]
    ground, petal, heart = pick_colour(rng, without=("pink", "white", "yellow")), pick_colour(rng), pick_colour(rng)
    canvas[:] = np.clip(np.array(ground[1]) * (0.8 + 0.45 * noise(height, width, rng)[..., None]), 0, 255).astype(
        np.uint8
    )
    for _ in range(160):
        x, y = rng.uniform(0, width), rng.uniform(0, height)
        draw_line(
            canvas,
            (x, y),
            (x + rng.uniform(-9, 9), y - rng.uniform(8, 34)),
            shaded(ground[1], rng.uniform(0.5, 1.5)),
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
            draw_disc(
                canvas,
                x + np.cos(angle) * size * 0.6,
                y + np.sin(angle) * size * 0.6,
                size * 0.34,
                shaded(petal[1], rng.uniform(0.75, 1.15)),
            )
        draw_disc(canvas, x, y, size * 0.36, heart[1])
    return f"{NUMERALS[count]} {petal[0]} flowers with {heart[0]} hearts on {ground[0]} ground"


def boats(canvas: np.ndarray, rng: np.random.Generator) -> str:
    height, width = canvas.shape[:2]
    when = _sky(canvas, rng)
    horizon = round(height * rng.uniform(0.25, 0.65))
    water = pick_colour(rng, without=("red", "orange", "yellow", "pink", "white"))
    swell = noise(height - horizon, width, rng, coarsest=4) * np.linspace(0.1, 0.4, height - horizon)[:, None]
    canvas[horizon:] = np.clip(np.array(water[1]) * (1 + swell[..., None]), 0, 255).astype(np.uint8)
    for _ in range(70):
        x, y = rng.uniform(0, width), rng.uniform(horizon, height)
        draw_line(canvas, (x, y), (x + rng.uniform(6, 30), y), shaded(water[1], rng.uniform(0.6, 1.7)), 1)
    count, sail = int(rng.integers(2, 8)), pick_colour(rng)
    for _ in range(count):
        x, y, size = (
            rng.uniform(0.05, 0.95) * width,
            rng.uniform(horizon, height * 0.92),
            rng.uniform(0.08, 0.28) * width,
        )
        draw_polygon(
            canvas,
            [
                (x - size / 2, y),
                (x + size / 2, y),
                (x + size * 0.35, y + size * 0.2),
                (x - size * 0.35, y + size * 0.2),
            ],
            (70, 40, 24),
        )
        draw_polygon(canvas, [(x, y - 3), (x, y - size * 1.1), (x + size * rng.uniform(0.3, 0.6), y - 3)], sail[1])
        draw_polygon(
            canvas,
            [(x - 3, y - 3), (x - 3, y - size * 0.9), (x - size * rng.uniform(0.2, 0.45), y - 3)],
            shaded(sail[1], 0.75),
        )
    return f"{NUMERALS[count]} boats with {sail[0]} sails on {water[0]} water {when}"


def trees(canvas: np.ndarray, rng: np.random.Generator) -> str:
    height, width = canvas.shape[:2]
    when = _sky(canvas, rng)
    leaf, ground = (
        pick_colour(rng, without=("black", "white", "grey", "blue")),
        pick_colour(rng, without=("pink", "violet")),
    )
    horizon = round(height * rng.uniform(0.55, 0.85))
    canvas[horizon:] = np.clip(
        np.array(ground[1]) * (0.8 + 0.35 * noise(height - horizon, width, rng)[..., None]), 0, 255
    ).astype(np.uint8)
    count = int(rng.integers(2, 9))
    for _ in range(count):
        x, foot, tall = rng.uniform(0, width), rng.uniform(horizon, height * 0.95), rng.uniform(0.3, 0.7) * height
        draw_line(canvas, (x, foot), (x + rng.uniform(-8, 8), foot - tall), (64, 42, 26), int(rng.integers(3, 11)))
        for _ in range(45):
            spread = rng.normal(0, 0.09, 2) * (width, height)
            draw_disc(
                canvas,
                x + spread[0],
                foot - tall + spread[1],
                rng.uniform(2, 9),
                shaded(leaf[1], rng.uniform(0.5, 1.35)),
            )
    return f"{NUMERALS[count]} trees with {leaf[0]} leaves on {ground[0]} earth {when}"


def planets(canvas: np.ndarray, rng: np.random.Generator) -> str:
    import cv2

    height, width = canvas.shape[:2]
    haze = pick_colour(rng, without=("black", "white", "grey"))
    glow = np.clip(noise(height, width, rng, coarsest=2)[..., None], 0, 1) * np.array(haze[1]) * 0.8
    canvas[:] = np.clip(np.array((10, 12, 26)) + glow, 0, 255).astype(np.uint8)
    for _ in range(320):
        draw_disc(
            canvas,
            rng.uniform(0, width),
            rng.uniform(0, height),
            rng.uniform(0.4, 2),
            shaded((255, 250, 240), rng.uniform(0.4, 1)),
        )
    count, skin = int(rng.integers(2, 5)), pick_colour(rng, without=("black",))
    for _ in range(count):
        x, y, radius = rng.uniform(0.1, 0.9) * width, rng.uniform(0.1, 0.9) * height, rng.uniform(0.08, 0.26) * width
        draw_disc(canvas, x, y, radius, skin[1])
        for band in rng.uniform(-0.7, 0.7, 4):
            half = radius * float(np.sqrt(1 - band**2)) * 0.97
            draw_line(
                canvas,
                (x - half, y + band * radius),
                (x + half, y + band * radius),
                shaded(skin[1], rng.uniform(0.5, 1.3)),
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
    return f"{NUMERALS[count]} {skin[0]} planets with rings in a {haze[0]} nebula"

"""Scenes without a sky: each paints its canvas and returns the phrase that says what is on it."""

from __future__ import annotations

import numpy as np

from mmlake.sample.canvas import NUMERALS, draw_disc, draw_line, draw_polygon, noise, pick_colour, shaded
from mmlake.sample.chance import pick


def mosaic(canvas: np.ndarray, rng: np.random.Generator) -> str:
    import cv2

    height, width = canvas.shape[:2]
    count = int(rng.integers(14, 60))
    points = rng.uniform(0, 1, (count, 2)) * (width, height)
    lead = pick_colour(rng, without=("pink", "yellow", "orange"))
    names = [pick_colour(rng) for _ in range(int(rng.integers(3, 6)))]
    division = cv2.Subdiv2D((-width, -height, 3 * width, 3 * height))
    for x, y in points:
        division.insert((float(x), float(y)))
    facets, _ = division.getVoronoiFacetList([])
    for facet in facets:
        draw_polygon(canvas, facet, shaded(pick(rng, names)[1], rng.uniform(0.5, 1.25)))
        cv2.polylines(canvas, [np.round(facet).astype(np.int32)], True, lead[1], int(rng.integers(1, 4)), cv2.LINE_AA)
    return f"stained glass in {names[0][0]} and {names[1][0]} with {lead[0]} lead"


def shelf(canvas: np.ndarray, rng: np.random.Generator) -> str:
    import cv2

    height, width = canvas.shape[:2]
    wood = pick_colour(rng, without=("pink", "violet", "blue"))
    canvas[:] = shaded(wood[1], 0.4)
    rows = int(rng.integers(2, 5))
    names = [pick_colour(rng) for _ in range(3)]
    for row in range(rows):
        floor, room = round(height * (row + 1) / rows), height / rows
        x = rng.uniform(0, 0.2) * width
        while x < width * rng.uniform(0.7, 1.05):
            broad, tall = rng.uniform(6, 26), room * rng.uniform(0.45, 0.92)
            tone = shaded(pick(rng, names)[1], rng.uniform(0.6, 1.2))
            cv2.rectangle(canvas, (round(x), round(floor - tall)), (round(x + broad), floor - 5), tone, -1)
            cv2.rectangle(
                canvas,
                (round(x) + 2, round(floor - tall * 0.8)),
                (round(x + broad) - 2, round(floor - tall * 0.7)),
                shaded(tone, 1.7),
                -1,
            )
            x += broad + 1
        cv2.rectangle(canvas, (0, floor - 6), (width, floor), wood[1], -1)
    return f"{NUMERALS[rows]} {wood[0]} shelves of {names[0][0]} and {names[1][0]} books"


def bricks(canvas: np.ndarray, rng: np.random.Generator) -> str:
    import cv2

    height, width = canvas.shape[:2]
    brick, door = pick_colour(rng, without=("black",)), pick_colour(rng)
    canvas[:] = shaded((200, 196, 186), rng.uniform(0.5, 1))
    tall, broad = int(rng.integers(9, 20)), int(rng.integers(22, 48))
    light = 1 + 0.45 * noise(height // tall + 2, width // broad + 3, rng, coarsest=2, octaves=2)
    for row, top in enumerate(range(0, height, tall)):
        for column, left in enumerate(range(-broad * (row % 2) // 2, width, broad)):
            cv2.rectangle(
                canvas,
                (left, top),
                (left + broad - 3, top + tall - 3),
                shaded(brick[1], float(light[row, column]) * rng.uniform(0.85, 1.15)),
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
        cv2.rectangle(canvas, (round(x), round(y)), (round(x + w), round(y + h)), shaded(door[1], 0.4), -1)
        cv2.rectangle(canvas, (round(x + 5), round(y + 5)), (round(x + w - 5), round(y + h - 5)), door[1], -1)
        draw_line(canvas, (x + w / 2, y), (x + w / 2, y + h), shaded(door[1], 0.4), 4)
    return f"a wall of {brick[0]} bricks with {NUMERALS[count]} {door[0]} shutters"


def quilt(canvas: np.ndarray, rng: np.random.Generator) -> str:
    height, width = canvas.shape[:2]
    size = width / int(rng.integers(4, 9))
    names = [pick_colour(rng) for _ in range(4)]
    for top in np.arange(0, height, size):
        for left in np.arange(0, width, size):
            corners = [(left, top), (left + size, top), (left + size, top + size), (left, top + size)]
            draw_polygon(canvas, corners, shaded(pick(rng, names)[1], rng.uniform(0.6, 1.2)))
            turn = int(rng.integers(4))
            draw_polygon(
                canvas,
                [corners[turn], corners[(turn + 1) % 4], corners[(turn + 2) % 4]],
                shaded(pick(rng, names)[1], rng.uniform(0.6, 1.2)),
            )
            for stitch in np.arange(0, size, 6):
                draw_line(canvas, (left + stitch, top + 3), (left + stitch + 2, top + 3), (235, 232, 220), 1)
    return f"a patchwork quilt of {names[0][0]}, {names[1][0]} and {names[2][0]} triangles"


def fish(canvas: np.ndarray, rng: np.random.Generator) -> str:
    import cv2

    height, width = canvas.shape[:2]
    sea, scale = pick_colour(rng, without=("red", "white", "pink")), pick_colour(rng)
    light = np.linspace(1.35, 0.5, height)[:, None, None] + 0.3 * noise(height, width, rng, coarsest=3)[..., None]
    canvas[:] = np.clip(np.array(sea[1]) * light, 0, 255).astype(np.uint8)
    for _ in range(int(rng.integers(3, 10))):
        x = rng.uniform(0, width)
        for y in np.arange(height, height * rng.uniform(0.3, 0.8), -9):
            draw_line(canvas, (x, y), (x + rng.uniform(-9, 9), y - 11), (40, 92, 58), 3)
    count = int(rng.integers(3, 13))
    for _ in range(count):
        x, y, size, way = (
            rng.uniform(0, width),
            rng.uniform(0, height),
            rng.uniform(0.05, 0.17) * width,
            pick(rng, (-1, 1)),
        )
        tone = shaded(scale[1], rng.uniform(0.7, 1.2))
        cv2.ellipse(canvas, (round(x), round(y)), (round(size), round(size * 0.5)), 0, 0, 360, tone, -1, cv2.LINE_AA)
        draw_polygon(
            canvas,
            [(x - way * size * 0.8, y), (x - way * size * 1.6, y - size * 0.5), (x - way * size * 1.6, y + size * 0.5)],
            shaded(tone, 0.7),
        )
        draw_disc(canvas, x + way * size * 0.6, y - size * 0.1, size * 0.1, (250, 250, 250))
    return f"{NUMERALS[count]} {scale[0]} fish among weeds in {sea[0]} water"


def umbrellas(canvas: np.ndarray, rng: np.random.Generator) -> str:
    height, width = canvas.shape[:2]
    sand, cloth, other = pick_colour(rng), pick_colour(rng), pick_colour(rng)
    canvas[:] = np.clip(
        np.array(sand[1]) * (0.85 + 0.4 * noise(height, width, rng, coarsest=2)[..., None]), 0, 255
    ).astype(np.uint8)
    count = int(rng.integers(3, 11))
    for _ in range(count):
        x, y, radius = rng.uniform(0, width), rng.uniform(0, height), rng.uniform(0.08, 0.22) * width
        draw_disc(canvas, x + radius * 0.25, y + radius * 0.25, radius, shaded(sand[1], 0.45))
        edges = np.linspace(0, 6.2832, 9) + rng.uniform(0, 1)
        for at in range(8):
            wedge = [
                (x, y),
                *(
                    (x + np.cos(angle) * radius, y + np.sin(angle) * radius)
                    for angle in np.linspace(edges[at], edges[at + 1], 4)
                ),
            ]
            draw_polygon(canvas, wedge, cloth[1] if at % 2 else other[1])
    return f"{NUMERALS[count]} {cloth[0]} and {other[0]} parasols seen from above on {sand[0]} sand"


def stripes(canvas: np.ndarray, rng: np.random.Generator) -> str:
    height, width = canvas.shape[:2]
    floor, stripe = pick_colour(rng), pick_colour(rng)
    canvas[:] = np.clip(np.array(floor[1]) * (0.8 + 0.4 * noise(height, width, rng)[..., None]), 0, 255).astype(
        np.uint8
    )
    horizon, middle = rng.uniform(-0.2, 0.4) * height, rng.uniform(0.1, 0.9) * width
    lanes = np.sort(rng.uniform(-0.6, 1.6, int(rng.integers(6, 13)))) * width
    for left, right in zip(lanes[::2], lanes[1::2], strict=False):
        draw_polygon(
            canvas,
            [(middle, horizon), (middle + 2, horizon), (right, height), (left, height)],
            shaded(stripe[1], rng.uniform(0.6, 1.2)),
        )
    y = horizon + 6
    while y < height:
        draw_line(canvas, (0, y), (width, y), shaded(floor[1], 0.5), max(1, round((y - horizon) / 50)))
        y += max(3.0, (y - horizon) * 0.22)
    return f"{stripe[0]} stripes that meet on a {floor[0]} floor"

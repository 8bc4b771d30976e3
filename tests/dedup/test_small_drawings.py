"""Handwritten digits, as of data sets of 28 x 28 px: each is a picture of its own, and a copy of one is found."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image, ImageEnhance

from mmlake import dedup, schemas
from mmlake.dedup.image import fingerprints

SIDE_PX = 28


def digit(rng: np.random.Generator, kind: str) -> Image.Image:
    """A one, a seven or a zero as somebody may write it."""
    import cv2

    middle = SIDE_PX / 2
    if kind == "one":
        slope = np.deg2rad(rng.normal(8, 12))
        stroke = np.array([np.sin(slope), -np.cos(slope)]) * rng.uniform(8, 10)
        line = np.array([middle - stroke, middle + rng.normal(0, 0.8, 2), middle + stroke])
    elif kind == "seven":
        line = np.array([[6, 6], [20, 6], [14, 14], [11, 23]]) + rng.normal(0, 1.2, (4, 2))
    else:
        angle, slant = np.linspace(0, 2 * np.pi, 24), rng.normal(0.2, 0.2)
        x, y = rng.uniform(4, 7.5) * np.cos(angle), rng.uniform(7.5, 10) * np.sin(angle)
        line = middle + np.stack([x * np.cos(slant) - y * np.sin(slant), x * np.sin(slant) + y * np.cos(slant)], axis=1)
    large = np.zeros((8 * SIDE_PX, 8 * SIDE_PX), np.uint8)
    cv2.polylines(large, [np.round(8 * line).astype(np.int32)], False, 255, int(8 * rng.uniform(1.5, 3)), cv2.LINE_AA)
    soft = cv2.resize(cv2.GaussianBlur(large, (0, 0), 3), (SIDE_PX, SIDE_PX), interpolation=cv2.INTER_AREA)
    return Image.fromarray((soft * rng.uniform(0.75, 1)).astype(np.uint8))


def encoded(picture: Image.Image, kind: str = "PNG", **options) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, kind, **options)
    return buffer.getvalue()


EDITS = {
    "JPEG": lambda picture: encoded(picture, "JPEG", quality=60),
    "twice as large": lambda picture: encoded(picture.resize((2 * SIDE_PX,) * 2, Image.Resampling.BICUBIC)),
    "darker": lambda picture: encoded(ImageEnhance.Brightness(picture).enhance(0.8)),
}


def pairs(pictures: dict[str, bytes]) -> set[tuple[str, str]]:
    (tier,) = dedup.tiers_of("image")
    rows = [
        {"digest": name, "method": method, "hashes": values.tolist(), "status": "ok"}
        for name, data in pictures.items()
        for method, values in fingerprints.fingerprint(data).items()
    ]
    found = dedup.near_pairs(
        schemas.from_rows(schemas.FINGERPRINTS, rows), (tier,), settings=dedup.DedupSettings()
    ).filter(pa.compute.field("relation") == "same")
    return set(zip(found["left"].to_pylist(), found["right"].to_pylist(), strict=True))


@pytest.mark.parametrize("kind", ["one", "seven", "zero"])
def test_two_digits_by_hand_are_two_pictures(kind):
    rng = np.random.default_rng(1)
    found = pairs({f"{kind}{at:02d}": encoded(digit(rng, kind)) for at in range(24)})
    assert len(found) <= 3  # of 276 pairs; some ones are one stroke, or its mirror image


@pytest.mark.parametrize("edit", EDITS)
def test_a_copy_of_a_digit_is_found(edit):
    rng = np.random.default_rng(2)
    digits = [digit(rng, kind) for kind in ["one", "seven", "zero"] * 4]
    found = [bool(pairs({"a": encoded(one), "b": EDITS[edit](one)})) for one in digits]
    assert sum(found) >= 10, found

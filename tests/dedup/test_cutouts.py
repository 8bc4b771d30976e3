"""Things cut out and laid on a plain ground: what is on a plate says which one it is, and its outline does not."""

from __future__ import annotations

import io
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageEnhance, ImageFilter

from mmlake.dedup import DedupSettings
from mmlake.dedup.image import fingerprints, matcher
from mmlake.dedup.prints import Ragged

SIDE_PX = 240
PLATES = 6


def plate(seed: int, *, ground: tuple[int, int, int] | None = (255, 255, 255)) -> Any:
    """A dark round plate with a pattern of its own, lit from below. ground: None for a transparent one."""
    rng = np.random.default_rng(seed)
    down, across = np.meshgrid(np.linspace(-1, 1, SIDE_PX), np.linspace(-1, 1, SIDE_PX), indexing="ij")
    pattern = np.zeros((SIDE_PX, SIDE_PX))
    for side in (9, 24, 60):
        layer = Image.fromarray(rng.integers(0, 255, (side, side), np.uint8)).resize((SIDE_PX, SIDE_PX), 3)
        pattern += (np.asarray(layer, float) - 128) / 128
    light = 18 + 90 * (down.clip(0, 1)) ** 2
    levels = light * (1 + 0.3 * pattern)
    tint = rng.uniform(0.7, 1.0, 3)
    alpha = Image.fromarray(((down**2 + across**2 < 0.93) * 255).astype(np.uint8))
    planes = [Image.fromarray((levels * gain).clip(0, 255).astype(np.uint8)) for gain in tint]
    thing = Image.merge("RGBA", [*planes, alpha])
    if ground is None:
        return thing
    return Image.alpha_composite(Image.new("RGBA", thing.size, (*ground, 255)), thing).convert("RGB")


def coded(picture: Any, kind: str = "PNG", **options: Any) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, kind, **options)
    return buffer.getvalue()


@lru_cache(maxsize=64)
def fingerprint_of(blob: bytes) -> dict[str, np.ndarray]:
    return fingerprints.fingerprint(blob)


def found(blobs: list[bytes]) -> np.ndarray:
    """Which of the others the first one is the same as."""
    prints = [fingerprint_of(blob) for blob in blobs]
    table = {method: Ragged.of([one[method] for one in prints]) for method in fingerprints.METHODS}
    return matcher.matcher(table, DedupSettings()).compare(0, np.arange(1, len(blobs))).relation == 1


@lru_cache(maxsize=64)
def plate_of(seed: int, ground: tuple[int, int, int] | None) -> bytes:
    return coded(plate(seed, ground=ground))


@pytest.mark.parametrize("ground", [(255, 255, 255), (0, 0, 0), (90, 120, 200), None], ids=str)
def test_plates_with_other_patterns_are_no_copies(ground: tuple[int, int, int] | None) -> None:
    """The outline and the light on it were so much of the detail that 61 of 100 pairs of planets were one."""
    for seed in range(PLATES):
        others = [plate_of(10 + seed + other, ground) for other in range(PLATES)]
        assert not found([plate_of(seed, ground), *others]).any()


@pytest.mark.parametrize("seed", range(PLATES))
def test_copies_of_a_plate_are_found(seed: int) -> None:
    one = plate(seed)
    mirrored = one.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    copies = {
        "coarse": coded(one, "JPEG", quality=15),
        "half": coded(one.resize((SIDE_PX // 2, SIDE_PX // 2), 1)),
        "blurred": coded(one.filter(ImageFilter.GaussianBlur(1.5))),
        "brighter": coded(ImageEnhance.Brightness(one).enhance(1.3)),
        "mirrored": coded(mirrored),
        "turned": coded(one.rotate(2, fillcolor="white", resample=3)),
        "cropped": coded(one.crop((12, 12, SIDE_PX - 12, SIDE_PX - 12))),
    }
    is_found = found([coded(one), *copies.values()])
    assert [name for name, is_it in zip(copies, is_found, strict=True) if not is_it] == []


def glow(seed: int) -> Any:
    """Pale light on a transparent ground: some soft spots, of which white shows next to nothing."""
    rng = np.random.default_rng(seed)
    alpha = np.zeros((96, 96))
    down, across = np.mgrid[:96, :96]
    for _ in range(4):
        at, width = rng.uniform(20, 76, 2), rng.uniform(8, 16)
        alpha += np.exp(-((down - at[0]) ** 2 + (across - at[1]) ** 2) / (2 * width**2))
    layer = np.full((96, 96, 4), 235, np.uint8)
    layer[..., 3] = (alpha.clip(0, 1.5) * 110).astype(np.uint8)
    return Image.fromarray(layer)


def test_lights_on_a_transparent_ground_are_compared_by_what_they_show() -> None:
    others = [coded(glow(seed)) for seed in range(1, 8)]
    is_found = found([coded(glow(0)), *others, coded(glow(0).resize((192, 192), 3))])
    assert is_found.tolist() == [False] * 7 + [True]

"""Distinct pictures, their disguises, and image files.

A picture is accepted only if its perceptual hash is far from every other one's and from their mirror images: unrelated
pictures stay unrelated for any reasonable near-duplicate search.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, field

import numpy as np

from mmlake.sample.chance import stream
from mmlake.sample.scenes import SCENES, paint

# of 64; near duplicates of photographs differ in up to about 10, so this leaves a margin for other sizes and codecs
MIN_HASH_BITS = 18
_MAX_TRIES = 60
SIZES_PX = ((384, 288), (320, 240), (288, 384), (400, 300), (320, 320), (448, 252))


def phash_bits(picture: np.ndarray) -> np.ndarray:
    """64 bits of a DCT hash: which of the 8 x 8 lowest frequencies of the 32 x 32 luma lie above their median. Shape
    (64,), bool."""
    import cv2

    luma = cv2.resize(cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY), (32, 32), interpolation=cv2.INTER_AREA).astype(
        np.float32
    )
    low = cv2.dct(luma)[:8, :8].ravel()
    return np.asarray(low > np.median(low[1:]))


@dataclass(slots=True)
class Gallery:
    """Pictures so far, by their hashes, and the way to get another one that is unlike all of them."""

    seed: int
    _hashes: list[np.ndarray] = field(default_factory=list)
    _num_painted: int = 0

    def new(self, size_px: tuple[int, int], *, grain: float = 5) -> tuple[np.ndarray, str]:
        """(picture, phrase) at least MIN_HASH_BITS away from every earlier one and its mirror image; the scenes take
        turns."""
        scene = tuple(SCENES)[self._num_painted % len(SCENES)]
        self._num_painted += 1
        best: tuple[int, np.ndarray, str] | None = None
        for attempt in range(_MAX_TRIES):
            picture, phrase = paint(
                scene, *size_px, stream(self.seed, "picture", self._num_painted, attempt), grain=grain
            )
            distance = self._distance(picture)
            if best is None or distance > best[0]:
                best = (distance, picture, phrase)
            if distance >= MIN_HASH_BITS:
                break
        assert best is not None  # _MAX_TRIES is positive
        _, picture, phrase = best
        self._hashes += [phash_bits(picture), phash_bits(np.ascontiguousarray(picture[:, ::-1]))]
        return picture, phrase

    def _distance(self, picture: np.ndarray) -> int:
        if not self._hashes:
            return 64
        return int((np.stack(self._hashes) != phash_bits(picture)).sum(axis=1).min())


def jpeg(picture: np.ndarray, quality: int = 88) -> bytes:
    """The picture as a JPEG file."""
    return _encoded(picture, "JPEG", quality=quality)


def png(picture: np.ndarray) -> bytes:
    """The picture as a PNG file."""
    return _encoded(picture, "PNG", compress_level=6)


def webp(picture: np.ndarray, quality: int = 82) -> bytes:
    """The picture as a lossy WebP file."""
    return _encoded(picture, "WEBP", quality=quality, method=2)


def _encoded(picture: np.ndarray, kind: str, **options: int) -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, kind, **options)
    return buffer.getvalue()


def _resized(picture: np.ndarray, factor: float) -> np.ndarray:
    import cv2

    return cv2.resize(picture, None, fx=factor, fy=factor, interpolation=cv2.INTER_AREA)


def _brighter(picture: np.ndarray, gain: float) -> np.ndarray:
    brighter: np.ndarray = np.clip(picture.astype(np.float32) * gain + 4, 0, 255).astype(np.uint8)
    return brighter


def smoothed(picture: np.ndarray, sigma_px: float) -> np.ndarray:
    """The picture behind a Gaussian blur."""
    import cv2

    return cv2.GaussianBlur(picture, (0, 0), sigma_px)


DISGUISES = ("reencode", "webp", "resize", "brightness", "blur", "flip", "resize_reencode")


def disguised(picture: np.ndarray, kind: str) -> tuple[bytes, str]:
    """(file, extension) of the same picture, changed the way that copies on the web are."""
    if kind == "reencode":
        return jpeg(picture, 45), "jpg"
    if kind == "webp":
        return webp(picture), "webp"
    if kind == "resize":
        return jpeg(_resized(picture, 0.6)), "jpg"
    if kind == "brightness":
        return jpeg(_brighter(picture, 1.08)), "jpg"
    if kind == "blur":
        return jpeg(smoothed(picture, 0.7), 92), "jpg"
    if kind == "flip":
        return jpeg(np.ascontiguousarray(picture[:, ::-1])), "jpg"
    return jpeg(_resized(picture, 0.8), 60), "jpg"

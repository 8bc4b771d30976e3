"""Hashes of grey planes: the DCT hash and its mirror image, the gradient hash, and 8x8 luma, packed into 64-bit words.

Sources: Zauner 2010 (pHash: signs of the low DCT coefficients against their median), Krawetz 2013 (dHash: signs of
horizontal gradients).
Legend: N planes, 32x32 luma in 0..255 (9x8 for gradients).
"""

from __future__ import annotations

import functools

import numpy as np

SIDE = 32  # px of the plane that the DCT sees: recompression noise lies above what its 8 lowest frequencies keep


@functools.lru_cache(maxsize=1)
def cosines() -> np.ndarray:
    """The 8 lowest frequencies over the side, of shape (8, SIDE)."""
    frequency, position = np.meshgrid(np.arange(8), np.arange(SIDE), indexing="ij")
    return np.cos(np.pi * (2 * position + 1) * frequency / (2 * SIDE))


def dct_hashes(planes_NHW: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(hashes, hashes of the mirrored planes), uint64 each. Mirroring negates the odd horizontal frequencies, so it
    costs no second DCT."""
    coefficients = cosines() @ planes_NHW.astype(np.float64) @ cosines().T
    mirrored = coefficients * np.where(np.arange(8) % 2, -1.0, 1.0)
    return sign_hashes(coefficients), sign_hashes(mirrored)


def sign_hashes(coefficients: np.ndarray) -> np.ndarray:
    """The hash that DCT coefficients of shape (N, 8, 8) give, uint64: which of them lie above their median."""
    # rounding: a flat plane must not hash its rounding errors
    flat = coefficients.reshape(len(coefficients), 64).round(6)
    median = np.median(flat[:, 1:], axis=1, keepdims=True)
    flat[:, 0] = median[:, 0]  # the DC term says how bright, not what
    return pack_bits(flat > median)


def pack_bits(bits: np.ndarray) -> np.ndarray:
    """64 columns of booleans as one little-endian uint64 per row."""
    return np.ascontiguousarray(np.packbits(bits, axis=1, bitorder="little")).view("<u8")[:, 0].astype(np.uint64)


def pack_bytes(values: np.ndarray) -> np.ndarray:
    """A row of uint8, a multiple of 8 long, as uint64 words."""
    return np.ascontiguousarray(values, dtype=np.uint8).reshape(-1).view("<u8").astype(np.uint64)


def unpack_bytes(words: np.ndarray) -> np.ndarray:
    """The uint8 values that `pack_bytes` packed."""
    return np.ascontiguousarray(words, dtype="<u8").view(np.uint8)


def correlations(left: np.ndarray, right: np.ndarray, *, axis: int = -1) -> np.ndarray:
    """Pearson correlation along the axis; 0.0 where either side does not vary."""
    left, right = left.astype(np.float64), right.astype(np.float64)
    left, right = left - left.mean(axis=axis, keepdims=True), right - right.mean(axis=axis, keepdims=True)
    scale = np.sqrt((left**2).sum(axis=axis) * (right**2).sum(axis=axis))
    products = (left * right).sum(axis=axis)
    found: np.ndarray = np.divide(products, scale, out=np.zeros_like(scale), where=scale > 1e-9)
    return found

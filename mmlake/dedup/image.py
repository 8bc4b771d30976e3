"""Near duplicates of pictures: DCT hash within a Hamming radius, confirmed by the gradient hash and by 8x8 luma.

Enters: the bytes of a picture. Leaves: fingerprints "phash", "phash-mirrored", "dhash", "luma" and pairs. Colour plays
no part: a grey copy is a near duplicate. Cropping by more than a few percent, rotation and added borders are not found
here (docs/dedup.md).
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np

from mmlake.dedup import perceptual
from mmlake.dedup.joins import equal_rows, hamming_pairs
from mmlake.dedup.settings import DedupSettings
from mmlake.errors import UnreadableItem
from mmlake.pictures import picture_formats
from mmlake.progress import Advance, silent

if TYPE_CHECKING:
    from PIL.Image import Image

METHOD, MIRRORED = "phash", "phash-mirrored"
_DRAFT_PX = 128  # libjpeg scales while it decodes: a 12-megapixel photo costs an eighth
_FLAT_STD = 3.0  # luma levels over 8x8; below it gradients are noise, so pictures compare by level alone
_FLAT_DIFFERENCE = 4.0  # mean luma levels
_MAX_PIXELS = 256_000_000


def fingerprint(data: bytes) -> dict[str, np.ndarray]:
    """Method -> hashes of the picture as a viewer shows it, EXIF orientation applied. Raises UnreadableItem."""
    luma = upright_luma(data)
    plane = np.asarray(luma.resize((perceptual.SIDE, perceptual.SIDE), 1), dtype=np.float64)[None]  # 1: Lanczos
    hashes, mirrored = perceptual.dct_hashes(plane)
    gradient = perceptual.gradient_hashes(np.asarray(luma.resize((9, 8), 1))[None])
    return {
        METHOD: hashes,
        MIRRORED: mirrored,
        "dhash": gradient,
        "luma": perceptual.pack_bytes(perceptual.block_luma(plane)),
    }


def upright_luma(data: bytes) -> Image:
    """The first frame in grey, transparent parts on white, at least 128 px where it has them."""
    from PIL import Image, ImageOps

    with Image.open(io.BytesIO(data), formats=picture_formats()) as picture:
        if picture.width * picture.height > _MAX_PIXELS:
            raise UnreadableItem(3004, f"pixels={picture.width * picture.height} not in [1, {_MAX_PIXELS}]")
        picture.draft("L", (_DRAFT_PX, _DRAFT_PX))
        upright = ImageOps.exif_transpose(picture)
        if "A" in upright.mode or "transparency" in upright.info:
            flat = Image.new("RGBA", upright.size, "white")
            flat.alpha_composite(upright.convert("RGBA"))
            upright = flat
        if upright.mode.startswith("I"):  # 16 bit: convert("L") clips instead of scaling
            return Image.fromarray((np.asarray(upright).astype(np.float64) / 257).clip(0, 255).astype(np.uint8))
        return upright.convert("L")


def pairs(
    prints: list[dict[str, np.ndarray]], *, settings: DedupSettings, advance: Advance = silent
) -> list[tuple[int, int, str, float]]:
    """(i, j, method, score) of the pictures that all three witnesses hold to be one; score is the share of equal
    pHash bits."""
    usable = [at for at, one in enumerate(prints) if len(one.get(METHOD, ())) == 1]
    if not usable:
        return []
    index = np.array(usable, dtype=np.int64)
    plain, mirrored, gradient = (
        np.array([prints[at][method][0] for at in usable], dtype=np.uint64) for method in (METHOD, MIRRORED, "dhash")
    )
    words = np.array([prints[at]["luma"] for at in usable], dtype=np.uint64)
    first = equal_rows(np.column_stack((plain, gradient, words)))
    found = [(int(index[first[at]]), int(index[at]), METHOD, 1.0) for at in range(len(first)) if first[at] != at]
    kept = np.flatnonzero(first == np.arange(len(first)))
    luma = perceptual.unpack_bytes(words[kept]).reshape(-1, 64)
    both = np.concatenate((plain[kept], mirrored[kept]))
    i, j, distance = hamming_pairs(both, radius=settings.image_radius_bits)
    turned = j >= len(kept)
    # each mirrored pair is found from both sides
    use = (i < len(kept)) & (i != j - len(kept)) & (~turned | (i < j - len(kept)))
    i, j, distance, turned = i[use], j[use] - len(kept) * turned[use], distance[use], turned[use]
    other = np.where(turned[:, None], luma[j].reshape(-1, 8, 8)[:, :, ::-1].reshape(-1, 64), luma[j])
    seen = np.where(turned, _mirrored_gradient(gradient[kept][j]), gradient[kept][j])
    good = _confirmed(luma[i], other, np.bitwise_count(gradient[kept][i] ^ seen), settings=settings)
    for a, b, bits, flip in zip(kept[i[good]], kept[j[good]], distance[good], turned[good], strict=True):
        found.append((int(index[a]), int(index[b]), MIRRORED if flip else METHOD, 1 - int(bits) / 64))
    advance(len(prints))
    return found


def _confirmed(
    left: np.ndarray, right: np.ndarray, gradient_distance: np.ndarray, *, settings: DedupSettings
) -> np.ndarray:
    flat = (left.std(axis=1) < _FLAT_STD) | (right.std(axis=1) < _FLAT_STD)
    level = np.abs(left.astype(np.int16) - right).mean(axis=1) <= _FLAT_DIFFERENCE
    shape = (gradient_distance <= settings.image_gradient_bits) & (
        perceptual.correlations(left, right) >= settings.image_luma_correlation
    )
    return np.where(flat, level, shape)


def _mirrored_gradient(hashes: np.ndarray) -> np.ndarray:
    """The gradient hash of the mirrored picture: columns reversed, signs turned. Equal neighbours turn wrong, which
    the bound allows for."""
    bits = np.unpackbits(hashes.astype("<u8").view(np.uint8).reshape(-1, 8), axis=1, bitorder="little").reshape(
        -1, 8, 8
    )
    return perceptual.pack_bits(1 - bits[:, :, ::-1].reshape(-1, 64)) if len(hashes) else hashes

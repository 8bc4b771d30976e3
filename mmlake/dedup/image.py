"""Near duplicates of pictures: prints of one picture, and the tier's matcher of many.

Enters: the bytes of a picture. Leaves: prints "phash" (DCT hash of the whole picture, then of what lies inside uniform
borders and inside caption bars, where it has any), "luma" (a thumbnail) and "layout" (those borders, and the size).
Colour plays no part: a grey copy is a near duplicate. Candidates come from hashes (`image_matcher`), verdicts from the
thumbnails (`image_alignment`).
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mmlake.borders import WHOLE, bars, content, cut
from mmlake.dedup import perceptual
from mmlake.dedup.survivors import CLOSENESS, Criterion, length_of
from mmlake.errors import UnreadableItem
from mmlake.pictures import picture_formats

if TYPE_CHECKING:
    from PIL.Image import Image

METHOD, MIRRORED, ROTATED, CROPPED = "phash", "phash-mirrored", "phash-rotated", "phash-cropped"
METHODS = (METHOD, "luma", "layout")
PAIR_METHODS = (METHOD, MIRRORED, ROTATED, CROPPED)
SIDE, SMALL_SIDE = 64, 32  # px of the thumbnail; the small one holds all that a picture of few pixels has
SMALL_PX = 48  # shorter side of a picture that has the small one
# tolerances: what copies without loss and the original differ by (docs/dedup.md). Compression counts twice: before all
# else where it spoils, and between copies that show the same
FIDELITY = (
    Criterion(name="compression", column="codec_quality", tolerance=0.4, says="fewer traces of compression"),
    Criterion(name="detail", column="detail_px", tolerance=0.35, says="more real resolution"),
    Criterion(name="sharpness", column="sharp_fraction", tolerance=0.3, says="not enlarged or blurred"),
    Criterion(name="noise", column="noise_floor", best="low", tolerance=0.7, margin=4.0, says="less noise"),
    Criterion(name="colour", column="is_coloured", tolerance=0.0, says="colour over grey"),
    Criterion(name="depth", column="bits_per_channel", tolerance=0.0, says="more bits per channel"),
    CLOSENESS,
    Criterion(name="coding", column="codec_quality", tolerance=0.2, says="compressed clearly less"),
    Criterion(name="grain", column="noise_floor", best="low", tolerance=0.0, margin=2.0, says="less grain"),
    Criterion(name="codec", column="codec_quality", tolerance=0.005, says="compressed less"),
    length_of("width_px"),
)
_DRAFT_PX = 160  # libjpeg scales while it decodes: a 12-megapixel photo costs an eighth
_MAX_PIXELS = 256_000_000


def fingerprint(data: bytes) -> dict[str, np.ndarray]:
    """Method -> hashes of the picture as a viewer shows it, EXIF orientation applied. Raises UnreadableItem."""
    import cv2

    luma, size_px = upright_luma(data)
    plane = np.asarray(luma)
    side = SMALL_SIDE if min(size_px) < SMALL_PX else SIDE
    boxes = [content(plane), bars(plane)]
    regions = list(dict.fromkeys([WHOLE, *boxes]))
    planes = np.stack([_resized(cut(plane, box), perceptual.SIDE) for box in regions])
    hashes, _ = perceptual.dct_hashes(planes)
    layout = np.array([round(255 * edge) for box in boxes for edge in box], dtype=np.uint8)
    thumbnail = cv2.resize(plane, (side, side), interpolation=cv2.INTER_AREA)
    return {
        METHOD: hashes,
        "luma": perceptual.pack_bytes(thumbnail),
        "layout": np.append(perceptual.pack_bytes(layout), np.uint64(min(size_px))),
    }


def upright_luma(data: bytes) -> tuple[Image, tuple[int, int]]:
    """(the first frame in grey, transparent parts on white, at least 160 px where it has them; its size in px)."""
    from PIL import Image, ImageOps

    with Image.open(io.BytesIO(data), formats=picture_formats()) as picture:
        size_px = picture.size
        if picture.width * picture.height > _MAX_PIXELS:
            raise UnreadableItem(3004, f"pixels={picture.width * picture.height} not in [1, {_MAX_PIXELS}]")
        picture.draft("L", (_DRAFT_PX, _DRAFT_PX))
        upright = ImageOps.exif_transpose(picture)
        if "A" in upright.mode or "transparency" in upright.info:
            flat = Image.new("RGBA", upright.size, "white")
            flat.alpha_composite(upright.convert("RGBA"))
            upright = flat
        if upright.mode.startswith("I"):  # 16 bit: convert("L") clips instead of scaling
            values = (np.asarray(upright).astype(np.float64) / 257).clip(0, 255)
            return Image.fromarray(values.astype(np.uint8)), size_px
        return upright.convert("L"), size_px


def _resized(plane_HW: NDArray[np.uint8], side: int) -> NDArray[np.float64]:
    import cv2

    return cv2.resize(plane_HW, (side, side), interpolation=cv2.INTER_AREA).astype(np.float64)

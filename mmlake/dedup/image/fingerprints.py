"""Near duplicates of pictures: prints of one picture, and the tier's matcher of many.

Enters: the bytes of a picture. Leaves: prints "phash" (DCT hash of the whole picture, then of what lies inside uniform
borders and inside caption bars, where it has any), "luma" (a thumbnail), "layout" (those borders, the size, whether it
is a sign and a drawing), "detail" (four pieces at 512 px: what sets copies of one frame apart), "tint" (chroma, but of
JPEGs that are no drawings) and "close" (of a drawing, a larger thumbnail). A grey copy is a near duplicate, a drawing
in other colours is none. Candidates come from hashes (`image.matcher`), verdicts from the thumbnails
(`image.alignment`).
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.criteria import Criterion, close_within, length_of
from mmlake.dedup.image import perceptual, recoding, tints
from mmlake.errors import UnreadableItem
from mmlake.media.picture_borders import WHOLE, bars, content, cut
from mmlake.media.picture_pieces import DETAIL_PX, pieces
from mmlake.media.pictures import draft_colour, draft_grey, picture_formats, shown

if TYPE_CHECKING:
    from PIL.Image import Image

METHOD, MIRRORED, ROTATED, CROPPED = "phash", "phash-mirrored", "phash-rotated", "phash-cropped"
RECODED = "phash-recoded"  # one of the two was made of the other by coding it anew (`recoding`)
METHODS = (METHOD, "luma", "layout", "detail", "tint", "blocks", "close")
PAIR_METHODS = (METHOD, MIRRORED, ROTATED, CROPPED, RECODED)
SIDE, SMALL_SIDE = 64, 32  # px of the thumbnail; the small one holds all that a picture of few pixels has
SMALL_PX = 48  # shorter side of a picture that has the small one
# In this order, each within what a copy without loss and the original differ by (docs/dedup.md). Copies change tones,
# frame and detail each in its own way, so the original is closest to all of them: that decides before measures of a
# picture alone, which noise and resampling mislead. What is coarsely compressed or a thumbnail goes before it, however
# many copies it has; traces of compression decide between copies that show the same.
FIDELITY = (
    Criterion(name="enlarged", column="resampled_at", frame=("size", "height"), says="the original of an enlargement"),
    Criterion(name="height", column="height_px", table="tracks", best=""),
    Criterion(
        name="recoded",
        column="",
        best="",
        recoded=RECODED,
        no_less=("colour", "depth"),
        says="what the other one was made of by coding it anew",
    ),
    Criterion(
        name="compression",
        column="codec_quality",
        tolerance=0.6,
        spares="real_size",
        says="fewer traces of compression",
    ),
    Criterion(name="resolution", column="detail_px", tolerance=0.8, says="no thumbnail"),
    # of one picture in many sizes, as pages link them, the middle one is closest to the rest. Where most have one size,
    # closeness knows better who was enlarged
    Criterion(
        name="real_size",
        column="real_px",
        also="side",
        unless=("size",),
        tolerance=0.1,
        says="more pixels and more real resolution",
    ),
    Criterion(name="aspect", column="aspect_ratio", best=""),
    Criterion(
        name="framed",
        column="framed_fraction",
        best="low",
        tolerance=0.0,
        margin=0.02,
        # an edge that a picture has of itself is seen in one size or tone and not in another; what is put around a
        # picture that is no square changes its shape
        unless=("aspect",),
        alike=0.012,
        says="no borders or bars around it",
    ),
    # tools convert to sRGB or leave the profile out, what is published as a copy has no other space; before closeness,
    # since copies without their profile are in one wrong tone, and close to each other
    Criterion(name="space", column="is_converted", tolerance=0.0, says="colours in the space that they were taken in"),
    close_within(3e-3),
    Criterion(name="tint", column="chroma_levels", best="usual", tolerance=0.12, margin=0.7, says="usual colours"),
    Criterion(name="colour", column="is_coloured", tolerance=0.0, says="colour over grey"),
    Criterion(name="detail", column="detail_px", tolerance=0.5, says="more real resolution"),
    Criterion(
        name="size", column="width_px", table="tracks", best="usual", tolerance=0.2, share=0.5, says="usual size"
    ),
    close_within(5e-4),
    Criterion(name="sharpness", column="sharp_fraction", tolerance=0.45, says="not enlarged or blurred"),
    Criterion(name="depth", column="bits_per_channel", tolerance=0.0, says="more bits per channel"),
    # of two copies closeness says nothing: one was shrunk, or the larger one was enlarged and has no more detail for it
    # (of one size, more contrast or letters on it would pass for detail)
    Criterion(name="fineness", column="real_px", unless=("side",), tolerance=0.3, says="more real resolution"),
    Criterion(name="side", column="min_side_px", best="low", tolerance=0.3, says="not enlarged"),
    Criterion(name="more", column="real_px", also="side", tolerance=0.1, says="more pixels and more real resolution"),
    Criterion(name="coding", column="codec_quality", tolerance=0.1, says="compressed clearly less"),
    close_within(2e-4),
    Criterion(name="codec", column="codec_quality", tolerance=0.005, says="compressed less"),
    length_of("width_px"),
)
IS_SIGN, IS_DRAWING = 2, 3  # where the layout says so (`image.tints`)
INK = 2  # what it says there of a sign that is a few strokes of one tone
# px of the larger thumbnail of drawings, four times the places: a mark of a chart is 6 px of 800
CLOSE_SIDE = 128
CLOSE_PX = 96  # shorter side of the smallest drawing that has more than its thumbnail shows
_JPEGS = ("JPEG", "MPO")
_MAX_PIXELS = 256_000_000


def fingerprint(data: bytes) -> dict[str, np.ndarray]:
    """Method -> hashes of the picture as a viewer shows it, EXIF orientation applied. Raises UnreadableItem."""
    import cv2

    seen, size_px, blocks = upright(data)
    plane = np.asarray(seen.convert("L"))
    counts = tints.counts_of(plane)
    toned = tints.tones(counts)
    side = SMALL_SIDE if min(size_px) < SMALL_PX else SIDE
    boxes = [content(plane), bars(plane)]
    regions = list(dict.fromkeys([WHOLE, *boxes]))
    planes = np.stack([_resized(cut(plane, box), perceptual.SIDE) for box in regions])
    hashes, _ = perceptual.dct_hashes(planes)
    layout = np.array([round(255 * edge) for box in boxes for edge in box], dtype=np.uint8)
    thumbnail = cv2.resize(plane, (side, side), interpolation=cv2.INTER_AREA).astype(np.uint8)
    sign = tints.ink_of(plane, counts) or int(tints.is_sign(plane, toned, min(size_px)))
    flat = tints.flat_fraction(thumbnail.astype(np.float32))
    is_drawing = sign > 0 or tints.is_drawing(flat, toned)
    numbers = min(size_px), sign, is_drawing
    is_close = is_drawing and min(size_px) >= CLOSE_PX
    return {
        METHOD: hashes,
        "luma": perceptual.pack_bytes(thumbnail),
        "layout": np.append(perceptual.pack_bytes(layout), np.array(numbers, np.uint64)),
        "detail": perceptual.pack_bytes(pieces(plane)),
        "tint": _tint(data, seen, is_asked=tints.may_be_drawn(flat, toned)),
        "blocks": blocks,
        "close": _close(plane) if is_close else np.empty(0, np.uint64),
    }


def _close(plane_HW: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """A thumbnail of twice the side."""
    import cv2

    while min(plane_HW.shape) >= 2 * CLOSE_SIDE:  # a quarter of what means of any number of pixels cost
        size = plane_HW.shape[1] // 2, plane_HW.shape[0] // 2
        plane_HW = np.asarray(cv2.resize(plane_HW, size, interpolation=cv2.INTER_LINEAR), np.uint8)
    found = cv2.resize(plane_HW, (CLOSE_SIDE, CLOSE_SIDE), interpolation=cv2.INTER_AREA)
    return perceptual.pack_bytes(found.astype(np.uint8))


def _tint(data: bytes, seen: Image, *, is_asked: bool) -> NDArray[np.uint64]:
    """Chroma, where it is asked for or known anyway. seen: the picture as it was decoded; of a JPEG in grey alone, then
    it is decoded once more, at an eighth."""
    from PIL import Image

    if seen.mode != "L":
        return perceptual.pack_bytes(tints.tints(seen))
    if not is_asked:
        return np.empty(0, np.uint64)
    with Image.open(io.BytesIO(data), formats=picture_formats()) as picture:
        draft_colour(picture, tints.REDUCED_PX)
        return perceptual.pack_bytes(tints.tints(shown(picture)))


def upright(data: bytes) -> tuple[Image, tuple[int, int], NDArray[np.uint64]]:
    """(the first frame, opaque, at least 512 px where it has them, of a JPEG in grey; its size in px; what its file
    keeps of blocks, as `recoding` has it)."""
    from PIL import Image

    with Image.open(io.BytesIO(data), formats=picture_formats()) as picture:
        size_px = picture.size
        if picture.width * picture.height > _MAX_PIXELS:
            raise UnreadableItem(3004, f"pixels={picture.width * picture.height} not in [1, {_MAX_PIXELS}]")
        draft_grey(picture, DETAIL_PX)
        blocks = recoding.words_of(picture, size_px, data)
        is_jpeg = picture.format in _JPEGS and picture.mode != "CMYK"
        seen = shown(picture)
        if is_jpeg and seen.mode != "L":  # decoded in colour for its profile alone
            seen = seen.convert("L")
        return seen if seen is not picture else picture.copy(), size_px, blocks


def _resized(plane_HW: NDArray[np.uint8], side: int) -> NDArray[np.float64]:
    import cv2

    return cv2.resize(plane_HW, (side, side), interpolation=cv2.INTER_AREA).astype(np.float64)

"""Two drawings at twice the side of a thumbnail: a line, a mark or a word that only one of them has.

Enters: two drawings that lie on each other and would be copies by their thumbnails, in which a mark of a chart is less
than a pixel. Leaves: whether a place of them shows two things. What an edit does (a codec, another
size, blur, another tone) it does everywhere: tones are fitted, the sharper one is made as soft as the other, and what
is left is small in each place. A mark that was laid over a picture stands in a corner.
Legend: C side of the close view.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mmlake.dedup.image import tones
from mmlake.dedup.image.fingerprints import CLOSE_SIDE, SIDE
from mmlake.dedup.image.marks import Mask
from mmlake.dedup.image.windows import Floats

_SIGMA_PX = 0.7  # of the blur: resampling changes what is finer
_PLACE_PX = 7  # of the window whose root mean square difference counts
# grey levels by which a place is off. JPEG at quality 10, half size and blur leave up to 6 of a chart
_OTHER_LEVELS = 8.0
_SOFTER_PX = (0.5, 0.7, 0.9, 1.2, 1.6, 2.2)  # blurs that are tried to make the sharper one as soft
_CORNER = 0.25, 0.33  # of height and width: where a mark may be
_MARKED_LEVELS = 30.0  # what is off by more says nothing of how soft a picture is
_LEAST_VARIANCE = 1.0  # squared grey levels, of a place that shows something
_UNCLIPPED = (4.0, 251.0)  # grey levels that a fit sees
_ROUNDS, _LEAST_FITTED = 3, 100


def differ(view: Floats, template: Floats, warp: Floats, seen: Mask) -> bool:
    """Whether the two show two things in a place. view, template: close views, (C, C), in one orientation. warp: from
    the pixels of the template's thumbnail to those of the view's. seen: what is compared, of the template's
    thumbnail, (S, S)."""
    import cv2

    shown = cv2.resize(seen.astype(np.uint8), view.shape[::-1], interpolation=cv2.INTER_NEAREST)
    inside: Mask = cv2.erode(shown, np.ones((5, 5), np.uint8), borderValue=1).astype(np.bool_)
    for map_to in _maps(view, template, warp, inside):
        flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        moved = cv2.warpAffine(view, map_to, view.shape[::-1], flags=flags, borderMode=cv2.BORDER_REPLICATE)
        own, its = (cv2.GaussianBlur(plane, (0, 0), _SIGMA_PX) for plane in (moved, template))
        for one, other in _toned(own, its, inside):
            if _are_in_a_corner(_off(*_as_soft(one, other, inside), inside) > _OTHER_LEVELS):
                return False
    return True


def _maps(view: Floats, template: Floats, warp: Floats, inside: Mask) -> Iterator[Floats]:
    """From the pixels of the template's close view to those of the view's: as the thumbnails say, then finer."""
    import cv2

    times = CLOSE_SIDE // SIDE
    said = warp.astype(np.float32)
    said[:, 2] = times * said[:, 2] + (times - 1) / 2 * (1 - said[:, :2].sum(axis=1))
    yield said
    mask = inside.astype(np.uint8) * 255
    criteria = (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, 25, 1e-4)
    try:
        yield cv2.findTransformECC(template, view, said.copy(), cv2.MOTION_AFFINE, criteria, mask, 3)[1]
    except cv2.error:  # does not converge
        return


def _toned(own: Floats, its: Floats, inside: Mask) -> Iterator[tuple[Floats, Floats]]:
    """Both in one tone, by each kind of edit and from either to the other."""
    yield tones.toned(own, its, inside), its
    for one, other in ((own, its), (its, own)):
        fitted = _clipped_line(one, other, inside)
        if fitted is not None:
            yield fitted, other
        yield tones.by_rank(one, other, inside), other


def _clipped_line(own: Floats, its: Floats, inside: Mask) -> Floats | None:
    """The plane with the gain and offset that bring it nearest to the other, clipped as files are; what the other one
    has clipped says nothing about them."""
    seen = inside & (its > _UNCLIPPED[0]) & (its < _UNCLIPPED[1])
    if seen.sum() < _LEAST_FITTED:
        return None
    tone, wanted = own[seen].astype(np.float64), its[seen].astype(np.float64)
    weights = np.ones(len(tone))
    for _ in range(_ROUNDS):
        means = [float(np.average(levels, weights=weights)) for levels in (tone, wanted)]
        off = tone - means[0]
        variance = float((weights * off**2).sum())
        if variance < 1e-3:
            return None
        gain = float((weights * off * (wanted - means[1])).sum()) / variance
        error = np.abs(gain * off + means[1] - wanted)
        weights = 1 / (1 + (error / (2.5 * np.median(error) + 1)) ** 2)
    found: Floats = (gain * (own - means[0]) + means[1]).clip(0, 255).astype(np.float32)
    return found


def _as_soft(one: Floats, other: Floats, inside: Mask) -> tuple[Floats, Floats]:
    """Both, the sharper one blurred until it has no more of what changes from pixel to pixel than the other."""
    import cv2

    seen = inside & (np.abs(one - other) <= _MARKED_LEVELS)
    powers = [_power(one, seen), _power(other, seen)]
    if powers[0] < powers[1]:
        softer, same = _as_soft(other, one, inside)
        return same, softer
    found = one
    for sigma_px in _SOFTER_PX:
        blurred = cv2.GaussianBlur(one, (0, 0), sigma_px)
        if _power(blurred, seen) < powers[1]:
            break
        found = blurred
    return found, other


def _power(plane: Floats, seen: Mask) -> float:
    import cv2

    return float((((plane - cv2.blur(plane, (3, 3))) ** 2)[seen]).mean()) if seen.any() else 0.0


def _off(one: Floats, other: Floats, inside: Mask) -> Floats:
    """Grey levels by which each place is off, but for a pixel's shift, or for its own level and contrast."""
    import cv2

    def mean(plane: Floats) -> Floats:
        return np.asarray(cv2.blur(plane, (_PLACE_PX, _PLACE_PX)))

    square = np.ones((3, 3), np.uint8)
    outside = [
        np.maximum(cv2.erode(plane, square) - its, its - cv2.dilate(plane, square))
        for plane, its in ((one, other), (other, one))
    ]
    shifted = mean(np.maximum(np.maximum(*outside), 0) ** 2 * inside)
    means = mean(one), mean(other)
    own, its = mean(one * one) - means[0] ** 2, mean(other * other) - means[1] ** 2
    common = np.maximum(mean(one * other) - means[0] * means[1], 0)
    unexplained = np.maximum(own, its) - common**2 / np.maximum(np.minimum(own, its), _LEAST_VARIANCE)
    found: Floats = np.sqrt(np.maximum(np.minimum(shifted, unexplained), 0)) * inside
    return found


def _are_in_a_corner(places: Mask) -> bool:
    """Whether all places, if there are any, lie in one corner, as a logo does."""
    if not places.any():
        return True
    down, across = (np.flatnonzero(places.any(axis=axis)) / CLOSE_SIDE for axis in (1, 0))
    corners = ((down, _CORNER[0]), (across, _CORNER[1]))
    return all(bool(side.max() < part or side.min() >= 1 - part) for side, part in corners)

"""Things on a plain ground, as in a shop: two plates have one outline, and what is on them says which is which.

The outline, and the light that follows it, are most of the detail of such pictures, and those of any two plates are
alike. So what lies within is compared by itself.
"""

from __future__ import annotations

import numpy as np

from mmlake.dedup.image.marks import Mask
from mmlake.dedup.image.tints import NEIGHBOURHOOD_PX
from mmlake.dedup.image.windows import Floats

_EDGE_PX = 2  # of a picture, where nothing but the ground is
_GROUND_LEVELS, _MOSTLY = 3, 0.5  # how far levels of one ground are apart, and the share of the edge that has them
_LEAST_GROUND, _LEAST_INSIDE = 0.1, 0.05  # of the picture, and of what is compared
# grey levels: a plane of one colour has nothing to compare; and the least product of both sides' spread
_LEAST_DETAIL, _LEAST_SPREAD = 1.0, 0.1
# side of the neighbourhoods: in wider ones the light that follows an outline is detail; and of the blur before that
_FINE_PX, _SIGMA_PX = 7, 1.0
_ALIKE = 0.87  # of copies, at least
_MOST_BENT, _MOST_MOVED_PX = 0.1, 4.0  # what an alignment by the outline is wrong by


def inside_of(thumbnail: Floats) -> Mask | None:
    """What lies within the outline of the thing that the picture shows on a plain ground, too far from it to show it;
    None where it shows none."""
    edge = np.ones(thumbnail.shape, np.bool_)
    edge[_EDGE_PX:-_EDGE_PX, _EDGE_PX:-_EDGE_PX] = False
    counts = np.bincount(thumbnail[edge].clip(0, 255).astype(np.int64), minlength=256)
    near = np.convolve(counts, np.ones(2 * _GROUND_LEVELS + 1), "same")
    level = int(near.argmax())
    ground = np.abs(thumbnail - level) <= _GROUND_LEVELS
    if near[level] < _MOSTLY * edge.sum() or ground.mean() < _LEAST_GROUND:
        return None
    return clear_of(ground)


def clear_of(places: Mask) -> Mask:
    """What is so far from these places that they do not show in its neighbourhood."""
    import cv2

    square = np.ones((NEIGHBOURHOOD_PX, NEIGHBOURHOOD_PX), np.uint8)
    clear: Mask = cv2.dilate(places.astype(np.uint8), square, borderValue=0) == 0
    return clear


def are_alike(view: Floats, template: Floats, inside: Mask) -> bool:
    """Whether two aligned thumbnails show the same detail there, or there is nothing to compare.

    An alignment by the outline is less than a pixel off, which is much for what is finer; so what does not agree is
    aligned by itself."""
    if inside.sum() < _LEAST_INSIDE * inside.size or _correlation(view, template, inside) >= _ALIKE:
        return True
    return _correlation(_aligned(view, template, inside), template, inside) >= _ALIKE


def _correlation(view: Floats, template: Floats, inside: Mask) -> float:
    import cv2

    size = (_FINE_PX, _FINE_PX)
    soft = [cv2.GaussianBlur(plane, (0, 0), _SIGMA_PX) for plane in (view, template)]
    own, its = ((plane - cv2.blur(plane, size))[inside].astype(np.float64) for plane in soft)
    spread = own.std(), its.std()
    if max(spread) < _LEAST_DETAIL:
        return 1.0
    common = float((own * its).mean() - own.mean() * its.mean())
    return common / max(float(spread[0] * spread[1]), _LEAST_SPREAD)


def _aligned(view: Floats, template: Floats, inside: Mask) -> Floats:
    """The view, moved by what is inside; as it is where that would move it far."""
    import cv2

    criteria = (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, 12, 1e-4)
    mask, still = (inside * 255).astype(np.uint8), np.eye(2, 3, dtype=np.float32)
    try:
        _, warp = cv2.findTransformECC(template, view, still.copy(), cv2.MOTION_AFFINE, criteria, mask, 3)
    except cv2.error:  # nothing in common
        return view
    off = np.abs(warp - still)
    if off[:, :2].max() > _MOST_BENT or off[:, 2].max() > _MOST_MOVED_PX:
        return view
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    moved: Floats = cv2.warpAffine(view, warp, view.shape[::-1], flags=flags, borderMode=cv2.BORDER_REPLICATE)
    return moved

"""What two aligned thumbnails show alike, and where they differ.

Source: Wang et al. 2004 (local correlation).
"""

from __future__ import annotations

import numpy as np

from mmlake.dedup.image.marks import Mask
from mmlake.dedup.image.tints import NEIGHBOURHOOD_PX, SHOWS_LEVELS
from mmlake.dedup.image.windows import Floats

_ALIKE = 0.4  # waves, leaves: texture that is little next to a horizon
_LEAST_SEEN = 0.6  # grey levels of detail in what two pictures both show: half of a picture may be sky


def detail_correlation(view: Floats, template: Floats, seen: Mask, *, sigma_px: float) -> tuple[float, float, float]:
    """(correlation of what differs from the means of neighbourhoods, independent numbers in it, share of the
    neighbourhoods that show detail on both sides and not the same)."""
    import cv2

    inside = seen.astype(np.float32)

    def sums(values: Floats) -> Floats:
        size = (NEIGHBOURHOOD_PX, NEIGHBOURHOOD_PX)
        return cv2.boxFilter(values, -1, size, normalize=False, borderType=cv2.BORDER_CONSTANT)

    num = np.maximum(sums(inside), 1)
    left, right = (cv2.GaussianBlur(plane, (0, 0), sigma_px) for plane in (view, template))
    mean_left, mean_right = sums(left * inside) / num, sums(right * inside) / num
    own_map = (sums(left * left * inside) / num - mean_left**2)[seen].astype(np.float64)
    its_map = (sums(right * right * inside) / num - mean_right**2)[seen].astype(np.float64)
    common_map = (sums(left * right * inside) / num - mean_left * mean_right)[seen].astype(np.float64)
    own, its, common = own_map.sum(), its_map.sum(), common_map.sum()
    if min(own, its) < _LEAST_SEEN**2 * len(own_map):
        return 0.0, 0.0, 0.0
    shows = np.minimum(own_map, its_map) >= SHOWS_LEVELS**2
    alike = common_map >= _ALIKE * np.sqrt(np.maximum(own_map * its_map, 0))
    unlike = float((shows & ~alike).mean()) if len(shows) else 0.0
    power = np.abs(np.fft.rfft2((right - mean_right) * inside)) ** 2
    dimensions = float(power.sum() ** 2 / max(float((power**2).sum()), 1e-9))
    return float(common / np.sqrt(max(own * its, 1e-9))), dimensions, unlike


def differences(view: Floats, template: Floats, seen: Mask, *, pixel: int = 1) -> tuple[Floats, float]:
    """(grey levels by which two of one tone differ in each place but for a pixel's shift; contrast of the template).
    pixel: side of one of the picture's in the thumbnail's."""
    import cv2

    own, its = (cv2.GaussianBlur(plane, (0, 0), 0.6 * pixel) for plane in (view, template))
    square = np.ones((2 * pixel + 1,) * 2, np.uint8)
    outside = [
        np.maximum(cv2.erode(plane, square) - other, other - cv2.dilate(plane, square))
        for plane, other in ((own, its), (its, own))
    ]
    inner = cv2.erode(seen.astype(np.uint8), square).astype(bool)
    differing = np.where(inner, np.maximum(np.maximum(*outside), 0), 0).astype(np.float32)
    return cv2.blur(differing, (3, 3)), max(float(its[seen].std()), 20.0)

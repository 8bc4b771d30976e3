"""How much of the change between two pictures the motion of the camera explains: the optical-flow track of shots.

Costly, so it is asked only where a candidate stands.
"""

from __future__ import annotations

import numpy as np

_MAX_CORNERS, _CORNER_QUALITY, _CORNER_SPACING_PX = 80, 0.01, 6
_MIN_TRACKED = 6  # corners; fewer fix no motion
_WINDOW_PX, _LEVELS = 15, 3  # of Lucas and Kanade's search: 160 px wide pictures, 1/10 s apart
_MAX_OFF_PX = 1.5  # of a corner that moves with the camera
_BORDER_PX = 8  # comes into view, and is not compared
_MIN_CHANGE = 1e-3


def unexplained(before_HW: np.ndarray, after_HW: np.ndarray) -> float | None:
    """The share of the change that is left when the camera's shift, turn and zoom are taken away: near 0 for pans and
    shake, near 1 for a blend of pictures. None where the picture has too few corners to follow.

    before_HW, after_HW: uint8 luma about 160 px wide, about 1/10 s apart. Method: sparse Lucas-Kanade and a similarity
    by RANSAC, whose order is fixed.
    """
    import cv2

    corners = cv2.goodFeaturesToTrack(before_HW, _MAX_CORNERS, _CORNER_QUALITY, _CORNER_SPACING_PX)
    if corners is None or len(corners) <= _MIN_TRACKED:
        return None
    moved, found, _ = cv2.calcOpticalFlowPyrLK(
        before_HW,
        after_HW,
        corners,
        None,  # type: ignore[call-overload]  # OpenCV fills it; the stubs want an array
        winSize=(_WINDOW_PX, _WINDOW_PX),
        maxLevel=_LEVELS,
    )
    is_found = found.ravel() == 1
    if is_found.sum() < _MIN_TRACKED:
        return 1.0
    cv2.setRNGSeed(0)
    matrix, _ = cv2.estimateAffinePartial2D(corners[is_found], moved[is_found], ransacReprojThreshold=_MAX_OFF_PX)
    if matrix is None:
        return 1.0
    height, width = before_HW.shape
    followed = cv2.warpAffine(before_HW, matrix, (width, height), borderMode=cv2.BORDER_REPLICATE)
    rows, columns = min(_BORDER_PX, height // 4), min(_BORDER_PX, width // 4)
    inner = (slice(rows, height - rows), slice(columns, width - columns))
    change = cv2.absdiff(before_HW[inner], after_HW[inner]).mean()
    left = cv2.absdiff(followed[inner], after_HW[inner]).mean()
    return float(left / max(change, _MIN_CHANGE))

"""Colours of two aligned drawings: two flags, two buttons, two playing cards may have one drawing, and be two things.

Enters: chroma as prints have it (`image.tints`). Leaves: whether one has colours that no edit gives the other.
Legend: T side of the tints, S side of a thumbnail.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.image.marks import Mask
from mmlake.dedup.image.windows import Floats

_ZERO = 128
_COLOURED, _GREY = 4.0, 1.0  # levels of chroma (root mean square): more is coloured, less is grey
# of two in colour: cosine of their chroma, and the largest difference in one place but for a gain and a cast. Of 32
# edits of 60 drawings those with doubled contrast alone have less and more
_ONE_HUE, _OTHER_COLOUR = 0.9, 28.0
_OTHER_IN_ALL = 45.0  # the same where a picture has no ground: tints of photographs differ by more
_SPOT_PX = 5  # of the thumbnail, over which that is taken
_MOST_GAIN = 3.0  # of the paler one's saturation
# levels of chroma that all of it may be off by, and that white may be off by more than black: another white balance
_MOST_CAST = (24.0, 40.0)
_OTHER_TONE = 16.0  # grey levels in coloured places between a picture and its grey copy, at most
# levels of chroma (root mean square) that its luma does not say: less in a grey copy that was toned, as in sepia, more
# in what has several hues
_ONE_TONE, _SEVERAL_HUES = 1.5, 3.0


def planes(tints_2TT: NDArray[np.uint8], side: int) -> Floats:
    """Tints as signed levels on the pixels of a thumbnail, of shape (2, S, S)."""
    import cv2

    levels = tints_2TT.astype(np.float32) - _ZERO
    return np.stack([cv2.resize(plane, (side, side), interpolation=cv2.INTER_LINEAR) for plane in levels])


def is_toned_copy(planes: tuple[Floats, Floats], tones_of: tuple[Floats, Floats], seen: Mask) -> bool:
    """Whether one of the two is the other in grey with one tone over it: of several hues it has none. A red heart and
    a blue one on white have one tone each: neither is a copy of the other. Not to be asked of drawings, which have few
    hues: two hands in two tones of skin."""
    unsaid = sorted(_unsaid(chroma, luma, seen) for chroma, luma in zip(planes, tones_of, strict=True))
    return unsaid[0] <= _ONE_TONE and unsaid[1] >= _SEVERAL_HUES


def _unsaid(chroma: Floats, luma: Floats, seen: Mask) -> float:
    """Levels of chroma (root mean square) that no parabola over the luma says."""
    import cv2

    own = (chroma[0][seen] + 1j * chroma[1][seen]).astype(np.complex128)
    # as coarse as the chroma is
    level = cv2.blur(luma, (_SPOT_PX, _SPOT_PX))[seen].astype(np.float64) / 255
    terms = np.stack((np.ones_like(level), level, level**2), axis=1)
    fit = np.linalg.solve(terms.T @ terms + 1e-6 * len(level) * np.eye(3), terms.T @ own)
    return float(np.sqrt((np.abs(own - terms @ fit) ** 2).mean()))


def differ(
    view: Floats,
    template: Floats,
    tones_of: tuple[Floats, Floats],
    seen: Mask,
    *,
    on_ground: bool,
    is_toned: bool = False,
) -> bool:
    """Whether two aligned pictures are one drawing in other colours. view, template: planes of chroma, (2, S, S).
    tones_of: their thumbnails, aligned as well, (S, S) each. on_ground: whether much of both shows nothing.
    is_toned: whether one may be the other in grey with a tone over it."""
    import cv2

    own, its = (plane[0][seen] + 1j * plane[1][seen] for plane in (view, template))
    powers = [float((np.abs(one) ** 2).mean()) for one in (own, its)]
    if max(powers) <= _COLOURED**2:
        return False
    # a grey copy has the tones of the other, and so has one with a tone over it
    if min(powers) <= _GREY**2 or (is_toned and is_toned_copy((view, template), tones_of, seen)):
        weights = np.maximum(np.abs(own), np.abs(its))
        off = np.abs(tones_of[0] - tones_of[1])[seen]
        return float((off * weights).sum() / weights.sum()) >= _OTHER_TONE
    common = float((own * its.conj()).real.mean())
    if common >= _ONE_HUE * np.sqrt(powers[0] * powers[1]):
        return False
    pale, strong = (own, its) if powers[0] <= powers[1] else (its, own)
    gain = min(max(common / min(powers), 1.0), _MOST_GAIN)
    off_SS = np.zeros(seen.shape, np.float32)
    off_SS[seen] = np.abs(_without_cast(gain * pale - strong, tones_of[1][seen] / 255))
    return float(cv2.blur(off_SS, (_SPOT_PX, _SPOT_PX)).max()) >= (_OTHER_COLOUR if on_ground else _OTHER_IN_ALL)


def _without_cast(off: NDArray[np.complexfloating], luma: Floats) -> NDArray[np.complexfloating]:
    """Differences of chroma without what is the same everywhere and what grows with the luma, 0..1, as far as these are
    no more than another white balance."""
    terms = np.stack((np.ones_like(luma), luma), axis=1).astype(np.float64)
    casts = np.linalg.solve(terms.T @ terms + 1e-3 * len(luma) * np.diag([0.0, 1.0]), terms.T @ off)
    casts = casts * np.minimum(1.0, np.array(_MOST_CAST) / np.maximum(np.abs(casts), 1e-9))
    rest: NDArray[np.complexfloating] = off - terms @ casts
    return rest

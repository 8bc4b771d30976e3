"""Planes painted anew: a hand in another tone of skin, a flag with another field, have one drawing and one hue.

Enters: two aligned drawings with their chroma. Leaves: whether any edit of the whole picture makes the planes of one
those of the other. An edit moves all that has one colour by as much, so it moves the ground, clothes and outlines too;
a hand in another tone of skin leaves white and black as they were. Tried are gamma, gain with offset (contrast),
saturation, white balance and, for what fills its frame, a light that changes smoothly; each clips as files do. Two
edits at once are no edit here: with as many numbers as a drawing has planes, everything would be explained.
Legend: S side of a thumbnail, G side of the grid, P places that are plain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.image.marks import Mask
from mmlake.dedup.image.tints import TINT_SIDE
from mmlake.dedup.image.windows import Floats

_Doubles = NDArray[np.float64]
# RGB of Y, Cb and Cr (ITU-R BT.601, as JPEG has it), and back to Y
_FROM_YCC = np.array([[1, 0, 1.402], [1, -0.344136, -0.714136], [1, 1.772, 0]])
_LUMA = np.array([0.299, 0.587, 0.114])
_GREY = 1.0  # levels of chroma (root mean square); a grey copy is judged by its tones (`colours`)
# grey levels by which a plane is off after the best edit: of 35 edits of 34 drawings of 128 px JPEG at quality 10
# leaves 9. Of small ones a place has a quarter of the pixels, and coded chroma runs over edges
_REPAINTED, _REPAINTED_SMALL, _SMALL_PX = 12.0, 20.0, 96
_PLACE_PX = 5  # of the thumbnail: what one place of the grid is the mean of
_PLAIN_LEVELS = 6.0  # within a place that counts half; edges are mixtures, and mixtures of two edits' results are none
_LEAST_PLAIN = 0.1  # a place that counts less is left out
_OFF_LEVELS = 12.0  # a place that is so far off counts half in a fit
_ROUNDS = 3
_CLIPPED = 0.97  # of the range: where an edit says more, a file holds this
# (gamma, gain, offset) that fits start from: as it is, brighter, more contrast, darker, paler; then gammas
_STARTS = ((1, 1, 0), (1, 1.5, 0), (1, 2, -0.5), (1, 0.7, 0), (1, 0.5, 0.25))
_GAMMAS = (0.5, 0.6, 0.75, 1.33, 1.6, 2)
_GAINS, _GAINS_OF_GAMMA, _OFFSET_OF_GAMMA = (0.4, 2.5), (0.85, 1.18), 0.1
_MOST_SATURATION, _BALANCES, _SPREADS = 3.0, (0.75, 1.33), (0.95, 2.5)


def differ(
    view: Floats, template: Floats, tones_of: tuple[Floats, Floats], seen: Mask, *, side_px: int, fills_frame: bool
) -> bool:
    """Whether planes of one have colours that no edit of all of it gives them. view, template: planes of chroma,
    (2, S, S). tones_of: their thumbnails, aligned as well, (S, S) each. side_px: of the smaller picture. fills_frame:
    whether they have no flat ground, so that a light may fall on them."""
    if min(float((plane[:, seen] ** 2).sum(axis=0).mean()) for plane in (view, template)) <= _GREY**2:
        return False
    planes = _Planes(view, template, tones_of, seen, side_px=side_px)
    if planes.are_near(planes.own, planes.its):
        return False
    surfaces = _surfaces()[planes.at] if fills_frame else None
    return not any(
        planes.are_near(edited.clip(0, 1), wanted)
        for source, wanted in ((planes.own, planes.its), (planes.its, planes.own))
        for edited in _edits(source, wanted, planes.weights_P1, surfaces)
    )


def are_levelled(view: Floats, template: Floats, tones_of: tuple[Floats, Floats], seen: Mask, *, side_px: int) -> bool:
    """Whether one is the other with the levels of each channel spread, as automatic contrast does it. Not to be asked
    of drawings: their planes are too few to say no."""
    planes = _Planes(view, template, tones_of, seen, side_px=side_px)
    return any(
        planes.are_near(_levelled(source, wanted, planes.weights_P1).clip(0, 1), wanted)
        for source, wanted in ((planes.own, planes.its), (planes.its, planes.own))
    )


class _Planes:
    """Colours of two aligned pictures in the places that are plain in both."""

    def __init__(
        self, view: Floats, template: Floats, tones_of: tuple[Floats, Floats], seen: Mask, *, side_px: int
    ) -> None:
        self._weights, found = _places(view, template, tones_of, seen)
        self.at = self._weights > _LEAST_PLAIN
        self.own, self.its = (plane[self.at] for plane in found)  # RGB, 0..1, (P, 3)
        self.weights_P1 = self._weights[self.at][:, None]
        self._bound = _REPAINTED_SMALL if side_px < _SMALL_PX else _REPAINTED

    def are_near(self, edited: _Doubles, wanted: _Doubles) -> bool:
        """Whether no place is off by more than codecs leave."""
        import cv2

        off = np.zeros(self._weights.shape, np.float32)
        off[self.at] = np.sqrt(((edited - wanted) ** 2).sum(axis=1)) * self._weights[self.at] * 255
        return float(cv2.blur(off, (2, 2)).max()) < self._bound


def _places(
    view: Floats, template: Floats, tones_of: tuple[Floats, Floats], seen: Mask
) -> tuple[_Doubles, list[_Doubles]]:
    """(how much each place of a grid counts, (G, G); RGB of both there, 0..1, (G, G, 3))."""
    import cv2

    step, size = len(seen) // TINT_SIDE, (_PLACE_PX, _PLACE_PX)
    grid = (slice(step // 2, None, step),) * 2
    variances, found = [], []
    for chroma, tones in ((view, tones_of[0]), (template, tones_of[1])):
        mean = cv2.blur(tones, size)
        variances.append((cv2.blur(tones * tones, size) - mean * mean)[grid])
        planes = np.stack([mean, *chroma], axis=-1)[grid].astype(np.float64)
        found.append((planes @ _FROM_YCC.T / 255).clip(0, 1))
    inside = cv2.erode(seen.astype(np.uint8), np.ones((3, 3), np.uint8))[grid]
    return inside / (1 + np.maximum(np.maximum(*variances), 0) / _PLAIN_LEVELS**2), found


def _edits(own: _Doubles, its: _Doubles, weights: _Doubles, surfaces: _Doubles | None) -> Iterator[_Doubles]:
    """What each kind of edit makes of the colours at best, (P, 3); unclipped. weights: (P, 1)."""
    for start in _STARTS:
        yield _gained(own, its, weights, start)
    for gamma in _GAMMAS:
        yield _gained(own, its, weights, (gamma, 1, 0))
    grey = np.repeat((own @ _LUMA)[:, None], 3, axis=1)
    colour = own - grey

    def saturated(counts: _Doubles) -> _Doubles:
        gain = (counts * colour * (its - grey)).sum() / max(float((counts * colour**2).sum()), 1e-6)
        return np.asarray(grey + np.clip(gain, 0, _MOST_SATURATION) * colour)

    def balanced(counts: _Doubles) -> _Doubles:
        gains = (counts * own * its).sum(axis=0) / np.maximum((counts * own**2).sum(axis=0), 1e-6)
        return np.asarray(gains.clip(*_BALANCES) * own)

    yield _fitted(saturated, own, its, weights)
    yield _fitted(balanced, own, its, weights)
    if surfaces is None:
        return

    def lit(counts: _Doubles) -> _Doubles:
        power = (counts * own**2).sum(axis=1)
        ridge = 1e-4 * power.sum() * np.eye(surfaces.shape[1])
        wanted = surfaces.T @ (counts * own * its).sum(axis=1) + ridge[0]
        gains = np.linalg.solve((surfaces * power[:, None]).T @ surfaces + ridge + 1e-9 * np.eye(len(ridge)), wanted)
        return np.asarray((surfaces @ gains)[:, None] * own)

    yield _fitted(lit, own, its, weights)


def _gained(own: _Doubles, its: _Doubles, weights: _Doubles, start: tuple[float, float, float]) -> _Doubles:
    """The colours with the gain and offset, common to all channels, that bring them nearest to the others."""
    gamma, gain, offset = start
    powered = own**gamma

    def line(counts: _Doubles) -> _Doubles:
        total = max(float(counts.sum()), 1e-6)
        means = [float((counts * plane).sum()) / total for plane in (powered, its)]
        off = powered - means[0]
        variance = float((counts * off**2).sum()) / total
        slope = float((counts * off * (its - means[1])).sum()) / total / variance if variance > 1e-4 else 1.0
        slope = float(np.clip(slope, *(_GAINS if gamma == 1 else _GAINS_OF_GAMMA)))
        level = means[1] - slope * means[0]
        if gamma != 1:
            level = float(np.clip(level, -_OFFSET_OF_GAMMA, _OFFSET_OF_GAMMA))
        return slope * powered + level

    return _fitted(line, gain * powered + offset, its, weights)


def _levelled(own: _Doubles, its: _Doubles, weights: _Doubles) -> _Doubles:
    """The colours with the gain and offset of each channel that bring it nearest to the others. No channel has less
    contrast than before: that is what keeps a red plane on white from becoming a blue one."""

    def lines(counts: _Doubles) -> _Doubles:
        totals = np.maximum(counts.sum(axis=0), 1e-6)
        means = [(counts * plane).sum(axis=0) / totals for plane in (own, its)]
        off = own - means[0]
        variances = (counts * off**2).sum(axis=0) / totals
        slopes = (counts * off * (its - means[1])).sum(axis=0) / totals / np.maximum(variances, 1e-4)
        return np.asarray(np.where(variances > 1e-4, slopes, 1.0).clip(*_SPREADS) * off + means[1])

    return _fitted(lines, own, its, weights)


def _fitted(fit: Callable[[_Doubles], _Doubles], edited: _Doubles, its: _Doubles, weights: _Doubles) -> _Doubles:
    """What a fit says after some rounds, in which places that are off count little and clipped channels nothing.
    fit: what counts, (P, 3), to edited colours. edited: those of the start."""
    for _ in range(_ROUNDS):
        off = ((edited.clip(0, 1) - its) ** 2).sum(axis=1, keepdims=True) * (255 / _OFF_LEVELS) ** 2
        is_clipped = ((edited >= 1) & (its > _CLIPPED)) | ((edited <= 0) & (its < 1 - _CLIPPED))
        edited = fit(np.where(is_clipped, 0, weights / (1 + off)))
    return edited


def _surfaces() -> _Doubles:
    """1, x, y, x^2, y^2 and x y of each place, from -1 to 1, of shape (G, G, 6)."""
    down, across = np.meshgrid(np.linspace(-1, 1, TINT_SIDE), np.linspace(-1, 1, TINT_SIDE), indexing="ij")
    return np.stack([np.ones_like(down), across, down, across**2, down**2, across * down], axis=-1)

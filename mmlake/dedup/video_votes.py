"""Which alignments of two films their frames vote for: shift, speed, mirror image and window.

Enters: two films. Leaves: the lines of time worth a close look, which `video_alignment` gives them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.video_hashes import BLANK_STD, MIRROR, WINDOWS
from mmlake.dedup.video_luma import beside, movement, quieted, resampled

# A, B frames of the shorter and of the longer film
_NUM_ANCHORS = 128  # frames of the shorter film that vote: evenly chosen, and of films of any length as many
_MAX_LOOKS = 1 << 25  # pairs of frames compared for one pair of films
_SPEEDS = tuple(float(speed) for speed in np.round(2.0 ** (np.arange(-24, 25) / 24), 4))  # 3 % apart, half to double
_MAX_MOVING_LOOKS, _MOVING_GAIN = 1 << 16, 1.1  # pairs of frames; of what agrees, for another speed
_MIN_VOTERS = 3  # anchors; a frame or two of any long films match by chance
_STILL_WORTH = 0.1  # of the vote of the frame with most movement: an empty road is empty at many times
_CLOSE_BITS = 3  # beyond the nearest frame: what is further away is another moment of the same shot
_NUM_TRIED = 3  # alignments that are looked at in full
_NEARLY = 0.85  # of the votes
# of the votes, and of all that there could be, for another speed to be believed: for a still picture any would do
_SPEED_GAIN, _SPEED_EXTRA = 1.25, 0.05
_CERTAIN = 0.6  # of the anchors; where so many agree at the plain speed, no other is tried
MOVED = 4.0  # luma levels of an eighth by an eighth of the picture that has moved


class Film(NamedTuple):
    """The prints of one unit."""

    hashes_VNW: NDArray[np.uint64]
    luma_VN64: NDArray[np.uint8]
    is_structured_N: NDArray[np.bool_]
    moved_N: NDArray[np.float64]  # how far each frame with structure is from their mean: what happens in it

    @classmethod
    def of(cls, hashes_VNW: NDArray[np.uint64], luma_VN64: NDArray[np.uint8]) -> Film:
        """The film, with the frames marked that are not blank, and those in which something happens."""
        is_structured = luma_VN64[0].std(axis=1) >= BLANK_STD
        moved = np.zeros(len(is_structured))
        if is_structured.any():
            moving = np.abs(movement(luma_VN64[0, is_structured].astype(np.float64)))
            moved[is_structured] = np.where(moving > MOVED, moving, 0.0).sum(axis=1)
        return cls(hashes_VNW, luma_VN64, is_structured, moved)


class Way(NamedTuple):
    """Which view and window of one film is which of the other, and whether it is mirrored."""

    view_a: int
    window_a: int
    view_b: int
    window_b: int
    is_mirrored: bool


class Line(NamedTuple):
    """Frame a of one film is frame speed * a + shift of the other."""

    way: Way
    speed: float
    shift: float


class _Votes(NamedTuple):
    """Which frames match in one way."""

    way: Way
    quality: float  # of the matches, all together
    left: NDArray[np.int64]  # frames of a
    right: NDArray[np.int64]  # the frames of b that match them
    weights: NDArray[np.float64]  # what each match is worth: a frame that matches many says little


def _ways(a: Film, b: Film) -> Iterator[Way]:
    for view_a in range(len(a.hashes_VNW)):
        for view_b in range(len(b.hashes_VNW)):
            for window in range(len(WINDOWS)):
                for is_mirrored in (False, True):
                    # a window beside the same one, where a logo or a caption covers the rest; else one beside all
                    yield Way(view_a, window, view_b, beside(window, is_mirrored), is_mirrored)
                    if window:
                        yield Way(view_a, 0, view_b, window, is_mirrored)
                        yield Way(view_a, window, view_b, 0, is_mirrored)


def lines_of(a: Film, b: Film, radius: int) -> list[Line]:
    """The alignments that most frames vote for, best first."""
    anchors = np.flatnonzero(a.is_structured_N)
    frames = np.flatnonzero(b.is_structured_N)
    if not len(anchors) or not len(frames):
        return []
    anchors = anchors[np.unique(np.linspace(0, len(anchors) - 1, min(_NUM_ANCHORS, len(anchors))).astype(int))]
    looks = 0
    found: list[_Votes] = []
    for way in _ways(a, b):
        looks += len(anchors) * len(frames)
        if looks > _MAX_LOOKS and found:
            break
        votes = _votes(a, b, way, anchors, frames, radius)
        if votes is not None:
            found.append(votes)
    lines = []
    worth = float(_worths(a, anchors).sum())
    for way, _, left, right, weights in _distinct(found)[:_NUM_TRIED]:
        lines += _moving_lines(a, b, way)
        for speed, shift in _diagonals(left, right, weights, worth):
            is_near = np.abs(right - speed * left - shift) <= 1.5
            if len(np.unique(left[is_near])) >= min(_MIN_VOTERS, 0.5 * len(anchors)):
                lines.append(Line(way, speed, shift))
    return lines


def _distinct(found: list[_Votes]) -> list[_Votes]:
    """The best of the ways that lay one film on the other alike, best first: any window beside itself is the same."""
    best: dict[Way, _Votes] = {}
    for one in sorted(found, key=lambda one: -one.quality):
        way = one.way
        is_same = way.window_b == beside(way.window_a, way.is_mirrored)
        key = way._replace(window_a=0, window_b=0) if is_same else way
        # the whole picture has most to say, where nothing covers a part of it
        if key not in best or (way == key and one.quality >= _NEARLY * best[key].quality):
            best[key] = one
    return list(best.values())


def _votes(
    a: Film, b: Film, way: Way, anchors: NDArray[np.int64], frames: NDArray[np.int64], radius: int
) -> _Votes | None:
    """The matches in one way; None where there are none."""
    hashes = a.hashes_VNW[way.view_a, anchors, way.window_a]
    others = b.hashes_VNW[way.view_b, frames, way.window_b] ^ (MIRROR if way.is_mirrored else np.uint64(0))
    bits = np.bitwise_count(hashes[:, None] ^ others[None, :])
    nearest = bits.min(axis=1)
    if not (nearest <= radius).any():
        return None
    at, other = np.nonzero(
        bits <= np.where(nearest <= radius, np.minimum(nearest + _CLOSE_BITS - 1, radius), -1)[:, None]
    )
    weights = (_CLOSE_BITS - (bits[at, other] - nearest[at])).astype(np.float64)
    totals = np.bincount(at, weights=weights, minlength=len(anchors)) / _worths(a, anchors)
    quality = float((radius + 1 - nearest[nearest <= radius].astype(np.int64)).sum())
    return _Votes(way, quality, anchors[at], frames[other], weights / totals[at])


def _worths(film: Film, frames: NDArray[np.int64]) -> NDArray[np.float64]:
    """What the vote of each frame counts."""
    moved = film.moved_N[frames]
    return _STILL_WORTH + moved / moved.max() if moved.any() else np.ones(len(frames))


def _diagonals(
    left: NDArray[np.int64], right: NDArray[np.int64], weights: NDArray[np.float64], all_votes: float
) -> Iterator[tuple[float, float]]:
    """(speed, shift) of the best lines through the votes."""
    plain, shift, second = _peaks(left, right, weights, 1.0)
    yield 1.0, shift
    if plain < _CERTAIN * all_votes:
        if second is not None:
            yield 1.0, second
        others = [(*_peaks(left, right, weights, speed)[:2], speed) for speed in _SPEEDS]
        votes, shift, speed = max(others, key=lambda one: one[0])
        if votes > _SPEED_GAIN * plain + _SPEED_EXTRA * all_votes:
            yield speed, shift


def _moving_lines(a: Film, b: Film, way: Way) -> list[Line]:
    """The alignments at which most of what moves is the same, of clips that are short enough to try all."""
    if len(a.moved_N) * len(b.moved_N) > _MAX_MOVING_LOOKS:
        return []
    sides = []
    for film, view, window, is_mirrored in (
        (a, way.view_a, way.window_a, False),
        (b, way.view_b, way.window_b, way.is_mirrored),
    ):
        moving = np.zeros((len(film.moved_N), 64))
        luma = film.luma_VN64[view, film.is_structured_N].astype(np.float64) @ resampled(window, is_mirrored).T
        moving[film.is_structured_N] = quieted(movement(luma))
        sides.append(moving)
    products = sides[0] @ sides[1].T
    frames_a, frames_b = np.arange(len(a.moved_N))[:, None], np.arange(len(b.moved_N))[None, :]
    best = []
    for speed in _SPEEDS:
        shifts = frames_b - np.round(speed * frames_a).astype(np.int64)
        low = int(shifts.min())
        sums = np.bincount((shifts - low).ravel(), weights=products.ravel())
        at = int(np.argmax(sums))
        best.append((float(sums[at]), speed, float(at + low)))
    plain = best[_SPEEDS.index(1.0)]
    other = max(best)
    lines = [Line(way, 1.0, plain[2])]
    return [Line(way, *other[1:]), *lines] if other[0] > _MOVING_GAIN * plain[0] else lines


def _peaks(
    left: NDArray[np.int64], right: NDArray[np.int64], weights: NDArray[np.float64], speed: float
) -> tuple[float, float, float | None]:
    """(votes for the best shift, that shift, the next best one that is not beside it)."""
    shifts = np.round(right - speed * left).astype(np.int64)
    low = int(shifts.min())
    counts = np.bincount(shifts - low, weights=weights)
    near = np.convolve(counts, np.ones(3), "same") if len(counts) > 2 else counts
    at = int(np.argmax(near))
    votes = float(near[at])
    near[max(0, at - 2) : at + 3] = 0.0
    second = int(np.argmax(near))
    return votes, float(at + low), float(second + low) if near[second] > 0.5 * votes else None

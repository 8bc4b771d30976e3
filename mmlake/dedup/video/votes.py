"""Which alignments of two films their frames vote for: shift, speed, mirror image and window.

Enters: two films. Leaves: the lines of time that `video.alignment` then judges.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.prints import Positions
from mmlake.dedup.video.hashes import BLANK_STD, CUT, EVEN, MIRROR, WINDOWS
from mmlake.dedup.video.luma import counterpart, movement, quieted, resampled

# A, B frames of the shorter and of the longer film
_NUM_ANCHORS = 128  # frames of the shorter film that vote: evenly chosen, and of films of any length as many
# pairs of frames compared in one way: fewer, and all ways are compared; more, and only frames that agree are
_MAX_COMPARED_ALL_WAYS, _MAX_COMPARED = 1 << 13, 1 << 22
_MAX_FRAMES_BY_ANCHORS = 1_024  # of the shorter film: anchors of longer ones are too far apart for a common intro
_MAX_EQUAL = 8  # frames of the longer film that one frame votes for
_NUM_PLAIN, _WHOLE_LENGTH = 32, 1.06  # frames that vote where a copy is as long as its original; times as long
_SPEEDS = tuple(float(speed) for speed in np.round(2.0 ** (np.arange(-24, 25) / 24), 4))  # 3 % apart, half to double
_MAX_MOVING, _MOVING_GAIN = 1 << 16, 1.1  # pairs of frames; of what agrees, for another speed
_MIN_VOTERS = 3  # anchors; a frame or two of any long films match by chance
_STILL_WORTH = 0.1  # of the vote of the frame with most movement: an empty road is empty at many times
_CLOSE_BITS = 3  # beyond the nearest frame: what is further away is another moment of the same shot
_NUM_TRIED = 3  # ways that are aligned in full
_NEARLY = 0.85  # of the votes
# of the votes, and of all that there could be, for another speed to be believed: for a still picture any would do
_SPEED_GAIN, _SPEED_EXTRA = 1.25, 0.05
_CERTAIN = 0.6  # of the anchors; where so many agree at the plain speed, no other is tried
# luma levels of an eighth by an eighth in which codecs let a frozen picture vary; frames of half a second to three
_FROZEN_LEVELS, _LEAST_FROZEN, _MOST_FROZEN = 2, 4, 24
MOVED = 4.0  # luma levels of an eighth by an eighth of the picture that has moved


class Film(NamedTuple):
    """The prints of one unit."""

    hashes_VNW: NDArray[np.uint64]
    luma_VN64: NDArray[np.uint8]
    is_structured_N: NDArray[np.bool_]
    moved_N: NDArray[np.float64]  # how far each frame with structure is from their mean: what happens in it
    adds_N: NDArray[np.bool_]  # frames with structure that add something: not those of a picture frozen at an end

    def cut(self, first: int, end: int) -> Film:
        """The film of these frames."""
        return Film.of(self.hashes_VNW[:, first:end], self.luma_VN64[:, first:end])

    @classmethod
    def laid(cls, films: Sequence[Film]) -> Film:
        """The film of several behind each other; what has no bars is its own whole picture."""
        num = max(len(film.hashes_VNW) for film in films)
        views = [np.minimum(np.arange(num), len(film.hashes_VNW) - 1) for film in films]
        return cls.of(
            np.concatenate([film.hashes_VNW[view] for film, view in zip(films, views, strict=True)], axis=1),
            np.concatenate([film.luma_VN64[view] for film, view in zip(films, views, strict=True)], axis=1),
        )

    @classmethod
    def of(cls, hashes_VNW: NDArray[np.uint64], luma_VN64: NDArray[np.uint8]) -> Film:
        """The film, with the frames marked that are not blank, and those in which something happens."""
        is_structured = luma_VN64[0].std(axis=1) >= BLANK_STD
        moved = np.zeros(len(is_structured))
        if is_structured.any():
            moving = np.abs(movement(luma_VN64[0, is_structured].astype(np.float64)))
            moved[is_structured] = np.where(moving > MOVED, moving, 0.0).sum(axis=1)
        return cls(hashes_VNW, luma_VN64, is_structured, moved, is_structured & ~_frozen_ends(luma_VN64[0]))


def _frozen_ends(luma_N64: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """The frames before or behind the film in which its first or last picture stands still: whoever pads a clip to a
    length does that. A picture behind a cut is a card, which adds something, and a film may stand still throughout."""
    frozen = np.zeros(len(luma_N64), np.bool_)
    for luma, marks in ((luma_N64, frozen), (luma_N64[::-1], frozen[::-1])):
        apart = np.abs(luma[: _MOST_FROZEN + 1].astype(np.int16) - luma[:1].astype(np.int16))
        is_still = apart.max(axis=1, initial=0) <= _FROZEN_LEVELS
        num = len(is_still) if is_still.all() else int(np.argmin(is_still))
        if _LEAST_FROZEN <= num <= min(_MOST_FROZEN, len(luma) // 2) and apart[num].mean() <= CUT:
            marks[: num - 1] = True
    return frozen


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
    left: Positions  # frames of a
    right: Positions  # the frames of b that match them
    weights: NDArray[np.float64]  # what each match is worth: a frame that matches many says little


def _ways(a: Film, b: Film) -> Iterator[Way]:
    for view_a in range(len(a.hashes_VNW)):
        for view_b in range(len(b.hashes_VNW)):
            for window in range(len(WINDOWS)):
                for is_mirrored in (False, True):
                    # the same window of both, for a logo or a caption may cover the rest; or of one, which was cropped
                    yield Way(view_a, window, view_b, counterpart(window, is_mirrored), is_mirrored)
                    if window:
                        yield Way(view_a, 0, view_b, window, is_mirrored)
                        yield Way(view_a, window, view_b, 0, is_mirrored)


def plain_lines_of(a: Film, b: Film, radius: int) -> list[Line]:
    """The alignment of a copy that is as long as its original: frame on frame, or where most frames agree."""
    if len(b.moved_N) > _WHOLE_LENGTH * len(a.moved_N) or not a.is_structured_N.any():
        return []
    way = Way(0, 0, 0, 0, False)
    frames, places = _evenly(np.flatnonzero(a.is_structured_N), _NUM_PLAIN), np.flatnonzero(b.is_structured_N)
    if len(frames) * len(places) > _MAX_COMPARED:
        return [Line(way, 1.0, 0.0)]
    votes = _votes(a, b, way, _all_near(frames, places), radius)
    return [Line(way, 1.0, _peaks(votes.left, votes.right, votes.weights, 1.0)[1])] if len(votes.left) else []


def _evenly(frames: Positions, num: int) -> Positions:
    """At most so many of the frames."""
    chosen: Positions = frames[np.unique(np.linspace(0, len(frames) - 1, min(num, len(frames))).astype(int))]
    return chosen


def line_like(a: Film, b: Film, line: Line, radius: int) -> Line | None:
    """The alignment that most frames vote for among those that differ from a line by their shift alone."""
    frames, places = _evenly(np.flatnonzero(a.is_structured_N), _NUM_ANCHORS), np.flatnonzero(b.is_structured_N)
    if not len(frames) or len(frames) * len(places) > _MAX_COMPARED:
        return None
    votes = _votes(a, b, line.way, _all_near(frames, places), radius)
    if not len(votes.left):
        return None
    return Line(line.way, line.speed, _peaks(votes.left, votes.right, votes.weights, line.speed)[1])


def lines_of(a: Film, b: Film, radius: int) -> list[Line]:
    """The alignments that most frames vote for, best first."""
    frames_a, frames_b = np.flatnonzero(a.is_structured_N), np.flatnonzero(b.is_structured_N)
    if not len(frames_a) or not len(frames_b):
        return []
    anchors = _evenly(frames_a, _NUM_ANCHORS)
    ways = list(_ways(a, b))
    num_compared, voters = len(anchors) * len(frames_b), anchors
    if num_compared > _MAX_COMPARED_ALL_WAYS:
        found = _joined_votes(a, b, ways, frames_a, frames_b, radius)
        ways, voters = [one.way for one in _distinct(found)[:_NUM_TRIED]], frames_a
    if len(frames_a) <= _MAX_FRAMES_BY_ANCHORS and num_compared <= _MAX_COMPARED:
        found, voters = [_votes(a, b, way, _all_near(anchors, frames_b), radius) for way in ways], anchors
    lines = []
    worth = float(_worths(a, voters).sum())
    for way, _, left, right, weights in _distinct(found)[:_NUM_TRIED]:
        lines += _moving_lines(a, b, way)
        for speed, shift in _diagonals(left, right, weights, worth):
            is_near = np.abs(right - speed * left - shift) <= 1.5
            if len(np.unique(left[is_near])) >= min(_MIN_VOTERS, 0.5 * len(voters)):
                lines.append(Line(way, speed, shift))
    return lines


def _distinct(found: list[_Votes]) -> list[_Votes]:
    """The best of the ways that lay one film on the other alike, best first: the same window of both is one way."""
    best: dict[Way, _Votes] = {}
    for one in sorted((one for one in found if len(one.left)), key=lambda one: -one.quality):
        way = one.way
        is_same = way.window_b == counterpart(way.window_a, way.is_mirrored)
        key = way._replace(window_a=0, window_b=0) if is_same else way
        # the whole picture has most to say, where nothing covers a part of it
        if key not in best or (way == key and one.quality >= _NEARLY * best[key].quality):
            best[key] = one
    return list(best.values())


def _all_near(frames_a: Positions, frames_b: Positions) -> tuple[Positions, Positions]:
    """Every frame of the one with every frame of the other."""
    return np.repeat(frames_a, len(frames_b)), np.tile(frames_b, len(frames_a))


def _joined_votes(
    a: Film, b: Film, ways: list[Way], frames_a: Positions, frames_b: Positions, radius: int
) -> list[_Votes]:
    """The votes of frames that agree in all bits that a mirror image leaves alone: of films of any length."""
    ordered: dict[tuple[int, int], tuple[NDArray[np.uint64], Positions]] = {}
    found = []
    for way in ways:
        place = (way.view_b, way.window_b)
        if place not in ordered:
            codes = b.hashes_VNW[way.view_b, frames_b, way.window_b] & EVEN
            order = np.argsort(codes, kind="stable")
            ordered[place] = codes[order], order
        codes, order = ordered[place]
        wanted = a.hashes_VNW[way.view_a, frames_a, way.window_a] & EVEN
        first, last = np.searchsorted(codes, wanted, "left"), np.searchsorted(codes, wanted, "right")
        # of a picture that stands still a few frames, evenly chosen, say as much as all
        num = np.minimum(last - first, _MAX_EQUAL)
        within = np.arange(num.sum()) - np.repeat(np.cumsum(num) - num, num)
        rows = np.repeat(first, num) + within * np.repeat((last - first) // np.maximum(num, 1), num)
        found.append(_votes(a, b, way, (np.repeat(frames_a, num), frames_b[order[rows]]), radius))
    return found


def _votes(a: Film, b: Film, way: Way, pairs: tuple[Positions, Positions], radius: int) -> _Votes:
    """The pairs of frames that match; pairs of one frame of `a` stand together."""
    left, right = pairs
    others = b.hashes_VNW[way.view_b, right, way.window_b] ^ (MIRROR if way.is_mirrored else np.uint64(0))
    bits = np.bitwise_count(a.hashes_VNW[way.view_a, left, way.window_a] ^ others)
    near = bits <= radius
    left, right, bits = left[near], right[near], bits[near].astype(np.int64)
    if not len(left):
        return _Votes(way, 0.0, left, right, np.empty(0))
    begins = np.flatnonzero(np.r_[True, left[1:] != left[:-1]])
    nearest, lengths = np.minimum.reduceat(bits, begins), np.diff(np.r_[begins, len(left)])
    weights = np.maximum(_CLOSE_BITS - bits + np.repeat(nearest, lengths), 0).astype(np.float64)
    weights *= np.repeat(_worths(a, left[begins]) / np.add.reduceat(weights, begins), lengths)
    kept = weights > 0
    return _Votes(way, float((radius + 1 - nearest).sum()), left[kept], right[kept], weights[kept])


def _worths(film: Film, frames: NDArray[np.int64]) -> NDArray[np.float64]:
    """What the vote of each frame counts."""
    most = film.moved_N.max()
    return _STILL_WORTH + film.moved_N[frames] / most if most else np.ones(len(frames))


def _diagonals(
    left: Positions, right: Positions, weights: NDArray[np.float64], all_votes: float
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
    if len(a.moved_N) * len(b.moved_N) > _MAX_MOVING:
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
    left: Positions, right: Positions, weights: NDArray[np.float64], speed: float
) -> tuple[float, float, float | None]:
    """(votes for the best shift, that shift, the next best one that is not next to it)."""
    shifts = np.round(right - speed * left).astype(np.int64)
    low = int(shifts.min())
    counts = np.bincount(shifts - low, weights=weights)
    near = np.convolve(counts, np.ones(3), "same") if len(counts) > 2 else counts
    at = int(np.argmax(near))
    votes = float(near[at])
    near[max(0, at - 2) : at + 3] = 0.0
    second = int(np.argmax(near))
    return votes, float(at + low), float(second + low) if near[second] > 0.5 * votes else None

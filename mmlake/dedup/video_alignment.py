"""Which part of one film is which part of another: shift, speed, mirror image and window, found by votes of frames.

Enters: the hashes and luma of two films. Leaves: the part that both have in common, how alike it is, and how much of
each film it is. Frames that match are no proof: two clips of one signer before one wall have frames within 8 bits of
each other, but other movements; so what moves must correlate.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup import perceptual
from mmlake.dedup.settings import DedupSettings
from mmlake.dedup.video_hashes import BLANK_STD, MIRROR, WINDOWS

# A, B frames of the shorter and of the longer film; N frames that are aligned
_NUM_ANCHORS = 128  # frames of the shorter film that vote: evenly chosen, and of films of any length as many
_MAX_LOOKS = 1 << 25  # pairs of frames compared for one pair of films
_SPEEDS = tuple(float(speed) for speed in np.round(2.0 ** (np.arange(-24, 25) / 24), 4))  # 3 % apart, half to double
_MIN_VOTERS = 3  # anchors; a frame or two of any long films match by chance
_CLOSE_BITS = 3  # beyond the nearest frame: what is further away is another moment of the same shot
_NUM_TRIED = 3  # alignments that are looked at in full
_SPEED_GAIN = 1.25  # of the votes, for another speed to be believed: of a picture that stands still any would do
_CERTAIN = 0.6  # of the anchors; where so many agree at the plain speed, no other is tried
_MAX_COMPARED = 2_048  # aligned frames whose movement is compared, evenly chosen
_STILL = 1.0  # luma levels: below it nothing moves that could distinguish two clips
_STILL_BITS = 4  # per frame then, instead of video_frame_bits
_MIN_MOVING_FRAMES = 6  # fewer samples correlate by chance


class Film(NamedTuple):
    """The prints of one unit."""

    hashes_VNW: NDArray[np.uint64]
    luma_VN64: NDArray[np.uint8]
    is_structured_N: NDArray[np.bool_]

    @classmethod
    def of(cls, hashes_VNW: NDArray[np.uint64], luma_VN64: NDArray[np.uint8]) -> Film:
        """The film, with the frames marked that are not blank."""
        return cls(hashes_VNW, luma_VN64, luma_VN64[0].std(axis=1) >= BLANK_STD)


class Way(NamedTuple):
    """Which view and window of one film is which of the other, and whether it is mirrored."""

    view_a: int
    window_a: int
    view_b: int
    window_b: int
    is_mirrored: bool


class Part(NamedTuple):
    """What two films have in common."""

    score: float  # 0..1: the smaller of the matching share and the correlation of what moves
    span_a: tuple[int, int]  # frames: first, behind the last
    span_b: tuple[int, int]
    covered_a: float  # fraction of the frames that are not blank
    covered_b: float
    num_frames: int  # aligned ones that are not blank
    is_mirrored: bool


class _Line(NamedTuple):
    """Frame a of one film is frame speed * a + shift of the other."""

    way: Way
    speed: float
    shift: float


def common_part(a: Film, b: Film, *, settings: DedupSettings) -> Part | None:
    """The best part that the two films have in common; None where no frames agree on one. `a` is not longer."""
    best: Part | None = None
    for line in _lines(a, b, settings.video_frame_bits):
        part = _judged(a, b, _fitted(a, b, line, settings.video_frame_bits), settings)
        if part is not None and (best is None or part.score * part.num_frames > best.score * best.num_frames):
            best = part
    return best


def _ways(a: Film, b: Film) -> Iterator[Way]:
    for view_a in range(len(a.hashes_VNW)):
        for view_b in range(len(b.hashes_VNW)):
            for window in range(len(WINDOWS)):
                for is_mirrored in (False, True):
                    # a window beside the same one, where a logo or a caption covers the rest; else one beside all
                    yield Way(view_a, window, view_b, _beside(window, is_mirrored), is_mirrored)
                    if window:
                        yield Way(view_a, 0, view_b, window, is_mirrored)
                        yield Way(view_a, window, view_b, 0, is_mirrored)


def _beside(window: int, is_mirrored: bool) -> int:
    """The same window, seen in a mirror where asked for."""
    return {5: 6, 6: 5, 7: 8, 8: 7}.get(window, window) if is_mirrored else window


def _lines(a: Film, b: Film, radius: int) -> list[_Line]:
    """The alignments that most frames vote for, best first."""
    anchors = np.flatnonzero(a.is_structured_N)
    frames = np.flatnonzero(b.is_structured_N)
    if not len(anchors) or not len(frames):
        return []
    anchors = anchors[np.unique(np.linspace(0, len(anchors) - 1, min(_NUM_ANCHORS, len(anchors))).astype(int))]
    looks, found = 0, []
    for way in _ways(a, b):
        looks += len(anchors) * len(frames)
        if looks > _MAX_LOOKS and found:
            break
        votes = _votes(a, b, way, anchors, frames, radius)
        if votes is not None:
            found.append((way, *votes))
    lines = []
    for way, _, left, right, weights in sorted(found, key=lambda one: -one[1])[:_NUM_TRIED]:
        for votes, speed, shift in _diagonals(left, right, weights, len(anchors)):
            is_near = np.abs(right - speed * left - shift) <= 1.5
            if len(np.unique(left[is_near])) >= min(_MIN_VOTERS, 0.5 * len(anchors)):
                lines.append((votes, _Line(way, speed, shift)))
    return [line for _, line in sorted(lines, key=lambda one: -one[0])[:_NUM_TRIED]]


def _votes(
    a: Film, b: Film, way: Way, anchors: NDArray[np.int64], frames: NDArray[np.int64], radius: int
) -> tuple[float, NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]] | None:
    """(how well the anchors match, frames of a, the frames of b that match each, what each is worth): a frame that
    matches many says little."""
    hashes = a.hashes_VNW[way.view_a, anchors, way.window_a]
    others = b.hashes_VNW[way.view_b, frames, way.window_b] ^ (MIRROR if way.is_mirrored else np.uint64(0))
    bits = np.bitwise_count(hashes[:, None] ^ others[None, :])
    nearest = bits.min(axis=1)
    if not (nearest <= radius).any():
        return None
    at, other = np.nonzero(bits <= np.where(nearest <= radius, np.minimum(nearest + _CLOSE_BITS - 1, radius), -1)[:, None])
    weights = (_CLOSE_BITS - (bits[at, other] - nearest[at])).astype(np.float64)
    totals = np.bincount(at, weights=weights, minlength=len(anchors))
    quality = float((radius + 1 - nearest[nearest <= radius].astype(np.int64)).sum())
    return quality, anchors[at], frames[other], weights / totals[at]


def _diagonals(
    left: NDArray[np.int64], right: NDArray[np.int64], weights: NDArray[np.float64], num_anchors: int
) -> Iterator[tuple[float, float, float]]:
    """(support, speed, shift) of the best lines through the votes."""
    plain = _peak(left, right, weights, 1.0)
    yield plain
    if plain[0] < _CERTAIN * num_anchors:
        best = max((_peak(left, right, weights, speed) for speed in _SPEEDS), key=lambda one: one[0])
        if best[0] > _SPEED_GAIN * plain[0] + 1:
            yield best


def _peak(
    left: NDArray[np.int64], right: NDArray[np.int64], weights: NDArray[np.float64], speed: float
) -> tuple[float, float, float]:
    shifts = np.round(right - speed * left).astype(np.int64)
    low = int(shifts.min())
    counts = np.bincount(shifts - low, weights=weights)
    near = np.convolve(counts, np.ones(3), "same") if len(counts) > 2 else counts
    at = int(np.argmax(near))
    return float(near[at]), speed, float(at + low)


def _fitted(a: Film, b: Film, line: _Line, radius: int) -> _Line:
    """The line through the frames that match near it."""
    if line.speed == 1.0:
        return line
    frames = np.flatnonzero(a.is_structured_N)
    frames = frames[np.unique(np.linspace(0, len(frames) - 1, min(_MAX_COMPARED, len(frames))).astype(int))]
    steps = np.arange(-4, 5)
    for _ in range(3):
        places = np.round(line.speed * frames + line.shift).astype(np.int64)[:, None] + steps
        is_inside = (places >= 0) & (places < len(b.is_structured_N))
        bits = np.where(is_inside, _bits(a, b, line.way, frames[:, None], np.where(is_inside, places, 0)), 64)
        nearest = bits.min(axis=1)
        held = nearest <= radius
        if held.sum() < 4:
            return line
        # the middle of the frames that match equally well: a picture that stands still has many
        is_best = bits[held] == nearest[held][:, None]
        meets = (places[held] * is_best).sum(axis=1) / is_best.sum(axis=1)
        speed, shift = np.polyfit(frames[held], meets, 1)
        if not 0.4 < speed < 2.5:
            return line
        line = _Line(line.way, float(speed), float(shift))
    return line


def _bits(a: Film, b: Film, way: Way, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
    others = b.hashes_VNW[way.view_b, right, way.window_b] ^ (MIRROR if way.is_mirrored else np.uint64(0))
    return np.bitwise_count(a.hashes_VNW[way.view_a, left, way.window_a] ^ others).astype(np.int64)


def _judged(a: Film, b: Film, line: _Line, settings: DedupSettings) -> Part | None:
    """The longest stretch of the line that matches, and how alike it is."""
    left = np.arange(len(a.is_structured_N))
    right = np.round(line.speed * left + line.shift).astype(np.int64)
    is_inside = (right >= 0) & (right < len(b.is_structured_N))
    left, right = left[is_inside], right[is_inside]
    if not len(left):
        return None
    bits = _bits(a, b, line.way, left, right)
    structured = a.is_structured_N[left] | b.is_structured_N[right]
    stretch = _densest(np.where(structured, np.where(bits <= settings.video_frame_bits, 1, -1), 0))
    left, right, bits, structured = left[stretch], right[stretch], bits[stretch], structured[stretch]
    num = int(structured.sum())
    if not num:
        return None
    span_a, span_b = (int(left[0]), int(left[-1]) + 1), (int(right[0]), int(right[-1]) + 1)
    return Part(
        score=_likeness(a, b, line.way, left[structured], right[structured], bits[structured], settings),
        span_a=span_a, span_b=span_b, num_frames=num, is_mirrored=line.way.is_mirrored,
        covered_a=_covered(a, span_a), covered_b=_covered(b, span_b),
    )  # fmt: skip


def _densest(gains: NDArray[np.int64]) -> slice:
    """The stretch with the largest sum (Kadane)."""
    sums = np.concatenate(([0], np.cumsum(gains)))
    lowest = np.minimum.accumulate(sums)
    end = int(np.argmax(sums - lowest))
    start = int(np.flatnonzero(sums[: end + 1] == lowest[end])[-1])
    return slice(start, end)


def _covered(film: Film, span: tuple[int, int]) -> float:
    return float(film.is_structured_N[slice(*span)].sum() / max(1, film.is_structured_N.sum()))


def _likeness(
    a: Film,
    b: Film,
    way: Way,
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    bits: NDArray[np.int64],
    settings: DedupSettings,
) -> float:
    """0..1 of aligned frames with structure."""
    chosen = np.unique(np.linspace(0, len(left) - 1, min(_MAX_COMPARED, len(left))).astype(int))
    luma_a = a.luma_VN64[way.view_a, left[chosen]].astype(np.float64) @ _resampled(way.window_a, False).T
    luma_b = b.luma_VN64[way.view_b, right[chosen]].astype(np.float64) @ _resampled(way.window_b, way.is_mirrored).T
    stage = perceptual.correlations(luma_a.mean(axis=0), luma_b.mean(axis=0))
    if float(stage) < settings.image_luma_correlation:  # the same movement before another background
        return 0.0
    moving_a, moving_b = _movement(luma_a), _movement(luma_b)
    strength = max(float(np.sqrt((moving**2).mean())) for moving in (moving_a, moving_b))
    if strength < _STILL or len(left) < _MIN_MOVING_FRAMES:
        return float((bits <= _STILL_BITS).mean())
    matching = float((bits <= settings.video_frame_bits).mean())
    return max(0.0, min(matching, float(perceptual.correlations(moving_a.ravel(), moving_b.ravel()))))


@lru_cache(maxsize=32)
def _resampled(window: int, is_mirrored: bool) -> NDArray[np.float64]:
    """What makes of the 8x8 luma of a picture that of a window of it, of shape (64, 64)."""
    rect = WINDOWS[window]
    down, across = _between(rect.top, rect.bottom), _between(rect.left, rect.right)
    return np.kron(down, across[::-1] if is_mirrored else across)


def _between(low: float, high: float) -> NDArray[np.float64]:
    """Linear interpolation of eight cells at the middles of the eight cells of a part, of shape (8, 8)."""
    places = np.clip(8 * (low + (high - low) * (np.arange(8) + 0.5) / 8) - 0.5, 0, 7)
    weights: NDArray[np.float64] = np.maximum(0.0, 1 - np.abs(places[:, None] - np.arange(8)))
    return weights


def _movement(luma_N64: NDArray[np.float64]) -> NDArray[np.float64]:
    """What differs from the clip's mean frame, brightness changes of the whole frame taken out."""
    values = luma_N64 - luma_N64.mean(axis=1, keepdims=True)
    movement: NDArray[np.float64] = values - values.mean(axis=0)
    return movement

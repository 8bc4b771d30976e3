"""Which part of one film is which part of another: shift, speed, mirror image and window, found by votes of frames.

Enters: the hashes and luma of two films. Leaves: the part that both have in common, how alike it is, and how much of
each film it is. Frames that match are no proof: two clips of one signer before one wall have frames within 8 bits of
each other, but other movements; so what moves must correlate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.image import perceptual
from mmlake.dedup.settings import DedupSettings
from mmlake.dedup.video.hashes import MIRROR
from mmlake.dedup.video.luma import between_frames, counterpart, movement, quieted, resampled, smoothed
from mmlake.dedup.video.votes import MOVED, Film, Line, Way, line_like, lines_of, plain_lines_of

_POLISHED = 0.3  # from this score on, where frames agree and movement does not, the line is moved and turned a little
_MOVES, _TURNS = (0.0, -0.5, 0.5, -1.0, 1.0, -1.5, 1.5), (1.0, 0.96, 1.04, 0.92, 1.08)
_MOST_PARTS = 6  # of one film that are sought in another
_SURE = 0.9  # score of a copy whose alignment needs no search
_WHOLE = 0.95  # of the shorter film; where so much is found, no other alignment is tried
_MAX_COMPARED = 2_048  # aligned frames whose movement is compared, evenly chosen
# of samples of luma: in a clip with fewer that have moved, nothing moves that could distinguish it from another
_MOVED_FRACTION = 0.002
_MOVED_SLACK = 0.1  # of all movement: one frame with a lot of it may be missing
# correlation of mean luma, in place of image_luma_correlation, where both are blurred and the hashes are not close
_SMOOTHED_STAGE, _CLOSE_BITS = 0.95, 5
STILL_BITS = 4  # per frame then, instead of video_frame_bits
_MIN_MOVING_FRAMES = 6  # fewer samples correlate by chance


class Part(NamedTuple):
    """What two films have in common."""

    score: float  # 0..1: the smaller of the matching share and the correlation of what moves
    span_a: tuple[int, int]  # frames: first, behind the last
    span_b: tuple[int, int]
    covered_a: float  # fraction of the frames that are not blank, or of what moves where that is less
    covered_b: float
    num_frames: int  # aligned ones that are not blank
    is_mirrored: bool
    is_plain: bool  # picture on picture at one speed: the alignment was not searched for in many ways
    is_still: bool  # nothing moves in it that could distinguish it from another
    line: Line


def common_part(a: Film, b: Film, *, settings: DedupSettings) -> Part | None:
    """The best part that the two films have in common; None where no frames agree on one. `a` is not longer."""
    best: Part | None = None
    for line in plain_lines_of(a, b, settings.video_frame_bits):
        part = _judged(a, b, line, settings)
        if part is not None and part.score >= _SURE and min(part.covered_a, part.covered_b) >= _WHOLE:
            return part
    for line in lines_of(a, b, settings.video_frame_bits):
        line = _fitted(a, b, line, settings.video_frame_bits)
        part = _judged(a, b, line, settings)
        if part is not None and _POLISHED <= part.score < settings.video_match:
            part = max((_judged(a, b, one, settings) or part for one in _around(line, part)), key=_worth)
        if part is not None and (best is None or _worth(part) > _worth(best)):
            best = part
        if best is not None and best.score >= settings.video_match and best.covered_a >= _WHOLE:
            break
    return best


def parts_in(a: Film, b: Film, *, settings: DedupSettings, least: int) -> list[Part]:
    """What the first film has in common with the other, in several parts: the best one, and others of at least so many
    frames laid on it in the same way, earlier or later."""
    best = common_part(a, b, settings=settings)
    if best is None or best.score < settings.video_match or best.is_still:
        return []
    found, rest = [best], [(0, best.span_a[0]), (best.span_a[1], len(a.moved_N))]
    while rest and len(found) < _MOST_PARTS:
        first, end = rest.pop(0)
        if end - first < least:
            continue
        piece = a.cut(first, end)
        line = line_like(piece, b, best.line, settings.video_frame_bits)
        part = None if line is None else _judged(piece, b, line, settings)
        if part is None or part.score < settings.video_match or part.is_still or part.num_frames < least:
            continue
        low, high = part.span_a[0] + first, part.span_a[1] + first
        found.append(part._replace(span_a=(low, high)))
        rest += [(first, low), (high, end)]
    return found


def covered_by(film: Film, parts: Sequence[Part]) -> float:
    """The share of the film that lies in the parts, as `Part.covered_a` of one."""
    is_in = np.zeros(len(film.adds_N), np.bool_)
    for part in parts:
        is_in[slice(*part.span_a)] = True
    return _share(film, is_in)


def _worth(part: Part) -> float:
    return part.score * (part.covered_a + part.covered_b)


def _around(line: Line, part: Part) -> Iterator[Line]:
    """The line, and lines near it that cross near the middle of the part."""
    middle = (part.span_a[0] + part.span_a[1]) / 2
    for turn in _TURNS:
        speed = line.speed * turn
        for move in _MOVES:
            yield Line(line.way, speed, line.speed * middle + line.shift + move - speed * middle)


def _fitted(a: Film, b: Film, line: Line, radius: int) -> Line:
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
        line = Line(line.way, float(speed), float(shift))
    return line


def _bits(a: Film, b: Film, way: Way, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
    others = b.hashes_VNW[way.view_b, right, way.window_b] ^ (MIRROR if way.is_mirrored else np.uint64(0))
    bits: NDArray[np.int64] = np.bitwise_count(a.hashes_VNW[way.view_a, left, way.window_a] ^ others).astype(np.int64)
    return bits


def _judged(a: Film, b: Film, line: Line, settings: DedupSettings) -> Part | None:
    """The longest stretch of the line that matches, and how alike it is."""
    left = np.arange(len(a.is_structured_N))
    places = (line.speed * left + line.shift).astype(np.float64)
    right = np.round(places).astype(np.int64)
    is_inside = (right >= 0) & (right < len(b.is_structured_N))
    left, right, places = left[is_inside], right[is_inside], places[is_inside]
    if not len(left):
        return None
    bits = _bits(a, b, line.way, left, right)
    # the two grids may be half a step apart, in which much can move
    for step in (-1, 1):
        neighbour = np.clip(right + step, 0, len(b.is_structured_N) - 1)
        bits = np.minimum(bits, _bits(a, b, line.way, left, neighbour))
    structured = a.is_structured_N[left] | b.is_structured_N[right]
    stretch = _densest(np.where(structured, np.where(bits <= settings.video_frame_bits, 1, -1), 0))
    left, right, bits, structured = left[stretch], right[stretch], bits[stretch], structured[stretch]
    places = places[stretch]
    num = int(structured.sum())
    if not num:
        return None
    span_a, span_b = (int(left[0]), int(left[-1]) + 1), (int(right[0]), int(right[-1]) + 1)
    score, is_still = _likeness(a, b, line.way, left[structured], places[structured], bits[structured], settings)
    return Part(
        score=score, is_still=is_still, line=line,
        span_a=span_a, span_b=span_b, num_frames=num, is_mirrored=line.way.is_mirrored,
        covered_a=_covered(a, span_a), covered_b=_covered(b, span_b),
        is_plain=line.way.window_a == line.way.window_b == 0 and line.speed == 1.0 and line.shift.is_integer(),
    )  # fmt: skip


def _densest(gains: NDArray[np.int64]) -> slice:
    """The stretch with the largest sum (Kadane)."""
    sums = np.concatenate(([0], np.cumsum(gains)))
    lowest = np.minimum.accumulate(sums)
    end = int(np.argmax(sums - lowest))
    start = int(np.flatnonzero(sums[: end + 1] == lowest[end])[-1])
    return slice(start, end)


def _covered(film: Film, span: tuple[int, int]) -> float:
    """The share of the film that lies in the span: of an empty road with one car, the empty part is not most of it, and
    a picture frozen at an end is no part of what there is to cover."""
    is_in = np.zeros(len(film.adds_N), np.bool_)
    is_in[slice(*span)] = True
    return _share(film, is_in)


def _share(film: Film, is_in: NDArray[np.bool_]) -> float:
    frames = float(film.adds_N[is_in].sum() / max(1, film.adds_N.sum()))
    moved = np.where(film.adds_N, film.moved_N, 0.0)
    total = moved.sum()
    return min(frames, float(moved[is_in].sum() / total) + _MOVED_SLACK) if total else frames


def _likeness(
    a: Film,
    b: Film,
    way: Way,
    left: NDArray[np.int64],
    places: NDArray[np.float64],
    bits: NDArray[np.int64],
    settings: DedupSettings,
) -> tuple[float, bool]:
    """(0..1 of aligned frames with structure, whether nothing moves in them)."""
    chosen = np.unique(np.linspace(0, len(left) - 1, min(_MAX_COMPARED, len(left))).astype(int))
    luma_a = a.luma_VN64[way.view_a, left[chosen]].astype(np.float64) @ resampled(way.window_a, False).T
    luma_b = between_frames(b.luma_VN64[way.view_b], places[chosen]) @ resampled(way.window_b, way.is_mirrored).T
    least = settings.image_luma_correlation
    if way.window_b != counterpart(way.window_a, way.is_mirrored):
        luma_a, luma_b, least = (
            luma_a @ smoothed(),
            luma_b @ smoothed(),
            _SMOOTHED_STAGE if np.median(bits) > _CLOSE_BITS else least,
        )
    stage = perceptual.correlations(luma_a.mean(axis=0), luma_b.mean(axis=0))
    if float(stage) < least:  # the same movement before another background
        return 0.0, False
    moving_a, moving_b = movement(luma_a), movement(luma_b)
    has_moved = max(float((np.abs(moving) > MOVED).mean()) for moving in (moving_a, moving_b)) >= _MOVED_FRACTION
    if not has_moved or len(left) < _MIN_MOVING_FRAMES:
        return float((bits <= STILL_BITS).mean()), not has_moved
    moving_a, moving_b = quieted(moving_a), quieted(moving_b)
    matching = float((bits <= settings.video_frame_bits).mean())
    return max(0.0, min(matching, float(perceptual.correlations(moving_a.ravel(), moving_b.ravel())))), False

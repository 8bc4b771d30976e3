"""Where one slide gives way to the next: two pictures that stand still, of which neither has what the other shows.

Enters: what is held of the frames of a film. Leaves: where boundaries are. Slides share their ground, so that few grey
levels change and little of the picture does; but what was written is gone, while a bullet, a window or a line of a
terminal that is added leaves it there, and so does a camera that never moves, whatever passes it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from mmlake.preprocess.visual.planes import NUM_LUMA

# T frames, N entries of a shot vector, H W height and width of a picture
_OTHER_LEVELS = 6  # grey levels by which a cell is another one, as for cuts
_MOST_OTHERS = 0.05  # of the cells: a pointer, a speaker in a corner
_LEAST_S, _LEAST_FRAMES = 1.0, 3  # that a slide stands
_EDGE_LEVELS = 24  # from one pixel to the one behind the next
_KEPT = 0.5  # of a step that is still there, in the same direction: darker is not another one
_LEAST_EDGES = 0.005  # of the pixels: an empty slide, a title on its own, a black picture say nothing
_MOST_KEPT = 0.5  # of the edges of either; a template, a logo and the lines that text stands on stay
_BOTH = 0.15  # of the way from one slide to the next, at either end, is no mixture: a pointer moves as well
_REACH_PX = 4  # the same picture a little aside is a hand that shakes
_SCROLLED = 1 / 3  # of the height: a page that goes up or down shows what it showed


def slide_changes(
    times_T: NDArray[np.float64],
    vectors_TN: NDArray[np.uint8],
    pictures: list[tuple[float, NDArray[np.uint8]]],
    *,
    longest_s: float,
) -> Iterator[tuple[int, int, int]]:
    """(first frame that is more of the next slide than of the one before, first frame of the next one alone, how many
    show both) of each change, between slides that are at most so many seconds apart, or a frame. pictures: (time, luma
    about 160 px wide) in order."""
    stands = list(_stands(times_T, vectors_TN[:, :NUM_LUMA]))
    at_S = np.array([time_s for time_s, _ in pictures])
    for (first, before), (after, last) in zip(stands, stands[1:], strict=False):
        if after - before > 2 and times_T[after] - times_T[before] > longest_s:
            continue
        # a slow fade leaves its ends late: what is well within both is one slide alone
        old = max(first, int(np.searchsorted(times_T, times_T[before] - _LEAST_S, side="right")) - 1)
        new = min(last, int(np.searchsorted(times_T, times_T[after] + _LEAST_S)))
        one = int(np.searchsorted(at_S, times_T[old] + 1e-6)) - 1
        other = int(np.searchsorted(at_S, times_T[new] - 1e-6))
        if 0 <= one < other < len(pictures) and _is_other(pictures[one][1], pictures[other][1]):
            yield _change(vectors_TN[old : new + 1, :NUM_LUMA], old)


def _change(luma_TN: NDArray[np.uint8], offset: int) -> tuple[int, int, int]:
    """What `slide_changes` gives, of frames from one slide to the next; offset: the number of the first."""
    way_N = luma_TN[-1].astype(np.float32) - luma_TN[0]
    share_T = (luma_TN.astype(np.float32) - luma_TN[0]) @ way_N / max(float(way_N @ way_N), 1.0)
    middle, settled = int(np.argmax(share_T > 0.5)), int(np.argmax(share_T > 1 - _BOTH))
    num_both = int(((share_T > _BOTH) & (share_T < 1 - _BOTH)).sum())
    return offset + middle, offset + max(middle, settled), num_both


def _stands(times_T: NDArray[np.float64], luma_TN: NDArray[np.uint8]) -> Iterator[tuple[int, int]]:
    """(first, last) frame of each stretch in which hardly a cell leaves the value that it begins with."""
    first = 0
    for at in range(1, len(luma_TN) + 1):
        if at < len(luma_TN):
            apart_N = np.abs(luma_TN[at].astype(np.int16) - luma_TN[first])
            if int((apart_N > _OTHER_LEVELS).sum()) <= _MOST_OTHERS * len(apart_N):
                continue
        if at - first >= _LEAST_FRAMES and times_T[at - 1] - times_T[first] >= _LEAST_S:
            yield first, at - 1
        first = at


def _is_other(before_HW: NDArray[np.uint8], after_HW: NDArray[np.uint8]) -> bool:
    """Whether most edges of either picture are not in the other."""
    if before_HW.shape != after_HW.shape:
        return True
    before, after = _steps(before_HW), _steps(after_HW)
    return _kept(before, after) < _MOST_KEPT and _kept(after, before) < _MOST_KEPT


def _steps(luma_HW: NDArray[np.uint8]) -> NDArray[np.float32]:
    """The steps to the right and down, shape (2, H - 2, W - 2)."""
    luma = luma_HW.astype(np.float32)
    return np.stack([luma[1:-1, 2:] - luma[1:-1, :-2], luma[2:, 1:-1] - luma[:-2, 1:-1]])


def _kept(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    """Share of the edges of one that the other has, a few pixels aside or scrolled; 1 where they are too few."""
    squares_HW = (one**2).sum(axis=0)
    is_edge_HW = squares_HW > _EDGE_LEVELS**2
    if is_edge_HW.sum() < _LEAST_EDGES * is_edge_HW.size:
        return 1.0
    scrolled = int(_SCROLLED * is_edge_HW.shape[0])
    near = range(-_REACH_PX, _REACH_PX + 1, 2)
    shifts = {(down, aside) for down in near for aside in near} | {(down, 0) for down in range(-scrolled, scrolled + 1)}
    most = 0.0
    for shift in shifts:
        moved = np.roll(other, shift, axis=(1, 2))
        is_kept_HW = (one * moved).sum(axis=0) > _KEPT * squares_HW
        most = max(most, float((is_kept_HW & is_edge_HW).sum() / is_edge_HW.sum()))
    return most

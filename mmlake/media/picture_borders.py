"""What was put around a picture: borders of one level, and bars that hold a caption.

Enters: a grey plane of at least some hundred pixels, H high and W wide. Leaves: boxes of what lies inside, in fractions
of the sides. A guess: who uses it compares what lies inside with another picture, or takes it for one sign of several.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_BORDER_LEVELS, _BORDER_SHARE = (
    12,
    0.97,
)  # grey levels around the ground that is bordered on, share of a border's pixels
_BAR_LEVELS, _BAR_SHARE = 14, 0.5  # the same of a bar: the other half may be letters
_BAR_STEP, _BAR_STEP_SHARE = 10, 0.5  # grey levels between a bar and the picture, share of the pixels along its edge
_LONGEST_BAR, _SHORTEST_BAR = 0.4, 0.03  # of the side
_LEAST_CONTENT = 0.4  # of the side; what is bordered more than that is a picture of few things on a ground

Box = tuple[float, float, float, float]  # top, bottom, left, right; fractions of the sides
WHOLE: Box = (0.0, 1.0, 0.0, 1.0)


def cut(plane_HW: NDArray[Any], box: Box) -> NDArray[Any]:
    """What lies in the box, a row and a column at least."""
    height, width = plane_HW.shape
    top, bottom, left, right = box
    low, high = int(round(top * height)), int(round(bottom * height))
    first, last = int(round(left * width)), int(round(right * width))
    return plane_HW[low : max(high, low + 1), first : max(last, first + 1)]


def content(plane_HW: NDArray[Any]) -> Box:
    """What lies inside borders of one level: letterbox, pillarbox, frame."""
    top, bottom = _between(_border(plane_HW), _border(plane_HW[::-1]))
    sides = cut(plane_HW, (top, bottom, 0.0, 1.0)).T
    left, right = _between(_border(sides), _border(sides[::-1]))
    if (left, right) != (0.0, 1.0) and (top, bottom) == (0.0, 1.0):
        inner = cut(plane_HW, (0.0, 1.0, left, right))
        top, bottom = _between(_border(inner), _border(inner[::-1]))
    return top, bottom, left, right


def framed(plane_HW: NDArray[Any]) -> Box:
    """What lies inside what was put around the picture: borders and caption bars that end in an edge along the whole
    side. The white that a thing was photographed on ends in none: it is the picture's own."""
    box = content(plane_HW)
    above, below = (before if _is_edge(rows, before) else 0.0 for rows, before in _sides(plane_HW, box[0], 1 - box[1]))
    inner = cut(plane_HW, (above, 1 - below, 0.0, 1.0)).T
    left, right = (before if _is_edge(rows, before) else 0.0 for rows, before in _sides(inner, box[2], 1 - box[3]))
    around = above, 1 - below, left, 1 - right
    within = bars(cut(plane_HW, around))
    height, width = around[1] - around[0], around[3] - around[2]
    return (
        around[0] + within[0] * height,
        around[0] + within[1] * height,
        around[2] + within[2] * width,
        around[2] + within[3] * width,
    )


def _sides(rows_HW: NDArray[Any], before: float, behind: float) -> list[tuple[NDArray[Any], float]]:
    return [(rows_HW, before), (rows_HW[::-1], behind)]


def _is_edge(rows_HW: NDArray[Any], before: float) -> bool:
    """Whether the picture that begins behind so much of the height differs from its border along its whole side."""
    first = int(round(before * len(rows_HW)))
    if not 0 < first < len(rows_HW):
        return False
    # a resized or coded edge takes two rows
    behind = rows_HW[min(first + 1, len(rows_HW) - 1)].astype(np.int16)
    return float((np.abs(behind - _ground(rows_HW)) > _BAR_STEP).mean()) >= _BAR_STEP_SHARE


def _between(before: float, behind: float) -> tuple[float, float]:
    return (0.0, 1.0) if 1 - behind - before < _LEAST_CONTENT else (before, 1 - behind)


def _border(rows_HW: NDArray[Any]) -> float:
    """Fraction of the height that the border at the top takes."""
    ground = _ground(rows_HW)
    return _first_other(rows_HW, ground, levels=_BORDER_LEVELS, share=_BORDER_SHARE) / len(rows_HW)


def _ground(rows_HW: NDArray[Any]) -> int:
    """The median level of the first row, without what is behind its point (a tenth of what numpy's takes)."""
    ranked = np.sort(rows_HW[0])
    return int((float(ranked[(len(ranked) - 1) // 2]) + float(ranked[len(ranked) // 2])) / 2)


def _first_other(rows_HW: NDArray[Any], ground: int, *, levels: int, share: float) -> int:
    """The first row of which less than the share lies around the ground; the number of rows where there is none."""
    first, num = 0, 8
    while first < len(rows_HW):  # most pictures say so in the first rows
        rows = rows_HW[first : first + num].astype(np.int16)
        is_ground = np.abs(rows - ground) <= levels
        others = np.flatnonzero(np.count_nonzero(is_ground, axis=1) / is_ground.shape[1] < share)
        if len(others):
            return first + int(others[0])
        first, num = first + num, 4 * num
    return len(rows_HW)


def bars(plane_HW: NDArray[Any]) -> Box:
    """What lies between bars that hold a caption: letters on a ground, and an edge along the whole side."""
    above, below = _bar(plane_HW), _bar(plane_HW[::-1])
    top, bottom = _between(above, below)
    sides = cut(plane_HW, (top, bottom, 0.0, 1.0)).T
    left, right = _between(_bar(sides), _bar(sides[::-1]))
    return top, bottom, left, right


def _bar(rows_HW: NDArray[Any]) -> float:
    """Fraction of the height that the caption bar at the top takes."""
    num = len(rows_HW)
    ground = _ground(rows_HW)
    rows = rows_HW[: max(1, int(num * _LONGEST_BAR))]
    length = _first_other(rows, ground, levels=_BAR_LEVELS, share=_BAR_SHARE)
    if length < num * _SHORTEST_BAR or length + 1 >= num:
        return 0.0
    steps = (np.abs(np.diff(rows_HW[: length + 2].astype(np.int16), axis=0)) > _BAR_STEP).mean(axis=1)
    edge = int(steps.argmax())
    if steps[edge] < _BAR_STEP_SHARE or edge + 1 < num * _SHORTEST_BAR:
        return 0.0
    return float((edge + 1) / num)

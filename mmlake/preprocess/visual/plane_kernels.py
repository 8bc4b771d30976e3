"""The loops over the pixels of every frame of a film, compiled by numba once per machine.

Enters: planes of decoded frames, and the small ones made of them. Leaves: small planes and numbers. What they mean
stands where they are asked for: `planes`, `picture_faults`, `shots`. Sums are of integers, or go in one order.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mmlake.numba_compiler import linked, made

# H height, W width of a plane; a shot vector has 27 x 48 entries of luma, and twice 9 x 16 of chroma


class Kernels(NamedTuple):
    """Compiled functions; their parameters stand at the Python functions of this file."""

    small: Callable[..., None]
    compare: Callable[..., None]
    changes: Callable[..., None]
    inspect: Callable[..., None]
    odd: Callable[..., int]


class Cells(NamedTuple):
    """How lines or columns become fewer, by area."""

    ends: np.ndarray  # int64 (num_out, 2): first and last line of each cell
    shares: np.ndarray  # float32 (num_out, 2): how much of both is in it; of one that is both, the first has it all


@functools.lru_cache(maxsize=256)
def cells(num_in: int, num_out: int) -> Cells:
    """The cells of one axis."""
    edges = np.arange(num_out + 1, dtype=np.float64) * num_in / num_out
    first = np.minimum(np.floor(edges[:-1] + 1e-9), num_in - 1).astype(np.int64)
    last = np.clip(np.ceil(edges[1:] - 1e-9).astype(np.int64) - 1, first, num_in - 1)
    of_first = np.where(last == first, edges[1:] - edges[:-1], first + 1 - edges[:-1])
    of_last = np.where(last == first, 0.0, edges[1:] - last)
    return Cells(np.stack([first, last], axis=1), np.stack([of_first, of_last], axis=1).astype(np.float32))


@functools.lru_cache(maxsize=1)
def kernels() -> Kernels:
    """The kernels; compiling them takes some seconds, once."""
    import numba

    u1, f4, f8, i8, none = numba.uint8, numba.float32, numba.float64, numba.int64, numba.void
    frozen, frozen1 = numba.types.Array(u1, 2, "C", readonly=True), numba.types.Array(u1, 1, "C", readonly=True)
    axes = 2 * (i8[:, ::1], f4[:, ::1])  # cells of lines and of columns
    inner = {one.__name__: numba.njit(one, nogil=True) for one in (_displaced, _edge, _below, _shrink, _gather, _moved)}
    entry = functools.partial(made, numba)
    return Kernels(
        small=entry(
            none(frozen, i8, *axes, u1, frozen, frozen, i8, i8, *axes, *axes, u1[:, ::1], u1[::1]),
            linked(_small, inner),
        ),
        compare=entry(
            none(frozen, frozen, frozen1, frozen1, f8[:, ::1], f8[:, ::1], f8, f8[::1]), linked(_compare, inner)
        ),
        changes=entry(none(frozen, f8[::1], f8[::1]), _changes),
        inspect=entry(none(frozen, i8, f8, i8, f8[::1]), linked(_inspect, inner)),
        odd=entry(i8(frozen1, frozen1, frozen1, i8, i8, numba.boolean[::1]), _odd),
    )


def _small(
    luma: Any, width: Any, rows: Any, row_shares: Any, columns: Any, column_shares: Any, is_broadcast: Any,
    u: Any, v: Any, chroma_width: Any, step: Any, down: Any, down_shares: Any, across: Any, across_shares: Any,
    cell_rows: Any, cell_row_shares: Any, cell_columns: Any, cell_column_shares: Any, out: Any, vector: Any,
) -> None:  # fmt: skip
    """Fill the small luma in full range, and the shot vector: its luma from that, and chroma from every `step`th line
    of both planes. The rest are lines, and the `cells` of the small luma, of chroma and of the vector's luma."""
    if luma.shape[0] == out.shape[0] and width == out.shape[1]:
        for y in range(out.shape[0]):
            for x in range(width):
                out[y, x] = luma[y, x]
    else:
        _shrink(luma, width, rows, row_shares, columns, column_shares, out)
    if is_broadcast:
        for y in range(out.shape[0]):
            for x in range(out.shape[1]):
                level = (np.float32(out[y, x]) - np.float32(16)) * np.float32(255 / 219) + np.float32(0.5)
                out[y, x] = np.uint8(min(max(level, np.float32(0)), np.float32(255)))
    _shrink(
        out, out.shape[1], cell_rows, cell_row_shares, cell_columns, cell_column_shares, vector[:1296].reshape(27, 48)
    )
    _gather(u, chroma_width, step, down, down_shares, across, across_shares, vector[1296:1440].reshape(9, 16))
    _gather(v, chroma_width, step, down, down_shares, across, across_shares, vector[1440:].reshape(9, 16))


def _shrink(plane: Any, width: Any, rows: Any, row_shares: Any, columns: Any, column_shares: Any, out: Any) -> None:
    """The means over cells of a plane that is not much larger than `out`."""
    num, factor = out.shape[1], np.float32(out.size / (plane.shape[0] * width))
    line, means = np.zeros(width + 2, np.float32), np.empty(num, np.float32)
    # a cell of up to three columns is a sum of three without a loop: most planes were halved before
    taps, is_narrow = np.zeros((3, num), np.float32), True
    for x in range(num):
        apart = columns[x, 1] - columns[x, 0]
        is_narrow = is_narrow and apart <= 2
        if is_narrow:
            taps[0, x], taps[1, x] = column_shares[x, 0], np.float32(1)
            taps[apart, x] = column_shares[x, 1] if apart else column_shares[x, 0]
            if not apart:
                taps[1, x] = 0
    for y in range(out.shape[0]):
        first, last = rows[y, 0], rows[y, 1]
        source, share = plane[first], row_shares[y, 0]
        for x in range(width):
            line[x] = share * np.float32(source[x])
        for row in range(first + 1, last):
            source = plane[row]
            for x in range(width):
                line[x] += np.float32(source[x])
        if last > first:
            source, share = plane[last], row_shares[y, 1]
            for x in range(width):
                line[x] += share * np.float32(source[x])
        if is_narrow:
            first_taps, second_taps, third_taps = taps[0], taps[1], taps[2]
            for x in range(num):
                left = columns[x, 0]
                means[x] = first_taps[x] * line[left] + second_taps[x] * line[left + 1] + third_taps[x] * line[left + 2]
        else:
            for x in range(num):
                left, right = columns[x, 0], columns[x, 1]
                means[x] = column_shares[x, 0] * line[left] + column_shares[x, 1] * line[right]
                for column in range(left + 1, right):
                    means[x] += line[column]
        for x in range(num):
            out[y, x] = np.uint8(np.int32(min(means[x] * factor + np.float32(0.5), np.float32(255.0))))


def _gather(
    plane: Any, width: Any, step: Any, rows: Any, row_shares: Any, columns: Any, column_shares: Any, out: Any
) -> None:
    """The means over cells of a plane that is much larger than `out`, of which every `step`th line is read: columns are
    added up as integers first. At most 256 lines are in a cell."""
    sums, line = np.empty(width, np.uint16), np.empty(width, np.int32)
    factor = out.size / (4096.0 * 4096.0 * ((plane.shape[0] + step - 1) // step) * width)
    for y in range(out.shape[0]):
        first, last = rows[y, 0], rows[y, 1]
        sums[:] = 0
        for row in range(first + 1, last):
            source = plane[row * step]
            for x in range(width):
                sums[x] += np.uint16(source[x])
        above, below = plane[first * step], plane[last * step]
        of_first, of_last = np.int32(4096 * row_shares[y, 0] + 0.5), np.int32(4096 * row_shares[y, 1] + 0.5)
        for x in range(width):
            line[x] = 4096 * np.int32(sums[x]) + of_first * np.int32(above[x]) + of_last * np.int32(below[x])
        for x in range(out.shape[1]):
            left, right = columns[x, 0], columns[x, 1]
            total = np.int64(0)
            for column in range(left + 1, right):
                total += line[column]
            total = 4096 * total + np.int64(4096 * column_shares[x, 0] + 0.5) * line[left]
            total += np.int64(4096 * column_shares[x, 1] + 0.5) * line[right]
            out[y, x] = np.uint8(min(total * factor + 0.5, 255.0))


COMPARED = (
    "mean", "deviation", "brightest", "change", "shift_x", "shift_y", "motion", "spoiled", "moved", "brighter",
)  # fmt: skip
_MOST_MOVED = 65  # of 1,296 cells: a small thing that moves is enough


def _compare(
    luma: Any, before: Any, vector: Any, vector_before: Any, profiles: Any, profiles_before: Any, reach: Any, out: Any
) -> None:
    """The numbers of COMPARED: of the luma and the shot vector of a frame, and of those of the frame before.

    profiles (2, longer side): filled with the means of columns and of rows. reach: displacement that is searched for,
    as a share of the side.
    """
    height, width = luma.shape
    total, squares, brightest, change = np.int64(0), np.int64(0), np.uint8(0), np.int64(0)
    columns = np.zeros(width, np.uint32)
    for y in range(height):
        row, row_before = luma[y], before[y]
        row_sum, row_squares, row_change = np.int32(0), np.int32(0), np.int32(0)
        for x in range(width):
            value = np.int32(row[x])
            row_sum += value
            row_squares += value * value
            row_change += abs(value - np.int32(row_before[x]))
        for x in range(width):
            brightest = max(brightest, row[x])
        for x in range(width):
            columns[x] += row[x]
        profiles[1, y] = row_sum / width
        total, squares, change = total + row_sum, squares + row_squares, change + row_change
    size = height * width
    mean = total / size
    out[0], out[1], out[2], out[3] = mean, np.sqrt(max(squares / size - mean * mean, 0.0)), brightest, change / size
    for x in range(width):
        profiles[0, x] = columns[x] / height
    out[4] = _displaced(profiles[0, :width], profiles_before[0, :width], reach)
    out[5] = _displaced(profiles[1, :height], profiles_before[1, :height], reach)
    steps = np.int32(0)
    for at in range(1296):
        steps += np.int32(vector[at]) - np.int32(vector_before[at])
    usual, moved = np.int32(np.rint(steps / 1296)), np.int32(0)
    for at in range(1296):
        moved += abs(np.int32(vector[at]) - np.int32(vector_before[at]) - usual)
    out[6] = moved / 1296
    num_spoiled = np.int32(0)
    for at in range(1296, 1296 + 144):  # U and V that no colour has
        num_spoiled += vector[at] < 48 and vector[at + 144] < 32
    out[7] = num_spoiled / 144
    out[8], out[9] = _moved(vector, vector_before)


def _moved(vector: Any, vector_before: Any) -> Any:
    """(mean change of the cells of luma that change most, median of the signed changes of all)."""
    counts = np.zeros(511, np.int32)  # of cells, for each step from -255 on
    for at in range(1296):
        counts[np.int32(vector[at]) - np.int32(vector_before[at]) + 255] += 1
    left, total, level = np.int64(_MOST_MOVED), np.int64(0), 255
    while left and level:
        num = min(left, np.int64(counts[255 + level] + counts[255 - level]))
        total, left, level = total + num * level, left - num, level - 1
    moved = total / _MOST_MOVED
    # the median lies between the two in the middle
    passed, at = np.int64(0), -1
    while passed < 648:
        at += 1
        passed += counts[at]
    above = at
    while passed < 649:
        above += 1
        passed += counts[above]
    return moved, (at + above) / 2 - 255


def _displaced(now: Any, then: Any, reach: Any) -> Any:
    """How many positions the profile went, to a fraction of one; 0 where no displacement explains its change."""
    far = max(2, int(np.rint(reach * len(now))))
    inner = len(now) - 2 * far
    if inner < 2 * far:
        return 0.0
    total, squares = 0.0, 0.0
    for at in range(far, far + inner):
        total += now[at]
        squares += now[at] * now[at]
    mean = total / inner
    energy = squares - total * mean
    if energy < 4.0 * inner:  # a standard deviation of two levels: nothing to follow
        return 0.0
    num, alikes, best = 2 * far + 1, np.zeros(2 * far + 1), 0
    dots, sums, squares_then = np.zeros(num), np.zeros(num), np.zeros(num)
    for at in range(inner):  # all shifts at once: in each, sums go in the order of positions
        value = now[far + at]
        for shift in range(num):
            old = then[shift + at]
            dots[shift] += old * value
            sums[shift] += old
            squares_then[shift] += old * old
    for shift in range(num):
        energy_then = squares_then[shift] - sums[shift] * sums[shift] / inner
        if energy_then > 1e-6 * inner:  # correlation, so that a change of light moves nothing
            alikes[shift] = (dots[shift] - sums[shift] * mean) / np.sqrt(energy_then * energy)
        if alikes[shift] > alikes[best]:
            best = shift
    if 1.0 - alikes[best] > 0.25 * (1.0 - alikes[far]):  # half of the change of the profile must vanish with it
        return 0.0
    offset = 0.0
    if 0 < best < 2 * far:
        curve = alikes[best - 1] - 2 * alikes[best] + alikes[best + 1]
        if curve < 0:
            offset = (alikes[best - 1] - alikes[best + 1]) / (2 * curve)
    return far - best - offset


def _changes(vectors: Any, changes: Any, contrasts: Any) -> None:
    """Of each shot vector but the first the mean absolute change of luma plus that of chroma, and of each the standard
    deviations of luma and both chroma planes, added; in grey levels."""
    for frame in range(vectors.shape[0]):
        vector, before = vectors[frame], vectors[max(frame - 1, 0)]
        change, contrast = 0.0, 0.0
        for part in range(3):
            start = 0 if part == 0 else 1296 + 144 * (part - 1)
            num = 1296 if part == 0 else 144
            total, squares, steps = np.int64(0), np.int64(0), np.int64(0)
            for at in range(start, start + num):
                value = np.int32(vector[at])
                total += value
                squares += value * value
                steps += abs(value - np.int32(before[at]))
            change += steps / num if part == 0 else steps / 288
            mean = total / num
            contrast += np.sqrt(max(squares / num - mean * mean, 0.0))
        changes[frame], contrasts[frame] = change, contrast


def _odd(before: Any, here: Any, behind: Any, levels: Any, ratio: Any, is_odd: Any) -> int:
    """How many entries of three shot vectors, of the first ones that `is_odd` has room for and is filled of, differ in
    the middle one by so many levels and more from both others, and so many times as much as these do."""
    num = 0
    for at in range(len(is_odd)):
        one, middle, other = np.int32(before[at]), np.int32(here[at]), np.int32(behind[at])
        least = min(abs(middle - one), abs(middle - other))
        is_odd[at] = least >= levels and least >= ratio * abs(one - other)
        num += is_odd[at]
    return num


INSPECTED = ("bar_top", "bar_bottom", "bar_left", "bar_right", "below", "across_above", "down_above", "sides_below",
             "mean_below", "spread_below", "bar_edge", "sides_above")  # fmt: skip


def _inspect(luma: Any, bar: Any, smear: Any, most: Any, out: Any) -> None:
    """The numbers of INSPECTED, of one luma plane: shares of black lines at its sides; the share, from its bottom up,
    whose lines repeat the one above; steps between neighbours, mean and spread of the parts above and below; and how
    much of the second lines inside of the black ones is not black.

    bar: brightest level of a black line. smear: step from line to line up to which it repeats the one above. most:
    levels for which a step along a line counts at most in `sides`.
    """
    height, width = luma.shape
    top, bottom, left, right = height, height, width, width
    for y in range(height):
        for x in range(width):
            if luma[y, x] > bar:
                top, bottom = min(top, y), height - 1 - y
                left = min(left, x)
                break
        for x in range(width - 1, width - 1 - right, -1):
            if luma[y, x] > bar:
                right = width - 1 - x
                break
    out[0], out[1], out[2], out[3] = top / height, bottom / height, left / width, right / width
    out[4:] = 0.0
    out[10] = _edge(luma, bar, top, bottom, left, right)
    lost = height - 1
    while lost > 0:
        steps = np.int32(0)
        for x in range(width):
            steps += abs(np.int32(luma[lost, x]) - np.int32(luma[lost - 1, x]))
        if steps > smear * width:
            break
        lost -= 1
    if lost and width > 1 and 4 <= lost + 1 <= height - 4:  # a single column has no steps across
        _below(luma, lost + 1, most, out)


def _edge(luma: Any, bar: Any, top: Any, bottom: Any, left: Any, right: Any) -> Any:
    """The smaller of two shares of cells that are not black: of those two lines inside of black ones, and of all inside
    (a frame that is drawn on black has nothing in it)."""
    height, width = luma.shape
    num, lit, inside = 0, 0, 0
    if top + bottom + 4 > height or left + right + 4 > width:
        return 0.0
    for x in range(left, width - right):
        num += (top > 0) + (bottom > 0)
        lit += (top > 0 and luma[top + 1, x] > bar) + (bottom > 0 and luma[height - bottom - 2, x] > bar)
    for y in range(top, height - bottom):
        num += (left > 0) + (right > 0)
        lit += (left > 0 and luma[y, left + 1] > bar) + (right > 0 and luma[y, width - right - 2] > bar)
        for x in range(left, width - right):
            inside += luma[y, x] > bar
    return min(lit / max(1, num), inside / ((height - top - bottom) * (width - left - right)))


def _below(luma: Any, begin: Any, most: Any, out: Any) -> None:
    """What `_inspect` says of a plane whose lines from `begin` on repeat the one above."""
    height, width = luma.shape
    across, sides, down = np.int64(0), np.int64(0), np.int64(0)
    for y in range(begin - 1):
        for x in range(1, width):
            step = abs(np.int64(luma[y, x]) - np.int64(luma[y, x - 1]))
            across += step
            sides += min(step, most)
    for y in range(1, begin - 1):
        for x in range(width):
            down += abs(np.int64(luma[y, x]) - np.int64(luma[y - 1, x]))
    out[4] = (height - begin) / height
    out[5], out[6] = across / ((begin - 1) * (width - 1)), down / ((begin - 2) * width)
    out[11] = sides / ((begin - 1) * (width - 1))
    sides, total, squares = np.int64(0), np.int64(0), np.int64(0)
    for y in range(begin, height):
        for x in range(width):
            value = np.int64(luma[y, x])
            total += value
            squares += value * value
            if x > 0:
                sides += min(abs(value - np.int64(luma[y, x - 1])), most)
    num = (height - begin) * width
    mean = total / num
    out[7] = sides / ((height - begin) * (width - 1))
    out[8], out[9] = mean, np.sqrt(max(squares / num - mean * mean, 0.0))

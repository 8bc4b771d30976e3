"""The loops over bands of lines in which the texture of a picture is measured, compiled by numba once per machine.

Enters: a luma plane at full size. Leaves: sums of steps between neighbours; what they mean stands in `texture_faults`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mmlake.numba_compiler import linked, made

# L lines of all bands, W columns, B halves of bands, of 8 lines


class TextureKernels(NamedTuple):
    """Compiled functions; their parameters stand at the Python functions of this file."""

    scan: Callable[..., None]
    scan_down: Callable[..., None]
    combs: Callable[..., float]
    signed_steps: Callable[..., None]
    steps_at: Callable[..., None]
    share_of: Callable[..., float]
    steps_at_cells: Callable[..., float]
    smoothness: Callable[..., float]


@functools.lru_cache(maxsize=1)
def texture_kernels() -> TextureKernels:
    """The kernels; compiling them takes some seconds, once."""
    import numba

    u1, f4, f8, i8, none = numba.uint8, numba.float32, numba.float64, numba.int64, numba.void
    frozen = numba.types.Array(u1, 2, "C", readonly=True)
    entry = functools.partial(made, numba)
    return TextureKernels(
        scan=entry(
            none(
                frozen,
                i8,
                i8[::1],
                i8[:, ::1],
                f4[:, ::1],
                f4[:, ::1],
                f4[:, ::1],
                f8[::1],
                f4[:, ::1],
            ),  # fmt: skip
            linked(_scan, {"_mean_of_tiles": numba.njit(_mean_of_tiles, nogil=True)}),
        ),
        combs=entry(f8(f4[:, ::1], f4), _combs),
        signed_steps=entry(none(frozen, i8, i8[::1], i8[::1], i8, f4[:, ::1], f4[:, ::1]), _signed_steps),
        scan_down=entry(none(frozen, i8[::1], f4[:, ::1]), _scan_down),
        steps_at=entry(none(f4[:, ::1], i8[::1], f4, f4, f4, f4, numba.int32[:, ::1]), _steps_at),
        share_of=entry(f8(numba.int32[::1], i8, f8, f8, f8), _share_of),
        steps_at_cells=entry(f8(f8[::1], f8[::1], i8, f8), _steps_at_cells),
        smoothness=entry(f8(frozen, i8, i8, f8), _smoothness),
    )


def _scan(
    luma: Any,
    width: Any,
    starts: Any,
    columns: Any,
    shares: Any,
    levels: Any,
    edges: Any,
    down: Any,
    noise: Any,
) -> None:
    """Fill, of bands of 16 lines that begin at `starts`:

    levels (B, W): mean of each column. edges (B, W - 1): mean step between neighbouring columns. down (L): mean step to
    the next line. noise (B, tiles): mean of the second difference along a line. columns, shares: of tiles
    (`plane_kernels.cells`).
    """
    line, sums, second = np.empty(width, np.int32), np.empty(width, np.int32), np.empty(width, np.int32)
    for band in range(len(starts)):
        begin = starts[band]
        for half in range(2):
            line[:] = 0
            sums[:] = 0
            second[:] = 0
            for at in range(begin + 8 * half, begin + 8 * half + 8):
                here, below = luma[at], luma[at + 1]
                for x in range(width):
                    sums[x] += np.int32(here[x])
                for x in range(width - 1):
                    line[x] += abs(np.int32(here[x + 1]) - np.int32(here[x]))
                for x in range(1, width - 1):
                    second[x] += abs(np.int32(here[x - 1]) - 2 * np.int32(here[x]) + np.int32(here[x + 1]))
                second[0] += 2 * abs(np.int32(here[1]) - np.int32(here[0]))  # mirrored at the sides
                second[width - 1] += 2 * abs(np.int32(here[width - 2]) - np.int32(here[width - 1]))
                total = np.int32(0)
                for x in range(width):
                    total += abs(np.int32(below[x]) - np.int32(here[x]))
                down[16 * band + at - begin] = total / width
            row = edges[2 * band + half]
            for x in range(width - 1):
                row[x] = np.float32(line[x]) * np.float32(0.125)
            for x in range(width):
                levels[2 * band + half, x] = np.float32(sums[x]) * np.float32(0.125)
            _mean_of_tiles(second, columns, shares, 8, noise[2 * band + half])


def _signed_steps(luma: Any, width: Any, rows: Any, columns: Any, most: Any, across: Any, down: Any) -> None:
    """Fill the mean steps to the next pixel along the picture, of which each counts for at most `most` levels: across
    (B, W - 1), of 8 lines of bands of 16 that begin at `rows`; down (B, H - 1), of 8 columns of those at `columns`."""
    for band in range(len(rows)):
        for half in range(2):
            begin, out = rows[band] + 8 * half, across[2 * band + half]
            out[:] = np.float32(0)
            for y in range(begin, begin + 8):
                line = luma[y]
                for x in range(width - 1):
                    step = np.int32(line[x + 1]) - np.int32(line[x])
                    out[x] += np.float32(min(max(step, -most), most))
            out *= np.float32(0.125)
    for y in range(len(luma) - 1):
        line, below = luma[y], luma[y + 1]
        for band in range(len(columns)):
            for half in range(2):
                begin, total = columns[band] + 8 * half, np.int64(0)
                for x in range(begin, begin + 8):
                    step = np.int32(below[x]) - np.int32(line[x])
                    total += min(max(step, -most), most)
                down[2 * band + half, y] = np.float32(total) * np.float32(0.125)


def _combs(steps: Any, least: Any) -> float:
    """The share of the places along the rows (B, N) of steps that begin four which go to and fro by so many levels and
    more, each by half as much again as the one before it at most."""
    num = steps.shape[1]
    if num < 4:
        return 0.0
    found = 0
    for row in steps:
        length = 0  # of the run of places that go to and fro
        for x in range(num - 1):
            one, other = row[x], row[x + 1]
            lower = min(abs(one), abs(other))
            # one + other is the step from a line to the next of its field, small only where they have two signs
            length = length + 1 if lower >= least and 2 * abs(one + other) <= lower else 0
            found += length >= 3
    return float(found / (len(steps) * (num - 3)))


def _scan_down(luma: Any, starts: Any, levels: Any) -> None:
    """Fill levels (B, H), of bands of 16 columns that begin at `starts`: the mean of 8 columns of each line."""
    for band in range(len(starts)):
        for half in range(2):
            begin, row = starts[band] + 8 * half, 2 * band + half
            for y in range(len(luma)):
                total = np.int32(0)
                for x in range(begin, begin + 8):
                    total += np.int32(luma[y, x])
                levels[row, y] = np.float32(total) * np.float32(0.125)


def _mean_of_tiles(line: Any, columns: Any, shares: Any, num_lines: Any, out: Any) -> None:
    """The means of the cells of a line that holds sums of so many lines."""
    for tile in range(len(out)):
        left, right = columns[tile, 0], columns[tile, 1]
        total = shares[tile, 0] * np.float32(line[left]) + shares[tile, 1] * np.float32(line[right])
        inner = np.int32(0)
        for x in range(left + 1, right):
            inner += line[x]
        out[tile] = (total + np.float32(inner)) * np.float32(len(out) / (num_lines * len(line)))


def _steps_at(levels: Any, places: Any, least: Any, highest: Any, ratio: Any, going_on: Any, found: Any) -> None:
    """Count into found (places, columns) where the rows (B, N) change by `least` and more, less than `highest`, over
    three steps, at these phases of transforms of 8 px. Half of the change is left a pixel on at each side; each is so
    many times as large as those within the calmer of both sides; and the level does not go on in its direction by the
    share `going_on` of it over the next three steps, as the mean of eight lines does along a slanting side."""
    for number in range(len(places)):
        for column in range(found.shape[1]):
            place = 8 * (column + 1) + places[number]  # of the first pixel behind the edge
            num = np.int32(0)
            for half in range(len(levels)):
                row = levels[half]
                step, wider = row[place + 1] - row[place - 2], row[place + 2] - row[place - 3]
                change = abs(step)
                if not least <= change < highest:
                    continue  # nearly all places end here
                before, behind = np.float32(0), np.float32(0)
                for offset in range(3):
                    before += abs(row[place - 3 - offset] - row[place - 4 - offset])
                    behind += abs(row[place + 3 + offset] - row[place + 2 + offset])
                if not change > ratio * (min(before, behind) + np.float32(0.3)):
                    continue
                sign = np.float32(1) if step > 0 else np.float32(-1)
                on = max(sign * (row[place + 5] - row[place + 2]), sign * (row[place - 3] - row[place - 6]))
                num += 2 * sign * wider >= change and on < going_on * change
            found[number, column] = num


def _share_of(found: Any, num_lines: Any, line_fraction: Any, most: Any, kept: Any) -> float:
    """Share of so many lines in each of the columns, of which `found` is how many have a step. Those with one in more
    than the share `line_fraction` count as having none, unless more than the share `most` are of these. kept: share of
    the columns, those with the fewest steps, that is counted."""
    num, num_whole = len(found), 0
    for column in range(num):
        num_whole += found[column] >= line_fraction * num_lines
    counted = np.sort(found)  # the whole ones are last
    if num_whole <= most * num:
        counted = np.concatenate((np.zeros(num_whole, np.int32), counted[: num - num_whole]))
    num_kept, total = max(1, int(kept * num)), 0
    for column in range(num_kept):
        total += counted[column]
    return float(total / (num_lines * num_kept))


def _steps_at_cells(profile: Any, sides: Any, fewest: Any, least: Any) -> float:
    """The largest share of all steps across a picture that stand at the edges of equal cells, counted from its left
    side, beyond what chance has there; 0 where no cells fit.

    sides: widths of cells in pixels. fewest: edges that a grid has. least: grey levels of its edges, on the mean.
    """
    num, best, total = len(profile), 0.0, 0.0
    for at in range(num):
        total += profile[at]
    for side in sides:
        edges, sum_edges = 0, 0.0
        for cell in range(1, int(num / side) + 1):
            at = int(np.rint(cell * side)) - 1
            if at < num:  # an edge that scaling has spread over two
                edges += 1
                sum_edges += profile[at] + (profile[at - 1] if at > 0 else 0.0)
        if edges < fewest or sum_edges < least * edges:
            continue
        num_high = 0
        for cell in range(1, int(num / side) + 1):
            at = int(np.rint(cell * side)) - 1
            if at < num:
                num_high += profile[at] + (profile[at - 1] if at > 0 else 0.0) > 0.25 * sum_edges / edges
        best = max(best, sum_edges / total * num_high / edges - 2 / side)
    return best


def _smoothness(luma: Any, width: Any, near: Any, least: Any) -> float:
    """How smooth the strongest edges are in the smoothest of four directions: the logarithm, to base 2, of how much
    more pixels differ twice as far apart, by fourth powers; 0 where that is less than `least` in each direction.

    near: pixels.
    """
    sums = np.zeros((4, 2))
    num, slant = 0, int(np.rint(near * math.sqrt(0.5)))
    # a line per distance, and two columns: of what lies closer together the same is said
    for y in range(2 * near, len(luma) - 2 * near, near):
        for x in range(2 * near, width - 2 * near, max(1, near // 2)):
            here = np.int64(luma[y, x])
            for direction in range(4):  # not over an array of them: this is unrolled, and takes half as long
                down = 0 if direction == 0 else near if direction == 1 else slant
                right = near if direction == 0 else 0 if direction == 1 else slant if direction == 2 else -slant
                once = np.int64(luma[y + down, x + right]) - here
                twice = np.int64(luma[y + 2 * down, x + 2 * right]) - here
                sums[direction, 0] += once * once * once * once
                sums[direction, 1] += twice * twice * twice * twice
            num += 1
    smoothest = 0.0
    for once, twice in sums / max(1, num):
        if twice >= least:
            smoothest = max(smoothest, math.log2(twice / max(once, 1.0)))
    return smoothest

"""The loops over stretches of small frames by which dissolves are found, compiled by numba once per machine.

Enters: uint8 luma of shot vectors. Leaves: numbers; what they mean stands in `gradual`. Sums are of integers wherever
they cancel, so that their order is of no account.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mmlake.numba_compiler import linked, made

# S frames of a stretch, of 27 x 48 each; a part of 19 x 36 is compared at 9 x 13 places
_ROWS, _COLUMNS, _DOWN, _ACROSS = 19, 36, 9, 13
_PARTS = 3  # the picture is compared in 3 x 3 parts; divides 27 and 48


class BlendKernels(NamedTuple):
    """Compiled functions; their parameters stand at the Python functions of this file."""

    walked: Callable[..., None]
    straight: Callable[..., float]
    fitted: Callable[..., None]
    alike: Callable[..., float]
    histograms: Callable[..., None]


@functools.lru_cache(maxsize=1)
def blend_kernels() -> BlendKernels:
    """The kernels; compiling them takes some seconds, once."""
    import numba

    u1, f8, i8, none = numba.uint8, numba.float64, numba.int64, numba.void
    frames = numba.types.Array(u1, 3, "C", readonly=True)
    one = numba.types.Array(u1, 2, "C", readonly=True)
    inner = {function.__name__: numba.njit(function, nogil=True) for function in (_placed, _spread)}
    entry = functools.partial(made, numba)
    return BlendKernels(
        walked=entry(none(frames, i8, f8[::1]), _walked),
        straight=entry(f8(frames, f8[::1], f8[::1]), _straight),
        fitted=entry(none(frames, i8, i8, f8, f8, f8[:, ::1], f8[::1]), linked(_fitted, inner)),
        alike=entry(f8(one, one), linked(_alike, inner)),
        histograms=entry(none(u1[:, :, ::1], i8, i8, i8, i8, numba.float32[:, ::1]), _histograms),
    )


def _histograms(hsv: Any, grey: Any, hues: Any, saturations: Any, values: Any, out: Any) -> None:
    """Fill the histograms (S, tints + values) of frames (S, N, 3) in OpenCV's HSV of eight bits, each of which sums to
    1: of hue and saturation, and of value. grey: saturation or value below which a cell has the tint behind the last
    hue."""
    num_tints, counts = (hues + 1) * saturations, np.zeros(out.shape[1], np.int64)
    for at in range(len(hsv)):
        counts[:] = 0
        frame = hsv[at]
        for cell in range(len(frame)):
            hue, saturation, value = np.int64(frame[cell, 0]), np.int64(frame[cell, 1]), np.int64(frame[cell, 2])
            hue = hues if saturation < grey or value < grey else hue * hues // 180
            counts[hue * saturations + saturation * saturations // 256] += 1
            counts[num_tints + value * values // 256] += 1
        for bin_number in range(len(counts)):
            out[at, bin_number] = np.float32(counts[bin_number] / (2 * len(frame)))


def _walked(frames: Any, lag: Any, out: Any) -> None:
    """Fill the mean absolute difference of each frame and the one `lag` behind it, in grey levels."""
    flat = frames.reshape(len(frames), 1296)
    for at in range(len(out)):
        here, there, total = flat[at], flat[at + lag], np.int32(0)
        for cell in range(1296):
            total += abs(np.int32(there[cell]) - np.int32(here[cell]))
        out[at] = total / 1296


def _straight(frames: Any, shares: Any, rests: Any) -> float:
    """How unevenly the parts of the picture go from the first frame to the last, 0..1. shares, rests: filled for each
    frame with how far on the way it is, and with the energy off the way, over that of the way; infinite where there
    is none."""
    num, first, last = len(frames), frames[0], frames[-1]
    parts = np.zeros((num, 9))  # products with the way
    energies, worst = np.zeros(9), 0.0
    way_sum, way_squares = np.int64(0), np.int64(0)
    for y in range(27):
        for x in range(48):
            way = np.int64(last[y, x]) - np.int64(first[y, x])
            energies[y // 9 * 3 + x // 16] += way * way
            way_sum += way
            way_squares += way * way
    energy = way_squares - way_sum * way_sum / 1296
    if energy == 0:
        rests[:] = np.inf
        return np.inf
    for at in range(num):
        total, squares, product = np.int64(0), np.int64(0), np.int64(0)
        for y in range(27):
            here, begin, end = frames[at, y], first[y], last[y]
            for part in range(3):
                in_part, in_sum, in_squares = np.int32(0), np.int32(0), np.int32(0)
                for x in range(16 * part, 16 * part + 16):
                    gone = np.int32(here[x]) - np.int32(begin[x])
                    in_sum += gone
                    in_squares += gone * gone
                    in_part += gone * (np.int32(end[x]) - np.int32(begin[x]))
                total, squares, product = total + in_sum, squares + in_squares, product + in_part
                parts[at, y // 9 * 3 + part] += in_part
        shares[at] = (product - total * way_sum / 1296) / energy
        rests[at] = (squares - total * total / 1296) / energy - shares[at] * shares[at]
    weights = np.sqrt(energies)
    weights /= weights.sum()
    for at in range(num):
        mean, spread = 0.0, 0.0
        for part in range(9):
            parts[at, part] /= max(energies[part], 1e-6)
            mean += parts[at, part] * weights[part]
        for part in range(9):
            spread += weights[part] * (parts[at, part] - mean) ** 2
        worst = max(worst, spread)
    return float(np.sqrt(worst))


def _placed(end: Any, target: Any) -> Any:
    """(row, column, correlation) of the part of `end` that is most like the inner part of `target`, of equal ones the
    first; nothing is like an empty part."""
    sums, squares = np.zeros((27, _ACROSS), np.int32), np.zeros((27, _ACROSS), np.int32)
    for y in range(27):
        for across in range(_ACROSS):
            total, square = np.int32(0), np.int32(0)
            for x in range(across, across + _COLUMNS):
                total += np.int32(end[y, x])
                square += np.int32(end[y, x]) * np.int32(end[y, x])
            sums[y, across], squares[y, across] = total, square
    size, own_sum, own_squares = _ROWS * _COLUMNS, np.int64(0), np.int64(0)
    for y in range(4, 4 + _ROWS):
        for x in range(6, 6 + _COLUMNS):
            own_sum += np.int64(target[y, x])
            own_squares += np.int64(target[y, x]) * np.int64(target[y, x])
    own = own_squares - own_sum * own_sum / size
    best, best_down, best_across = -np.inf, 0, 0
    products = np.empty(_ACROSS, np.int64)
    for down in range(_DOWN):
        for across in range(_ACROSS):
            product = np.int32(0)
            for y in range(_ROWS):
                there, here = end[down + y, across : across + _COLUMNS], target[4 + y, 6 : 6 + _COLUMNS]
                for x in range(_COLUMNS):
                    product += np.int32(here[x]) * np.int32(there[x])
            products[across] = product
        for across in range(_ACROSS):
            end_sum, end_squares = np.int64(0), np.int64(0)
            for y in range(down, down + _ROWS):
                end_sum += sums[y, across]
                end_squares += squares[y, across]
            energy = end_squares - end_sum * end_sum / size
            score = 0.0
            if energy > 1e-3 and own > 0:
                score = (products[across] - end_sum * own_sum / size) / np.sqrt(energy * own)
            if score > best:
                best, best_down, best_across = score, down, across
    return best_down, best_across, best


def _fitted(frames: Any, begin: Any, stop: Any, most_rest: Any, most_unevenness: Any, weights: Any, out: Any) -> None:
    """Fill, of the frames from `begin` to `stop`, the weights of the first and the last frame, both shifted to where
    they fit best; and over all of them the largest share of energy that stays unexplained, the largest unevenness, and
    the largest share that the nearer end alone leaves. Ends with the first frame beyond one of the two bounds."""
    size = _ROWS * _COLUMNS
    target, first, last = np.empty((_ROWS, _COLUMNS)), np.empty((_ROWS, _COLUMNS)), np.empty((_ROWS, _COLUMNS))
    out[:] = 0.0
    for number in range(stop - begin):
        # from the middle on, where most of what is no blend leaves the bounds
        at = begin + (number + (stop - begin) // 2) % (stop - begin)
        down, across, _ = _placed(frames[0], frames[at])
        other_down, other_across, _ = _placed(frames[-1], frames[at])
        for y in range(_ROWS):
            for x in range(_COLUMNS):
                target[y, x] = frames[at, 4 + y, 6 + x]
                first[y, x] = frames[0, down + y, across + x]
                last[y, x] = frames[-1, other_down + y, other_across + x]
        target -= target.sum() / size
        first -= first.sum() / size
        last -= last.sum() / size
        energy = max((target * target).sum(), 1e-3)
        of_first, of_last, of_both = (first * first).sum(), (last * last).sum(), (first * last).sum()
        on_first, on_last = (first * target).sum(), (last * target).sum()
        # least squares of two pictures, with a little weight against what is the same in both
        determinant = max((of_first + 1e-3) * (of_last + 1e-3) - of_both * of_both, 1e-9)
        left = ((of_last + 1e-3) * on_first - of_both * on_last) / determinant
        right = ((of_first + 1e-3) * on_last - of_both * on_first) / determinant
        weights[at - begin, 0], weights[at - begin, 1] = left, right
        rest = 0.0
        for y in range(_ROWS):
            for x in range(_COLUMNS):
                rest += (target[y, x] - left * first[y, x] - right * last[y, x]) ** 2
        out[0] = max(out[0], rest / energy)
        out[1] = max(out[1], _spread(target, first, last))
        alone = max(on_first * on_first / max(of_first, 1e-3), on_last * on_last / max(of_last, 1e-3))
        out[2] = max(out[2], 1 - alone / energy)
        if out[0] > most_rest or out[1] > most_unevenness:
            break


def _spread(target: Any, first: Any, last: Any) -> Any:
    """How far the parts of a frame differ in how much of the way from the first to the last picture they have gone,
    0..1."""
    rows, columns = _ROWS // _PARTS, _COLUMNS // _PARTS
    shares, weights = np.zeros(_PARTS * _PARTS), np.zeros(_PARTS * _PARTS)
    for part in range(_PARTS * _PARTS):
        energy, product = 0.0, 0.0
        for y in range(part // _PARTS * rows, part // _PARTS * rows + rows):
            for x in range(part % _PARTS * columns, part % _PARTS * columns + columns):
                way = last[y, x] - first[y, x]
                energy += way * way
                product += way * (target[y, x] - first[y, x])
        shares[part], weights[part] = product / max(energy, 1e-6), np.sqrt(energy)
    weights /= max(weights.sum(), 1e-6)
    mean = (weights * shares).sum()
    return np.sqrt((weights * (shares - mean) ** 2).sum())


def _alike(left: Any, right: Any) -> float:
    """Correlation of two frames after the best shift; 1 for two empty frames of one brightness."""
    means, empty = np.empty(3), np.empty(3, np.bool_)
    for at in range(3):
        total, squares, num = np.int64(0), np.int64(0), 0
        for y in range(27):
            for x in range(48):
                if at < 2 or (4 <= y < 23 and 6 <= x < 42):
                    value = np.int64(left[y, x]) if at == 0 else np.int64(right[y, x])
                    total += value
                    squares += value * value
                    num += 1
        means[at] = total / num
        empty[at] = squares / num - means[at] * means[at] < 4.0  # a standard deviation of two levels
    if empty[0] or empty[1]:
        return 1.0 if empty[0] and empty[1] and abs(means[0] - means[1]) < 6 else 0.0
    return 0.0 if empty[2] else _placed(left, right)[2]

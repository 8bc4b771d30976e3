"""What a codec, a lossy line or a sensor left in one picture: edges of blocks, combs of fields, noise.

Enters: the luma plane at full size, of which a few bands of lines are read. Leaves: numbers without a verdict.
"""

from __future__ import annotations

import functools

import numpy as np

from mmlake.preprocess.plane_kernels import cells
from mmlake.preprocess.texture_kernels import texture_kernels

# H height, B halves of bands of 16 lines, W columns, L lines of all bands, N numbers of squares. Blocks of H.264 and
# MPEG have 16 px, their transforms 8
TEXTURES = ("blockiness", "pixelation", "noise", "combing")
_NUM_BANDS, _BAND_PX = 6, 16
# grey levels over the three steps around the edge of a block, since filters of decoders spread it over as many; higher
# ones are letters and bars. It must be so many times as much as over three steps within its calmer side
_EDGE_LEVELS, _HIGHEST_EDGE, _EDGE_RATIO = 5.0, 64.0, 2.5
# share of the places down the picture: more in one column are a line that was filmed or drawn, unless more than this
# share of the columns has them
_LINE_FRACTION, _MOST = 0.8, 0.6
# A patchwork of equal squares has its steps in few columns, in half of their places and more: without such columns, and
# without the fourth that has most steps, half of the share must be left. What a coarse quantizer spreads leaves it
_BROKEN_LINE_FRACTION, _MOST_BROKEN, _CALMER, _LEFT = 0.5, 0.4, 0.75, 0.5
_SQUARES_PX, _FEWEST_EDGES = (8, 96), 8  # of a mosaic, across the picture
_ROWS_FRACTION = 0.25  # of the steps down the picture, beyond chance, at the upper edges of squares
_SQUARE_STEP = 2.0  # grey levels between neighbouring squares, on the mean
_CALM_BETWEEN, _FEWEST_STEPS = 0.4, 0.1  # median over mean of the steps; grey levels
_NOISE_SHARE = 0.1  # quantile of the tiles: the calm ones, where what is left is noise
# grey levels from line to line, of means of 8 px along them, each of which counts for so much at most, so that glints
# do not drown what is around them; at least so many times the noise of one pixel, which is twice that of such a mean.
# What comes by chance has the same share across the picture, and so much more of that is taken off
_MOST_STEP = 6
_COMB_LEVELS, _COMB_NOISE, _CHANCE = 1.5, 1.5, 1.25


def texture(lines_HW: np.ndarray, width: int) -> dict[str, float]:
    """Fields of the signal of one picture, of whose lines so many bytes are luma; 0 where it is too small for any."""
    height = len(lines_HW)
    if height < 3 * _BAND_PX or width < 3 * _BAND_PX:
        return dict.fromkeys(TEXTURES, 0.0)
    # bands begin in the middle of blocks: the edge between two of them is their middle line
    starts = np.unique(np.linspace(0, height // _BAND_PX - 2, _NUM_BANDS).astype(int)) * _BAND_PX + _BAND_PX // 2
    num_bands, tiles = len(starts), cells(width, width // _BAND_PX)
    levels, edges = np.empty((2 * num_bands, width), np.float32), np.empty((2 * num_bands, width - 1), np.float32)
    down = np.empty(num_bands * _BAND_PX)
    noise = np.empty((2 * num_bands, width // _BAND_PX), np.float32)
    texture_kernels().scan(lines_HW, width, starts, *tiles, levels, edges, down, noise)
    # a codec has its blocks in both directions; what was filmed or drawn seldom has lines at their edges in both
    columns = np.unique(np.linspace(0, width // _BAND_PX - 2, _NUM_BANDS).astype(int)) * _BAND_PX + _BAND_PX // 2
    side_levels = np.empty((2 * len(columns), height), np.float32)
    texture_kernels().scan_down(lines_HW, columns, side_levels)
    # of white noise the mean of |1 -2 1| is sqrt(6) sigma times sqrt(2 / pi)
    noise_levels = _quantile(noise.ravel(), _NOISE_SHARE) / 1.954
    across, along = np.empty_like(edges), np.empty((2 * len(columns), height - 1), np.float32)
    texture_kernels().signed_steps(lines_HW, width, starts, columns, _MOST_STEP, across, along)
    combs, least = texture_kernels().combs, max(_COMB_LEVELS, _COMB_NOISE * noise_levels)
    return {
        "blockiness": min(_blockiness(levels), _blockiness(side_levels)),
        "pixelation": _pixelation(edges.mean(axis=0), down, starts, height),
        "noise": noise_levels,
        # lines that differ from their neighbours and not from those of their own field; below 0 in one picture where
        # chance has more across it, so that the mean of several is true
        "combing": combs(along, least) - _CHANCE * combs(across, least),
    }


def _quantile(values: np.ndarray, share: float) -> float:
    """As numpy's own has it, which takes ten times as long for so few values."""
    ordered, at = np.sort(values), share * (len(values) - 1)
    low = int(at)
    below, above = float(ordered[low]), float(ordered[min(low + 1, len(values) - 1)])
    return below + (at - low) * (above - below)


def _blockiness(levels_BN: np.ndarray) -> float:
    """Share of the edges between transforms that are steps between calm sides, beyond the share of those at the middle
    of transforms. Columns with one nearly everywhere do not count: a quantizer does not draw straight lines from the
    top of a picture to its bottom, and walls of tiles, tables and window frames do; where most are such, the picture is
    squares of one colour each, and they count."""
    if not (whole := _steps(levels_BN)):
        return 0.0
    unbroken = _steps(levels_BN, line_fraction=_BROKEN_LINE_FRACTION, most=_MOST_BROKEN)
    return min(whole, unbroken / _LEFT, _steps(levels_BN, kept=_CALMER) / _LEFT)


def _steps(
    levels_BN: np.ndarray, *, line_fraction: float = _LINE_FRACTION, most: float = _MOST, kept: float = 1.0
) -> float:
    """The same where columns with steps in that share of their places do not count, of that share of the columns."""
    bounds = (_EDGE_LEVELS, _HIGHEST_EDGE, _EDGE_RATIO, line_fraction, most, kept)
    edge, middle = (texture_kernels().steps_at(levels_BN, at, *bounds) for at in (0, 4))
    return max(0.0, edge - middle)


def _pixelation(profile_W: np.ndarray, down_L: np.ndarray, starts: np.ndarray, height: int) -> float:
    """Share of all steps across the picture that stand at the edges of equal cells, counted from its left side; 0 where
    steps are everywhere, or no lines have them too. A wall of tiles does not begin with the picture, and moves
    through it."""
    mean = float(profile_W.mean())
    if (
        mean < _FEWEST_STEPS
        or _quantile(profile_W, 0.5) > _CALM_BETWEEN * mean
        or not _has_rows(down_L, starts, height)
    ):
        return 0.0
    # blocks of a codec on a smooth picture stand at even distances too, and are low; each of the places must hold an
    # edge: a few windows of a desktop stand at even distances by chance
    sides = _sides(len(profile_W) + 1)
    return texture_kernels().steps_at_cells(profile_W.astype(np.float64), sides, _FEWEST_EDGES, _SQUARE_STEP)


@functools.lru_cache(maxsize=64)
def _sides(width_px: int) -> np.ndarray:
    """Squares of whole pixels, and of those that were scaled with the picture afterwards."""
    sides = {float(side) for side in range(_SQUARES_PX[0], _SQUARES_PX[1] + 1)}
    sides |= {width_px / num for num in range(width_px // _SQUARES_PX[1] + 1, width_px // _SQUARES_PX[0])}
    return np.array(sorted(sides))


def _has_rows(steps_L: np.ndarray, starts: np.ndarray, height: int) -> bool:
    """Whether steps down the picture stand on few lines at even distances as well: a skyline of equal houses has
    edges across alone."""
    lines_L = (starts[:, None] + np.arange(1, _BAND_PX + 1)).ravel()
    total = float(steps_L.sum())
    if total < _FEWEST_STEPS * len(steps_L):
        return False
    # a row for each number of squares down the picture
    sides_N1 = height / np.arange(max(2, height // _SQUARES_PX[1]), height // _SQUARES_PX[0] + 2)[:, None]
    is_edge_NL = np.abs(lines_L / sides_N1 - np.round(lines_L / sides_N1)) * sides_N1 <= 1.0
    return bool((is_edge_NL @ steps_L / total - is_edge_NL.mean(axis=1) > _ROWS_FRACTION).any())

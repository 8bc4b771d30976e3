"""What a codec, a lossy line or a camera left in one picture: edges of blocks, combs of fields, noise, smears.

Enters: the luma plane at full size, of which a few bands of lines are read. Leaves: numbers without a verdict.
"""

from __future__ import annotations

import functools

import numpy as np

from mmlake.preprocess.visual.plane_kernels import cells
from mmlake.preprocess.visual.texture_kernels import texture_kernels

# H height, B halves of bands of 16 lines, W columns, L lines of all bands, N numbers of squares. Blocks of H.264 and
# MPEG have 16 px, their transforms 8
TEXTURES = ("blockiness", "pixelation", "noise", "combing", "smoothness")
_NUM_BANDS, _BAND_PX = 6, 16  # of a picture that is so wide
_WIDE_PX = 1280
# grey levels over the three steps around the edge of a block, since filters of decoders spread it over as many; higher
# ones are letters and bars. It must be so many times as much as over three steps within its calmer side
_EDGE_LEVELS, _HIGHEST_EDGE, _EDGE_RATIO = 5.0, 64.0, 2.5
# filters and the mean of three steps spread an edge over its neighbours: places from the edge of a block, and as many
# about its middle; behind a step that a block made the level does not go on by so much of it
_BLOCK_PX, _PLACES = 8, np.array([-1, 0, 1, 3, 4, 5])
_GOES_ON = 0.5
# the direction of fewer steps counts, with this share of what the other has more, up to so many times as many
_OF_OTHER_DIRECTION, _MOST_OF_FEWER = 0.25, 2
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
# of the longer side, between pixels that are compared with those twice as far apart. Across few pixels the filters of
# a codec are smooth. Fourth power of the grey levels that these differ by, on the mean, where anything can be sharp
_NEAR_FRACTION, _NEAREST_PX, _LEAST_CONTRAST = 1 / 100, 3, 1e3


def texture(lines_HW: np.ndarray, width: int) -> dict[str, float]:
    """Fields of the signal of one picture, of whose lines so many bytes are luma; 0 where it is too small for any."""
    height = len(lines_HW)
    if height < 3 * _BAND_PX or width < 3 * _BAND_PX:
        return dict.fromkeys(TEXTURES, 0.0)
    starts, columns = _bands(height, width), _bands(width, height)
    num_bands, tiles = len(starts), cells(width, width // _BAND_PX)
    levels, edges = np.empty((2 * num_bands, width), np.float32), np.empty((2 * num_bands, width - 1), np.float32)
    down = np.empty(num_bands * _BAND_PX)
    noise = np.empty((2 * num_bands, width // _BAND_PX), np.float32)
    texture_kernels().scan(lines_HW, width, starts, *tiles, levels, edges, down, noise)
    # a codec has its blocks in both directions; what was filmed or drawn seldom has lines at their edges in both
    side_levels = np.empty((2 * len(columns), height), np.float32)
    texture_kernels().scan_down(lines_HW, columns, side_levels)
    fewer, more = sorted((_blockiness(levels), _blockiness(side_levels)))
    # of white noise the mean of |1 -2 1| is sqrt(6) sigma times sqrt(2 / pi)
    noise_levels = _quantile(noise.ravel(), _NOISE_SHARE) / 1.954
    across, along = np.empty_like(edges), np.empty((2 * len(columns), height - 1), np.float32)
    texture_kernels().signed_steps(lines_HW, width, starts, columns, _MOST_STEP, across, along)
    near = max(_NEAREST_PX, round(max(height, width) * _NEAR_FRACTION))
    combs, least = texture_kernels().combs, max(_COMB_LEVELS, _COMB_NOISE * noise_levels)
    return {
        "blockiness": min(fewer + _OF_OTHER_DIRECTION * (more - fewer), _MOST_OF_FEWER * fewer),
        "pixelation": _pixelation(edges.mean(axis=0), down, starts, height),
        "noise": noise_levels,
        # lines that differ from their neighbours and not from those of their own field; below 0 in one picture where
        # chance has more across it, so that the mean of several is true
        "combing": combs(along, least) - _CHANCE * combs(across, least),
        # by fourth powers the strongest edges count, and not waves or grass, which are smooth in one direction
        "smoothness": texture_kernels().smoothness(lines_HW, width, near, _LEAST_CONTRAST),
    }


def _bands(length: int, along: int) -> np.ndarray:
    """Where bands begin in so many pixels, each so long: in the middle of blocks, so that the edge between two of them
    is the middle line. A small picture has more, since of few places chance makes blocks."""
    num = max(_NUM_BANDS, round(_NUM_BANDS * _WIDE_PX / along))
    return np.unique(np.linspace(0, length // _BAND_PX - 2, num).astype(int)) * _BAND_PX + _BAND_PX // 2


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
    num_lines, width = levels_BN.shape
    found = np.zeros((len(_PLACES), max(0, width // _BLOCK_PX - 2)), np.int32)
    if not found.size:
        return 0.0
    texture_kernels().steps_at(levels_BN, _PLACES, _EDGE_LEVELS, _HIGHEST_EDGE, _EDGE_RATIO, _GOES_ON, found)
    if not (whole := _steps(found, num_lines)):
        return 0.0
    unbroken = _steps(found, num_lines, line_fraction=_BROKEN_LINE_FRACTION, most=_MOST_BROKEN)
    return min(whole, unbroken / _LEFT, _steps(found, num_lines, kept=_CALMER) / _LEFT)


def _steps(
    found: np.ndarray, num_lines: int, *, line_fraction: float = _LINE_FRACTION, most: float = _MOST, kept: float = 1.0
) -> float:
    """The same of counts (places, columns) where columns with steps in that share of their lines do not count, of that
    share of the columns."""
    shares = [texture_kernels().share_of(row, num_lines, line_fraction, most, kept) for row in found]
    num_edges = len(shares) // 2
    return max(0.0, (sum(shares[:num_edges]) - sum(shares[num_edges:])) / num_edges)


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

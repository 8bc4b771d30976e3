"""What a codec, a lossy line or a sensor left in one picture: edges of blocks, combs of fields, noise.

Enters: the luma plane at full size, of which a few bands of lines are read. Leaves: numbers without a verdict.
"""

from __future__ import annotations

import functools

import numpy as np

from mmlake.preprocess.plane_kernels import kernels

# B halves of bands of 16 lines, W columns, N blocks in a row, P phases in a block. Blocks of H.264 and MPEG have 16 px,
# their transforms 8
TEXTURES = ("blockiness", "pixelation", "noise", "combing")
_NUM_BANDS, _BAND_PX = 6, 16
_TRANSFORM_PX = 8
# grey levels across the edge of a block; of high ones the weight is so much larger. Motion JPEG of good quality has low
# ones, a table on a slide a few high ones, what a coarse quantizer has spoiled has both (docs/quality.md)
_LOW_EDGE, _HIGH_EDGE, _HIGH_WEIGHT = 2.0, 4.0, 11 / 6
_EDGE_RATIO = 3.0  # against the steps within its calmer side
# share of the step that is left between the two pixels before it and behind it: lines of a table and letters come back
_LASTING = 0.5
_LINE_FRACTION = 0.8  # of the places down the picture: more in one column are a line that was filmed or drawn
_MOST = 0.6  # of the columns
_SQUARES_PX, _FEWEST_EDGES = (8, 96), 8  # of a mosaic, across the picture
_ROWS_FRACTION = 0.25  # of the steps down the picture, beyond chance, at the upper edges of squares
_SQUARE_STEP = 2.0  # grey levels between neighbouring squares, on the mean
_CALM_BETWEEN, _FEWEST_STEPS = 0.4, 0.1  # median over mean of the steps; grey levels
_NOISE_SHARE = 10  # percentile of the tiles: the calm ones, where what is left is noise
_COMB_LEVELS = 6.0


def texture(luma_HW: np.ndarray) -> dict[str, float]:
    """Fields of the signal of one picture; 0 where it is too small for any."""
    import cv2

    height, width = luma_HW.shape
    if height < 3 * _BAND_PX or width < 3 * _BAND_PX:
        return dict.fromkeys(TEXTURES, 0.0)
    # bands begin in the middle of blocks: the edge between two of them is their middle line
    starts = np.unique(np.linspace(0, height // _BAND_PX - 2, _NUM_BANDS).astype(int)) * _BAND_PX + _BAND_PX // 2
    bands = [luma_HW[at : at + _BAND_PX + 1] for at in starts]
    across = np.concatenate([cv2.absdiff(band[:-1, 1:], band[:-1, :-1]) for band in bands])
    down = [cv2.absdiff(band[1:], band[:-1]) for band in bands]
    # B x 2 halves of 8 lines: those of one block each
    # as floats: means of bytes are rounded, and what matters here is half a level
    edges = cv2.resize(across.astype(np.float32), (width - 1, len(across) // 8), interpolation=cv2.INTER_AREA)
    profile = edges.mean(axis=0)
    return {
        "blockiness": min(_blockiness(edges, _levels(bands)), _blockiness_down(luma_HW)),
        "pixelation": _pixelation(profile) if _has_rows(down, starts, height) else 0.0,
        "noise": _noise(bands),
        "combing": _combing(bands, down),
    }


def _levels(bands: list[np.ndarray]) -> np.ndarray:
    """Mean grey levels of the same halves of bands as the steps across, B x W."""
    import cv2

    lines = np.concatenate([band[:-1] for band in bands]).astype(np.float32)
    return cv2.resize(lines, (lines.shape[1], len(lines) // 8), interpolation=cv2.INTER_AREA)


def _blockiness_down(luma_HW: np.ndarray) -> float:
    """The same of bands that go down the picture: a codec has its blocks in both directions, and what was filmed or
    drawn seldom has lines at the edges of blocks in both."""
    import cv2

    starts = np.unique(np.linspace(0, luma_HW.shape[1] // _BAND_PX - 2, _NUM_BANDS).astype(int)) * _BAND_PX
    middle = _BAND_PX // 2
    bands = [np.ascontiguousarray(luma_HW[:, at + middle : at + middle + _BAND_PX + 1].T) for at in starts]
    steps = np.concatenate([cv2.absdiff(band[:-1, 1:], band[:-1, :-1]) for band in bands]).astype(np.float32)
    size = (steps.shape[1], len(steps) // 8)
    return _blockiness(cv2.resize(steps, size, interpolation=cv2.INTER_AREA), _levels(bands))


def _blockiness(edges_BW: np.ndarray, levels_BW: np.ndarray) -> float:
    """Share of the edges between transforms that are lasting steps between calm sides, beyond the share of those at the
    middle of transforms. Columns with one nearly everywhere do not count: a quantizer does not draw straight lines from
    the top of a picture to its bottom, and walls of tiles, tables and window frames do."""
    blocks = edges_BW[:, : edges_BW.shape[1] // _TRANSFORM_PX * _TRANSFORM_PX]
    phases = blocks.reshape(len(blocks), -1, _TRANSFORM_PX)
    low, high = (
        _steps(phases, levels_BW, at=7, edge=edge) - _steps(phases, levels_BW, at=3, edge=edge)
        for edge in (_LOW_EDGE, _HIGH_EDGE)
    )
    return max(0.0, min(low, _HIGH_WEIGHT * high))


def _steps(phases_BNP: np.ndarray, levels_BW: np.ndarray, *, at: int, edge: float) -> float:
    """Share of the steps at this phase that are larger than the calmer of their sides, and last."""
    step = phases_BNP[:, :-1, at]
    inside = phases_BNP[:, :, [(at + offset) % _TRANSFORM_PX for offset in (2, 3, 4, 5, 6)]].mean(axis=2)
    # of a phase amid the transform what is to its left lies in the one before
    calmer = np.minimum(inside[:, :-1], inside[:, 1:])
    place = np.arange(step.shape[1]) * _TRANSFORM_PX + at  # the last pixel before each step
    before = levels_BW[:, place - 1] + levels_BW[:, place - 2]
    behind = levels_BW[:, place + 2] + levels_BW[:, place + 3]
    is_lasting = np.abs(behind - before) / 2 > _LASTING * step
    in_column_N = ((step > edge) & (step > _EDGE_RATIO * (calmer + 0.1)) & is_lasting).mean(axis=0)
    is_line_N = in_column_N >= _LINE_FRACTION
    if is_line_N.mean() > _MOST:
        return float(in_column_N.mean())  # squares of one colour each, and nothing else
    return float(np.where(is_line_N, 0.0, in_column_N).mean())


def _pixelation(profile_W: np.ndarray) -> float:
    """Share of all steps across the picture that stand at the edges of equal cells, counted from its left side; 0 where
    steps are everywhere. A wall of tiles does not begin with the picture, and moves through it."""
    if np.median(profile_W) > _CALM_BETWEEN * profile_W.mean() or profile_W.mean() < _FEWEST_STEPS:
        return 0.0
    width = len(profile_W) + 1
    # blocks of a codec on a smooth picture stand at even distances too, and are low; each of the places must hold an
    # edge: a few windows of a desktop stand at even distances by chance
    return kernels().steps_at_cells(profile_W.astype(np.float64), _sides(width), _FEWEST_EDGES, _SQUARE_STEP)


@functools.lru_cache(maxsize=64)
def _sides(width_px: int) -> np.ndarray:
    """Squares of whole pixels, and of those that were scaled with the picture afterwards."""
    sides = {float(side) for side in range(_SQUARES_PX[0], _SQUARES_PX[1] + 1)}
    sides |= {width_px / num for num in range(width_px // _SQUARES_PX[1] + 1, width_px // _SQUARES_PX[0])}
    return np.array(sorted(sides))


def _has_rows(down: list[np.ndarray], starts: np.ndarray, height: int) -> bool:
    """Whether steps down the picture stand on few lines at even distances as well: a skyline of equal houses has
    edges across alone."""
    steps_L = np.concatenate([band.mean(axis=1) for band in down])
    lines_L = np.concatenate([np.arange(at, at + len(band)) + 1 for at, band in zip(starts, down, strict=True)])
    total = float(steps_L.sum())
    if total < _FEWEST_STEPS * len(steps_L):
        return False
    for num in range(max(2, height // _SQUARES_PX[1]), height // _SQUARES_PX[0] + 2):
        side = height / num
        is_edge_L = np.abs(lines_L / side - np.round(lines_L / side)) * side <= 1.0
        if is_edge_L.any() and float(steps_L[is_edge_L].sum()) / total - float(is_edge_L.mean()) > _ROWS_FRACTION:
            return True
    return False


def _noise(bands: list[np.ndarray]) -> float:
    """Standard deviation of noise in grey levels, from the calm tiles of the picture."""
    import cv2

    lines = np.concatenate([band[:-1] for band in bands])
    second = cv2.filter2D(lines, cv2.CV_16S, np.array([[1, -2, 1]], np.float32))
    size = (lines.shape[1] // 16, len(lines) // 8)
    tiles = cv2.resize(np.abs(second).astype(np.float32), size, interpolation=cv2.INTER_AREA)
    # of white noise the mean of |1 -2 1| is sqrt(6) sigma times sqrt(2 / pi)
    return float(np.percentile(tiles, _NOISE_SHARE)) / 1.954


def _combing(bands: list[np.ndarray], down: list[np.ndarray]) -> float:
    """Share of tiles in which a line differs from its neighbours and not from those of its own field."""
    import cv2

    size = (bands[0].shape[1] // 16, len(bands))
    near = cv2.resize(np.concatenate(down), size, interpolation=cv2.INTER_AREA)
    two = np.concatenate([cv2.absdiff(band[2:], band[:-2]) for band in bands])
    far = cv2.resize(two, size, interpolation=cv2.INTER_AREA)
    return float(((near > _COMB_LEVELS) & (near > 1.5 * far.astype(np.float32))).mean())

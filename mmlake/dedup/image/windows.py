"""Parts of a picture that a cropped, captioned or bordered copy shows, as grids and hashes of a thumbnail.

Legend: N pictures, W windows, S side of the thumbnail, G side of a grid.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.image import perceptual
from mmlake.dedup.image.fingerprints import SIDE
from mmlake.media.picture_borders import WHOLE, Box

Floats = NDArray[Any]  # float32
GRID = 16
# what crops of up to 10 % per side leave: hashes bear 3 % of misplacement, so no crop is further than that from one
_CROPS = ((0.0, 1.0), (0.075, 1.0), (0.0, 0.925), (0.045, 0.955), (0.09, 0.91))
# what a caption bar of 9-22 % above or below the picture leaves
_CAPTIONS = ((0.0, 0.87), (0.0, 0.82), (0.13, 1.0), (0.18, 1.0))
# what the middle of a picture has of one side where it is cut to another shape (a square, 4:5, 16:9), or of both
_MIDDLES = tuple((0.5 - share / 2, 0.5 + share / 2) for share in (0.84, 0.75, 0.67, 0.6, 0.54))
_SPANS = _CROPS + _CAPTIONS + _MIDDLES
_ASIDE = _CROPS + _MIDDLES
_PLACES = [(row, column) for row in range(5) for column in range(5)] + [(row, 0) for row in range(5, 14)]
_PLACES += [(0, column) for column in range(5, 10)] + [(row, row - 4) for row in range(10, 13)]
WINDOWS: tuple[Box, ...] = tuple((*_SPANS[row], *_ASIDE[column]) for row, column in _PLACES)
# three quarters each: an overlay in one corner leaves two of them alone
PARTS: tuple[Box, ...] = ((0.0, 0.75, 0.0, 1.0), (0.25, 1.0, 0.0, 1.0), (0.0, 1.0, 0.0, 0.7), (0.0, 1.0, 0.3, 1.0))
NUM_CLOSE = 29  # of the windows: what is left but for a tenth of each side, or a caption; then the middles
NUM_HASHES = len(WINDOWS) + 5 + len(PARTS)  # of one picture; five of it turned and mirrored
assert WINDOWS[0] == WHOLE


def _means(low: float, high: float, num: int) -> Floats:
    """The matrix of shape (num, S) that gives the means of equal parts of this stretch of a side."""
    edges = np.linspace(low, high, num + 1) * SIDE
    below = np.clip(edges[:, None] - np.arange(SIDE)[None], 0, 1)
    shares = below[1:] - below[:-1]
    means: Floats = (shares / shares.sum(axis=1, keepdims=True)).astype(np.float32)
    return means


def _edges(spans: Sequence[tuple[float, float]]) -> NDArray[np.float64]:
    return np.concatenate([np.linspace(low, high, GRID + 1) for low, high in spans]) * SIDE


_DOWN, _ACROSS = _edges(_SPANS), _edges(_ASIDE)
_ROWS, _COLUMNS = np.array(_PLACES).T


def _cell_means(thumbnail_SS: Floats, down: NDArray[np.float64], across: NDArray[np.float64]) -> Floats:
    """Mean luma of the cells between the edges, of shape (spans down, G, spans across, G): by sums up to each edge,
    which cost less than matrices of this size that wait for the threads of a library."""
    sums = np.zeros((SIDE + 1, SIDE + 1))
    np.cumsum(np.cumsum(thumbnail_SS, axis=0, dtype=np.float64), axis=1, out=sums[1:, 1:])
    for axis, edges in enumerate((down, across)):
        low = np.minimum(edges.astype(np.int64), SIDE - 1)
        part = (edges - low).reshape((-1, 1) if axis == 0 else (1, -1))
        sums = sums.take(low, axis=axis) * (1 - part) + sums.take(low + 1, axis=axis) * part
    cells = np.diff(np.diff(sums.reshape(len(down) // (GRID + 1), GRID + 1, -1, GRID + 1), axis=1), axis=3)
    sizes = [np.diff(edges.reshape(-1, GRID + 1)) for edges in (down, across)]
    means: Floats = (cells / sizes[0][:, :, None, None] / sizes[1][None, None]).astype(np.float32)
    return means


def window_grids(thumbnail_SS: Floats) -> Floats:
    """Mean luma of each window on a grid, of shape (W, G, G)."""
    return _cell_means(thumbnail_SS, _DOWN, _ACROSS)[_ROWS, :, _COLUMNS, :]


def box_grid(thumbnail_SS: Floats, box: Box) -> Floats:
    """Mean luma of one box on a grid, of shape (G, G)."""
    return _cell_means(thumbnail_SS, _edges([box[:2]]), _edges([box[2:]]))[0, :, 0, :]


@functools.lru_cache(maxsize=1)
def _cosine_matrices() -> tuple[Floats, Floats, list[tuple[Floats, Floats]]]:
    cosines = perceptual.cosines().astype(np.float32)
    down, across = (
        np.concatenate([cosines @ _means(low, high, perceptual.SIDE) for low, high in spans])
        for spans in (_SPANS, _ASIDE)
    )
    parts = [
        (cosines @ _means(top, bottom, perceptual.SIDE), cosines @ _means(left, right, perceptual.SIDE))
        for top, bottom, left, right in PARTS
    ]
    return down, across, parts


def window_hashes(thumbnails_NSS: Floats) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64]]:
    """(DCT hashes of the windows, of shape (N, W); of the whole picture turned and mirrored, (N, 5); of its parts)."""
    down, across, parts = _cosine_matrices()
    num = len(thumbnails_NSS)
    both = (down @ thumbnails_NSS @ across.T).reshape(num, len(_SPANS), 8, len(_ASIDE), 8)
    windows = both[:, _ROWS, :, _COLUMNS, :].transpose(1, 0, 2, 3)
    odd = np.where(np.arange(8) % 2, -1.0, 1.0).astype(np.float32)
    whole = windows[:, 0]
    across_flip, down_flip = whole * odd, whole * odd[:, None]
    turned = whole.transpose(0, 2, 1)
    variants = np.stack((across_flip, down_flip, down_flip * odd, turned * odd, turned * odd[:, None]), axis=1)
    pieces = np.stack([down_one @ thumbnails_NSS @ across_one.T for down_one, across_one in parts], axis=1)
    return _hashes(windows), _hashes(variants), _hashes(pieces)


def _hashes(coefficients_NW88: NDArray[np.float32]) -> NDArray[np.uint64]:
    num, count = coefficients_NW88.shape[:2]
    return perceptual.sign_hashes(coefficients_NW88.reshape(-1, 8, 8).astype(np.float64)).reshape(num, count)


def turned(box: Box, orientation: int) -> Box:
    """The box in a picture that is turned by quarters, then mirrored from 4 on."""
    top, bottom, left, right = box
    for _ in range(orientation % 4):
        top, bottom, left, right = 1 - right, 1 - left, top, bottom
    return (top, bottom, 1 - right, 1 - left) if orientation >= 4 else (top, bottom, left, right)


def units(grids: Floats) -> Floats:
    """Grids of mean 0 and length 1, flat."""
    flat = grids.reshape(*grids.shape[:-2], -1)
    flat = flat - flat.mean(axis=-1, keepdims=True)
    found: Floats = flat / np.maximum(np.linalg.norm(flat, axis=-1, keepdims=True), 1e-6)
    return found

"""Which of two pictures was made of the other by coding it anew: what a JPEG keeps of a block's mean says so.

A JPEG rounds the mean of each block of 8x8 px to steps of its table. What was made of it lies much closer to these
steps than half of one; what it was made of lies anywhere between them, up to half a step away. So of two pictures of
one size the means of the same blocks say which is the copy, also where the copy is the finer file (Lukáš and Fridrich
2003, "Estimation of primary quantization matrix in double compressed JPEG images", of one file alone).
Of other lossy files nobody knows steps; but a file without loss that shows the very pixels of one is what was saved of
it, since no lossy codec gives back what it was given.
Enters: pictures as their files have them. Leaves: words of a print, and of pairs whether one was made of the other.
Legend: P pairs, B blocks, H height, W width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.prints import Positions, Ragged
from mmlake.media.pictures import is_lossy

if TYPE_CHECKING:
    from PIL.Image import Image

_BLOCK_PX, _SIDE = 8, 10  # px; blocks that are read along each side, of however many
_PARTS = 4  # units of a DCT coefficient of block means, which are 8 grey levels each, in what is kept
_NUM_WORDS = 1 + _SIDE * _SIDE // 4
_LEAST_STEP = 1.0
_LOSSY = 65_535  # in place of a step: of a lossy file that is no JPEG
_MOST_SHRUNK = 4  # a JPEG that was decoded at an eighth has whole grey levels for means
_LEAST_BLOCKS = 24  # with means of their own
_NOISE = 0.29  # of a mean in units of a coefficient: pixels are rounded; more where fewer of them were decoded
_MOST_LEVEL = 8 * 120  # of a mean: white and black are cut off
_CHANGED = 0.2  # of the blocks, as likely: a mark or a caption was added
_LOGIT = 1.702  # of a normal distribution
_SURE = 8.0  # nats
_EDGE, _FAR, _BEYOND = 1.75, 1.5, 0.05  # noises, steps; share of blocks between the two: noise goes on there
_MOST_CHANGED = 0.4  # of the blocks
_LEAST_STEPS = 7.0  # noises: finer steps are lost in it
_LEAST_EDGES, _SURER = 16.0, 2.0  # noises: of coarser steps the edges are seen; nats that it is no noise with its tails
_ROWS = 4_096  # pairs at once


def words_of(picture: Image, size_px: tuple[int, int], data: bytes) -> NDArray[np.uint64]:
    """The print of a picture as it was decoded, before it is turned; none where blocks are not those of the file.
    size_px: width and height in the file. data: of the file."""
    width, height = size_px
    shrunk = max(1, round(max(size_px) / max(picture.size)))
    tables = getattr(picture, "quantization", {})  # of JPEG and MPO
    side_px = _BLOCK_PX // shrunk
    num_down, num_across = height // _BLOCK_PX, width // _BLOCK_PX
    if picture.mode not in ("L", "RGB", "YCbCr") or shrunk > _MOST_SHRUNK or min(num_down, num_across) < _SIDE:
        return np.empty(0, np.uint64)
    step = min(255, tables[min(tables)][0]) if tables else _LOSSY if is_lossy(data, picture.format) else 0  # of luma
    tops, lefts = (
        ((np.arange(_SIDE) + 0.5) * num / _SIDE).astype(np.int64) * side_px for num in (num_down, num_across)
    )
    boxes = [(0, top, picture.width, top + side_px) for top in tops.tolist()]
    strips = [np.asarray(picture.crop(box).convert("L")) for box in boxes]
    columns = lefts[:, None] + np.arange(side_px)
    means_BB = np.stack(strips)[:, :, columns].mean(axis=(1, 3), dtype=np.float64)
    kept = np.round((means_BB - 128) * _BLOCK_PX * _PARTS).astype("<i2").ravel()
    header = np.array([min(width, 65_535), min(height, 65_535), step, shrunk], "<u2")
    return np.concatenate((header.view("<u8"), kept.view("<u8"))).astype(np.uint64)


def made_of(prints: Ragged, copies: Positions, originals: Positions) -> NDArray[np.bool_]:
    """Of each pair whether the one was made of the other. copies, originals: positions, of shape (pairs,)."""
    found = np.zeros(len(copies), np.bool_)
    known = (prints.lengths[copies] == _NUM_WORDS) & (prints.lengths[originals] == _NUM_WORDS)
    rows = np.flatnonzero(known)
    heads = [prints.values[prints.offsets[side[rows]]] for side in (copies, originals)]
    differ = heads[0] ^ heads[1]
    rows = rows[(differ << np.uint64(32) == 0) & (differ << np.uint64(16) >> np.uint64(48) != 0)]  # one size, two steps
    for low in range(0, len(rows), _ROWS):
        some = rows[low : low + _ROWS]
        found[some] = _are_made(_unpacked(prints, copies[some]), _unpacked(prints, originals[some]))
    return found


class _Means:
    """Means of blocks, of pairs of pictures."""

    def __init__(self, words_PN: NDArray[np.uint64]) -> None:
        halves = np.ascontiguousarray(words_PN, "<u8").view("<i2")
        steps_P1 = halves[:, 2:3].view("<u2")
        self.is_lossy_P = steps_P1[:, 0] > 0  # the file's codec, known step or not
        self.is_known_P = steps_P1[:, 0] != _LOSSY
        self.step_P1 = np.where(steps_P1 == _LOSSY, 0, steps_P1).astype(np.float64)
        self.noise_P1 = _NOISE * halves[:, 3:4].astype(np.float64)
        self.means_PB = halves[:, 4:].astype(np.float64) / _PARTS


def _unpacked(prints: Ragged, at: Positions) -> _Means:
    return _Means(prints.values[prints.offsets[at][:, None] + np.arange(_NUM_WORDS)])


def _are_made(copy: _Means, original: _Means) -> NDArray[np.bool_]:
    """Of each pair, of different steps: the copy is finer and lies on the steps of its original, or is coarser and lies
    within half a step of its own."""
    apart_PB = np.abs(copy.means_PB - original.means_PB)
    noise_P1 = np.hypot(copy.noise_P1, original.noise_P1)
    is_finer_P1 = copy.step_P1 < original.step_P1
    coarse_P1 = np.maximum(np.maximum(copy.step_P1, original.step_P1), _LEAST_STEP)
    # plain surfaces have one mean, which is off by the same everywhere, and white and black are cut off
    finer_PB = np.where(is_finer_P1, copy.means_PB, original.means_PB)
    is_used_PB = _are_first(finer_PB) & (np.abs(finer_PB) < _MOST_LEVEL)
    fine_P1 = np.hypot(np.minimum(copy.step_P1, original.step_P1) / np.sqrt(12), noise_P1)
    inside_PB = 1 / (1 + np.exp((_LOGIT * (apart_PB - coarse_P1 / 2) / noise_P1).clip(-50, 50)))
    anywhere_P1 = _CHANGED / (_FAR * coarse_P1)
    on_PB = _normal(apart_PB, fine_P1) + anywhere_P1
    between_PB = (1 - _CHANGED) * 2 / coarse_P1 * inside_PB + anywhere_P1
    is_near_PB = is_used_PB & (apart_PB <= _FAR * coarse_P1)
    spread_P1 = np.sqrt((apart_PB**2 * is_near_PB).sum(axis=1) / np.maximum(is_near_PB.sum(axis=1), 1) + 1e-9)[:, None]
    like_noise_PB = _normal(apart_PB, spread_P1) + anywhere_P1
    says_P, is_no_noise_P = (
        np.where(is_used_PB, np.log(one_PB / other_PB), 0.0).sum(axis=1)
        for one_PB, other_PB in ((on_PB, between_PB), (between_PB, like_noise_PB))
    )
    num_P = is_used_PB.sum(axis=1)
    is_changed_PB = is_used_PB & (apart_PB > coarse_P1 / 2 + _EDGE * noise_P1)
    is_rounded_P = (is_changed_PB.sum(axis=1) <= _MOST_CHANGED * num_P) & (
        (is_changed_PB & is_near_PB).sum(axis=1) <= _BEYOND * num_P
    )
    is_rounded_P &= (is_no_noise_P >= _SURER) | (coarse_P1 < _LEAST_EDGES * noise_P1)[:, 0]
    is_made_P = np.where(is_finer_P1[:, 0], says_P >= _SURE, (says_P <= -_SURE) & is_rounded_P)
    is_seen_P = (coarse_P1 >= _LEAST_STEPS * noise_P1)[:, 0]
    is_saved_P = ~original.is_known_P & ~copy.is_lossy_P & (apart_PB <= 1 / _PARTS).all(axis=1)
    made: NDArray[np.bool_] = ((is_made_P & is_seen_P) | is_saved_P) & (num_P >= _LEAST_BLOCKS)
    return made


def _normal(apart_PB: NDArray[np.float64], spread_P1: NDArray[np.float64]) -> NDArray[np.float64]:
    """How likely it is to be so far apart, in either direction, with this standard deviation."""
    density: NDArray[np.float64] = (
        (1 - _CHANGED) * np.sqrt(2 / np.pi) / spread_P1 * np.exp(-0.5 * (apart_PB / spread_P1) ** 2)
    )
    return density


def _are_first(means_PB: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which means no block before has."""
    order = np.argsort(means_PB, axis=1, kind="stable")
    ranked = np.take_along_axis(means_PB, order, axis=1)
    is_new = np.ones(means_PB.shape, np.bool_)
    is_new[:, 1:] = ranked[:, 1:] != ranked[:, :-1]
    first = np.empty_like(is_new)
    np.put_along_axis(first, order, is_new, axis=1)
    return first

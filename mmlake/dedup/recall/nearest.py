"""How alike a few chosen units are to any others, by passes over all prints that know nothing of keys: what the recall
of joins by keys is estimated against. Coarse, and quick; the exact measure has the last word.

Legend: C chosen units, N others, F frames.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.audio import kernels as audio_kernels
from mmlake.dedup.image import matcher
from mmlake.dedup.image.fingerprints import SIDE
from mmlake.dedup.image.perceptual import unpack_bytes
from mmlake.dedup.prints import Positions, PrintTable, Ragged

Floats = NDArray[np.float32]
Scores = Callable[[Positions], Floats]  # of these units with each chosen one, of shape (N, C)

_SMALL = 16  # px of a picture's side
_CROPPED = 4  # px of 64 that a crop takes from each side
_ANCHORS = 4  # frames of a chosen film
_STRETCH = 16  # words of a chosen sound that are laid along others
_STRETCHES = 2
_TINY = 1e-6
_WORDS_AT_ONCE = 1 << 20
_PLACES_AT_ONCE = 256
_FRAMES_AT_ONCE = 1 << 12
# what is less alike than this is not worth the exact measure: copies in the tables of edits lie far above
_LEAST_SHARED, _LEAST_PICTURE, _LEAST_FILM, _LEAST_SOUND = 0.1, 0.4, 0.5, 0.6


def texts(prints: PrintTable, chosen: Positions) -> Scores:
    """Shared shingles, as a share of those of the text that has fewer."""
    from scipy.sparse import csr_matrix

    shingles = prints["shingles"]
    mine = shingles.take(chosen)
    known, column = np.unique(mine.values, return_inverse=True)
    has = np.zeros((len(known) + 1, len(chosen)), np.float32)
    has[column, np.repeat(np.arange(len(chosen)), mine.lengths)] = 1.0
    may_be = np.zeros(1 << 22, np.bool_)  # by the first bits of a shingle, so that few are searched for
    may_be[known >> np.uint64(42)] = True

    def scores(units: Positions) -> Floats:
        rows = shingles.take(units)
        at = np.flatnonzero(may_be[rows.values >> np.uint64(42)])
        place = np.minimum(np.searchsorted(known, rows.values[at]), max(0, len(known) - 1))
        at, place = at[is_known := known[place] == rows.values[at]], place[is_known]
        offsets = np.searchsorted(at, rows.offsets)
        shared = csr_matrix((np.ones(len(at), np.float32), place, offsets), (len(units), len(has))) @ has
        return _above(_LEAST_SHARED, shared / np.maximum(1, np.minimum(rows.lengths[:, None], mine.lengths)))

    return scores


def pictures(prints: PrintTable, chosen: Positions) -> Scores:
    """Correlation of small thumbnails: of the chosen picture whole, mirrored, and without its margin."""
    luma = prints["luma"]
    planes = _thumbnails(luma, chosen)
    inner = planes[:, _CROPPED:-_CROPPED, _CROPPED:-_CROPPED]
    variants = np.stack([_unit_rows(one) for one in (planes, planes[:, :, ::-1], inner)])  # of shape (3, C, pixels)

    def scores(units: Positions) -> Floats:
        rows = _unit_rows(_thumbnails(luma, units))
        return _above(_LEAST_PICTURE, np.max([rows @ one.T for one in variants], axis=0))

    return scores


def films(prints: PrintTable, chosen: Positions) -> Scores:
    """Correlation of frames: of each of some frames of the chosen film with the one most like it, on average."""
    rows, luma = prints["frame-phash"], prints["frame-luma"]
    anchors = np.zeros((len(chosen), _ANCHORS, 64), np.float32)
    for row, at in enumerate(chosen.tolist()):
        if len(frames := _frames(rows, luma, at)):
            anchors[row] = frames[np.linspace(0, len(frames) - 1, _ANCHORS).astype(np.int64)]
    wanted = anchors.reshape(-1, 64).T

    def scores(units: Positions) -> Floats:
        found = np.zeros((len(units), len(chosen)), np.float32)
        num_frames = np.cumsum(rows.lengths[units])
        for part in np.split(np.arange(len(units)), np.flatnonzero(np.diff(num_frames // _FRAMES_AT_ONCE)) + 1):
            frames = [_frames(rows, luma, at) for at in units[part].tolist()]
            held = [row for row, one in zip(part.tolist(), frames, strict=True) if len(one)]
            if held:
                begins = np.cumsum([0, *(len(one) for one in frames if len(one))])[:-1]
                best = np.maximum.reduceat(np.concatenate(frames) @ wanted, begins, axis=0)
                found[held] = best.reshape(len(held), len(chosen), _ANCHORS).mean(axis=2)
        return _above(_LEAST_FILM, found)

    return scores


def sounds(prints: PrintTable, chosen: Positions) -> Scores:
    """Bits that agree, of the best place of each of some stretches of the chosen sound."""
    kinds = [_stretches(prints[method], chosen) for method in ("chromaprint", "band-signs")]

    def scores(units: Positions) -> Floats:
        return _above(_LEAST_SOUND, np.max([one(units) for one in kinds], axis=0))

    return scores


def _stretches(words: Ragged, chosen: Positions) -> Scores:
    """The best agreement of one kind of words, 0..1; 0 where either has fewer than a stretch."""
    long = np.flatnonzero(words.lengths[chosen] >= _STRETCH)
    begins = np.linspace(0, 1, _STRETCHES + 2)[1:-1]
    cut = [
        words[at][int(share * (len(words[at]) - _STRETCH)) :][:_STRETCH]
        for at in chosen[long].tolist()
        for share in begins
    ]
    mine = np.array(cut, np.uint64).reshape(-1, _STRETCH)
    num_bits = 64 if int(words.values[:1_024].max(initial=0)) >> 32 else 32

    def scores(units: Positions) -> Floats:
        rows = words.take(units)
        held = np.flatnonzero(rows.lengths >= _STRETCH) if len(long) else long
        apart = _fewest_apart(mine, rows, held)
        found = np.zeros((len(units), len(chosen)), np.float32)
        mean = apart.reshape(len(held), len(long), _STRETCHES).mean(axis=2)
        found[held[:, None], long] = 1 - mean / (num_bits * _STRETCH)
        return found

    return scores


def _fewest_apart(mine: NDArray[np.uint64], words: Ragged, rows: Positions) -> NDArray[np.int64]:
    """The bits in which each stretch differs from the place of each row where it differs least, of shape (rows,
    stretches)."""
    kernels = audio_kernels.compiled(int(words.lengths[rows].sum()) * mine.size)
    found = np.full((len(rows), len(mine)), np.iinfo(np.int64).max)
    if kernels is None:
        for at, row in enumerate(rows.tolist()):
            found[at] = _fewest_in(mine, np.lib.stride_tricks.sliding_window_view(words[row], _STRETCH))
        return found
    room = np.empty(_PLACES_AT_ONCE, np.int64)
    if any(int(np.bitwise_or.reduce(one, axis=None)) >> 32 for one in (words.values, mine)):
        kernels.fewest(words.values, words.offsets, rows, mine, 1, room, found)
    else:  # of 32 bits: two words at once
        kernels.fewest(_in_pairs(words.values), words.offsets, rows, _in_pairs(mine)[:, ::2].copy(), 2, room, found)
    return found


def _in_pairs(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Each word of 32 bits with the next one, along the last axis."""
    found = words.copy()
    found[..., :-1] |= words[..., 1:] << np.uint64(32)
    return found


def _fewest_in(mine: NDArray[np.uint64], places: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The bits in which each stretch differs from the place where it differs least."""
    fewest = np.full(len(mine), np.iinfo(np.int64).max)
    step = max(1, _WORDS_AT_ONCE // (len(mine) * _STRETCH))
    for low in range(0, len(places), step):
        part = places[low : low + step]
        apart = np.bitwise_count(mine[:, None] ^ part[None]).sum(axis=2, dtype=np.int64)
        fewest = np.minimum(fewest, apart.min(axis=1))
    return fewest


def _above(least: float, scores: NDArray[Any]) -> Floats:
    """The scores, with minus infinity in place of those below the least."""
    found: Floats = np.where(scores >= least, scores, -np.inf).astype(np.float32)
    return found


def _frames(rows: Ragged, luma: Ragged, at: int) -> Floats:
    """The frames of the plain view as rows of norm 1, of shape (F, 64)."""
    num = len(rows[at])
    if len(luma[at]) < 8 * num:
        num = 0
    return _unit_rows(unpack_bytes(luma[at][: 8 * num]).reshape(num, 64))


def _thumbnails(luma: Ragged, units: Positions) -> Floats:
    """Thumbnails of shape (N, 64, 64); zeros where a picture has none."""
    found = np.zeros((len(units), SIDE, SIDE), np.float32)
    lengths = luma.lengths[units]
    for length in np.unique(lengths[lengths > 0]):
        at = np.flatnonzero(lengths == length)
        words = luma.take(units[at]).values.reshape(len(at), -1)
        found[at] = matcher.thumbnails(words)
    return found


def _unit_rows(planes: NDArray[np.generic]) -> Floats:
    """Planes, or rows, as rows without their mean and of norm 1; zeros where they do not vary."""
    import cv2

    if planes.ndim == 3:
        small = [
            cv2.resize(np.ascontiguousarray(one), (_SMALL, _SMALL), interpolation=cv2.INTER_AREA) for one in planes
        ]
        rows = np.array(small, np.float32).reshape(len(planes), _SMALL * _SMALL)
    else:
        rows = planes.astype(np.float32)
    rows -= rows.mean(axis=1, keepdims=True)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), _TINY)
    return rows

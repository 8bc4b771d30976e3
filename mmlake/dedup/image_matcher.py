"""The image tier's matcher: keys by hashes of a picture and of its parts, verdicts by aligned thumbnails."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from mmlake.borders import Box
from mmlake.dedup import image_alignment, perceptual
from mmlake.dedup.image import CROPPED, METHOD, MIRRORED, PAIR_METHODS, ROTATED, SIDE
from mmlake.dedup.image_windows import NUM_HASHES, Floats, window_hashes
from mmlake.dedup.joins import distinct_of, mix64, near_distinct
from mmlake.dedup.matching import NONE, SAME, Found
from mmlake.dedup.prints import DERIVED, Positions, PrintTable, Ragged
from mmlake.dedup.settings import DedupSettings
from mmlake.engine import cumulated, current
from mmlake.picture_pieces import PIECE_PX

_BLOCK = 256  # thumbnails hashed at once: 4 MiB as floats
_KEPT_VIEWS = 64  # pictures made ready for comparisons: 250 kB each
_PICTURES, _AT_ONCE = 1 << 12, 1 << 20  # pictures, and hashes of them, at once
_NUM_PARTS = 4  # of the hashes of a picture, the last ones
_NUM_FAINT = 2  # keys of a picture without detail
_LEAST_NORM = 1.0  # grey levels; plain pieces have no detail that could be shared
_LEVELS = 8  # grey levels per key of a picture without detail; two grids, so that neighbours share one


class ImageMatcher:
    """All pictures of a print table."""

    min_shared = 1
    neighbours = None

    def __init__(self, prints: PrintTable, settings: DedupSettings) -> None:
        self._prints, self._settings = prints, settings
        self._detail = functools.lru_cache(maxsize=_KEPT_VIEWS)(self._made_detail)
        self._view = functools.lru_cache(maxsize=_KEPT_VIEWS)(self._made_view)
        derived = prints[DERIVED] if DERIVED in prints else hashes(prints)
        self.keys = _keys(derived, prints[METHOD], radius=settings.image_radius_bits)

    def compare(self, one: int, others: Positions) -> Found:
        """The picture against each of the others."""
        mine = self._view(one)
        bound = self._settings.image_correlation
        found = [
            image_alignment.compare(mine, view, correlation=bound) if mine and view else image_alignment.UNLIKE
            for view in map(self._view, others.tolist())
        ]
        methods = [PAIR_METHODS.index(_method(likeness)) for likeness in found]
        return Found(
            np.array([SAME if likeness.is_copy else NONE for likeness in found], np.int8),
            np.array([likeness.score for likeness in found], np.float64),
            np.array(methods, np.int8),
            detail=self._shared_detail(one, others),
        )

    def _shared_detail(self, one: int, others: Positions) -> NDArray[np.float64]:
        mine = self._detail(one)
        return np.array([0.0 if not mine.size else max(0.0, self._correlated(mine, at)) for at in others.tolist()])

    def _correlated(self, mine: Floats, other: int) -> float:
        theirs = self._detail(other)
        return float((mine * theirs).sum()) if theirs.shape == mine.shape else 0.0

    def _made_detail(self, at: int) -> Floats:
        """What changes from pixel to pixel in the pieces, and what does over some pixels: two rows, whose product with
        those of another picture is the mean of two correlations. None of them says less for a copy that is softer."""
        import cv2

        words = self._prints["detail"][at]
        if not len(words):
            return np.empty((0, 0), np.float32)
        pieces = perceptual.unpack_bytes(words).reshape(-1, PIECE_PX, PIECE_PX).astype(np.float32)
        found = []
        for piece in pieces:
            less, least = cv2.blur(piece, (3, 3)), cv2.blur(piece, (7, 7))
            found.append((piece - less, less - least))
        rows = np.stack(found, axis=1).reshape(2, -1)
        rows -= rows.mean(axis=1, keepdims=True)
        norms = np.linalg.norm(rows, axis=1, keepdims=True) * np.sqrt(2)
        scaled: Floats = rows / np.maximum(norms, _LEAST_NORM)
        return scaled

    def _made_view(self, at: int) -> image_alignment.View | None:
        words, layout = self._prints["luma"][at], self._prints["layout"][at]
        if not len(words):
            return None
        edges = perceptual.unpack_bytes(layout[:1]) / 255
        content, bars = (_box(edges[low : low + 4]) for low in (0, 4))
        return image_alignment.View(
            thumbnail=thumbnails(words[None])[0], content=content, bars=bars, side_px=int(layout[1])
        )


def matcher(prints: PrintTable, settings: DedupSettings) -> ImageMatcher:
    """The matcher of the pictures in the table."""
    return ImageMatcher(prints, settings)


def _method(likeness: image_alignment.Likeness) -> str:
    if likeness.orientation >= 4:
        return MIRRORED
    if likeness.orientation:
        return ROTATED
    return METHOD if likeness.is_whole else CROPPED


def _box(edges: NDArray[np.float64]) -> Box:
    top, bottom, left, right = (float(edge) for edge in edges)
    return top, bottom, left, right


def thumbnails(words: NDArray[np.uint64]) -> Floats:
    """The thumbnails that rows of words hold, as floats of shape (N, S, S)."""
    import cv2

    side = int(np.sqrt(words.shape[1] * 8))
    planes = perceptual.unpack_bytes(words).reshape(-1, side, side).astype(np.float32)
    if side == SIDE:
        return planes
    return np.stack([cv2.resize(plane, (SIDE, SIDE), interpolation=cv2.INTER_CUBIC) for plane in planes])


def hashes(prints: PrintTable) -> Ragged:
    """What the keys of each picture are made of: two levels of grey where it has no detail; otherwise the hashes of its
    windows and of what is turned, then those of its four parts."""
    luma = prints["luma"]
    found_NH = current().zeros(len(luma) * NUM_HASHES, np.uint64).reshape(len(luma), NUM_HASHES)
    lengths = np.zeros(len(luma), np.int64)
    for at in _blocks(luma):
        planes = thumbnails(luma.values[luma.offsets[at][:, None] + np.arange(luma.lengths[at[0]])])
        is_faint = details(planes) < image_alignment.LEAST_DETAIL
        levels = np.floor(planes[is_faint].mean(axis=(1, 2)) / _LEVELS + np.array([[0.0], [0.5]]))
        found_NH[at[is_faint], :_NUM_FAINT] = (levels + np.array([[0], [64]])).T.astype(np.uint64)
        found_NH[at[~is_faint]] = np.concatenate(window_hashes(planes[~is_faint]), 1)
        lengths[at] = np.where(is_faint, _NUM_FAINT, NUM_HASHES)
    if (lengths == NUM_HASHES).all():
        return Ragged(found_NH.ravel(), cumulated(lengths, current()))
    values = current().column(np.uint64)
    for low in range(0, len(luma), _PICTURES):
        block, sizes = found_NH[low : low + _PICTURES], lengths[low : low + _PICTURES]
        values.append(block[np.arange(NUM_HASHES) < sizes[:, None]])
    return Ragged(values.array(), cumulated(lengths, current()))


def _keys(found: Ragged, whole: Ragged, *, radius: int) -> Ragged:
    """Keys that pictures share when hashes of the one and of a part of the other lie within the radius."""
    num, lengths = len(found), found.lengths
    faint, detailed = np.flatnonzero(lengths == _NUM_FAINT), np.flatnonzero(lengths > _NUM_FAINT)
    rows = found if len(detailed) == num else found.take(detailed)
    hashes_NH = rows.values.reshape(len(detailed), NUM_HASHES)
    whole_owners = np.repeat(np.arange(num), whole.lengths)
    use = lengths[whole_owners] != _NUM_FAINT
    num_whole, num_windows = int(use.sum()), NUM_HASHES - _NUM_PARTS
    # the hashes of whole pictures, which others are compared with, then those of all windows
    hashes, owners = (current().zeros(num_whole + len(detailed) * num_windows, kind) for kind in (np.uint64, np.int64))
    hashes[:num_whole], owners[:num_whole] = whole.values[use], whole_owners[use]
    hashes[num_whole:].reshape(len(detailed), num_windows)[:] = hashes_NH[:, :num_windows]
    owners[num_whole:].reshape(len(detailed), num_windows)[:] = detailed[:, None]
    parts = [
        (np.repeat(faint, _NUM_FAINT), found.take(faint).values),
        _linked(owners, hashes, num_targets=num_whole, radius=radius, salt=1),
    ]
    for at in range(num_windows, NUM_HASHES):
        part = np.ascontiguousarray(hashes_NH[:, at])
        parts.append(_linked(detailed, part, num_targets=len(detailed), radius=radius, salt=2 + at - num_windows))
    return _ragged(parts, num)


def _blocks(rows: Ragged) -> list[Positions]:
    """Positions of rows that are as long as each other, some at once; empty rows are left out."""
    blocks = []
    for length in np.unique(rows.lengths[rows.lengths > 0]):
        at = np.flatnonzero(rows.lengths == length)
        blocks += [at[low : low + _BLOCK] for low in range(0, len(at), _BLOCK)]
    return blocks


def details(planes: Floats) -> NDArray[np.float64]:
    """How much each thumbnail varies around its own mean, in grey levels."""
    import cv2

    size = (image_alignment.NEIGHBOURHOOD_PX, image_alignment.NEIGHBOURHOOD_PX)
    return np.array([float((plane - cv2.blur(plane, size)).std()) for plane in planes])


def _linked(
    owners: Positions, hashes: NDArray[np.uint64], *, num_targets: int, radius: int, salt: int
) -> tuple[Positions, NDArray[np.uint64]]:
    """(owner, key) of the hashes that lie within the radius of another one; the first `num_targets` are what others
    are compared with. The key is the hash that both are tied to, so a dense group shares that of its hub, and no other
    picture changes it."""
    distinct, place = distinct_of(hashes)
    if not len(distinct):
        return np.empty(0, np.int64), np.empty(0, np.uint64)
    scratch = current()
    targets = np.zeros(len(distinct), np.bool_)
    targets[place[:num_targets]] = True
    left, right = near_distinct(distinct, targets, radius=radius)
    lowest, highest = scratch.full(len(distinct), len(hashes), np.int64), scratch.full(len(distinct), -1, np.int64)
    np.minimum.at(lowest, place, owners)
    np.maximum.at(highest, place, owners)
    foreign = (lowest[left] != lowest[right]) | (highest[left] != highest[right]) | (lowest[left] != highest[left])
    left, right = left[foreign], right[foreign]
    several = np.flatnonzero((lowest != highest) & targets)
    codes = np.unique(np.concatenate((left, right, several)) * len(distinct) + np.concatenate((left, left, several)))
    linked, hubs = codes // len(distinct), codes % len(distinct)
    keys = mix64(distinct[hubs] ^ mix64(np.array([salt], np.uint64)))
    found = [(np.empty(0, np.int64), np.empty(0, np.uint64))]
    for low in range(0, len(hashes), _AT_ONCE):  # most hashes have no key
        at = place[low : low + _AT_ONCE]
        begins, ends = (np.searchsorted(linked, at, side) for side in ("left", "right"))
        lengths = ends - begins
        nth = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        found.append((np.repeat(owners[low : low + _AT_ONCE], lengths), keys[np.repeat(begins, lengths) + nth]))
    of_owners, of_keys = (np.concatenate(side) for side in zip(*found, strict=True))
    return of_owners, of_keys


def _ragged(found: list[tuple[Positions, NDArray[np.uint64]]], num: int) -> Ragged:
    owners, keys = (np.concatenate(side) for side in zip(*found, strict=True))
    order = np.lexsort((keys, owners))
    owners, keys = owners[order], keys[order]
    is_new = np.r_[True, (owners[1:] != owners[:-1]) | (keys[1:] != keys[:-1])] if len(keys) else np.empty(0, bool)
    owners, keys = owners[is_new], keys[is_new]
    counts = np.bincount(owners, minlength=num)
    return Ragged(keys, np.concatenate(([0], np.cumsum(counts))).astype(np.int64))

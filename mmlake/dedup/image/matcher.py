"""The image tier's matcher: keys by hashes of a picture and of its parts, verdicts by aligned thumbnails."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.image import alignment, keys, perceptual, recoding, views
from mmlake.dedup.image.fingerprints import (
    CROPPED,
    INK,
    IS_DRAWING,
    IS_SIGN,
    METHOD,
    MIRRORED,
    PAIR_METHODS,
    RECODED,
    ROTATED,
    SIDE,
)
from mmlake.dedup.image.keys import Known
from mmlake.dedup.image.tints import NEIGHBOURHOOD_PX, TINT_SIDE
from mmlake.dedup.image.windows import NUM_HASHES, Floats, window_hashes
from mmlake.dedup.matching import NONE, SAME, Found
from mmlake.dedup.prints import KEYS, Positions, PrintTable, Ragged
from mmlake.dedup.settings import DedupSettings
from mmlake.engine import cumulated, current
from mmlake.media.picture_borders import Box
from mmlake.media.picture_pieces import PIECE_PX
from mmlake.media.pictures import one_thread

_BLOCK = 256  # thumbnails hashed at once: 4 MiB as floats
_KEPT_VIEWS = 256  # pictures made ready for comparisons: 70 kB each
_PICTURES = 1 << 12  # at once
_LEAST_NORM = 1.0  # grey levels; plain pieces have no detail that could be shared
_LEVELS = 8  # grey levels per key of a picture without detail; two grids, so that neighbours share one


class ImageMatcher:
    """All pictures of a print table."""

    min_shared = 1
    neighbours = None
    shares_out = True

    def __init__(self, prints: PrintTable, settings: DedupSettings) -> None:
        self._prints, self._settings = prints, settings
        self._detail = functools.lru_cache(maxsize=_KEPT_VIEWS)(self._made_detail)
        self._view = functools.lru_cache(maxsize=_KEPT_VIEWS)(self._made_view)
        self.keys = prints[KEYS] if KEYS in prints else keyed(hashes(prints), None, settings)

    def compare(self, one: int, others: Positions) -> Found:
        """The picture against each of the others."""
        with one_thread():
            return self._compared(one, others)

    def _compared(self, one: int, others: Positions) -> Found:
        mine = self._view(one)
        bound = self._settings.image_correlation
        found = [
            alignment.compare(mine, view, correlation=bound) if mine and view else alignment.UNLIKE
            for view in map(self._view, others.tolist())
        ]
        methods = np.array([PAIR_METHODS.index(_method(likeness)) for likeness in found], np.int8)
        whole = [likeness.is_copy and _method(likeness) == METHOD for likeness in found]
        methods[self._recoded(one, others, np.flatnonzero(whole))] = PAIR_METHODS.index(RECODED)
        return Found(
            np.array([SAME if likeness.is_copy else NONE for likeness in found], np.int8),
            np.array([likeness.score for likeness in found], np.float64),
            methods,
            detail=self._shared_detail(one, others),
        )

    def made_of(self, copies: Positions, originals: Positions) -> NDArray[np.bool_]:
        """Of each pair whether the one was made of the other by coding it anew."""
        return recoding.made_of(self._prints["blocks"], copies, originals)

    def _recoded(self, one: int, others: Positions, at: Positions) -> Positions:
        """Those of `at` whose others were made of the one, or the one of them, by coding it anew."""
        ones = np.full(len(at), one)
        found: Positions = at[self.made_of(ones, others[at]) | self.made_of(others[at], ones)]
        return found

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

    def _made_view(self, at: int) -> views.View | None:
        words, layout, tint = (self._prints[method][at] for method in ("luma", "layout", "tint"))
        if not len(words):
            return None
        edges = perceptual.unpack_bytes(layout[:1]) / 255
        content, bars = (_box(edges[low : low + 4]) for low in (0, 4))
        return views.View(
            thumbnail=thumbnails(words[None])[0],
            content=content,
            bars=bars,
            side_px=int(layout[1]),
            tints=perceptual.unpack_bytes(tint).reshape(2, TINT_SIDE, TINT_SIDE) if len(tint) else None,
            is_sign=bool(layout[IS_SIGN]),
            is_ink=int(layout[IS_SIGN]) == INK,
            is_drawing=bool(layout[IS_DRAWING]),
            close=_square(self._prints["close"][at]),
        )


def keyed(derived: Ragged, known: Known | None, settings: DedupSettings) -> Ragged:
    """The keys of each picture. known: those of an earlier join."""
    if known is None:
        return keys.made(derived, radius=settings.image_radius_bits)
    return keys.updated(derived, known, radius=settings.image_radius_bits)


def matcher(prints: PrintTable, settings: DedupSettings) -> ImageMatcher:
    """The matcher of the pictures in the table."""
    return ImageMatcher(prints, settings)


def _method(likeness: alignment.Likeness) -> str:
    if likeness.orientation >= 4:
        return MIRRORED
    if likeness.orientation:
        return ROTATED
    return METHOD if likeness.is_whole else CROPPED


def _box(edges: NDArray[np.float64]) -> Box:
    top, bottom, left, right = (float(edge) for edge in edges)
    return top, bottom, left, right


def _square(words: NDArray[np.uint64]) -> NDArray[np.uint8] | None:
    side = int(np.sqrt(len(words) * 8))
    return perceptual.unpack_bytes(words).reshape(side, side) if side else None


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
    windows and of what is turned, then those of its four parts, then those of the whole picture (`image.keys`)."""
    luma, whole = prints["luma"], prints[METHOD]
    most = NUM_HASHES + int(whole.lengths.max(initial=0))
    found_NH = current().zeros(len(luma) * most, np.uint64).reshape(len(luma), most)
    lengths = np.zeros(len(luma), np.int64)
    for at in _blocks(luma):
        planes = thumbnails(luma.values[luma.offsets[at][:, None] + np.arange(luma.lengths[at[0]])])
        is_faint = details(planes) < alignment.LEAST_DETAIL
        levels = np.floor(planes[is_faint].mean(axis=(1, 2)) / _LEVELS + np.array([[0.0], [0.5]]))
        faint = (levels + np.array([[0], [64]])).T.astype(np.uint64)
        found_NH[at[is_faint], : faint.shape[1]] = faint
        found_NH[at[~is_faint], :NUM_HASHES] = np.concatenate(window_hashes(planes[~is_faint]), 1)
        lengths[at] = np.where(is_faint, faint.shape[1], NUM_HASHES + whole.lengths[at])
        for row in at[~is_faint].tolist():
            found_NH[row, NUM_HASHES : lengths[row]] = whole[row]
    values = current().column(np.uint64)
    for low in range(0, len(luma), _PICTURES):
        block, sizes = found_NH[low : low + _PICTURES], lengths[low : low + _PICTURES]
        values.append(block[np.arange(most) < sizes[:, None]])
    return Ragged(values.array(), cumulated(lengths, current()))


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

    size = (NEIGHBOURHOOD_PX, NEIGHBOURHOOD_PX)
    return np.array([float((plane - cv2.blur(plane, size)).std()) for plane in planes])

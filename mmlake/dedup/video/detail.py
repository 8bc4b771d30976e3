"""What a film shows at a few moments: by it the closest copy of a cluster is found, and title cards are distinguished.

Enters: frames of the time grid. Leaves: the print "frame-detail", for every second of a short film (every second or
fourth of a longer one) a thumbnail with its tones and pieces with the finest detail. Copies with the same clock hold
the same moments, whatever else was done to them; those with another clock have none in common.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.image import perceptual
from mmlake.dedup.image.alignment import compare
from mmlake.dedup.image.fingerprints import SIDE
from mmlake.dedup.image.views import View
from mmlake.dedup.video.alignment import STILL_BITS, Part
from mmlake.media.film_frames import MOMENT_EVERY, NUM_PIECES, THUMBNAIL_PX
from mmlake.media.picture_borders import bars, content
from mmlake.media.picture_pieces import PIECE_PX

# frames of the grid between two moments, doubled until there are no more than so many
_STRIDE, _MOST_MOMENTS = MOMENT_EVERY, 4
_OFFSET_BITS = 32
_FAR_LEVELS = 16.0  # mean distance of thumbnails that counts as nothing in common
# of a common shift of all tones: a player's RGB made luma again is one level darker in whatever was saved from it, so
# copies were closer to one another than to their original (.77 to 1.13 in 8 families of 8)
_CONVERSION_LEVELS = 1.5
_TONE_WEIGHT = 0.75  # of the thumbnails; pieces have the rest
_DRAWN_FLAT = 0.35  # of a thumbnail that shows nothing, from which on it is a drawing on a flat ground
_THUMBNAIL_WORDS, _PIECE_WORDS = THUMBNAIL_PX**2 // 8, NUM_PIECES * PIECE_PX**2 // 8
MOMENT_WORDS = _THUMBNAIL_WORDS + _PIECE_WORDS


@dataclass(slots=True)
class Moments:
    """The moments of one film, while its frames come."""

    stride: int = _STRIDE
    first: int = 0  # position that the film begins with, on the grid that moments are counted on
    kept: dict[int, NDArray[np.uint64]] = field(default_factory=dict)

    def wants(self, first: int, end: int) -> bool:
        """Whether one of these positions of the grid is a moment."""
        return -(-first // self.stride) * self.stride < end

    def add(self, first: int, end: int, moment: NDArray[np.uint8]) -> None:
        """Take thumbnail and pieces of the frame that is shown from one position of the grid to another."""
        words = perceptual.pack_bytes(moment)
        self.kept |= dict.fromkeys(range(-(-first // self.stride) * self.stride, end, self.stride), words)
        while len(self.kept) > _MOST_MOMENTS:
            self.stride *= 2
            self.kept = {at: words for at, words in self.kept.items() if at % self.stride == 0}

    def packed(self) -> NDArray[np.uint64]:
        """The print: the stride and, above it, the position of the first moment; then the words of each in turn."""
        if not self.kept:
            return np.empty(0, np.uint64)
        offset = min(self.kept) - self.first
        return np.concatenate(([np.uint64(self.stride | offset << _OFFSET_BITS)], *self.kept.values()))


class Detail(NamedTuple):
    """The moments of a film as arrays, by their position on its time grid."""

    at: dict[int, int]  # position -> row
    tones_NP: NDArray[np.float32]
    fine_N2P: NDArray[np.float32]  # what changes from pixel to pixel, and what does over some pixels


class Shown(NamedTuple):
    """One side of what two films have in common."""

    detail: Detail
    hashes_N: NDArray[np.uint64]  # of the film's whole frames
    span: tuple[int, int]  # frames: first, behind the last


def detail_of(words: NDArray[np.uint64]) -> Detail:
    """What the print holds."""
    import cv2

    head, num = (int(words[0]), len(words) // MOMENT_WORDS) if len(words) else (_STRIDE, 0)
    stride, offset = head & (1 << _OFFSET_BITS) - 1, head >> _OFFSET_BITS
    rows = words[1:].reshape(num, MOMENT_WORDS) if num else np.empty((0, MOMENT_WORDS), np.uint64)
    tones = perceptual.unpack_bytes(rows[:, :_THUMBNAIL_WORDS]).reshape(num, THUMBNAIL_PX**2).astype(np.float32)
    planes = perceptual.unpack_bytes(rows[:, _THUMBNAIL_WORDS:]).reshape(-1, PIECE_PX, PIECE_PX).astype(np.float32)
    fine = np.empty((num, 2, NUM_PIECES * PIECE_PX**2), np.float32)
    for at in range(num):
        both = planes[at * NUM_PIECES : (at + 1) * NUM_PIECES]
        less, least = (np.stack([cv2.blur(piece, (side, side)) for piece in both]) for side in (3, 7))
        fine[at] = (both - less).ravel(), (less - least).ravel()
    return Detail({offset + stride * row: row for row in range(num)}, tones, fine)


def shared_detail(a: Detail, b: Detail, part: Part) -> float:
    """0..1: how alike the tones, the frame and the finest detail are at the moments that both hold; 0 where the part
    that they have in common is mirrored or at another speed, or no moment falls on one of the other."""
    (begin_a, end_a), (begin_b, end_b) = part.span_a, part.span_b
    if part.is_mirrored or end_a - begin_a != end_b - begin_b:
        return 0.0
    rows = [(row, b.at[at + begin_b - begin_a]) for at, row in a.at.items() if at + begin_b - begin_a in b.at]
    if not rows:
        return 0.0
    of_a, of_b = (list(side) for side in zip(*rows, strict=True))
    apart = a.tones_NP[of_a] - b.tones_NP[of_b]
    level = float(np.clip(apart.mean(dtype=np.float64), -_CONVERSION_LEVELS, _CONVERSION_LEVELS))
    tones = 1 - float(np.abs(apart - level).mean()) / _FAR_LEVELS
    left, right = (fine.transpose(1, 0, 2).reshape(2, -1) for fine in (a.fine_N2P[of_a], b.fine_N2P[of_b]))
    alike = float(perceptual.correlations(left, right).mean())
    return _TONE_WEIGHT * max(0.0, tones) + (1 - _TONE_WEIGHT) * max(0.0, alike)


def shows_the_same(a: Shown, b: Shown, *, correlation: float) -> bool:
    """Whether what both show in a part in which nothing moves is one picture, as far as a thumbnail of 32 px says it:
    asked of drawings on a flat ground alone. Of a title card or a slide the hash of the whole frame says where
    something is written, not what; so one that is a drawing is no copy of what nobody has seen. correlation: of the
    detail of copies, at least."""
    views = [_view(side) for side in (a, b)]
    known = [view for view in views if view is not None]
    if not known or min(view.flat for view in known) < _DRAWN_FLAT:
        return True
    return len(known) == len(views) and compare(known[0], known[1], correlation=correlation).is_copy


def _view(side: Shown) -> View | None:
    """The moment nearest to the middle of the span, as a small picture: one in it, or one with the same frame. None
    where there is none."""
    import cv2

    span, moments = side.span, side.detail.at
    middle = (span[0] + span[1]) // 2
    last = len(side.hashes_N) - 1
    seen = [
        at
        for at in moments
        if span[0] <= at < span[1]
        or np.bitwise_count(side.hashes_N[min(at, last)] ^ side.hashes_N[min(middle, last)]) <= STILL_BITS
    ]
    if not seen:
        return None
    at = min(seen, key=lambda at: (not span[0] <= at < span[1], abs(at - middle)))
    plane = side.detail.tones_NP[moments[at]].reshape(THUMBNAIL_PX, THUMBNAIL_PX)
    levels = plane.astype(np.uint8)
    return View(
        thumbnail=cv2.resize(plane, (SIDE, SIDE), interpolation=cv2.INTER_CUBIC).astype(np.float32),
        content=content(levels),
        bars=bars(levels),
        side_px=THUMBNAIL_PX,
    )

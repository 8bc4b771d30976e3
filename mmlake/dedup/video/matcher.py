"""The matcher of films: which of them to compare, and what one is to another: the same, a part, or with a part in
common."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.image.perceptual import unpack_bytes
from mmlake.dedup.matching import INSIDE, NONE, OVERLAPS, SAME, Found
from mmlake.dedup.prints import Positions, PrintTable, Ragged
from mmlake.dedup.settings import DedupSettings
from mmlake.dedup.video.alignment import Part, common_part, covered_by, parts_in
from mmlake.dedup.video.detail import Detail, Shown, detail_of, shared_detail, shows_the_same
from mmlake.dedup.video.hashes import WINDOWS
from mmlake.dedup.video.recoding import Keyframe, are_recoded, keyframes_of, made_of
from mmlake.dedup.video.votes import Film

METHOD, MIRRORED = "frame-phash", "frame-phash-mirrored"
RECODED = "frame-phash-recoded"  # one of the two was made of the other by coding it anew (`recoding`)
PAIR_METHODS = (METHOD, MIRRORED, RECODED)
WINDOWS_METHOD, LUMA_METHOD, KEYS_METHOD = "frame-windows", "frame-luma", "frame-keys"
DETAIL_METHOD, BLOCKS_METHOD = "frame-detail", "frame-blocks"
METHODS = (METHOD, WINDOWS_METHOD, LUMA_METHOD, KEYS_METHOD, DETAIL_METHOD, BLOCKS_METHOD)
_INSIDE_FRACTION = 0.9  # of a film's frames that lie inside another one, for the film to be a part of it
# two clips of one signer of 2 s reach .78 where window, speed and shift are all free
_SHORT_S, _SHORT_MARGIN = 3.0, 0.1
_MIN_COMMON_S = 2.0  # shorter parts that two films have in common are not worth a word
_LEAST_PART_S = 1.0  # of a film that another has in several parts, all laid on it in one way
_NUM_KEPT = 512  # films whose prints are held as arrays at once
# next to the score, which varies by more among copies that show the same: it says how far movement agrees
_DETAIL_WEIGHT = 10.0
_NUM_DETAILS = 64  # films whose moments are: 80 kB each


class FilmMatcher:
    """All films of a corpus or a shard."""

    min_shared = 2
    neighbours = None

    def __init__(self, prints: PrintTable, settings: DedupSettings) -> None:
        self._prints, self._settings = prints, settings
        self.keys: Ragged = prints[KEYS_METHOD]
        self._film = lru_cache(maxsize=_NUM_KEPT)(self._made)
        self._detail = lru_cache(maxsize=_NUM_DETAILS)(self._made_detail)
        self._blocks = lru_cache(maxsize=_NUM_DETAILS)(self._made_blocks)

    def compare(self, one: int, others: Positions) -> Found:
        """What the film is to each of the others."""
        found = [self._compared(one, int(other)) for other in others]
        relation, score, method = zip(*[row[:3] for row in found], strict=True) if found else ((), (), ())
        return Found(
            np.array(relation, np.int8), np.array(score, np.float64), np.array(method, np.int8),
            np.array([row[3] for row in found], np.float32).reshape(-1, 4), np.array([row[4] for row in found], float),
        )  # fmt: skip

    def _compared(self, one: int, other: int) -> tuple[int, float, int, tuple[float, ...], float]:
        swapped = self._rank(other) < self._rank(one)
        a, b = (other, one) if swapped else (one, other)
        part = common_part(self._film(a), self._film(b), settings=self._settings)
        if part is None:
            return NONE, 0.0, 0, (np.nan,) * 4, 0.0
        relation, spans_s = self._relation(part), self._spans_s(part)
        if relation != NONE and part.is_still and not self._shows_the_same(a, b, part):
            return NONE, 0.0, 0, (np.nan,) * 4, 0.0
        # a moment that two films have in common does not make them alike
        score = part.score if relation != NONE else part.score * max(part.covered_a, part.covered_b)
        method = MIRRORED if part.is_mirrored else METHOD
        if method == METHOD and relation == SAME and are_recoded(self._blocks(one), self._blocks(other)):
            method = RECODED
        found = Found(
            np.array([relation], np.int8), np.array([round(score, 6)]), np.array([PAIR_METHODS.index(method)], np.int8),
            np.array([spans_s], np.float32),
        )  # fmt: skip
        found = found.mirrored() if swapped else found
        assert found.spans_s is not None
        detail = _DETAIL_WEIGHT * shared_detail(self._detail(a), self._detail(b), part)
        spans_s = tuple(found.spans_s[0].tolist())
        return int(found.relation[0]), float(found.score[0]), int(found.method[0]), spans_s, detail

    def made_of(self, copies: Positions, originals: Positions) -> NDArray[np.bool_]:
        """Of each pair whether the one was made of the other by coding it anew."""
        pairs = zip(copies.tolist(), originals.tolist(), strict=True)
        return np.array([made_of(self._blocks(copy), self._blocks(original)) for copy, original in pairs], np.bool_)

    def covered(self, one: int, run: Positions, seconds: NDArray[np.float64]) -> float:
        """See `mmlake.dedup.stars.across.Covers`."""
        film = self._film(one)
        whole = Film.laid([self._film(at) for at in run.tolist()])
        least = round(_LEAST_PART_S / self._settings.video_step_s)
        parts = parts_in(film, whole, settings=self._settings, least=least)
        if not parts or self._relation(parts[0]) == NONE or covered_by(film, parts) < _INSIDE_FRACTION:
            return 0.0
        return min(part.score for part in parts)

    def _shows_the_same(self, a: int, b: int, part: Part) -> bool:
        sides = (
            Shown(self._detail(at), self._prints[METHOD][at], span) for at, span in ((a, part.span_a), (b, part.span_b))
        )
        return shows_the_same(*sides, correlation=self._settings.image_correlation)

    def _relation(self, part: Part) -> int:
        """What the shorter film is to the longer one."""
        is_short = part.num_frames * self._settings.video_step_s < _SHORT_S and not part.is_plain
        if part.score < self._settings.video_match + (_SHORT_MARGIN if is_short else 0.0):
            return NONE
        if min(part.covered_a, part.covered_b) >= self._settings.min_coverage_fraction:
            return SAME
        if part.covered_a >= _INSIDE_FRACTION:
            return INSIDE
        return OVERLAPS if part.num_frames * self._settings.video_step_s >= _MIN_COMMON_S else NONE

    def _spans_s(self, part: Part) -> tuple[float, ...]:
        """Start and end in each, NaN where whole meets whole."""
        if self._relation(part) in (NONE, SAME):
            return (np.nan,) * 4
        return tuple(frame * self._settings.video_step_s for span in (part.span_a, part.span_b) for frame in span)

    def _rank(self, at: int) -> tuple[int, bytes]:
        """The order in which two films are compared, whichever was named first."""
        hashes = self._prints[METHOD][at]
        return len(hashes), hashes.tobytes()

    def _made_detail(self, at: int) -> Detail:
        return detail_of(self._prints[DETAIL_METHOD][at])

    def _made_blocks(self, at: int) -> list[Keyframe]:
        return keyframes_of(self._prints[BLOCKS_METHOD][at])

    def _made(self, at: int) -> Film:
        hashes, windows, luma = (self._prints[name][at] for name in (METHOD, WINDOWS_METHOD, LUMA_METHOD))
        num, per_view = len(hashes), len(WINDOWS) * len(hashes)
        num_views = (len(windows) + num) // per_view if num else 1
        table: NDArray[np.uint64] = np.concatenate((hashes, windows)).reshape(num_views, len(WINDOWS), num)
        return Film.of(table.transpose(0, 2, 1), unpack_bytes(luma).reshape(num_views, num, 64))

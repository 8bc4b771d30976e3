"""Which recordings of a cluster were saved of a lossy one without loss, or coded from another one by a lossy codec.

Enters: what lies between two of them, as `mmlake.dedup.matching.MadeOf` says it, and which files are lossy. Leaves: who
stays, for all that this says.
Legend: N members, L lossy ones, K those that lost nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.matching import DECODERS_DB, UNLOST_DB

if TYPE_CHECKING:
    from mmlake.dedup.matching import MadeOf
    from mmlake.dedup.prints import Positions

Numbers = NDArray[np.float64]
Mask = NDArray[np.bool_]

_AS_NEAR, _NEAR = 1.25, 2.0  # times the distance to the nearest
_STEP_DB = 0.002  # that distances are known to
_HIGHER = 0.25  # share
_SEVERAL, _SHARE = 3, 0.5  # copies make an original, and half as many another one
# decoders of Opus differ where it codes speech by SILK, in as many kilobits of MP3 at most; what was coded by so few is
# further from its source than they are from each other
_FEW_KBPS = 80.0
# what an encoder moves levels by at the least where it spends so few bits a second on each Hz of a channel: (bits, dB).
# Of 10 lossy recordings by 14 codecs and rates the least are .45 and .15, of 12 others .51 and .14
_LEFT_DB = ((7.0, 0.4), (10.0, 0.12))
_MORE_BITS = 1.05  # times: less is the same rate


class Files(NamedTuple):
    """What is known of the files of recordings; NaN where it is not."""

    is_lossless: Numbers  # 1 or 0
    kbps: Numbers  # of a lossy one
    num_channels: Numbers  # that differ
    highest_hz: Numbers  # up to where it has sound, by two measures: of shape (files, 2)

    @classmethod
    def of(cls, numbers: Numbers) -> Files:
        """Of what `Criterion.files` names, of shape (..., 5)."""
        return cls(numbers[..., 0], numbers[..., 1], numbers[..., 2], numbers[..., 3:])

    def at(self, rows: Positions) -> Files:
        """Those of some of them."""
        return Files(self.is_lossless[rows], self.kbps[rows], self.num_channels[rows], self.highest_hz[rows])

    @property
    def left_db(self) -> Numbers:
        """The distance from its source that the encoder of each leaves at the least; `UNLOST_DB` where bits suffice for
        a copy that is as good, or are unknown."""
        bits = self.kbps * 1_000 / np.maximum(self.num_channels, 1) / self.highest_hz.min(axis=-1)
        left_db = np.full(bits.shape, UNLOST_DB)
        for few, least_db in reversed(_LEFT_DB):
            left_db[bits < few] = least_db
        return left_db

    def may_be_of(self, its: Files) -> Mask:
        """Of pairs whether the one has nothing above what the other one has: a codec adds no frequencies, though some
        fill them with noise."""
        has_more = self.highest_hz * (1 - _HIGHER) > its.highest_hz
        may_be: Mask = np.logical_not(has_more.all(axis=-1))
        return may_be


def are_originals(pairs_P2: Positions, made_of: MadeOf, files_P2: Files) -> Mask:
    """Which of two were neither saved of the other nor coded from it. files_P2: of shape (pairs, 2)."""
    is_copy = np.zeros(pairs_P2.shape, np.bool_)
    for one, other in ((0, 1), (1, 0)):
        apart_db = made_of(pairs_P2[:, one], pairs_P2[:, other]).astype(np.float64)
        files, its = (Files(*(numbers[:, side] for numbers in files_P2)) for side in (one, other))
        is_saved = _are_saved(apart_db, its) & (files.is_lossless == 1) & (its.is_lossless == 0)
        is_coded = (apart_db > DECODERS_DB) & files.may_be_of(its) & ~_are_saved(apart_db, files)
        is_copy[:, one] = is_saved | (is_coded & (files.is_lossless == 0) & (its.is_lossless == 1))
        is_copy[:, one] |= are_coded_up(apart_db, files, its)
    return ~is_copy


def _are_saved(apart_db: Numbers, lossy: Files) -> Mask:
    """Whether nothing, no more than two decoders differ by, or less than its encoder leaves lies between a lossy file
    and one without loss."""
    is_low = lossy.kbps < _FEW_KBPS
    saved: Mask = (apart_db <= lossy.left_db) | ((apart_db <= DECODERS_DB) & is_low)
    return saved


def are_coded_up(apart_db: Numbers, copies: Files, originals: Files) -> Mask:
    """Which lossy files with more bits a second were coded from those with fewer: the two are nearer than the encoder
    of the latter leaves its source, so it had neither the former nor what that was coded from."""
    are_lossy = (copies.is_lossless == 0) & (originals.is_lossless == 0)
    have_more = copies.kbps > _MORE_BITS * originals.kbps
    coded_up: Mask = are_lossy & have_more & (apart_db <= originals.left_db)
    return coded_up


def why_coded_up(files_2: Files) -> str:
    """Why the first of two stays that no criterion prefers: both are lossy, and the other one has more bits a second;
    else empty."""
    is_up = (files_2.is_lossless == 0).all() and files_2.kbps[1] > files_2.kbps[0]
    return "the lossy file that the other one was coded from, with more bits a second" if is_up else ""


def by_codecs(units_N: Positions, made_of: MadeOf, files_N: Files) -> Mask:
    """Who stays: what several others were made of, or what was made of none.

    A file without loss that shows a lossy one was saved of it. A lossy file was coded from what is nearest to it: one
    without loss, or a lossy one that others were saved of. A file without loss that fewer others show than the lossy
    one is no original of that: it was coded by another codec and saved, and what people edited is the lossy one.
    """
    num = len(units_N)
    lossy, kept = np.flatnonzero(files_N.is_lossless == 0), np.flatnonzero(files_N.is_lossless == 1)
    if not len(lossy):
        return np.ones(num, np.bool_)
    files_L = files_N.at(lossy)
    made = np.zeros((num, num), np.bool_)  # of the row from the column
    all_LL = _apart(made_of, units_N[lossy], units_N[lossy])
    is_up_LL = are_coded_up(all_LL, files_L.at(np.arange(len(lossy))[:, None]), files_L.at(np.arange(len(lossy))[None]))
    made[np.ix_(lossy, lossy)] = is_up_LL
    if not len(kept):
        return _stay(made, files_N.is_lossless == 0)
    apart_LK = _apart(made_of, units_N[lossy], units_N[kept])
    is_saved_LK = _are_nearest(apart_LK, _are_saved(apart_LK, files_N.at(lossy[:, None])))
    made[np.ix_(kept, lossy)] = is_saved_LK.T
    may_LK = files_N.at(lossy[:, None]).may_be_of(files_N.at(kept[None]))
    direct_LK = np.where((apart_LK > DECODERS_DB) & may_LK & ~is_saved_LK.any(axis=0), apart_LK, np.inf)
    num_saved_L = is_saved_LK.sum(axis=1)
    apart_LL = np.where(is_up_LL.T, np.inf, _by_way(all_LL, files_L, num_saved_L))
    nearest_L1 = np.minimum(direct_LK.min(axis=1), apart_LL.min(axis=1))[:, None]
    is_by_way_LL = np.isfinite(apart_LL) & (apart_LL <= _AS_NEAR * nearest_L1)
    made[np.ix_(lossy, lossy)] |= is_by_way_LL
    is_direct_LK = np.isfinite(direct_LK) & (direct_LK <= _NEAR * nearest_L1) & ~is_by_way_LL.any(axis=1)[:, None]
    for row, column in np.argwhere(is_direct_LK).tolist():
        num_saved = int(num_saved_L[row])
        if num_saved <= 1 or _num_shown(made_of, units_N[kept], column) >= num_saved:
            made[lossy[row], kept[column]] = True
    return _stay(made, files_N.is_lossless == 0)


def _stay(made: Mask, is_lossy_N: Mask) -> Mask:
    """Who stays. made: of the row from the column."""
    is_copy = np.asarray(made.any(axis=1), np.bool_)
    num_copies = np.where(is_copy, 0, made.sum(axis=0))
    if num_copies[~is_lossy_N].any():  # somebody coded a file without loss: lossy ones are copies, that of Opus too
        is_copy |= is_lossy_N & (num_copies <= 1)
        num_copies[is_copy] = 0
    for counts in (np.where(is_lossy_N, num_copies, 0), num_copies):
        if counts.max() >= _SEVERAL:
            several: Mask = counts >= _SHARE * counts.max()
            return several
    return ~is_copy


def _are_nearest(apart_LK: Numbers, is_saved_LK: Mask) -> Mask:
    """Of the lossy files that one without loss may have been saved of, those that are nearest to it."""
    saved_LK = np.where(is_saved_LK, apart_LK, np.inf)
    nearest: Mask = is_saved_LK & (saved_LK <= _AS_NEAR * saved_LK.min(axis=0) + _STEP_DB)
    return nearest


def _by_way(all_LL: Numbers, files_L: Files, num_saved_L: Positions) -> Numbers:
    """How far each lossy file is from each that more others were saved of, and that it may be of; inf of others.
    all_LL: how far each is from each."""
    rows, columns = np.indices((len(all_LL), len(all_LL)))
    may_be = files_L.at(rows).may_be_of(files_L.at(columns)) & (num_saved_L[columns] > num_saved_L[rows])
    return np.where(may_be & (all_LL >= 0), all_LL, np.inf)


def _num_shown(made_of: MadeOf, units_K: Positions, at: int) -> int:
    """How many of them show the same without a codec between, itself included."""
    rest = np.delete(units_K, at)
    return 1 + int((_apart(made_of, units_K[[at]], rest) <= UNLOST_DB).sum())


def _apart(made_of: MadeOf, ones: Positions, others: Positions) -> Numbers:
    """How far each of the ones is from each of the others, a row for each of the ones; NaN where unknown."""
    found = made_of(np.repeat(ones, len(others)), np.tile(others, len(ones)))
    return found.astype(np.float64).reshape(len(ones), len(others))

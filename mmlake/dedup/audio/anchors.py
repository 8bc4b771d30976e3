"""Whether a codec lies between two recordings: levels of the spectrum around the loudest moments of both say so.

What is done to a recording without a codec (cut, louder, mono, at another rate) keeps the levels of its loud partials
next to each other to a hundredth of a decibel. A codec moves all of them by what it rounds, and fills the valleys: no
lossy codec gives back what it was given. So a file without loss that shows the very levels of a lossy one was saved of
it, and one that a lossy file is as far from as codecs move it is what that was coded from.
Enters: mono samples at 16 kHz. Leaves: words of a print, and of two prints what lies between them. Which of the two
files is lossy is known from elsewhere.
Legend: A anchors, B those of the other one, M moments of both, G=64 groups of bins.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.audio.samples import finite
from mmlake.dedup.matching import UNLOST_DB

RATE_HZ = 16_000
_WINDOW, _BLOCK = 2_048, 16  # samples: 128 ms around an anchor, which is sought from millisecond to millisecond
_REFINED = 48  # samples to either side
_APART_S, _MOST = 0.125, 12  # an anchor is the loudest moment within this time; so many of a unit
_AUDIBLE = 1e-6  # mean square: -60 dB
_FIRST, _GROUPS, _BINS = 24, 64, 8  # bins of 7.8 Hz: 187 Hz to 4.2 kHz, which recordings at 8 kHz have
_PARTS = 256.0  # of a decibel, in what is kept
_NUM_WORDS = 1 + _GROUPS // 4
_LOUD_DB, _WEAK_DB = 20.0, (25.0, 50.0)  # below the loudest group
_LEAST_LOUD, _LEAST_WEAK = 2, 3  # groups
_ALIKE_DB = 3.0  # mean difference of the loud groups: other moments are further apart
_SAME_PLACE = 64  # samples: 4 ms that a codec moves the loudest moment by
# of 26 families of edits (benchmarks.dedup_edits.audio) and 12 recordings by 23 codecs and rates: what no codec was
# between is .03 dB apart at most, resampled .2; codecs leave .03 (Opus of speech at 256 kbit/s) to 5 dB
_CODED_DB, _FURTHEST_DB = 1.0, 5.5
_SCALED_DB = (-0.8, 0.3)  # what encoders change the level by: LAME takes .45 dB off up to 160 kbit/s
# what noise fills valleys by, in dB and of their distance: one that has them filled is no original
_FILLED_DB, _FILLED = 0.25, 0.6
_SHARE, _CODED_SHARE, _LEAST = 0.35, 0.5, 2  # of the moments of the one that has fewer, and how many
# rounding to 16 bits at 16 kHz in the units of levels (its mean square is a twelfth of a step squared, a Hann window
# leaves .375 of it), and what noise moves a level by that is as strong: the median of its part along the phase of a
# partial. Of faint recordings rounding moves valleys by tenths of a decibel, as codecs do. Medians of a few groups
# differ, so up to 1.5 times as much is rounding, and what it moves by more than half a decibel says nothing
_ROUNDING_DB = 10 * math.log10(_WINDOW * 0.375 * 2.0**-30 / 12)
_MOVED_DB = 0.6745 * 20 / math.log(10) / math.sqrt(2)
_SLACK, _MOST_ROUNDED_DB = 1.5, 0.5


class Anchors(NamedTuple):
    """The loudest moments of a recording."""

    at_A: NDArray[np.int64]  # sample in the middle
    levels_AG: NDArray[np.float32]  # dB, the loudest bin of each group


class Apart(NamedTuple):
    """How far one recording is from another in what both have, medians in dB."""

    num: int  # moments
    share: float  # of those of the one that has fewer
    loud: float  # without the gain, beyond what rounding to 16 bits moves levels by
    weak: float  # the same of the valleys; NaN where nothing is so weak, or rounding alone moves it
    raised: float  # valleys of the one over those of the other, the mean
    gain: float  # of the one over the other


def words(samples: NDArray[np.float32]) -> NDArray[np.uint64]:
    """The print of mono samples at 16 kHz, 17 words an anchor; empty below 128 ms, and where all is below -60 dB."""
    at_A = _loudest(samples)
    if not len(at_A):
        return np.empty(0, np.uint64)
    frames = np.stack([samples[at - _WINDOW // 2 : at + _WINDOW // 2] for at in at_A.tolist()])
    spectrum = np.fft.rfft(finite(frames) * np.hanning(_WINDOW).astype(np.float32), axis=1)
    groups_AGB = spectrum[:, _FIRST : _FIRST + _GROUPS * _BINS].reshape(len(at_A), _GROUPS, _BINS)
    levels_AG = 20 * np.log10(np.abs(groups_AGB).max(axis=2) + 1e-6)
    kept = np.clip(np.rint(levels_AG * _PARTS), -32_768, 32_767).astype("<i2")
    found: NDArray[np.uint64] = np.concatenate((at_A.astype("<u8")[:, None], kept.view("<u8")), axis=1).ravel()
    return found.astype(np.uint64)


def unpacked(print_: NDArray[np.uint64]) -> Anchors:
    """What `words` kept."""
    rows = np.ascontiguousarray(print_, "<u8").reshape(-1, _NUM_WORDS)
    levels_AG = np.ascontiguousarray(rows[:, 1:]).view("<i2").astype(np.float32)
    return Anchors(rows[:, 0].astype(np.int64), levels_AG / np.float32(_PARTS))


def coded_db(copy: Anchors, original: Anchors) -> float:
    """How far a codec moved the one from the other, in its loud parts and in the valleys together: at most `UNLOST_DB`
    where none lies between them, whichever was first; NaN where the one is not as codecs make it of the other."""
    found = apart(copy, original)
    if found is None or found.share < _SHARE:
        return math.nan
    if found.num < _LEAST and found.share < 1:  # the latter of what has one loud moment
        return math.nan
    distance = found.loud + (0.0 if math.isnan(found.weak) else found.weak)
    if distance <= UNLOST_DB:
        return distance
    is_scaled = _SCALED_DB[0] <= found.gain <= _SCALED_DB[1]
    is_filled = found.raised <= -max(_FILLED_DB, _FILLED * found.weak)
    is_coded = found.share >= _CODED_SHARE and is_scaled and not is_filled
    return distance if is_coded and found.loud <= _CODED_DB and distance <= _FURTHEST_DB else math.nan


def apart(one: Anchors, other: Anchors) -> Apart | None:
    """How far the one is from the other; None where no moment of both is the same."""
    if not len(one.at_A) or not len(other.at_A):
        return None
    is_loud = [side.levels_AG >= side.levels_AG.max(axis=1, keepdims=True) - _LOUD_DB for side in (one, other)]
    both_ABG = is_loud[0][:, None] & is_loud[1][None]
    num_AB = both_ABG.sum(axis=2)
    apart_ABG = one.levels_AG[:, None] - other.levels_AG[None]
    gain_AB = (apart_ABG * both_ABG).sum(axis=2) / np.maximum(num_AB, 1)
    mean_AB = (np.abs(apart_ABG - gain_AB[:, :, None]) * both_ABG).sum(axis=2) / np.maximum(num_AB, 1)
    mean_AB[num_AB < _LEAST_LOUD] = np.inf
    rows, best = np.arange(len(mean_AB)), mean_AB.argmin(axis=1)
    is_mutual = (mean_AB.argmin(axis=0)[best] == rows) & (mean_AB[rows, best] <= _ALIKE_DB)
    rows, best = rows[is_mutual], best[is_mutual]
    if not len(rows):
        return None
    shift_M = other.at_A[best] - one.at_A[rows]
    is_near_MM = np.abs(shift_M[:, None] - shift_M) <= _SAME_PLACE
    chosen = is_near_MM[np.argmax(is_near_MM.sum(axis=1))]  # as most of them are shifted
    rows, best = rows[chosen], best[chosen]
    share = len(rows) / min(mean_AB.shape)
    pairs_2MG = np.stack((one.levels_AG[rows], other.levels_AG[best]))
    return _measured(pairs_2MG, both_ABG[rows, best], share)


def _measured(levels_2MG: NDArray[np.float32], is_loud_MG: NDArray[np.bool_], share: float) -> Apart:
    """The same of their common moments. levels_2MG: those of both."""
    apart_MG, either_MG = levels_2MG[0] - levels_2MG[1], levels_2MG.mean(axis=0)
    rounded_MG = _MOVED_DB * 10 ** ((_ROUNDING_DB - levels_2MG.min(axis=0)) / 20)
    below_MG = either_MG.max(axis=1, keepdims=True) - either_MG
    is_weak_MG = (below_MG >= _WEAK_DB[0]) & (below_MG <= _WEAK_DB[1]) & (rounded_MG <= _MOST_ROUNDED_DB)
    louds, weaks, raised, gains = [], [], [], []
    for apart_G, rounded_G, is_loud_G, is_weak_G in zip(apart_MG, rounded_MG, is_loud_MG, is_weak_MG, strict=True):
        gains.append(float(np.median(apart_G[is_loud_G])))
        louds.append(_beyond(apart_G[is_loud_G] - gains[-1], rounded_G[is_loud_G]))
        weak = apart_G[is_weak_G] - gains[-1]
        if len(weak) >= _LEAST_WEAK:
            weaks.append(_beyond(weak, rounded_G[is_weak_G]))
            raised.append(float(weak.mean()))
    weak_dB, raised_dB = (float(np.median(values)) if values else np.nan for values in (weaks, raised))
    return Apart(len(gains), share, float(np.median(louds)), weak_dB, raised_dB, float(np.median(gains)))


def _beyond(apart: NDArray[np.float32], rounded: NDArray[np.float32]) -> float:
    """How far levels are apart, in the median, beyond what rounding moves them by."""
    moved = _SLACK * float(np.median(rounded))
    return math.sqrt(max(0.0, float(np.median(np.abs(apart))) ** 2 - moved**2))


def _loudest(samples: NDArray[np.float32]) -> NDArray[np.int64]:
    """The samples in the middle of the loudest moments, in their order."""
    num, span = len(samples) // _BLOCK, _WINDOW // _BLOCK
    if num < span:
        return np.empty(0, np.int64)
    blocks = finite(samples[: num * _BLOCK]).reshape(num, _BLOCK)
    power = _weighted(np.einsum("ij,ij->i", blocks, blocks).astype(np.float64), span)
    reach = round(_APART_S * RATE_HZ / _BLOCK)
    parts = np.pad(power, (0, -len(power) % reach), constant_values=-1.0).reshape(-1, reach)
    tops = np.argmax(parts, axis=1) + np.arange(len(parts)) * reach
    around = np.pad(parts.max(axis=1), 1, constant_values=-1.0)
    tops = tops[(power[tops] >= np.maximum(around[:-2], around[2:])) & (power[tops] > _AUDIBLE * _AREA)]
    tops = tops[np.argsort(-power[tops], kind="stable")[:_MOST]]
    return np.unique(np.array([_refined(samples, int(top) * _BLOCK) for top in tops], np.int64))


_AREA = _BLOCK * (_WINDOW // _BLOCK // 2) ** 2  # what `_weighted` makes of a mean square of 1


def _refined(samples: NDArray[np.float32], begin: int) -> int:
    """The middle of the loudest window that begins within some samples of this one."""
    low = max(0, begin - _REFINED)
    part = finite(samples[low : begin + _REFINED + _WINDOW]).astype(np.float64)
    return low + int(np.argmax(_weighted(part**2, _WINDOW))) + _WINDOW // 2


def _weighted(power: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """Sums of each so many behind each other, of which those in the middle count most."""
    half = size // 2
    sums = np.cumsum(np.pad(power, (1, 0)))
    sums = np.cumsum(np.pad(sums[half:] - sums[:-half], (1, 0)))
    found: NDArray[np.float64] = (sums[half:] - sums[:-half])[: len(power) - size + 1]
    return found

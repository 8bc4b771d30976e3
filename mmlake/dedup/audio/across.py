"""What a recording has in common with several units of one item behind each other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.audio import bands, chroma
from mmlake.dedup.audio.align import Words, agreement, words_at
from mmlake.dedup.audio.fingerprints import BANDS, METHOD, Recordings, may_be_lost
from mmlake.dedup.prints import KEYS, Positions, PrintTable, Ragged
from mmlake.dedup.settings import DedupSettings

_STEPS_S = {METHOD: chroma.STEP_S, BANDS: bands.STEP_S}
_MOST_PARTS = 6  # of one unit: a cut or two, and what was put in between
_LEAST_S = 2.7  # of a part that is sought: a word of Chromaprint
# what follows a part at the place where the run goes on: correlation of band signs, words that say something, the share
# of them that meet others which do, and how far the place may be off
_GOES_ON, _GOES_ON_WORDS, _GOES_ON_SHARE, _OFF_S = 0.4, 24, 0.6, 0.25
_HALF = np.uint64(32)
Print = dict[str, Words]  # by method


class Runs:
    """See `mmlake.dedup.stars.across.Covers`."""

    def __init__(self, prints: PrintTable, settings: DedupSettings) -> None:
        self._prints, self._settings = {method: prints[method] for method in _STEPS_S}, settings

    def covered(self, one: int, run: Positions, seconds: NDArray[np.float64]) -> float:
        """How alike the recording and the parts of the run that make it up are; 0 where that is not all of it."""
        unit = {method: rows[one] for method, rows in self._prints.items()}
        whole = {method: self._laid(method, run, seconds) for method in _STEPS_S}
        total_s = max(len(words) * _STEPS_S[method] for method, words in unit.items())
        held_s, scores, rests = 0.0, [1.0], [(0.0, total_s)]
        for _ in range(_MOST_PARTS):
            if not rests:
                break
            first_s, end_s = rests.pop(0)
            share, score, span_s = self._part(unit, whole, first_s, end_s)
            if not share:
                continue
            scores.append(score)
            low_s, high_s, shift_s = first_s + span_s[0], first_s + span_s[1], span_s[2] - span_s[0] - first_s
            held_s += min(share * (end_s - first_s), high_s - low_s)
            for rest in ((first_s, low_s), (high_s, end_s)):
                if _goes_on(unit[BANDS], whole[BANDS], *rest, shift_s):
                    held_s += rest[1] - rest[0]
                elif rest[1] - rest[0] >= _LEAST_S:
                    rests.append(rest)
        return min(scores) if held_s and may_be_lost(1 - min(held_s / total_s, 1.0), total_s) else 0.0

    def _part(self, unit: Print, whole: Print, first_s: float, end_s: float) -> tuple[float, float, tuple[float, ...]]:
        """As `Recordings.part_in` has it, of what lies between two moments of the unit."""
        table = {KEYS: Ragged.empty(2)}
        for method, step_s in _STEPS_S.items():
            part = unit[method][round(first_s / step_s) : round(end_s / step_s)]
            table[method] = Ragged.of([part, whole[method]])
        return Recordings(table, self._settings).part_in(0, 1)

    def _laid(self, method: str, run: Positions, seconds: NDArray[np.float64]) -> Words:
        """The words of all units of the run, each at its time: a word covers some seconds, so the last of a unit
        begins before its end, and what is between it and the next unit's first is as silence."""
        begins = np.round(np.concatenate(([0.0], np.cumsum(seconds))) / _STEPS_S[method]).astype(np.int64)
        words = np.zeros(int(begins[-1]), np.uint64)
        for at, begin in zip(run.tolist(), begins[:-1].tolist(), strict=True):
            own = self._prints[method][at][: len(words) - begin]
            words[begin : begin + len(own)] = own
        return words


def _goes_on(unit: Words, whole: Words, first_s: float, end_s: float, shift_s: float) -> bool:
    """Whether the run has what lies between two moments of the unit where it would go on: the words of Chromaprint that
    cross a border of two units are in neither, and few are left of what lies behind it."""
    step_s = _STEPS_S[BANDS]
    first, end = max(round(first_s / step_s), 0), min(round(end_s / step_s), len(unit))
    part = unit[first:end]
    num = np.count_nonzero(part >> _HALF)
    if num < _GOES_ON_WORDS:
        return False
    off = round(_OFF_S / step_s)
    shifts = round(shift_s / step_s) + np.arange(-off, off + 1)
    others = words_at(whole, np.arange(first, end) + shifts[:, None])
    is_there = np.count_nonzero((part >> _HALF != 0) & (others >> _HALF != 0), axis=1) >= _GOES_ON_SHARE * num
    return bool((is_there & (agreement(np.broadcast_to(part, others.shape), others) >= _GOES_ON)).any())

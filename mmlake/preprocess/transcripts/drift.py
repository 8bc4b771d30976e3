"""Whether the times of a transcript drift away from its sound: a recognizer that skips silence is late by seconds after
half an hour, and a step of a subtitle file by a second.

Enters: cues with their times, and the spans in which somebody speaks. Leaves: how late the cues are, over time, and
cues whose times follow the sound again. Windows of 30 s slide over the recording; in each the mask of the words is
correlated with the mask of the speech. Cues of another release, whose lags jump or are beyond the reach of windows, are
found by all of them together (`piecewise_lags.py`), also at the speeds of cinema and television. Nothing here decodes
sound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mmlake.preprocess.transcripts.piecewise_lags import PiecewiseLags, piecewise_lags, time_mask
from mmlake.preprocess.transcripts.subtitles import Cue

# W windows, L lags
MAX_DRIFT_S = 0.5  # what may remain: subtitles appear a little before a word and vanish a little after it
_STEP_S = 0.05  # of the masks
_WINDOW_S, _HOP_S = 30.0, 10.0
_MAX_LAG_S = 15.0  # to either side; recognizers drift by 8 to 12 s in an hour
_MIN_CORRELATION = 0.55  # of the masks; unrelated ones reach .45 at their best lag
_MIN_LEAD = 0.1  # over the best correlation elsewhere
_LEAD_APART_S = 1.0
_MIN_PAUSED = 0.08  # of a window: speech without pauses fits everywhere, and so does hardly any
_SAME_S = 0.05
_NEAR_S = 0.3  # windows next to each other agree to this
_MIN_WINDOWS = 3  # that agree, for drift to be stated
# and this share of those in which both could be measured: of a right transcript nearly all agree, of one of something
# else three of 170 do by chance, as windows overlap
_MIN_AGREEING = 0.2

_SURE = 0.6  # of right transcripts more agree
# of films of 24 pictures a second that are shown with 25, and the reverse; 23.976 is as near to 24 as a drift
_SPEEDS = (25 / 24, 24 / 25)

Times = NDArray[np.float64]
Span = tuple[float, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Drift:
    """How late the cues are, where that can be measured."""

    times_s: Times  # of the windows' middles, on the clock of the cues
    late_s: Times  # by how much the cues come after their speech

    @property
    def worst_s(self) -> float:
        """The largest drift, with its sign."""
        return float(self.late_s[np.argmax(np.abs(self.late_s))])

    @property
    def knots(self) -> tuple[tuple[float, float], ...]:
        """The fewest (time on the clock of the cues, how late they are) that say the same to a twentieth of a second,
        what lies between two being interpolated."""
        kept, todo = {0, len(self.times_s) - 1}, [(0, len(self.times_s) - 1)]
        while todo:  # Douglas and Peucker, 1973
            first, last = todo.pop()
            between = np.interp(self.times_s[first : last + 1], self.times_s[[first, last]], self.late_s[[first, last]])
            off_s = np.abs(self.late_s[first : last + 1] - between)
            if off_s.max() > _SAME_S:
                middle = first + int(off_s.argmax())
                if middle in (first, last):  # two lags at one time
                    continue
                kept.add(middle)
                todo += [(first, middle), (middle, last)]
        return tuple((float(self.times_s[at]), float(self.late_s[at])) for at in sorted(kept))

    def corrected(self, cues: Sequence[Cue]) -> tuple[Cue, ...]:
        """The cues at the times of their speech; what lies between two windows is interpolated."""
        return tuple(
            cue
            if cue.start_s is None or cue.end_s is None
            else replace(cue, start_s=max(0.0, self._sound_s(cue.start_s)), end_s=max(0.0, self._sound_s(cue.end_s)))
            for cue in cues
        )

    def _sound_s(self, time_s: float) -> float:
        return time_s - float(np.interp(time_s, self.times_s, self.late_s))


def drift_of(cues: Sequence[Cue], speech: Sequence[Span], duration_s: float) -> Drift | None:
    """The drift of the cues against where somebody speaks; None where it is nowhere above MAX_DRIFT_S in windows that
    agree with their neighbours, or cannot be measured."""
    timed = [(cue.start_s, cue.end_s) for cue in cues if cue.start_s is not None and cue.end_s is not None]
    if not timed or not speech:
        return None
    found = _at_speed(timed, speech, duration_s, 1.0)
    release = _release(timed, speech, duration_s)
    if release is not None:
        return _of_release(release, found, timed, speech, duration_s)
    if found.agreement < _SURE:  # else no other speed is tried
        found = max(found, *(_at_speed(timed, speech, duration_s, speed) for speed in _SPEEDS), key=_Found.agreement_of)
    is_drift = found.num_late >= _MIN_WINDOWS and found.agreement >= _MIN_AGREEING
    return found.drift if is_drift else None


@dataclass(frozen=True, slots=True)
class _Found:
    """The drift of cues that were made for a film of one speed."""

    drift: Drift
    agreement: float  # windows that agree with their neighbours, as a share of those in which both can be measured

    @property
    def num_late(self) -> int:
        """Windows that are further off than may remain."""
        return int(np.count_nonzero(np.abs(self.drift.late_s) > MAX_DRIFT_S))

    def agreement_of(self) -> float:
        """What of several is compared."""
        return self.agreement


def _release(timed: Sequence[Span], speech: Sequence[Span], duration_s: float) -> tuple[float, PiecewiseLags] | None:
    """(the speed of the film that all cues together are for, their lags at it); None where they are for none."""
    plain = piecewise_lags(timed, speech, duration_s)
    if plain is not None and plain.num_stretches == 1:
        return 1.0, plain
    # several lags may be the steps of a stair that goes up at another speed
    others = ((speed, piecewise_lags(_slowed(timed, speed), speech, duration_s)) for speed in _SPEEDS)
    found = [(speed, lags) for speed, lags in ((1.0, plain), *others) if lags is not None]
    return max(found, key=lambda one: one[1].evidence) if found else None


def _of_release(
    release: tuple[float, PiecewiseLags],
    plain: _Found,
    timed: Sequence[Span],
    speech: Sequence[Span],
    duration_s: float,
) -> Drift | None:
    """The drift by windows around the one offset of all cues, which are exact to less than the steps of lags; by lags
    where they jump, or few windows agree."""
    speed, lags = release
    if speed == 1.0 and np.abs(lags.late_s).max() <= MAX_DRIFT_S:
        return None  # what single windows show is chance
    if lags.num_stretches == 1:
        offset_s = float(np.median(lags.late_s))
        is_near = speed == 1.0 and abs(offset_s) <= _MAX_LAG_S
        found = plain if is_near else _at_speed(timed, speech, duration_s, speed, offset_s=offset_s)
        if found.agreement >= _SURE and found.num_late >= _MIN_WINDOWS:
            return found.drift
    # beyond the ends as at them, on the clock of the film
    times_s = np.array([min(0.0, lags.times_s[0]), *lags.times_s, max(lags.times_s[-1], timed[-1][1] / speed)])
    late_s = np.array([lags.late_s[0], *lags.late_s, lags.late_s[-1]])
    return Drift(times_s=times_s * speed, late_s=late_s + times_s * (speed - 1))


def _slowed(timed: Sequence[Span], speed: float) -> list[Span]:
    return [(start_s / speed, end_s / speed) for start_s, end_s in timed]


def _at_speed(
    timed: Sequence[Span], speech: Sequence[Span], duration_s: float, speed: float, *, offset_s: float = 0.0
) -> _Found:
    """Lags are measured on the clock of a film that runs at that speed and begins so much later. At its ends they are
    those of the nearest windows."""
    own = [(start_s / speed - offset_s, end_s / speed - offset_s) for start_s, end_s in timed]
    length_s = max(duration_s, max(end_s for _, end_s in own))
    words, spoken = time_mask(own, length_s, _STEP_S), time_mask(speech, length_s, _STEP_S)
    window, hop = round(_WINDOW_S / _STEP_S), round(_HOP_S / _STEP_S)
    starts = range(0, max(1, len(words) - window // 2), hop)
    found = [(start, _lag(words, spoken, start, window)) for start in starts]
    measured = [((start + window / 2) * _STEP_S, lag_s) for start, lag_s in found if lag_s is not None]
    times_s, late_s = np.array([one for one, _ in measured]), np.array([one for _, one in measured])
    agree = np.array([_agrees(times_s, late_s, at) for at in range(len(measured))], bool)
    times_s, late_s = times_s[agree], late_s[agree]
    num_paused = sum(_is_paused(words[start : start + window]) for start in starts)
    agreement = len(late_s) / num_paused if num_paused else 0.0
    if speed != 1.0 and len(late_s):
        times_s, late_s = np.array([-offset_s, *times_s, length_s]), np.array([late_s[0], *late_s, late_s[-1]])
    cue_times_s = (times_s + offset_s) * speed
    return _Found(Drift(times_s=cue_times_s, late_s=late_s + cue_times_s - times_s), agreement)


def _is_paused(mask: NDArray[np.float32]) -> bool:
    return bool(_MIN_PAUSED <= float(mask.mean()) <= 1 - _MIN_PAUSED)


def _lag(words: NDArray[np.float32], spoken: NDArray[np.float32], start: int, window: int) -> float | None:
    """How much later the words of a window come than their speech; None where no lag stands out."""
    own = words[start : start + window]
    if not _is_paused(own) or len(own) < window // 2:
        return None
    reach = round(_MAX_LAG_S / _STEP_S)
    around = np.pad(spoken, reach)[start : start + len(own) + 2 * reach]
    views = np.lib.stride_tricks.sliding_window_view(around, len(own))
    centred = own - own.mean()
    total = np.concatenate([[0.0], np.cumsum(around, dtype=np.float64)])
    mean_L = (total[len(own) :] - total[: len(views)]) / len(own)
    deviation_L = np.sqrt(np.maximum(mean_L * (1 - mean_L), 0.0)) * float(own.std()) * len(own)  # of zeros and ones
    alike_L = np.where(deviation_L > 1e-6, (views @ centred) / np.maximum(deviation_L, 1e-6), 0.0)
    best = int(np.argmax(alike_L))
    apart = np.abs(np.arange(len(alike_L)) - best) > _LEAD_APART_S / _STEP_S
    if alike_L[best] < _MIN_CORRELATION or alike_L[best] - float(alike_L[apart].max(initial=0.0)) < _MIN_LEAD:
        return None
    return (reach - best) * _STEP_S


def _agrees(times_s: Times, late_s: Times, at: int) -> bool:
    """Whether a window next to it has the same lag."""
    near = (np.abs(times_s - times_s[at]) <= 2 * _HOP_S) & (np.arange(len(times_s)) != at)
    return bool((np.abs(late_s[near] - late_s[at]) <= _NEAR_S).any())

"""Where something happens in pictures and in sound, and how far the two are apart.

Enters: how far each frame differs from the one before, with its time, and 16 kHz sound of the same stretch. Leaves:
an offset with its evidence, or none. What happens in a picture is a light that goes on, or a motion that starts; what
happens in a sound is a sudden rise of its level. Where sounds come as regularly with the end of motions, nobody knows
which of both makes them, and there is no offset. Nothing here decodes media.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import NDArray

# T frames, E events of the picture, A events of the sound
_MIN_RISE, _NOISE_TIMES = 4.0, 6.0  # grey levels, and medians of what frames usually differ by
_REST_S = 0.2  # of calm before a start
_FEW = 2  # frames of calm at least: a frame that is shown twice is no stop
_MIN_FRAMES = 12
_APART_S = 0.15  # events that are nearer than this are one
_STEP_S = 0.002  # of levels
_AFTER_STEPS, _BEFORE_STEPS, _GUARD_STEPS = 5, 15, 1  # steps whose levels are compared
_RISE_DB, _FLOOR_DB, _RANGE_DB = 9.0, -65.0, 50.0
_EVENTS_PER_S = 2.5  # the loudest ones: in dense sound everything matches
_PRE_EMPHASIS = 0.95
_MAX_LAG_S, _LAG_STEP_S = 0.75, 0.004
_NULL_LAGS_S = (1.0, 12.0)  # at which nothing is expected to match
_JITTER_S = 0.006  # of found onsets, to either side
_TAIL = 0.1  # of the gaps, at both ends, that may be of unrelated events
_ON_FRAMES_FRACTION = 0.25  # of a frame: gaps that differ by less are of events that fall on frames
NUM_NEEDED = 5  # events of each kind
_MIN_MATCHED_FRACTION = 0.4  # of the events of the picture
_MAX_RIVAL_FRACTION = 0.6  # matches at another lag, over those at the best one: a rhythm fits at several
_MAX_ERROR_S = 0.01
_NUM_KINDS = 2  # of events that are tried
_MAX_CHANCE = 1e-4  # that unrelated events match as well as these
_RIVAL_APART_S = 0.08

Times = NDArray[np.float64]
Trace = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Offset:
    """How far sound and picture are apart."""

    offset_s: float | None  # the sound comes so much later than the picture; None where the evidence is not enough
    confidence: float  # 1 - chance that unrelated events match as well, 0..1
    num_events: int  # of the picture that have one of the sound at that offset


UNDECIDED = Offset(offset_s=None, confidence=0.0, num_events=0)


def offset_between(
    moved_T: Trace, brighter_T: Trace, times_s: Times, samples: NDArray[np.float32], rate_hz: int
) -> Offset:
    """The offset of the sound against the picture. times_s: when each frame is shown, from sample 0 on; moved_T,
    brighter_T: how far it differs from the frame before, as `frame_motion` and `frame_light` of its track say."""
    if len(times_s) < _MIN_FRAMES or not len(samples):
        return UNDECIDED
    sounded_s = sound_events(samples, rate_hz)
    duration_s = min(float(times_s[-1]), len(samples) / rate_hz)
    seen = picture_events(moved_T, brighter_T, times_s)
    rivals = (seen.any_starts_s, seen.stops_s)
    found = [
        # a picture that becomes brighter as a whole is what a light does; when it goes out is no rival
        matched(seen.brighter_s, (seen.brighter_s,), sounded_s, times_s, duration_s),
        matched(seen.starts_s, rivals, sounded_s, times_s, duration_s),
    ]
    return next((one for one in found if one.offset_s is not None), max(found, key=lambda one: one.confidence))


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """When something happens in the picture: the first frame that shows it."""

    brighter_s: Times  # all of the picture, at once
    starts_s: Times  # of motion after a while of calm
    any_starts_s: Times  # after however short a calm
    stops_s: Times  # likewise before one


def picture_events(moved_T: Trace, brighter_T: Trace, times_s: Times) -> Seen:
    """What happens in the pictures."""
    any_starts_T = _edges(moved_T, _FEW)
    calm = max(_FEW, round(_REST_S / float(np.median(np.diff(times_s)))))
    return Seen(
        brighter_s=_strongest(np.where(any_starts_T > 0, brighter_T, 0.0), times_s, _MIN_RISE),
        starts_s=_strongest(_edges(moved_T, calm), times_s, _MIN_RISE),
        any_starts_s=_strongest(any_starts_T, times_s, _MIN_RISE),
        stops_s=_strongest(_edges(moved_T[::-1], _FEW)[::-1], times_s, _MIN_RISE),
    )


def _edges(moved_T: Trace, num_calm: int) -> Trace:
    """How far the motion of each frame is above that of so many frames before; 0 where it is not clear of what frames
    usually differ by."""
    calm_T = np.zeros_like(moved_T)
    for back in range(1, num_calm + 1):
        calm_T[back:] = np.maximum(calm_T[back:], moved_T[:-back])
    rise_T = moved_T - calm_T
    rise_T[: num_calm + 1] = 0
    rise_T[rise_T < _NOISE_TIMES * float(np.median(np.abs(np.diff(moved_T))))] = 0
    return rise_T


def sound_events(samples: NDArray[np.float32], rate_hz: int) -> Times:
    """When the level rises suddenly, in increasing order."""
    step = max(1, round(_STEP_S * rate_hz))
    num_steps = len(samples) // step
    if num_steps <= _BEFORE_STEPS + _GUARD_STEPS + _AFTER_STEPS:
        return np.zeros(0)
    sharp = np.diff(samples, prepend=samples[:1]) + (1 - _PRE_EMPHASIS) * samples
    power = np.square(sharp[: num_steps * step].astype(np.float64)).reshape(num_steps, step).mean(axis=1)
    level_db = 10 * np.log10(power + 1e-12)
    level_db = np.maximum(level_db, max(_FLOOR_DB, float(level_db.max()) - _RANGE_DB))
    total = np.concatenate([[0.0], np.cumsum(level_db)])
    at = np.arange(_BEFORE_STEPS + _GUARD_STEPS, num_steps - _AFTER_STEPS)
    after = (total[at + _AFTER_STEPS] - total[at]) / _AFTER_STEPS
    before = (total[at - _GUARD_STEPS] - total[at - _GUARD_STEPS - _BEFORE_STEPS]) / _BEFORE_STEPS
    rise = np.zeros(num_steps)
    rise[at] = after - before
    most = round(_EVENTS_PER_S * num_steps * step / rate_hz) + 1
    return _strongest(rise, np.arange(num_steps) * step / rate_hz, _RISE_DB, most=most)


def _strongest(rises: NDArray[np.floating], times_s: Times, least: float, *, most: int | None = None) -> Times:
    """Times of the largest rises that are apart from each other, in increasing order."""
    wanted = np.flatnonzero(rises >= least)
    kept: list[float] = []
    taken = np.zeros(0)
    for at in wanted[np.argsort(-rises[wanted], kind="stable")]:
        if most is not None and len(kept) >= most:
            break
        if not len(taken) or np.abs(taken - times_s[at]).min() >= _APART_S:
            kept.append(float(times_s[at]))
            taken = np.array(kept)
    return np.sort(taken)


def matched(seen_s: Times, rivals: tuple[Times, ...], sounded_s: Times, times_s: Times, duration_s: float) -> Offset:
    """The offset at which events of the picture have one of the sound, where they have it at no other offset and more
    often than by chance. rivals: all that might be what makes the sound."""
    if len(seen_s) < NUM_NEEDED or len(sounded_s) < NUM_NEEDED:
        return UNDECIDED
    width_s = (
        float(np.median(np.diff(times_s))) + 2 * _JITTER_S
    )  # a frame shows what happened at any time since the one before
    lags_s = np.arange(-_MAX_LAG_S - width_s, _MAX_LAG_S + _LAG_STEP_S, _LAG_STEP_S)
    counts = _counts(seen_s, sounded_s, lags_s, width_s)
    best = int(counts.max())
    tops_s = lags_s[counts == best]
    centre_s = float(np.median(tops_s))
    if best < max(NUM_NEEDED, _MIN_MATCHED_FRACTION * len(seen_s)) or float(np.ptp(tops_s)) >= width_s:
        return UNDECIDED
    far_s = np.arange(_NULL_LAGS_S[0], min(_NULL_LAGS_S[1], duration_s / 2), 4 * _LAG_STEP_S)
    null = _counts(seen_s, sounded_s, np.concatenate([-far_s, far_s]), width_s)
    others_s = lags_s[np.abs(lags_s - centre_s) > width_s + _RIVAL_APART_S]
    most = max(int(_counts(one_s, sounded_s, others_s, width_s).max(initial=0)) for one_s in rivals)
    if max(most, int(null.max(initial=0))) > _MAX_RIVAL_FRACTION * best:
        return UNDECIDED
    usual = float(null.mean()) / len(seen_s) if len(null) else 0.0
    chance = min(1.0, max(len(sounded_s) * width_s / duration_s, usual))
    num_lags = _NUM_KINDS * 2 * _MAX_LAG_S / width_s
    odds = min(1.0, num_lags * _at_least(best, len(seen_s), chance))
    if odds >= _MAX_CHANCE:
        return Offset(offset_s=None, confidence=1 - odds, num_events=0)
    gaps_s, spacings_s = _gaps(seen_s, sounded_s, times_s, lag_s=centre_s, width_s=width_s)
    return Offset(offset_s=_without_frames(gaps_s, spacings_s), confidence=1 - odds, num_events=len(gaps_s))


def _counts(seen_s: Times, sounded_s: Times, lags_s: Times, width_s: float) -> NDArray[np.int64]:
    """How many events of the picture have one of the sound within [event + lag, event + lag + width)."""
    starts = seen_s[None] + lags_s[:, None]
    found: NDArray[np.int64] = (np.searchsorted(sounded_s, starts + width_s) > np.searchsorted(sounded_s, starts)).sum(
        1
    )
    return found


def _gaps(seen_s: Times, sounded_s: Times, times_s: Times, *, lag_s: float, width_s: float) -> tuple[Times, Times]:
    """(gap, time since the frame before) of each event of the picture that has one of the sound."""
    after = np.searchsorted(sounded_s, seen_s + lag_s)
    ok = np.searchsorted(sounded_s, seen_s + lag_s + width_s) > after
    at = np.searchsorted(times_s, seen_s[ok])
    return sounded_s[after[ok]] - seen_s[ok], times_s[at] - times_s[at - 1]


def _without_frames(gaps_s: Times, spacings_s: Times) -> float | None:
    """The offset of what happened, not of the frames that show it: each gap is short of it by no more than the time
    since the frame before. Where the gaps hardly differ, events fall on frames, and none is short of it. None where
    that leaves more than is promised open."""
    low, high = np.quantile(gaps_s, (_TAIL, 1 - _TAIL))
    if high - low < _ON_FRAMES_FRACTION * float(np.median(spacings_s)):
        return float(np.median(gaps_s))
    least, most = float(gaps_s.max()), float((gaps_s + spacings_s).min())
    return (least + most) / 2 if abs(most - least) <= 2 * _MAX_ERROR_S else None


def _at_least(num: int, total: int, chance: float) -> float:
    """The chance of so many hits or more in so many tries."""
    return float(sum(comb(total, k) * chance**k * (1 - chance) ** (total - k) for k in range(num, total + 1)))

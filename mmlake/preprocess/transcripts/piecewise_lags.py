"""By how much the cues of another cut of a film are late, part by part: an intro that one release lacks, an
advertisement that a broadcast has in the middle, a scene that was taken out.

Enters: when cues are shown and when somebody speaks. Leaves: one lag for each stretch of cues, with the places between
them. All lags of five minutes to either side are compared over the whole film at once, by a search for the likeliest
path (Viterbi, 1967): what one window of 30 s cannot say among so many lags, minutes say together. No sound is decoded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# B blocks of cue time, L lags, T steps of time
_STEP_S, _BLOCK_STEPS = 0.1, 50
_REACH_S = 300.0  # to either side: a long intro, or the breaks of an hour of television together
# Of a right transcript, masks of words and speech correlate by .55 and more (`drift.py`); what this much would show of
# each step is its evidence, in nats. Neighbouring steps say the same: words and pauses last about a second.
_CORRELATION, _STEPS_PER_WITNESS = 0.5, 10
_RARE = 0.03  # no step proves anything: detectors err, and lines are left out
# One of 6,000 lags has 9 nats by chance alone, and a film has hundreds of places to jump at: no stretch of subtitles of
# other films got more than 24
_JUMP_NATS, _MIN_STRETCH_NATS = 24.0, 30.0
_SLIDE_NATS = 1.0  # for a tenth of a second more or less from block to block
_MIN_COVERED = 0.5  # of the blocks: words of which only a part lies on speech are of something else
_INSTANT = 1e-3  # steps, between two lags at one place
_MIN_SHARE = 0.5  # of the evidence that masks which correlate so show: right ones have .9 and more, wrong ones none
_BEYOND_STEPS = 300  # around a jump, in which its place is sought

Floats = NDArray[np.float64]
Spans = Sequence[tuple[float, float]]


@dataclass(frozen=True, kw_only=True, slots=True)
class PiecewiseLags:
    """How late the cues are; what stands between two times is interpolated, and nothing is before or after the ends."""

    times_s: Floats  # on the clock of the cues, ascending
    late_s: Floats  # by how much they come after their speech; never grows faster than time
    num_stretches: int  # with a jump between each two
    evidence: float  # nats, to compare the same cues at several speeds by


def time_mask(spans: Spans, length_s: float, step_s: float) -> NDArray[np.float32]:
    """1 within the spans and 0 elsewhere, one value each step from 0 to the length."""
    mask = np.zeros(round(length_s / step_s) + 1, np.float32)
    for start_s, end_s in spans:
        mask[max(0, round(start_s / step_s)) : max(0, round(end_s / step_s))] = 1.0
    return mask


def piecewise_lags(cues: Spans, speech: Spans, duration_s: float) -> PiecewiseLags | None:
    """The likeliest lags of the cues; None where they lie on the speech nowhere, or in less than half of the time.

    cues, speech: (start, end) in seconds, in any order. Takes 0.2 s and 2 MB per half hour."""
    length_s = min(duration_s + _REACH_S, max((end_s for _, end_s in cues), default=0.0))
    if length_s < _BLOCK_STEPS * _STEP_S or duration_s < _BLOCK_STEPS * _STEP_S or not speech:
        return None
    evidence = _Evidence(time_mask(cues, length_s, _STEP_S), time_mask(speech, duration_s, _STEP_S))
    lag_B, total = _likeliest(evidence)
    if total < _MIN_SHARE * evidence.expected * len(lag_B):
        return None  # one stretch of a film at another speed may be right
    stretches = [one for one in _stretches(lag_B) if evidence.along(lag_B, one) >= _MIN_STRETCH_NATS]
    if sum(behind - first for first, behind in stretches) < _MIN_COVERED * len(lag_B):
        return None
    times: list[float] = []
    late: list[float] = []
    for at, (first, behind) in enumerate(stretches):
        low = -1.0
        if at:
            cut, hole = evidence.cut(lag_B, stretches[at - 1], (first, behind))
            while times and times[-1] >= cut:  # blocks that the cut gives to the other side
                times.pop()
                late.pop()
            times += [cut, cut + max(hole, _INSTANT)]
            late += [float(lag_B[stretches[at - 1][1] - 1]), float(lag_B[first])]
            low = times[-1]
        middles = (np.arange(first, behind) + 0.5) * _BLOCK_STEPS
        kept = middles > low
        times += middles[kept].tolist()
        late += lag_B[first:behind][kept].astype(float).tolist()
    return PiecewiseLags(
        times_s=np.array(times) * _STEP_S,
        late_s=np.array(late) * _STEP_S,
        num_stretches=len(stretches),
        evidence=total,
    )


class _Evidence:
    """What each step of the cues says of each lag, as the logarithm of how much likelier it is than by chance."""

    def __init__(self, words_T: NDArray[np.float32], spoken_T: NDArray[np.float32]) -> None:
        self.reach = round(_REACH_S / _STEP_S)
        shown, spoken = (float(np.clip(one.mean(), 0.05, 0.95)) for one in (words_T, spoken_T))
        common = _CORRELATION * np.sqrt(shown * (1 - shown) * spoken * (1 - spoken))
        # how probable speech is where no words are shown, and where some are
        given = np.clip([spoken - common / (1 - shown), spoken + common / shown], _RARE, 1 - _RARE)
        is_word_T = words_T.astype(np.int64)
        silent = np.log((1 - given) / (1 - spoken)) / _STEPS_PER_WITNESS
        voiced = np.log(given / spoken) / _STEPS_PER_WITNESS
        self.is_word_T = is_word_T
        shares = np.array([1 - shown, shown])
        # of a block, by masks that correlate as assumed, in nats
        self.expected = float(shares @ (given * voiced + (1 - given) * silent)) * _BLOCK_STEPS
        self._silent_T, self._more_T = silent[is_word_T].astype(np.float32), (voiced - silent)[is_word_T].astype("f4")
        behind = self.reach + _BLOCK_STEPS + max(0, len(words_T) - len(spoken_T))
        # outside of the sound nothing is known
        self._known, self._spoken = (np.pad(one, (self.reach, behind)) for one in (np.ones_like(spoken_T), spoken_T))

    def of_blocks(self) -> Iterator[NDArray[np.float32]]:
        """Of one block after the other, what it says of lags from -reach to reach, in nats; shape (L,)."""
        size = 1 << (_BLOCK_STEPS + 2 * self.reach).bit_length()
        for first in range(0, len(self.is_word_T), _BLOCK_STEPS):
            own = slice(first, first + _BLOCK_STEPS)
            count = len(self.is_word_T[own])
            near = slice(first, first + count + 2 * self.reach)
            spectrum = np.fft.rfft(self._known[near], size) * np.conj(np.fft.rfft(self._silent_T[own], size))
            spectrum += np.fft.rfft(self._spoken[near], size) * np.conj(np.fft.rfft(self._more_T[own], size))
            yield np.fft.irfft(spectrum, size)[2 * self.reach :: -1].astype(np.float32)

    def at(self, lag: int, first: int, behind: int) -> NDArray[np.float32]:
        """What each step from the first on says of one lag, in nats; shape (T,)."""
        own = slice(max(0, first), min(behind, len(self.is_word_T)))
        sound = slice(own.start + self.reach - lag, own.stop + self.reach - lag)
        found: NDArray[np.float32] = self._known[sound] * self._silent_T[own] + self._spoken[sound] * self._more_T[own]
        return found

    def along(self, lag_B: NDArray[np.int64], stretch: tuple[int, int]) -> float:
        """What a stretch of blocks says of its own lags."""
        return sum(
            float(self.at(int(lag_B[block]), block * _BLOCK_STEPS, (block + 1) * _BLOCK_STEPS).sum())
            for block in range(*stretch)
        )

    def cut(self, lag_B: NDArray[np.int64], before: tuple[int, int], after: tuple[int, int]) -> tuple[float, float]:
        """(the step between two cues at which the lag of the stretch before ends; for how long what is said is in no
        sound, which is how much the lag grows)."""
        old, new = int(lag_B[before[1] - 1]), int(lag_B[after[0]])
        hole = max(0, new - old)
        first = max(before[0] * _BLOCK_STEPS, before[1] * _BLOCK_STEPS - _BEYOND_STEPS - hole)
        last = min(after[1] * _BLOCK_STEPS, len(self.is_word_T), after[0] * _BLOCK_STEPS + _BEYOND_STEPS + hole)
        gained_T = np.concatenate([[0.0], np.cumsum(self.at(old, first, last), dtype=np.float64)])
        lost_T = np.concatenate([[0.0], np.cumsum(self.at(new, first, last), dtype=np.float64)])
        ends_T = np.minimum(np.arange(len(gained_T)) + hole, len(lost_T) - 1)
        total_T = gained_T + lost_T[-1] - lost_T[ends_T]
        is_word_T = self.is_word_T[first:last]
        within_T = np.concatenate([[0], is_word_T[:-1] & is_word_T[1:], [0]])
        total_T[within_T == 1] -= np.ptp(total_T)  # no cue is torn, where there is another place
        return float(first + int(total_T.argmax())), float(hole)


def _likeliest(evidence: _Evidence) -> tuple[NDArray[np.int64], float]:
    """(the lag of each block in steps, the evidence of all less what jumps cost)."""
    best_L = np.zeros(2 * evidence.reach + 1, np.float32)
    moves: list[NDArray[np.int8]] = []
    tops: list[int] = []
    for found_L in evidence.of_blocks():
        before = np.full((4, len(best_L)), -np.inf, np.float32)
        before[0] = best_L
        before[1, 1:], before[2, :-1] = best_L[:-1] - _SLIDE_NATS, best_L[1:] - _SLIDE_NATS
        before[3] = best_L.max() - _JUMP_NATS
        move_L = before.argmax(axis=0)
        moves.append(move_L.astype(np.int8))
        tops.append(int(best_L.argmax()))
        best_L = np.take_along_axis(before, move_L[None], axis=0)[0] + found_L
    at = int(best_L.argmax())
    total, path = float(best_L[at]), []
    for move_L, top in zip(reversed(moves), reversed(tops), strict=True):
        path.append(at)
        at = (at, at - 1, at + 1, top)[int(move_L[at])]
    return np.array(path[::-1], np.int64) - evidence.reach, total


def _stretches(lag_B: NDArray[np.int64]) -> list[tuple[int, int]]:
    """(first, behind) of the blocks between jumps."""
    jumps = np.flatnonzero(np.abs(np.diff(lag_B)) > 1) + 1
    edges = [0, *jumps.tolist(), len(lag_B)]
    return list(zip(edges, edges[1:], strict=False))

"""Where a recording or a film may be cut, what a border costs at each place, and which stretches are gaps. Pure.

Costs are in one currency: 0 for the best place, 1 for a span that is half as long as wanted, and so on. A recording is
cut in pauses, at the ends of sentences best; a film at the boundaries of shots, and not in the middle of a word.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mmlake.preprocess.settings import WITHOUT_PICTURE_S, UnitSettings
from mmlake.preprocess.tiling.silences import HOP_US, Levels
from mmlake.preprocess.tiling.splitting import INSIDE_WORD, NO_PICTURE, SILENCE, STATIC, Places
from mmlake.preprocess.transcripts.utterances import NONE, Utterances

# N places, F frames, H hops, S signals
Gap = tuple[int, int, str]
_IN_SOUND, _IN_LOUD = 4.0, 2.0  # outside of every pause; and more where it is as loud as the loud parts
_SHORT_PAUSE = 1.0  # in the shortest of pauses
_FULL_PAUSE_US = 600_000  # longer ones are no better
_OFF_MIDDLE = 0.5  # at the edge of a pause
_QUIET_HOPS = 15  # over which the quietest place is sought where there is no pause
_IN_SPEECH = 20.0  # as a voice detector has it: more than any place outside, less than a span that is too short
_CLEAR_OF_SPEECH_US = 64_000  # two frames of the detector, which may end a word too early
_MID_SENTENCE, _IN_LINE, _MID_LINES = 4.0, 1.0, 0.5  # the first is more than two lengths that are a little off
_END_OF_CLAUSE = 0.8  # share of it at a comma: of a sentence that is longer than a span can be
_GAP_BETWEEN_WORDS_US = 150_000  # a pause as the words have it, where noise covers it
_NOISY_PAUSE = 2.0
_IN_SHOT = 3.0  # of a film, away from shot boundaries
_IN_DISSOLVE = 1.0  # its middle shows both shots
_FILM_SOUND = 0.25  # share of what the sound costs in a recording: a shot boundary is worth a cut in a held note
_WORD_EDGE_US = 20_000  # words of a film may lose so much: half a frame


@dataclass(frozen=True, kw_only=True, slots=True)
class Spoken:
    """What is said, as far as known."""

    words: Utterances = NONE
    lines: Utterances = NONE  # of subtitles; used where there are no words
    speech: Utterances = NONE  # where a voice detector found somebody to speak


def recording_places(levels: Levels, spoken: Spoken) -> Places:
    """Every 10 ms, and the middle between each two words."""
    time_us_N = np.arange(1, len(levels.level_H), dtype=np.int64) * HOP_US
    if len(spoken.words):
        time_us_N = np.union1d(time_us_N, spoken.words.between_us())
    cost_N = _sound_cost(time_us_N, levels, spoken) + _voice_cost(time_us_N, spoken)
    return Places(time_us_N, cost_N + _speech_cost(time_us_N, spoken))


def film_places(
    frame_us_F: np.ndarray,
    duration_us: int,
    *,
    shots: Sequence[Mapping[str, Any]],
    levels: Levels | None,
    spoken: Spoken,
) -> Places:
    """Every frame that all earlier frames are shown before."""
    time_us_N = border_frames(frame_us_F, duration_us)
    cost_N = np.full(len(time_us_N), _IN_SHOT)
    for shot in shots:
        if 0 < shot["start_s"] * 1e6 < duration_us:  # False for NaN
            at = int(np.searchsorted(time_us_N, round(shot["start_s"] * 1e6) - 1))  # times are rounded
            if at < len(time_us_N):
                cost_N[at] = _IN_DISSOLVE if shot["transition"] == "dissolve" else 0.0
    if levels is not None:
        cost_N += _FILM_SOUND * _sound_cost(time_us_N, levels, spoken)
    edged = replace(spoken, words=spoken.words.shrunk(_WORD_EDGE_US))
    return Places(time_us_N, cost_N + _voice_cost(time_us_N, spoken) + _speech_cost(time_us_N, edged))


def border_frames(frame_us_F: np.ndarray, duration_us: int) -> np.ndarray:
    """The times of frames at which a film may be cut: later than all frames before, and not later than any behind."""
    if len(frame_us_F) < 2:
        return np.zeros(0, np.int64)
    earlier_F = np.maximum.accumulate(frame_us_F)[:-1]
    later_F = np.minimum.accumulate(frame_us_F[::-1])[::-1][1:]
    time_us_N = frame_us_F[1:][(frame_us_F[1:] > earlier_F) & (frame_us_F[1:] <= later_F)]
    inner_us_N: np.ndarray = time_us_N[(time_us_N > 0) & (time_us_N < duration_us)]
    return inner_us_N


def silent_gaps(levels: Levels, duration_us: int, *, spoken: Spoken, settings: UnitSettings) -> list[Gap]:
    """The long silences of a recording, less their margins. A word in one ends it, and so does a voice."""
    silences = _without(_without(levels.clear_runs_us(), spoken.words), spoken.speech)
    return list(_gaps(silences, duration_us, SILENCE, longest_s=settings.max_pause_s, settings=settings))


def static_gaps(
    signals: Mapping[str, np.ndarray],
    frame_us_F: np.ndarray,
    duration_us: int,
    *,
    levels: Levels | None,
    spoken: Spoken,
    settings: UnitSettings,
) -> list[Gap]:
    """The long stretches of a film that are black or frozen, and silent, from frame to frame.

    signals: the columns of the track's signals.
    """
    still = _still_us(signals, duration_us, settings)
    if levels is not None:
        still = _common(still, _without(_without(levels.clear_runs_us(), spoken.words), spoken.speech))
    frames_us = np.concatenate([[0], border_frames(frame_us_F, duration_us), [duration_us]])
    gaps = []
    for start_us, end_us, why in _gaps(still, duration_us, STATIC, longest_s=settings.max_static_s, settings=settings):
        first, last = np.searchsorted(frames_us, start_us), np.searchsorted(frames_us, end_us, side="right") - 1
        if first < last:
            gaps.append((int(frames_us[first]), int(frames_us[last]), why))
    return gaps


def gaps_without_picture(pictures_us: tuple[int, int], duration_us: int) -> list[Gap]:
    """What a film is long before its first picture and long behind its last one.

    pictures_us: when the first one is shown, and when the last one ends.
    """
    first_us, end_us = pictures_us
    ends = ((0, first_us, NO_PICTURE), (end_us, duration_us, NO_PICTURE))
    return [gap for gap in ends if gap[1] - gap[0] > WITHOUT_PICTURE_S * 1e6]


def _sound_cost(time_us_N: np.ndarray, levels: Levels, spoken: Spoken) -> np.ndarray:
    """0 in the middle of a long pause, `_IN_SOUND` and more where there is none."""
    if not len(levels.level_H):
        return np.zeros(len(time_us_N))
    hop_N = np.minimum(time_us_N // HOP_US, len(levels.level_H) - 1)
    quiet = np.convolve(levels.loudness_H, np.full(_QUIET_HOPS, 1 / _QUIET_HOPS), "same")
    cost_N: np.ndarray = _IN_SOUND + _IN_LOUD * quiet[hop_N]
    runs_us = levels.runs_us()
    if len(runs_us):
        run_N = np.clip(np.searchsorted(runs_us[:, 0], time_us_N, side="right") - 1, 0, None)
        start_us_N, end_us_N = runs_us[run_N].T
        length_us_N = end_us_N - start_us_N
        off_N = np.abs(2 * time_us_N - start_us_N - end_us_N) / length_us_N
        pause_N = _SHORT_PAUSE * np.maximum(0.0, 1 - length_us_N / _FULL_PAUSE_US) + _OFF_MIDDLE * off_N
        cost_N = np.where((start_us_N <= time_us_N) & (time_us_N <= end_us_N), pause_N, cost_N)
    words = spoken.words
    if len(words):
        before_N = words.before(time_us_N)
        next_us_N = np.append(words.start_us_W, np.iinfo(np.int64).max)[before_N + 1]
        is_apart_N = next_us_N - np.where(before_N < 0, 0, words.end_us_W[before_N]) >= _GAP_BETWEEN_WORDS_US
        cost_N[is_apart_N] = np.minimum(cost_N[is_apart_N], _NOISY_PAUSE)
    speech = spoken.speech
    if len(speech):
        # nobody speaks there, however loud it is
        clear_us_N = speech.distance_us(time_us_N)
        short_N = _SHORT_PAUSE * np.maximum(0.0, 1 - 2 * clear_us_N / _FULL_PAUSE_US)
        is_clear_N = clear_us_N >= _CLEAR_OF_SPEECH_US
        cost_N[is_clear_N] = np.minimum(cost_N, _NOISY_PAUSE + short_N)[is_clear_N]
    return cost_N


def _voice_cost(time_us_N: np.ndarray, spoken: Spoken) -> np.ndarray:
    """Whether somebody speaks there; 0 all over where no voice detector ran."""
    return np.where(spoken.speech.is_inside(time_us_N), _IN_SPEECH, 0.0)


def _speech_cost(time_us_N: np.ndarray, spoken: Spoken) -> np.ndarray:
    """0 at the end of a sentence, less at that of a clause than within one; 0 all over where nobody knows what is
    said."""
    if len(spoken.words):
        inside_N, ends_N = spoken.words.is_inside(time_us_N), spoken.words.is_sentence_end(time_us_N)
        mid_N = np.where(spoken.words.is_clause_end(time_us_N), _END_OF_CLAUSE, 1.0) * _MID_SENTENCE
        return np.where(inside_N, INSIDE_WORD, np.where(ends_N, 0.0, mid_N))
    inside_N, ends_N = spoken.lines.is_inside(time_us_N), spoken.lines.is_sentence_end(time_us_N)
    mid_N = np.where(spoken.lines.is_clause_end(time_us_N), _END_OF_CLAUSE, 1.0) * _MID_LINES
    return np.where(inside_N, _IN_LINE, np.where(ends_N, 0.0, mid_N))


def _gaps(
    runs_us: np.ndarray, duration_us: int, why: str, *, longest_s: float, settings: UnitSettings
) -> Iterable[Gap]:
    """Those runs that are longer, less their margins; at the ends of the item there is nothing to keep one for."""
    margin_us = round(settings.gap_margin_s * 1e6)
    for start_us, end_us in runs_us.tolist():
        end_us = min(end_us, duration_us)
        if end_us - start_us > longest_s * 1e6:
            yield (
                start_us + (margin_us if start_us > 0 else 0),
                end_us - (margin_us if end_us < duration_us else 0),
                why,
            )


def stands_still(signals: Mapping[str, np.ndarray], duration_us: int, settings: UnitSettings) -> bool:
    """Whether a film is black or frozen for longer than one may be, and not all the time.

    signals: the columns of the track's signals. duration_us: up to the end of the last picture.
    """
    still = _still_us(signals, duration_us, settings)
    lengths_us = still[:, 1] - still[:, 0]
    return bool((lengths_us > settings.max_static_s * 1e6).any() and lengths_us.sum() < duration_us)


def _still_us(signals: Mapping[str, np.ndarray], duration_us: int, settings: UnitSettings) -> np.ndarray:
    """(start, end) of the stretches where neighbouring analysed frames are alike or both black."""
    time_us_S = np.round(signals["time_s"].astype(np.float64) * 1e6).astype(np.int64)
    if len(time_us_S) < 2:
        return np.zeros((0, 2), np.int64)
    is_black_S = (signals["luma"] < settings.black_luma) & (signals["luma_std"] < settings.black_luma_std)
    is_still_S = (signals["change"][1:] < settings.static_change) | (is_black_S[1:] & is_black_S[:-1])
    edges = np.flatnonzero(np.diff(np.concatenate([[False], is_still_S, [False]]).astype(np.int8))).reshape(-1, 2)
    still = time_us_S[edges]
    if len(still) and edges[-1, 1] == len(time_us_S) - 1:
        still[-1, 1] = duration_us  # the last analysed frame stands to the end
    if len(still) and edges[0, 0] == 0:
        still[0, 0] = 0
    lasting: np.ndarray = still[still[:, 1] > still[:, 0]]
    return lasting


def _common(left_us: np.ndarray, right_us: np.ndarray) -> np.ndarray:
    """What two lists of runs, each in order, share."""
    found, at, other = [], 0, 0
    left, right = left_us.tolist(), right_us.tolist()
    while at < len(left) and other < len(right):
        start, end = max(left[at][0], right[other][0]), min(left[at][1], right[other][1])
        if start < end:
            found.append((start, end))
        if left[at][1] < right[other][1]:
            at += 1
        else:
            other += 1
    return np.array(found, np.int64).reshape(-1, 2)


def _without(runs_us: np.ndarray, words: Utterances) -> np.ndarray:
    """The runs, less the words in them."""
    if not len(words) or not len(runs_us):
        return runs_us
    starts = np.concatenate([[np.iinfo(np.int64).min], words.end_us_W])
    ends = np.concatenate([words.start_us_W, [np.iinfo(np.int64).max]])
    free = starts < ends
    return _common(runs_us, np.stack([starts[free], ends[free]], axis=1))

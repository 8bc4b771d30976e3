"""Turns: spans in which one speaker speaks, made of windows and of spans of speech, and compared with known ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

STEP_S = 0.4  # between the centres of windows
_FRAME_S = 0.01  # that errors are counted in


class Turn(NamedTuple):
    """One speaker speaks."""

    start_s: float
    end_s: float
    speaker: str
    confidence: float


def window_centres(speech: Iterable[tuple[float, float]]) -> tuple[np.ndarray, np.ndarray]:
    """(centres of windows in seconds, index of the span of speech of each): STEP_S apart within each span."""
    centres, owners = [np.zeros(0)], [np.zeros(0, int)]
    for owner, (start_s, end_s) in enumerate(speech):
        num = max(1, round((end_s - start_s) / STEP_S))
        centres.append(start_s + (np.arange(num) + 0.5) * (end_s - start_s) / num)
        owners.append(np.full(num, owner))
    return np.concatenate(centres), np.concatenate(owners)


def turns_of(
    speech: Sequence[tuple[float, float]],
    centres_s: np.ndarray,
    owners: np.ndarray,
    labels: np.ndarray,
    confidences: np.ndarray,
) -> list[Turn]:
    """The turns, in order: each span of speech is cut half-way between two windows of different speakers."""
    turns = []
    at = 0
    for (owner, label), group in groupby(zip(owners.tolist(), labels.tolist(), strict=True)):
        num = len(list(group))
        start_s, end_s = speech[owner]
        if at and owners[at - 1] == owner:
            start_s = float(centres_s[at - 1] + centres_s[at]) / 2
        last = at + num - 1
        if last + 1 < len(owners) and owners[last + 1] == owner:
            end_s = float(centres_s[last] + centres_s[last + 1]) / 2
        turns.append(Turn(float(start_s), float(end_s), f"S{label + 1}", float(confidences[at : last + 1].mean())))
        at += num
    return turns


class Errors(NamedTuple):
    """How far found turns are from known ones, in seconds."""

    missed_s: float  # somebody speaks and nobody was found
    false_s: float  # somebody was found and nobody speaks
    confused_s: float  # another speaks
    spoken_s: float  # of the known turns

    @property
    def wrong_s(self) -> float:
        """All errors, whatever their kind."""
        return self.missed_s + self.false_s + self.confused_s

    @property
    def rate(self) -> float:
        """The diarization error rate; where nobody speaks 0, or infinite where somebody was found."""
        if not self.spoken_s:
            return math.inf if self.wrong_s else 0.0
        return self.wrong_s / self.spoken_s


def diarization_errors(
    known: Iterable[tuple[float, float, str]], found: Iterable[tuple[float, float, str]], *, collar_s: float = 0.25
) -> Errors:
    """NIST's diarization error: overlap counts for each speaker, and speakers are matched to make the error least.

    collar_s: around each known border nothing is counted; 0.25 is NIST's.
    """
    known, found = list(known), list(found)
    end_s = max([0.0, *(turn[1] for turn in (*known, *found))])
    truth, guess = _active(known, end_s), _active(found, end_s)
    counts = np.ones(truth.shape[1], bool)
    for start_s, stop_s, _ in known:
        for border_s in (start_s, stop_s):
            counts[_frame(border_s - collar_s) : _frame(border_s + collar_s)] = False
    truth, guess = truth[:, counts], guess[:, counts]
    num_true, num_found = truth.sum(axis=0), guess.sum(axis=0)
    right = _best_match(truth.astype(float) @ guess.astype(float).T)
    return Errors(
        missed_s=float(np.maximum(0, num_true - num_found).sum() * _FRAME_S),
        false_s=float(np.maximum(0, num_found - num_true).sum() * _FRAME_S),
        confused_s=float((np.minimum(num_true, num_found).sum() - right) * _FRAME_S),
        spoken_s=float(num_true.sum() * _FRAME_S),
    )


def _frame(time_s: float) -> int:
    return max(0, round(time_s / _FRAME_S))


def _active(turns: Sequence[tuple[float, float, str]], end_s: float) -> np.ndarray:
    """Whether each speaker speaks in each frame, bool of shape (speakers, frames)."""
    names = sorted({turn[2] for turn in turns})
    active = np.zeros((len(names), _frame(end_s) + 1), bool)
    for start_s, stop_s, name in turns:
        active[names.index(name), _frame(start_s) : _frame(stop_s)] = True
    return active


def _best_match(common: np.ndarray) -> float:
    """The largest sum of frames that one-to-one matched speakers share."""
    from scipy.optimize import linear_sum_assignment

    return float(common[linear_sum_assignment(common, maximize=True)].sum())

"""What is said when, as far as it decides where a recording may be cut: words, lines of subtitles, ends of sentences
and of their clauses.

Enters: the words of an alignment, or the cues of a track, with times that anybody may have written. Leaves: arrays in
order of time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mmlake.preprocess.transcripts.pronunciation import tokens
from mmlake.preprocess.transcripts.sentence_ends import CLAUSE, SENTENCE, kind_of_end, marks, of_lines

# W utterances, N places
_MAX_WORD_S = 10.0  # a word that lasts longer is none
_AHEAD = 20  # words of a transcript that may be passed over to find the next spoken one
_LONG_PAUSE_US = 500_000  # between two words of different sentences


@dataclass(frozen=True, slots=True)
class Utterances:
    """Words, or lines, in order of time; none of them where nothing is known."""

    start_us_W: np.ndarray  # int64, increasing
    end_us_W: np.ndarray  # int64: the latest end up to this one, since lines may overlap
    ends_W: np.ndarray  # int8: CLAUSE, SENTENCE or 0

    def __len__(self) -> int:
        return len(self.start_us_W)

    def shrunk(self, by_us: int) -> Utterances:
        """Each shorter at both ends by so much, and by a quarter of it at most."""
        by_us_W = np.clip((self.end_us_W - self.start_us_W) // 4, 0, by_us)
        return Utterances(self.start_us_W + by_us_W, self.end_us_W - by_us_W, self.ends_W)

    def before(self, time_us_N: np.ndarray) -> np.ndarray:
        """Index of the last utterance that begins before each time; -1 for none."""
        before_N: np.ndarray = np.searchsorted(self.start_us_W, time_us_N, side="left") - 1
        return before_N

    def is_inside(self, time_us_N: np.ndarray) -> np.ndarray:
        """Whether each time is within an utterance; its edges are not."""
        if not len(self):
            return np.zeros(len(time_us_N), bool)
        before_N = self.before(time_us_N)
        is_inside_N: np.ndarray = (before_N >= 0) & (self.end_us_W[before_N] > time_us_N)
        return is_inside_N

    def distance_us(self, time_us_N: np.ndarray) -> np.ndarray:
        """How far each time is from the nearest utterance; 0 inside of one. There is at least one."""
        before_N = self.before(time_us_N)
        far = np.iinfo(np.int64).max // 2
        since_us_N = np.where(before_N < 0, far, time_us_N - self.end_us_W[before_N])
        until_us_N = np.append(self.start_us_W, far)[before_N + 1] - time_us_N
        distance_us_N: np.ndarray = np.maximum(np.minimum(since_us_N, until_us_N), 0)
        return distance_us_N

    def is_sentence_end(self, time_us_N: np.ndarray) -> np.ndarray:
        """Whether the utterance before each time ends a sentence, or a long pause follows it, or there is none; of no
        meaning inside of one."""
        if not len(self):
            return np.ones(len(time_us_N), bool)
        before_N = self.before(time_us_N)
        next_us_N = np.append(self.start_us_W, np.iinfo(np.int64).max)[before_N + 1]
        is_long_N = next_us_N - self.end_us_W[before_N] >= _LONG_PAUSE_US
        is_outside_N = (before_N < 0) | (before_N == len(self) - 1)
        is_end_N: np.ndarray = is_outside_N | (self.ends_W[before_N] == SENTENCE) | is_long_N
        return is_end_N

    def is_clause_end(self, time_us_N: np.ndarray) -> np.ndarray:
        """Whether the utterance before each time ends a clause of a sentence that goes on."""
        if not len(self):
            return np.zeros(len(time_us_N), bool)
        before_N = self.before(time_us_N)
        is_end_N: np.ndarray = (before_N >= 0) & (self.ends_W[before_N] == CLAUSE)
        return is_end_N

    def between_us(self) -> np.ndarray:
        """The middle between each two that follow each other and do not overlap."""
        left_us, right_us = self.end_us_W[:-1], self.start_us_W[1:]
        apart = right_us >= left_us
        middle_us: np.ndarray = (left_us[apart] + right_us[apart]) // 2
        return middle_us


NONE = Utterances(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int8))


def of_words(words: Sequence[Mapping[str, Any]], transcript: str, *, duration_us: int) -> Utterances:
    """The words of an alignment, which have no punctuation: that is found in their transcript."""
    ends = _ends([str(word["word"]) for word in words], transcript)
    return _of(zip(words, ends, strict=True), duration_us=duration_us, longest_s=_MAX_WORD_S)


def of_cues(cues: Sequence[Mapping[str, Any]], *, duration_us: int) -> Utterances:
    """The lines of subtitles."""
    ends = of_lines(cue["text"] for cue in cues)
    return _of(zip(cues, ends, strict=True), duration_us=duration_us, longest_s=math.inf)


def of_speech(speech: Sequence[Mapping[str, Any]], *, duration_us: int) -> Utterances:
    """The stretches that a voice detector found."""
    return _of(((one, SENTENCE) for one in speech), duration_us=duration_us, longest_s=math.inf)


def _of(spoken: Iterable[tuple[Mapping[str, Any], int]], *, duration_us: int, longest_s: float) -> Utterances:
    """Those that lie within the recording, whatever their times claim."""
    rows = []
    for one, kind in spoken:
        start_s, end_s = one["start_s"], one["end_s"]
        # False for NaN, infinities and ends that come first
        if 0 < end_s - start_s <= longest_s and -math.inf < start_s and end_s < math.inf:
            start_us, end_us = max(0, round(start_s * 1e6)), min(duration_us, round(end_s * 1e6))
            if start_us < end_us:
                rows.append((start_us, end_us, kind))
    if not rows:
        return NONE
    rows.sort()
    starts, ends, kinds = zip(*rows, strict=True)
    return Utterances(
        np.array(starts, np.int64), np.maximum.accumulate(np.array(ends, np.int64)), np.array(kinds, np.int8)
    )


def _ends(words: Sequence[str], transcript: str) -> list[int]:
    """What each word ends in the transcript, whose words are the same in the same order but for some."""
    said: list[str] = []
    ends: list[int] = []
    at = 0
    for start, end, kind in [*marks(transcript), (len(transcript), len(transcript), 0)]:
        part = tokens(transcript[at : max(at, start)])
        said += part
        ends += [0] * len(part)
        if ends:
            ends[-1] = max(ends[-1], kind)
        at = max(at, end)
    found, place = [], 0
    for word in words:
        ahead = said[place : place + _AHEAD]
        if word in ahead:
            place += ahead.index(word) + 1
            found.append(ends[place - 1])
        else:
            found.append(kind_of_end(word))
    return found

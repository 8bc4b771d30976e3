"""How far the phones that are recognized in a sound agree with those that its transcript asks for.

Enters: two sequences of phones. Leaves: what each expected phone costs, where it lies, and a confidence in 0..1.
Nothing here decodes sound; a forced alignment that completes is no evidence (it does so for half of all wrong texts).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mmlake.numba_compiler import made

# E expected phones, R recognized phones, N sequences of the null distribution
_MISSING, _EXTRA = 0.7, 0.5  # cost of an expected phone that is not there, of a recognized one that nobody expects
_GUESS = 0.35  # most that a guessed phone costs: it neither agrees nor disagrees much
_NUM_SHUFFLED = 20  # sequences of the null distribution: their mean is known to 2 %
_WINDOW = 14  # phones, about a second of speech: a stretch that a wrong text shows in
_WORST = 0.9  # quantile of the windows: the largest one grows with the length of the text
# confidence = logistic(bias + weights * (agreement, cost of the worst stretches, share of unclaimed speech)); fitted by
# benchmarks/alignment.py --fit on synthesized speech, and measured on other sentences and voices there. To the bias .5
# is added: right transcripts are more frequent than in the fit
_BIAS, _WEIGHTS = 7.99, (11.62, -16.8, -17.68)
# (openness, backness) of vowels
_VOWELS = {
    "AA": (0.0, 2.0),
    "AE": (0.0, 0.0),
    "AH": (1.0, 1.0),
    "AO": (0.3, 2.0),
    "AW": (0.3, 1.5),
    "AY": (0.5, 1.0),
    "EH": (1.0, 0.0),
    "ER": (1.0, 1.3),
    "EY": (1.5, 0.0),
    "IH": (2.0, 0.3),
    "IY": (2.3, 0.0),
    "OW": (1.0, 2.0),
    "OY": (1.0, 1.5),
    "UH": (1.8, 1.7),
    "UW": (2.2, 2.0),
}
# (manner, place, voiced) of consonants
_CONSONANTS = {
    "P": ("stop", "lips", False),
    "B": ("stop", "lips", True),
    "T": ("stop", "ridge", False),
    "D": ("stop", "ridge", True),
    "K": ("stop", "velum", False),
    "G": ("stop", "velum", True),
    "CH": ("affricate", "palate", False),
    "JH": ("affricate", "palate", True),
    "F": ("fricative", "lips", False),
    "V": ("fricative", "lips", True),
    "TH": ("fricative", "teeth", False),
    "DH": ("fricative", "teeth", True),
    "S": ("fricative", "ridge", False),
    "Z": ("fricative", "ridge", True),
    "SH": ("fricative", "palate", False),
    "ZH": ("fricative", "palate", True),
    "HH": ("fricative", "glottis", False),
    "M": ("nasal", "lips", True),
    "N": ("nasal", "ridge", True),
    "NG": ("nasal", "velum", True),
    "L": ("liquid", "ridge", True),
    "R": ("liquid", "palate", True),
    "W": ("glide", "lips", True),
    "Y": ("glide", "palate", True),
}
PHONES = (*sorted(_VOWELS), *sorted(_CONSONANTS))  # of the dictionary, without silence and noises
NUMBER = {phone: number for number, phone in enumerate(PHONES)}
_GLIDING = frozenset({frozenset(pair) for pair in (("ER", "R"), ("W", "UW"), ("Y", "IY"), ("L", "OW"))})


def _substitution(left: str, right: str) -> float:
    """What it costs to recognize one phone as the other, 0..1."""
    if left == right:
        return 0.0
    if left in _VOWELS and right in _VOWELS:
        (open_left, back_left), (open_right, back_right) = _VOWELS[left], _VOWELS[right]
        return min(1.0, 0.2 + 0.25 * float(np.hypot(open_left - open_right, back_left - back_right)))
    if left in _CONSONANTS and right in _CONSONANTS:
        differs = [one != other for one, other in zip(_CONSONANTS[left], _CONSONANTS[right], strict=True)]
        return min(1.0, 0.1 + 0.4 * differs[0] + 0.35 * differs[1] + 0.15 * differs[2])
    return 0.6 if frozenset((left, right)) in _GLIDING else 1.0


_SURE = np.array([[_substitution(left, right) for right in PHONES] for left in PHONES])
_COSTS = np.concatenate([_SURE, np.minimum(_SURE, _GUESS)])


def number(phone: str, *, is_guess: bool = False) -> int:
    """The expected phone as a number; a guessed one, of a word that no dictionary has, disagrees with nothing much."""
    return NUMBER[phone] + (len(PHONES) if is_guess else 0)


@dataclass(frozen=True, slots=True)
class Agreement:
    """One stretch of sound compared with its transcript."""

    cost_E: np.ndarray  # of each expected phone, 0 agrees .. 1 another phone
    at_E: np.ndarray  # index of the recognized phone that it was matched with; -1 where none was
    num_unclaimed: int  # recognized phones that no expected one was matched with
    num_recognized: int
    distance: float  # edit distance
    null: float  # mean edit distance of the same expected phones in random order

    @property
    def is_empty(self) -> bool:
        """Whether one of the two sequences has no phone."""
        return not len(self.cost_E) or not self.num_recognized


def compare(expected: Sequence[int], recognized: Sequence[int], rng: np.random.Generator) -> Agreement:
    """The best match of the two sequences: of `number` for the expected phones, indices into PHONES for the others."""
    expected_E, recognized_R = np.asarray(expected, np.intp), np.asarray(recognized, np.intp)
    shuffled_NE = [rng.permutation(expected_E) for _ in range(_NUM_SHUFFLED)]
    steps = _distances(np.stack([expected_E, *shuffled_NE]), recognized_R)
    cost_E, at_E = _matched(expected_E, recognized_R, steps[0])
    return Agreement(
        cost_E,
        at_E,
        num_unclaimed=len(recognized_R) - int((at_E >= 0).sum()),
        num_recognized=len(recognized_R),
        distance=float(steps[0][-1, -1]),
        null=float(steps[1]),
    )


def _distances(sequences_NE: np.ndarray, recognized_R: np.ndarray) -> tuple[np.ndarray, float]:
    """(edit distances of all beginnings of the first sequence, shape (E + 1, R + 1); mean distance of the others)."""
    num_sequences, num_expected = sequences_NE.shape
    table = np.empty((num_expected + 1, len(recognized_R) + 1))
    editing()(sequences_NE[:1], recognized_R, _COSTS, table, np.empty(1))
    rows = np.empty((2, len(recognized_R) + 1))
    editing()(sequences_NE[1:], recognized_R, _COSTS, rows, others := np.empty(num_sequences - 1))
    return table, float(others.mean())


@functools.lru_cache(maxsize=1)
def editing() -> Callable[..., None]:
    """`_edit`, compiled once per machine."""
    import numba

    integers = numba.types.Array(numba.int64, 2, "C"), numba.int64[::1]
    numbers = numba.float64[:, ::1]
    compiled: Callable[..., None] = made(numba, numba.void(*integers, numbers, numbers, numba.float64[::1]), _edit)
    return compiled


def _edit(sequences: Any, recognized: Any, costs: Any, table: Any, distances: Any) -> None:
    """Fill distances with the edit distance of each sequence to the recognized one, and the table with those of all
    beginnings of the last; its lines are used in turn where they are fewer."""
    num_lines, num_columns = table.shape
    for n in range(len(sequences)):
        for column in range(num_columns):
            table[0, column] = column * _EXTRA
        line = 0
        for phone in sequences[n]:
            before, line = line, (line + 1) % num_lines
            table[line, 0] = table[before, 0] + _MISSING
            for column in range(1, num_columns):
                cheapest = min(table[before, column] + _MISSING, table[line, column - 1] + _EXTRA)
                cheapest = min(cheapest, table[before, column - 1] + costs[phone, recognized[column - 1]])
                table[line, column] = cheapest
        distances[n] = table[line, num_columns - 1]


def _matched(expected_E: np.ndarray, recognized_R: np.ndarray, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(cost, index of the recognized phone or -1) of each expected phone, on one cheapest way through the table."""
    cost_E, at_E = np.full(len(expected_E), _MISSING), np.full(len(expected_E), -1)
    row, column = len(expected_E), len(recognized_R)
    while row and column:
        cost = _COSTS[expected_E[row - 1], recognized_R[column - 1]]
        if math.isclose(table[row, column], table[row - 1, column - 1] + cost, abs_tol=1e-6):
            row, column = row - 1, column - 1
            cost_E[row], at_E[row] = cost, column
        elif math.isclose(table[row, column], table[row - 1, column] + _MISSING, abs_tol=1e-6):
            row -= 1
        else:
            column -= 1
    return cost_E, at_E


def features(stretches: Sequence[Agreement]) -> tuple[float, float, float]:
    """(agreement: 1 all phones, 0 no more than by chance; cost of the worst stretches; share of unclaimed speech)."""
    cost_E = np.concatenate([stretch.cost_E for stretch in stretches])
    null = sum(stretch.null for stretch in stretches)
    agreement = 1 - sum(stretch.distance for stretch in stretches) / null if null else 0.0
    size = min(len(cost_E), max(4, min(_WINDOW, len(cost_E) // 3)))
    windows = np.convolve(cost_E, np.full(size, 1 / size), "valid")
    num_recognized = sum(stretch.num_recognized for stretch in stretches)
    unclaimed = sum(stretch.num_unclaimed for stretch in stretches) / max(1, num_recognized)
    return agreement, float(np.quantile(windows, _WORST)), unclaimed


def confidence(stretches: Sequence[Agreement]) -> float:
    """That these stretches of sound say what their transcripts say, 0..1; 0 where one side has no phones."""
    found = [stretch for stretch in stretches if len(stretch.cost_E)]
    if not found or all(stretch.is_empty for stretch in found):
        return 0.0
    return float(1 / (1 + np.exp(-(_BIAS + np.dot(_WEIGHTS, features(found))))))

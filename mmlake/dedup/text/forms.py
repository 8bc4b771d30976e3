"""Whether two texts are one form filled in twice: the words that both hold are those of a form, which other texts hold,
too, and each of the two has words of its own.

A record of names and values ("id 7, name Mary Smith, city Oslo"), or one sentence in seventy languages, shares no five
words in a row with the next one, so no shingle says that there is a template; a sentence encoder puts two of them at
.9 and more. Two texts that say the same share words, too, which others do not hold together.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.prints import Ragged
from mmlake.dedup.text.fingerprints import unpacked
from mmlake.dedup.text.verdicts import MIN_SIBLINGS
from mmlake.dedup.text.wordings import Wording

_LEAST_SHARED, _LEAST_FRACTION = 5, 0.35  # distinct words of a form, and of those of a text that fills it in
_MOST_LONGER = 4  # times the words of a form that a text of it has: longer ones hold its words for all they say
_HELD_FRACTION = 0.8  # of the words of a form that another text of it holds: some slots are equal by chance
_MOST_TEXTS = 1 << 15  # that are asked, the first ones: digests put texts in an order of chance
_MOST_ASKED = 64  # of those that hold a word


class Forms:
    """The distinct words of some of the texts, and who holds a word."""

    def __init__(self, words: Ragged) -> None:
        """words: the words of each text, as `TextPrint.words` has them. What is asked costs as much in a corpus of any
        size: of more than 32,768 texts the first ones are asked, so of a form six must be among these."""
        self._texts = words

    def are_one(self, one: Wording, other: Wording) -> bool:
        """Whether the two texts are one form filled in twice."""
        shared = np.intersect1d(one.words, other.words, assume_unique=True)
        sizes = len(one.words), len(other.words)
        if len(shared) < max(_LEAST_SHARED, _LEAST_FRACTION * min(sizes)) or len(shared) == min(sizes):
            return False
        return self._num_holders(shared) - 2 >= MIN_SIBLINGS

    def _num_holders(self, form: NDArray[np.uint32]) -> int:
        """How many texts hold most of these words, and not many others."""
        words, begins, holders = self._holders
        at = np.searchsorted(words, form)
        at = at[words[np.minimum(at, len(words) - 1)] == form] if len(words) else at[:0]
        num_lacking = len(form) - int(np.ceil(_HELD_FRACTION * len(form)))
        # whoever lacks no more holds one of the rarest words
        rarest = at[np.argsort(begins[at + 1] - begins[at], kind="stable")[: num_lacking + 1]]
        lists = [holders[begins[word] : begins[word + 1]][:_MOST_ASKED] for word in rarest.tolist()]
        asked = np.unique(np.concatenate(lists))[:_MOST_ASKED] if lists else np.empty(0, np.int64)
        texts, offsets = self._distinct
        num = 0
        for text in asked.tolist():
            own = texts[offsets[text] : offsets[text + 1]]
            if len(own) <= _MOST_LONGER * len(form):
                num += int(np.isin(form, own, assume_unique=True).sum()) >= len(form) - num_lacking
        return num

    @cached_property
    def _distinct(self) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """(the distinct words of the texts that are asked, ascending in each; where those of each begin)."""
        num = min(_MOST_TEXTS, len(self._texts))
        rows = [np.unique(unpacked(self._texts[at])) for at in range(num)]
        offsets = np.concatenate(([0], np.cumsum([len(row) for row in rows], dtype=np.int64)))
        return np.concatenate(rows) if rows else np.empty(0, np.uint32), offsets

    @cached_property
    def _holders(self) -> tuple[NDArray[np.uint32], NDArray[np.int64], NDArray[np.int64]]:
        """(the words that anybody holds, ascending; where the holders of each begin; the texts that hold them)."""
        words, offsets = self._distinct
        order = np.argsort(words, kind="stable")
        known, begins = np.unique(words[order], return_index=True)
        holders = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))[order]
        return known, np.append(begins, len(words)), holders

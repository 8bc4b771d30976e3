"""The distinct words of texts, counted once for all of the pairs that a text is in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.prints import Ragged
from mmlake.dedup.text.fingerprints import unpacked

_KEPT_WORDS = 4 << 20  # of texts whose words are counted once for many of their pairs; 20 bytes each


@dataclass(frozen=True, slots=True)
class Wording:
    """The words of a text: each once, in ascending order, with its first place in the text and how often it stands
    there."""

    words: NDArray[np.uint32]
    places: NDArray[np.int64]
    counts: NDArray[np.int64]
    length: int  # of the text

    @classmethod
    def of(cls, text: NDArray[np.uint32]) -> Wording:
        """text: words in their order, as `text.unpacked` gives them."""
        return cls(*np.unique(text, return_index=True, return_counts=True), len(text))


class Wordings:
    """Of a text at a position its `Wording`. A text is in many pairs, most of them one after another."""

    def __init__(self, words: Ragged) -> None:
        self._words, self._kept, self._num_words = words, dict[int, Wording](), 0

    def __getitem__(self, at: int) -> Wording:
        found = self._kept.get(at)
        if found is None:
            if self._num_words > _KEPT_WORDS:
                self._kept, self._num_words = {}, 0
            found = self._kept[at] = Wording.of(unpacked(self._words[at]))
            self._num_words += len(found.words)
        return found

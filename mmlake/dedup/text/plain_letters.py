"""Letters as a keyboard without accents has them, and umlauts, which are written in three ways.

Enters: code points of texts after NFKC, in small letters where they are not ASCII. Leaves: those of prints: each letter
of Latin and Greek without its marks, each traditional Chinese character as its simplified one. Prints ask whether two
texts are one, not what they say: that words of two meanings become one ("schon", "schön") is what who leaves accents
out does to them, too.

An umlaut is written as itself, with an e behind its letter, or without anything ("Brücke", "Bruecke", "Brucke"), and so
are the letters of the North ("blåbær", "blaabaer", "blabar"). What is left of all three is the letter alone, so the
second one of `ae oe ue aa` is left out wherever it stands, in all texts alike, also where both are spoken.
Sources: Unicode 14 (canonical decompositions), DIN 5007-2 and Dansk Sprognævn's rules (umlauts and å written out).
"""

from __future__ import annotations

import functools
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.text.han_variants import simplified_table

# Latin-1 to Latin Extended-B, Greek, Latin Extended Additional, Greek Extended. Not Cyrillic, whose marked letters are
# letters of their own that no text leaves out
_MARKED = ((0x00C0, 0x024F), (0x0370, 0x03FF), (0x1E00, 0x1EFF), (0x1F00, 0x1FFF))
# letters that have no decomposition; of æ and œ the e goes as it does where they are two letters
_STROKED = {ord(letter): ord(plain) for letter, plain in zip("æœøđðłħŧıəŋ", "aooddlhtien", strict=True)}
_A, _E, _O, _U = map(ord, "aeou")


def plain(points: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The code points as they are read, as many as before. points: of shape (num_characters,)."""
    return _table()[points]


def without_second_letters(
    points: NDArray[np.uint32], begins: NDArray[np.int64]
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """(the code points without the second ones of `ae oe ue aa`, where the texts begin then), as the compiled loops
    make them: also a third one, since "øen" is written "oen" and "oeen".
    points: texts with one code point between them. begins: of each text, and one beyond the last code point and one."""
    is_a, is_e = points == _A, points == _E
    places = np.arange(1, len(points) + 1)
    # of each run of these two letters the place before it, counted from 1
    outside = np.maximum.accumulate(np.where(is_a | is_e, 0, places))
    num_a = np.r_[0, np.cumsum(is_a)]
    follows_a = num_a[places - 1] > num_a[outside]
    before = np.r_[np.uint32(0), points][outside]
    second = ((is_a | is_e) & follows_a) | (is_e & ((before == _O) | (before == _U)))
    num_before = np.r_[0, np.cumsum(second)]
    return points[~second], begins - num_before[np.minimum(begins, len(points))]


@functools.lru_cache(maxsize=1)
def _table() -> NDArray[np.uint32]:
    """What each code point is read as."""
    table = simplified_table()
    for low, high in _MARKED:
        bases = [ord(normalize("NFD", chr(point))[0]) for point in range(low, high + 1)]
        table[low : high + 1] = [_STROKED.get(base, base) for base in bases]
    for letter, base in _STROKED.items():
        table[letter] = base
    return table

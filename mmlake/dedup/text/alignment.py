"""The loops that lay the words of two texts along each other; numpy does the same in `text.matcher`, equally.
They are compiled with those of the walk (`text.walk_kernels`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mmlake.dedup.text.verdicts import TITLE_WORDS


def _covered(words: Any, others: Any, out: Any, grams: Any) -> None:  # pragma: no cover: compiled
    """Marks which words lie in a 3-gram that the others hold, anywhere. grams: room for a power of two of numbers, at
    least 16 and twice the others."""
    size = 16
    while size < 2 * others.shape[0]:
        size *= 2
    mask = np.uint64(size - 1)
    grams[:size] = np.uint64(0)
    out[:] = False
    for passing in range(2):
        text = others if passing == 0 else words
        for at in range(text.shape[0] - 2):
            gram = (
                np.uint64(text[at]) * np.uint64(0x9E3779B97F4A7C15)
                + np.uint64(text[at + 1]) * np.uint64(0xBF58476D1CE4E5B9)
                + np.uint64(text[at + 2]) * np.uint64(0x94D049BB133111EB)
            )
            gram ^= gram >> np.uint64(29)
            gram |= np.uint64(1)
            slot = (gram >> np.uint64(20)) & mask
            while grams[slot] != 0 and grams[slot] != gram:
                slot = (slot + np.uint64(1)) & mask
            if passing == 0:
                grams[slot] = gram
            elif grams[slot] == gram:
                out[at : at + 3] = True


def _slot(word: Any, names: Any, mask: Any) -> Any:  # pragma: no cover: compiled
    """Where the word stands, or where there is room for it."""
    slot = (np.uint64(word) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(20)) & mask
    while names[slot] != 0 and names[slot] != word:
        slot = (slot + np.uint64(1)) & mask
    return slot


def _runs(
    text: Any, covered: Any, side: Any, block: Any, out: Any, names: Any, counts: Any, mask: Any
) -> None:  # pragma: no cover: compiled
    """Fills what runs of uncovered words say: passages of the text's own, and in short runs each word."""
    begin, own, run = 0, 0, 0
    for at in range(text.shape[0] + 1):
        if at < text.shape[0] and not covered[at]:
            own += counts[3 - side, _slot(text[at], names, mask)] == 0
            continue
        if at - begin >= block and 2 * own >= at - begin:
            out[side, 6] += own
        run += 1
        for place in range(begin, at if at - begin < block else begin):
            slot = _slot(text[place], names, mask)
            counts[4 + side, slot] += 1
            counts[6 + side, slot] += counts[8 + side, slot] != run
            counts[8 + side, slot] = run
        begin, own = at + 1, 0
        out[side, 0] += at < text.shape[0]


def _aligned(
    left: Any, right: Any, left_covered: Any, right_covered: Any, block: Any, out: Any, names: Any, counts: Any
) -> None:  # pragma: no cover: compiled
    """Fills for each of the two texts what `text.verdicts.Alignment` names, in that order. out: of shape (2, 10).

    names, counts: room for a power of two of words, at least 16 and twice those of both. counts: of each word, in the
    left text, in the right one, uncovered in each; then in short runs of uncovered words of each, in how many of these,
    and the last of them.
    """
    size = 16
    while size < 2 * (left.shape[0] + right.shape[0]):
        size *= 2
    mask = np.uint64(size - 1)
    names[:size] = np.uint32(0)
    for side in range(10):
        counts[side, :size] = 0
    for side in range(2):
        out[side, :] = 0
    for side in range(2):
        text, covered = (left, left_covered) if side == 0 else (right, right_covered)
        for at in range(text.shape[0]):
            slot = _slot(text[at], names, mask)
            names[slot] = text[at]
            counts[side, slot] += 1
            counts[2 + side, slot] += not covered[at]
    for place in range(size):
        for side in range(2 if names[place] != np.uint32(0) else 0):
            num = counts[side, place]
            out[side, 1] += min(counts[2, place], counts[3, place])
            if num > 0 and counts[1 - side, place] == 0:
                out[side, 2] += num
                out[side, 3] += 1
                out[side, 4] += num if num >= 3 else 0
                out[side, 5] += num if names[place] & np.uint32(1) else 0
    _runs(left, left_covered, 0, block, out, names, counts, mask)
    _runs(right, right_covered, 1, block, out, names, counts, mask)
    for place in range(size):
        for side in range(2 if names[place] != np.uint32(0) else 0):
            here, there = counts[side, place], counts[1 - side, place]
            more = min(counts[4 + side, place], max(0, here - there))
            out[side, 7] += more
            out[side, 8] += more if counts[6 + side, place] >= 2 and 3 * there <= here else 0
    for side in range(2):
        text, covered = (left, left_covered) if side == 0 else (right, right_covered)
        for at in range(min(TITLE_WORDS, text.shape[0])):
            slot = _slot(text[at], names, mask)
            here, there = counts[side, slot], counts[1 - side, slot]
            out[side, 9] += not covered[at] and here >= 2 and 3 * there <= here

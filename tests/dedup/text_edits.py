"""Texts with a vocabulary like that of a language, their edits, and pages of a template."""

from __future__ import annotations

import numpy as np

_COMMON = "the of and to in a is that for it was on with as by at from his her this an be are or had not but".split()
_STEMS = [f"{one}{two}" for one in ("ka", "mo", "ti", "re", "su", "bel", "gra") for two in ("lan", "ver", "dor", "min")]
_RARE = [stem + end for stem in _STEMS for end in ("", "s", "ed", "ing", "ly", "ness", "al", "er", "ist", "ous", "ure")]
_DRAWN = np.array(_COMMON), np.array(_RARE)  # of a list, each draw would make an array first


def words(rng, num):
    """So many words, four in ten of them common ones."""
    common, rare = _DRAWN
    return [str(rng.choice(common if rng.random() < 0.4 else rare)) for _ in range(num)]


def sentences(rng, num_words):
    """Sentences of eight to twenty words, that many words together."""
    left, out = words(rng, num_words), []
    while left:
        size = int(rng.integers(8, 20))
        part, left = left[:size], left[size:]
        out.append(" ".join(part).capitalize() + ".")
    return out


def page(rng, num_words):
    """A text of its own."""
    return " ".join(sentences(rng, num_words))


def replaced(rng, text, fraction):
    """The text with that share of its words replaced, each by chance."""
    parts = text.split()
    return " ".join(words(rng, 1)[0] if rng.random() < fraction else part for part in parts)


_TEMPLATE = sentences(np.random.default_rng(0), 150)


def filled(rng, *, num_slots):
    """A page of the one template: what stands in its gaps is its own, a sixth of all words."""
    parts, size = list(_TEMPLATE), 30 // num_slots
    for at in np.linspace(1, len(parts) - 1, num_slots).astype(int):
        parts[at] = f"{parts[at]} {' '.join(words(rng, size))}."
    return " ".join(parts)

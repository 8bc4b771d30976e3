"""More witnesses for semantic pairs: of texts, whether what they share is the wording of a template, and whether two
long ones say the same things in the same order; of pictures, whether they are drawings.

A sentence encoder puts pages of one template ("create a gateway", "delete a gateway") as close together as it puts
paraphrases: .88 to .97 for both on command references. Shared wording alone says nothing: people who retell a sentence
keep half of its words. What distinguishes them is who else has that wording: nobody, where one text retells the other;
many siblings, where both fill in a template.
Nor does it know two long texts on one subject from one text in other words. Who retells keeps most of what is named
and its order, names and numbers above all, in another language too; of two chapters on one subject neither is so.
Two drawings of one style (playing cards, traffic signs, clocks, icons of a theme) are nearer to each other in every
vector than two photographs of one thing, and each says something else.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.image.fingerprints import IS_DRAWING
from mmlake.dedup.prints import Positions, PrintTable
from mmlake.dedup.settings import DedupSettings
from mmlake.dedup.text.contrasts import Contrasts
from mmlake.dedup.text.forms import Forms
from mmlake.dedup.text.matcher import sampled, shared_counts
from mmlake.dedup.text.templates import Commonness, Siblings
from mmlake.dedup.text.verdicts import FRAME, TEMPLATE
from mmlake.dedup.text.wordings import Wording, Wordings
from mmlake.dedup.vectors.matcher import Apart, never_apart

_LONG_WORDS = 100  # of both texts; of shorter ones too little is there to say anything
# of the distinct words of the text that keeps less: human paraphrases .53 and more, two pages on one subject .17 to .45
_KEPT_FRACTION = 0.5
# rank correlation of the places of words that both texts hold once: human paraphrases .93 and more, pages .23 to .78
_LEAST_ORDER, _LEAST_PLACES = 0.85, 8  # fewer such words say nothing about order
# times that the subject of one text stands in it and not in the other, and of its words: 11 of 814 of two modules
_SUBJECT_TIMES, _SUBJECT_FRACTION = 4, 0.01

VETO_PRINTS = ("shingles", "words", "layout")  # methods of prints that `veto` reads


def veto(prints: PrintTable, *, settings: DedupSettings, contrasts: bool = True) -> Apart:
    """Which pairs, given as two arrays of positions, are kept apart whatever their cosine: texts as `text_veto` says,
    and two drawings. prints: of all units that are compared."""
    are_texts_apart, layout = text_veto(prints, settings=settings, contrasts=contrasts), prints["layout"]
    if not len(layout.values):
        return are_texts_apart
    drawn = np.zeros(len(layout), np.bool_)
    known = np.flatnonzero(layout.lengths > IS_DRAWING)
    drawn[known] = layout.values[layout.offsets[known] + IS_DRAWING] > 0
    return lambda left, right: are_texts_apart(left, right) | (drawn[left] & drawn[right])


def text_veto(prints: PrintTable, *, settings: DedupSettings, contrasts: bool = True) -> Apart:
    """Which pairs, given as two arrays of positions, are kept apart: those that share more than
    `settings.semantic_shared_fraction` of their smaller 5-gram set, where many other units share the same, or each of
    the two has many siblings, or one subject stands in place of another (`has_other_subject`); long texts that name
    other things in another order (`are_others`); two that fill in one form (`Forms`); and, with `contrasts`, texts of
    which one says "left" where the other says "right" (`Contrasts`), and texts that are the same but for their numbers.
    Units without shingles are never kept apart.

    prints: of all units that are compared, for their number counts; the methods `shingles` and `words` are read.
    """
    shingles, words = prints["shingles"], prints["words"]
    if not len(shingles.values):  # a modality without texts
        return never_apart
    sizes = shingles.lengths
    fraction = settings.semantic_shared_fraction
    wordings, forms = Wordings(words), Forms(words)
    # an index of the whole corpus each, which is made for the first pair that shares so much
    commonness = cache(lambda: Commonness(shingles))
    siblings = cache(lambda: Siblings(sampled(shingles), fraction=fraction))
    kinds = Contrasts() if contrasts else None

    def is_apart(left: Positions, right: Positions) -> NDArray[np.bool_]:
        apart = np.zeros(len(left), np.bool_)
        for at, (one, other) in enumerate(zip(left.tolist(), right.tolist(), strict=True)):
            others = np.array([other], np.int64)
            shared = int(shared_counts(shingles.values, shingles.offsets, one, others)[0])
            texts = wordings[one], wordings[other]
            if shared > fraction * min(sizes[one], sizes[other]):
                apart[at] = (siblings().are_many(one) and siblings().are_many(other)) or bool(
                    commonness().wording(one, others)[0] in (TEMPLATE, FRAME) or has_other_subject(*texts)
                )
            apart[at] = apart[at] or are_others(*texts) or forms.are_one(*texts)
            if kinds is not None:
                apart[at] = apart[at] or have_other_numbers(*texts) or kinds.are_apart(*texts)
        return apart

    return is_apart


def has_other_subject(one: Wording, other: Wording) -> bool:
    """Whether each of two texts that share wording has a word again and again that the other never has: two pages of
    one schema, however few others there are. Who retells a text keeps its subject."""
    for side, others in ((one, other), (other, one)):
        most = side.counts[~np.isin(side.words, others.words, assume_unique=True)].max(initial=0)
        if most < max(_SUBJECT_TIMES, _SUBJECT_FRACTION * side.length):
            return False
    return True


def have_other_numbers(one: Wording, other: Wording) -> bool:
    """Whether two texts have the same words, but for words with digits, of which each has one that the other lacks."""
    sides = ((one, other), (other, one))
    own = [side.words[~np.isin(side.words, others.words, assume_unique=True)] for side, others in sides]
    return all(len(words) > 0 and bool((words & 1).all()) for words in own)  # their lowest bit says that they have one


def are_others(one: Wording, other: Wording) -> bool:
    """Whether two long texts say different things: one of them lacks most of the words of the other, and what both
    hold once stands elsewhere. Passages that were moved leave the words, another language leaves the order."""
    if min(one.length, other.length) < _LONG_WORDS:
        return False
    shared, rows, other_rows = np.intersect1d(one.words, other.words, assume_unique=True, return_indices=True)
    if len(shared) >= _KEPT_FRACTION * max(len(one.words), len(other.words)):
        return False
    is_once = (one.counts[rows] == 1) & (other.counts[other_rows] == 1)
    if is_once.sum() < _LEAST_PLACES:
        return False
    places = one.places[rows], other.places[other_rows]
    ranks = np.stack([np.argsort(np.argsort(side[is_once])) for side in places])
    return float(np.asarray(np.corrcoef(ranks))[0, 1]) < _LEAST_ORDER

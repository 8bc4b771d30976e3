"""What the compiled walk over texts reads and writes: arrays, and of what kind each is (`machine_code`)."""

from __future__ import annotations

from typing import Any, NamedTuple

FILTER_BITS = 2048
FILTER_NUMBERS = FILTER_BITS // 64


class Texts(NamedTuple):
    """What the kernels read of texts; the arrays are marked as read-only, so that one compiled form serves all."""

    shingles: Any  # of all texts, each one's sorted and distinct
    starts: Any  # where those of each text begin
    words: Any
    word_starts: Any
    table: Any  # of `Commonness`, as are shift and below
    shift: Any
    below: Any
    jaccard: float
    match: float
    bits: Any  # `FILTER_BITS` for each text, one set for each of its shingles; none where nothing is filtered
    spare: Any  # of each text how many shingles found their bit set


class Order(NamedTuple):
    """In what order the texts are gone through."""

    order: Any
    place: Any
    items: Any  # for each text a number that stands for its item; empty where no two are of one item
    group_of: Any  # of texts that are the first of some with equal prints, the number of these; -1 elsewhere
    group_starts: Any
    grouped: Any  # the texts of all such groups, one after the other, each group's in survivor order


class Lists(NamedTuple):
    """`postings.Postings` in arrays, but that places in survivor order stand for texts while they are walked."""

    ids: Any
    offsets: Any
    starts: Any
    slots: Any
    counts: Any


class State(NamedTuple):
    """What is found of the texts."""

    leader_of: Any
    head_of: Any  # who took the text because their prints are equal; -1 for nobody
    relation: Any  # of followers, as are score and method
    score: Any
    method: Any
    followed: Any  # the followers, in the order in which they came to follow; one that changed its leader twice
    is_released: Any
    missed: Any  # the closest leader that a text was compared with and is apart from; -1 without one
    missed_score: Any
    missed_method: Any
    num_shared: Any  # zeros between two texts
    ends: Any  # how many have followed; how many rows of `held` there are


class Marks(NamedTuple):
    """The shingles of one text, while others are compared with it."""

    of: Any  # which text; how many places the tables have, how many shingles are in neither
    first: Any
    second: Any
    rest: Any
    other: Any  # the one that is compared now
    histograms: Any  # of the two, as `text_kernels` makes them
    left: Any  # pairs that are known, as `text.pairs.KnownPairs` has them, and the next eight
    right: Any
    code: Any
    relation: Any
    method: Any
    score: Any
    ends: Any
    slots: Any
    is_beyond: Any
    # of the two that are compared: words, which of them are covered, what `text.verdicts.Alignment` says of each; room
    # for tables of 3-grams and words (`text_kernels`)
    words: Any
    covered: Any
    alignments: Any
    grams: Any
    names: Any
    counts: Any


class Scratch(NamedTuple):
    """Room for one text at a time."""

    touched: Any
    leaders: Any
    shared: Any
    relation: Any
    score: Any
    method: Any


class Held(NamedTuple):
    """Texts that hold one of the leaders that they were compared with."""

    left: Any
    right: Any
    score: Any
    method: Any


TEXTS = (Texts, "u8* i8* u8* i8* u1* u8 u8 f8 f8 u8* i4*")
ORDER = (Order, "i8* i8* i8* i8* i8* i8*")
LISTS = (Lists, "i4* i8* i8* i8* i2*")
STATE = (State, "i8* i8* i1* f8* i1* i8* b1* i8* f8* i1* i4* i8*")
MARKS = (Marks, "i8* u8* u8* u8* i8* i8*** i4* i4* i1* i1* i1* f8* i8* i4* b1* u4** b1** i8** u8* u4* i8**")
SCRATCH = (Scratch, "i8* i8* i8* i8* f8* i8*")
HELD = (Held, "i8* i8* f8* i1*")

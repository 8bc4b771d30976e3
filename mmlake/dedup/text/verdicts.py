"""What two texts are to each other, from a handful of numbers: the rules that the Python code and the compiled walk
both follow. Only what numba compiles as it stands is in here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mmlake.dedup.matching import HOLDS, INSIDE, NONE, SAME

JACCARD, CONTAINED, REVISION = range(3)  # positions in `text.matcher.METHODS`
UNDECIDED = -1  # what `of_sets` says where the words have to be laid along each other

BLOCK_WORDS = 12  # a run this long without a shared 3-gram is a passage, not an edit
LEAST_SHARED = 0.2  # of the smaller set's shingles; below it no word is compared. Every seventh word replaced: .26-.6
VERBATIM = 0.97  # of the smaller set in the larger one
MIN_CONTAINED = 8  # shingles of a text that may lie inside another
LEAST_REVISED_WORDS = 48
_LIKE_LENGTH = 0.8  # shorter to longer, of two versions of which neither was cut
_CUT_MATCH = 0.9
_SAME_LENGTH = 0.5  # shorter to longer, from which either of two texts may go
_INSIDE_SHARED = 0.5
_INSIDE_COVERED = 0.85
_OWN_FRACTION = 0.1  # of both texts in passages that the other lacks
_FEW_EDITS = 0.04  # of the words; fewer say nothing about what kind of edits they are
_NUMBER_FRACTION = 0.35  # of the words that the other lacks; edits leave at most .15
_REPEATED_FRACTION = 0.3
_REPETITION = 1.35  # times that a word which the other lacks stands in its text; edits on both sides 1.1 at most

MIN_SIBLINGS = 4  # other texts that share what two share; fewer are no template
MANY_SIBLINGS = 16
PAIR = 2  # texts that a shingle which both have was counted for
COMMON = MIN_SIBLINGS + PAIR
SPECIFIC_FRACTION = 0.25  # of what is the pair's alone (shared or not) that a copy must share
# shingles that a page has beyond its template, below which it is a stub: its template says nothing of it
STUB_SHINGLES = 64
# of what one lacks that others still have, as often as what the two share: in families of copies .38 to 1, and for the
# original .95 to 1; in templates up to .4, and .6 where a large one fills its gaps from short lists
KEPT_FRACTION = 0.35
KEPT_FRACTION_OF_MANY = 0.65

# what two texts share, by who else holds it. Of their own: nothing is said against them. Of a SITE: a part of it is
# common wording, of a LARGE_SITE where so many hold it that they are no copies of one text. STUB, LARGE_STUB: pages of
# one with little beyond that wording. TEMPLATE: most of it is a template's, which leaves a page little. FRAME: the
# same, and what either page has beyond it the other lacks. ONE_PAGE: of a site or a template, but they share nearly all
# of what either has beyond that, so that only names speak against them
OF_THEIR_OWN, SITE, LARGE_SITE, STUB, LARGE_STUB, TEMPLATE, FRAME, ONE_PAGE = range(8)
WORDING, BY_COUNTS = 7, 8  # bits of a code of `text.pairs`: which of these, and whether every count decides
# of what two texts share, held by others than a few: of a SITE, and of a STUB
_SITE_FRACTION, _STUB_FRACTION = 0.1, 0.25
# the same, where others still have what one of the two lacks: copies of one text have nothing of their own, but pages
# of two templates that are alike do
_FAMILY_FRACTION = 0.9
# shingles beyond the common wording that a revision of a site's page has: in 70 to 200 words of a reference page, half
# of them common, an edit and a second name in one schema are alike
_SITE_SHINGLES = 128
SURELY_SAME = 0.95  # Jaccard from which nothing is asked any more
# of the replaced words of both texts; edits leave .07 at most (.14 where half was cut off)
_THOROUGH_FRACTION, _THOROUGH_FRACTION_ANYWHERE = 0.15, 0.3
_THOROUGH_FRACTION_OF_ONE = 0.3  # of the replaced words of one text, where the other one's are a third as many
_LEAST_THOROUGH, _LEAST_THOROUGH_ANYWHERE = 2, 5  # replaced words that stand for one subject
_LEAST_TITULAR_ANYWHERE = 3
TITLE_WORDS = 24  # a heading, and the path to it that many sites put before it
_NAMED = 2.0  # times that a word which the other lacks stands in its text, where it is a name; garbled ones are many
_IN_NUMBERS = 0.5  # of the words that the other lacks, where the names are versions or years
_WINDOW = 5  # shingles that a word stands in, as `text.prints` makes them
# of the words that must have been replaced, one by one, for so many shingles to be gone: .64 and more where up to a
# fifth of the words were, 0 to .7 in pages of one site on two subjects, which differ in whole clauses
_SCATTERED_FRACTION = 0.6
# of the shingles beyond the common wording, which are no more than a sample: what an edited page keeps. In releases of
# one manual .9 and more for most pages; of two functions' pages in a library some have as much, but no 32 of it
_ONE_PAGE_FRACTION, _SURE_SAMPLE = 0.9, 32
_PAGE_SHINGLES = 256  # of a page so short that a site's frame and one sentence decide on its Jaccard
_SURELY_HELD = 0.95  # of the smaller set; what is put into a text in two places leaves more


class Alignment(NamedTuple):
    """What the words of one text say about another one."""

    covered: int  # words in a 3-gram that the other holds, anywhere
    matched: int  # other words that the other text also has uncovered, each once
    absent: int  # words that the other never has
    distinct: int  # of the absent ones
    repeated: int  # absent ones that stand in the text three times or more
    numbers: int  # absent ones with a digit
    own: int  # words in passages of its own
    replaced: int  # words outside of such passages that stand more often here than in the other
    thorough: int  # of these, those in several places of which the other has a third at most: one name for another
    titular: int  # uncovered ones among the first `TITLE_WORDS` that stand in the text again, and there as seldom


def is_large(wording: int) -> bool:
    """Whether more texts hold the common wording than one text has copies as a rule."""
    return wording == LARGE_SITE or LARGE_STUB <= wording < ONE_PAGE


def of_sets(held: float, size: int, other_size: int, num_words: int, other_words: int, wording: int) -> tuple[int, int]:
    """(relation of the one to the other, method) where the Jaccard is below the bound, or UNDECIDED.

    held: share of the smaller set that the larger one has. wording: of what is shared, as `wording_of` says.
    """
    if wording == FRAME:
        return NONE, JACCARD
    wording = OF_THEIR_OWN if wording == ONE_PAGE else wording
    if held >= VERBATIM:
        is_like = min(size, other_size) >= _SAME_LENGTH * max(size, other_size)
        if is_like and wording != TEMPLATE:
            return SAME, CONTAINED
        return (INSIDE if size < other_size else HOLDS), CONTAINED
    shorter, longer = min(num_words, other_words), max(num_words, other_words)
    if wording >= STUB or shorter < LEAST_REVISED_WORDS:
        return NONE, JACCARD
    if shorter < _SAME_LENGTH * longer and held < _INSIDE_SHARED:
        return NONE, JACCARD
    return UNDECIDED, JACCARD


def of_words(
    one: Alignment, other: Alignment, num_words: int, other_words: int, held: float, wording: int, match: float
) -> tuple[int, int]:
    """(relation of the one to the other, method) where the sets alone do not say. held: of `of_sets`. match:
    `text_revision_match`."""
    if not is_revision(one, other, num_words, other_words, match):
        return NONE, JACCARD
    if wording == ONE_PAGE:
        if _is_named_anew(one, other):
            return NONE, JACCARD
        wording = OF_THEIR_OWN
    if has_other_subject(one, other, num_words, other_words, wording):
        return NONE, JACCARD
    shorter, longer = min(num_words, other_words), max(num_words, other_words)
    if shorter >= _SAME_LENGTH * longer:
        has_other_title = min(one.titular, other.titular) >= _LEAST_TITULAR_ANYWHERE
        if has_other_title or (is_large(wording) and not is_scattered(one, other, num_words, other_words, held)):
            return NONE, JACCARD
        return SAME, REVISION
    short = one if num_words < other_words else other
    if short.covered < _INSIDE_COVERED * shorter:
        return NONE, JACCARD
    return (INSIDE if num_words < other_words else HOLDS), REVISION


def is_revision(one: Alignment, other: Alignment, num_words: int, other_words: int, match: float) -> bool:
    """Whether the shorter text is the longer one with words edited: most of its words have their counterpart, and what
    differs is neither a passage of each, nor numbers, nor one subject in place of another."""
    shorter, longer = min(num_words, other_words), max(num_words, other_words)
    bound = match
    if shorter < _LIKE_LENGTH * longer:  # something was cut off or put in, and little else happened
        bound = max(bound, _CUT_MATCH)
    short, long = (one, other) if num_words <= other_words else (other, one)
    cut = long.own if bound > match else 0
    if short.covered + short.matched < bound * shorter:
        return False
    if long.covered + long.matched + cut < bound * longer:
        return False
    if min(one.own / num_words, other.own / other_words) > _OWN_FRACTION:
        return False
    if min(one.absent / num_words, other.absent / other_words) < _FEW_EDITS:
        return True
    numbers = min(one.numbers / one.absent, other.numbers / other.absent)
    repeated = min(one.repeated / one.absent, other.repeated / other.absent)
    repetition = min(one.absent / one.distinct, other.absent / other.distinct)
    is_subject = repeated >= _REPEATED_FRACTION and repetition >= _REPETITION
    return numbers < _NUMBER_FRACTION and not is_subject


def is_of_one_page(
    one: Alignment, other: Alignment, num_words: int, other_words: int, held: float, size: int, wording: int
) -> bool:
    """Whether nothing speaks against two texts whose Jaccard is above the bound, but not surely. size: of the smaller
    set."""
    if one.covered == num_words and other.covered == other_words:  # nothing but moved passages
        return True
    if wording == FRAME or (wording == ONE_PAGE and _is_named_anew(one, other)):
        return False
    if wording in (OF_THEIR_OWN, ONE_PAGE):
        return not (_is_in_numbers(one, other) or _is_retitled(one, other))
    is_short = is_large(wording) and size < _PAGE_SHINGLES and held < _SURELY_HELD
    if is_short and not is_scattered(one, other, num_words, other_words, held):
        return False
    return not (has_other_subject(one, other, num_words, other_words, wording) or _is_in_numbers(one, other))


def is_scattered(one: Alignment, other: Alignment, num_words: int, other_words: int, held: float) -> bool:
    """Whether words that were replaced here and there, in both texts, explain what these do not share: each takes the
    shingles with it that it stands in. Two pages of one site differ in a sentence of each instead."""
    kept = 1.0 - min(one.replaced / num_words, other.replaced / other_words) / _SCATTERED_FRACTION
    of_all = kept
    for _ in range(_WINDOW - 1):
        of_all *= kept
    return kept <= 0.0 or of_all <= held


def has_other_subject(one: Alignment, other: Alignment, num_words: int, other_words: int, wording: int) -> bool:
    """Whether names in one text stand in place of names in the other, wherever these stood: two pages of one schema.
    Who edits a text replaces a word here and another there. Of pages of one site less evidence is enough."""
    least, fraction = _LEAST_THOROUGH_ANYWHERE, _THOROUGH_FRACTION_ANYWHERE
    if wording >= SITE:
        least, fraction = _LEAST_THOROUGH, _THOROUGH_FRACTION
    fractions = one.thorough / max(1, one.replaced), other.thorough / max(1, other.replaced)
    if min(one.thorough, other.thorough) >= least and min(fractions[0], fractions[1]) >= fraction:
        return True
    if _is_retitled(one, other):
        return True
    if wording < SITE:
        return False
    is_like = min(num_words, other_words) >= _LIKE_LENGTH * max(num_words, other_words)
    if is_like and is_large(wording) and (max(one.titular, other.titular) > 1 or min(one.titular, other.titular) > 0):
        return True
    # what a whole has beyond its part says nothing
    is_part = other_words < _SAME_LENGTH * num_words, num_words < _SAME_LENGTH * other_words
    return (not is_part[0] and _is_renamed(one, other)) or (not is_part[1] and _is_renamed(other, one))


def _is_renamed(one: Alignment, other: Alignment) -> bool:
    """The same, where the names of the other text stand in it once each, or are parts of those of the one."""
    if one.thorough <= _LEAST_THOROUGH or one.thorough < _THOROUGH_FRACTION_OF_ONE * one.replaced:
        return False
    return other.replaced > _LEAST_THOROUGH and 3 * other.replaced >= one.replaced


def _is_named_anew(one: Alignment, other: Alignment) -> bool:
    """Whether the titles, or three in ten of the words that were replaced, name one thing in place of another."""
    if min(one.titular, other.titular) > 0:
        return True
    fractions = one.thorough / max(1, one.replaced), other.thorough / max(1, other.replaced)
    is_thorough = min(one.thorough, other.thorough) >= _LEAST_THOROUGH
    return is_thorough and min(fractions[0], fractions[1]) >= _THOROUGH_FRACTION_ANYWHERE


def _is_retitled(one: Alignment, other: Alignment) -> bool:
    """Whether most of what was replaced are names, which are none of releases, and some of both titles among them: a
    function in place of another."""
    if min(one.titular, other.titular) == 0 or min(one.thorough, other.thorough) < _LEAST_THOROUGH:
        return False
    fractions = one.thorough / max(1, one.replaced), other.thorough / max(1, other.replaced)
    numbers = max(one.numbers / max(1, one.absent), other.numbers / max(1, other.absent))
    repetition = min(one.absent / max(1, one.distinct), other.absent / max(1, other.distinct))
    is_thorough = min(fractions[0], fractions[1]) >= _THOROUGH_FRACTION_ANYWHERE and repetition >= _NAMED
    return is_thorough and numbers < _IN_NUMBERS


def _is_in_numbers(one: Alignment, other: Alignment) -> bool:
    """Whether what stands in place of names are numbers, as in notes on two releases."""
    if min(one.thorough, other.thorough) < _LEAST_THOROUGH_ANYWHERE:
        return False
    fractions = one.thorough / max(1, one.replaced), other.thorough / max(1, other.replaced)
    numbers = min(one.numbers / max(1, one.absent), other.numbers / max(1, other.absent))
    return min(fractions[0], fractions[1]) >= _THOROUGH_FRACTION_ANYWHERE and numbers >= _IN_NUMBERS


def siblings(counts: Any) -> int:
    """In how many other texts, at the median, what two texts share stands too; fewer than `MIN_SIBLINGS` are no
    template, whatever else there is. Whether they are follows from which shingles `COMMON` texts hold.

    counts: of shape (3, 256): how many sampled shingles so many texts hold, of both, of the one alone, of the other.
    """
    num_shared = counts[0].sum()
    total, held = 0, 0
    while total < (num_shared + 1) // 2:
        total += counts[0, held]
        held += 1
    return max(0, held - 1 - PAIR)


def code_of(counts: Any, fraction: Any) -> int:
    """What two texts share, as `wording_of` says it, and whether every count decides on it: a code of `text.pairs`."""
    wording = wording_of(counts, fraction)
    return wording + BY_COUNTS if wording >= SITE or siblings(counts) >= MIN_SIBLINGS else wording


def most_kept(counts: Any, median: Any) -> Any:
    """Of what one of two texts lacks, how much others still have that share with them what the two share; of the text
    that lacks more of it. median: `siblings`. counts: of `siblings`."""
    most = 0.0
    for side in range(1, 3):
        num_alone = counts[side].sum()
        kept = num_alone - counts[side, : (median + 1) // 2 + 1].sum()
        most = max(most, kept / num_alone if num_alone > 0 else 1.0)
    return most


def _is_one_page_beyond(counts: Any) -> bool:
    """Whether two texts are one where no site and no template speaks: of what few others hold they share nearly all
    that either of them has, and enough of it. A page on another subject fills the gaps of its template with its own."""
    shared = counts[0, :COMMON].sum()
    alone = min(counts[1, :COMMON].sum(), counts[2, :COMMON].sum())
    return bool(shared >= _SURE_SAMPLE and shared >= _ONE_PAGE_FRACTION * (shared + alone))


def wording_of(counts: Any, fraction: Any) -> int:
    """What two texts share, by who else holds it: the rule of `text.templates`, for one pair. counts: of `siblings`.
    fraction: of the shingles that were sampled."""
    median = siblings(counts)
    num_shared = counts[0].sum()
    common = num_shared - counts[0, :COMMON].sum()
    if num_shared > 0 and common >= _SITE_FRACTION * num_shared and _is_one_page_beyond(counts):
        return ONE_PAGE
    beyond = counts[0, :COMMON].sum() + max(counts[1, :COMMON].sum(), counts[2, :COMMON].sum())
    is_wide = num_shared - counts[0, : MANY_SIBLINGS + PAIR].sum() >= _SITE_FRACTION * num_shared
    of_site = STUB if common >= _STUB_FRACTION * num_shared and beyond < _SITE_SHINGLES * fraction else SITE
    of_site += 1 if is_wide else 0
    if median < MIN_SIBLINGS:  # so few copies that the rest of what they share is a site's
        if num_shared == 0 or common < _SITE_FRACTION * num_shared:
            return OF_THEIR_OWN
        # or some more copies, of which few have the same: a text of 200 words in six has as much in common with them
        return SITE if of_site == STUB and most_kept(counts, median) >= KEPT_FRACTION else of_site
    if most_kept(counts, median) >= (KEPT_FRACTION if median < MANY_SIBLINGS else KEPT_FRACTION_OF_MANY):
        return LARGE_SITE if is_wide and common < _FAMILY_FRACTION * num_shared else OF_THEIR_OWN
    rare = max(1, median // 4)
    specific = counts[0, : rare + 2].sum()
    one, other = counts[1, : rare + 1].sum(), counts[2, : rare + 1].sum()
    is_stub = specific + max(one, other) < STUB_SHINGLES * fraction
    is_common = specific < SPECIFIC_FRACTION * max(1, specific + min(one, other))
    if is_common:
        return FRAME
    return TEMPLATE if is_stub else of_site

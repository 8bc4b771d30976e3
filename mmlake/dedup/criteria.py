"""What makes one copy truer than another: the criteria that `survivors` goes through, and what each of them asks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Criterion:
    """A number that says which of two copies is the truer one."""

    name: str
    column: str  # of `tracks`, or the name of a measure
    table: str = "measures"  # or "tracks"
    # or "low", or "usual": near the median of the cluster, which most copies leave as it was; "" decides nothing, and
    # is there for the others
    best: str = "high"
    tolerance: float = 0.1  # of the better value: what differs less is as good
    margin: float = 0.0  # the same, in the unit of the number
    # the name of another criterion, of the size: what has clearly less of both than another one left gives way, and has
    # no say from then on in who is close to the rest
    also: str = ""
    # the names of the criteria of width and height: the number is the trace of an enlargement, which gives way to its
    # original; has_say: and how close others are to it still counts
    frame: tuple[str, ...] = ()
    has_say: bool = True
    # the method of pairs of which one was made of the other by coding it anew: the copy gives way, unless it has more
    # of what the criteria of these names count
    recoded: str = ""
    no_less: tuple[str, ...] = ()
    # the names of criteria, whether a file lost nothing, the rate of one that did, its channels, and up to where it has
    # sound, of whose pairs the matcher says what lies between them: the file without loss gives way where that is no
    # codec, the lossy one where it is, and what several others were made of stays (`mmlake.dedup.stars.saved`)
    files: tuple[str, ...] = ()
    # the name of a criterion of two numbers: what several others were made of does not go for this one, but for what
    # has a third more of both
    spares: str = ""
    # the names of criteria: where most of the cluster (of two, both) have all of their numbers alike, this one says
    # nothing
    unless: tuple[str, ...] = ()
    alike: float = 0.05  # share of the median by which such a number differs from it at most
    # of a cluster, that must be near the median; where fewer are, nothing is usual: one picture in many sizes has none
    share: float = 0.0
    # how much of the number words bring, where they are a share of all: what those bring that only one of two copies
    # has decides nothing between the two. Of matchers that know the words
    of_words: float = 0.0
    says: str = ""  # what was better about the one that stays: "lossless over lossy"

    @property
    def is_closeness(self) -> bool:
        """Whether matchers say how close units are, not a column."""
        return not (self.column or self.recoded)

    @property
    def is_of_column(self) -> bool:
        """Whether a column says it, not matchers."""
        return bool(self.column)

    @property
    def is_of_pairs(self) -> bool:
        """Whether it says of two which gives way, by several numbers."""
        return bool(self.also or self.frame)

    @property
    def silences(self) -> bool:
        """Whether what gives way has no say from then on in who is close to the rest."""
        return bool(self.also) or not self.has_say

    @property
    def is_of_cluster(self) -> bool:
        """Whether all members decide together: nothing is said of two alone."""
        return self.is_closeness or self.best == "usual"


def close_within(margin: float) -> Criterion:
    """The mark in a list of criteria where closeness to the rest of the cluster decides; margin: of the mean score."""
    return Criterion(name="closeness", column="", margin=margin, says="closest to the rest of its cluster")


CLOSENESS = close_within(2e-3)


def length_of(column: str, *, unit: str = "") -> Criterion:
    """More of it, by a column of `tracks`: the longest uncut."""
    return Criterion(name=column, column=column, table="tracks", tolerance=0.05, says=f"longer{unit}")

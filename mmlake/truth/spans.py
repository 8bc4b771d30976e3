"""The units of a long item held against what was planted in it: cut where nothing is torn, and nothing left out but
what was planted as a rest. No lake: units and truth in, findings out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mmlake.sample import LongItem, Sentence

BORDER_S = 0.1  # how far a border may lie from the shot border or pause that it is at: two frames
SENTENCE_S = 0.15  # how far from the end of a sentence: what a voice takes to fade, and what word times are right to
EARLY_S = 0.6
# how much earlier its first word may begin: aligners give a part of a pause to the word behind it (7 of 125 sentences
# of the sample, by up to 0.5 s)
REST_S = 0.6  # how far a gap may reach beyond its rest: speech fades, and so does a picture before it is black
SHOT, PAUSE, SENTENCE, GAP, FORCED = "shot", "pause", "sentence end", "gap", "forced"


@dataclass(frozen=True, kw_only=True, slots=True)
class Stretch:
    """A unit or a gap of a long item."""

    digest: str
    start_s: float
    end_s: float
    gap: str | None = None  # why it is no unit

    @property
    def length_s(self) -> float:
        """Its length."""
        return self.end_s - self.start_s


@dataclass(frozen=True, kw_only=True, slots=True)
class Planted:
    """What is known of one long item."""

    item: LongItem
    shots_s: tuple[float, ...] = ()  # of a film: where shots after the first begin
    sentences: tuple[Sentence, ...] = ()
    has_words: bool = True  # whether the voice says words that can be found again

    def kind(self, time_s: float) -> str | None:
        """What was planted at this time that a border may be at; None in the middle of a shot, note or sentence."""
        if any(abs(time_s - shot_s) <= BORDER_S for shot_s in self.shots_s):
            return SHOT
        if any(start - BORDER_S <= time_s <= end + BORDER_S for start, end in self.item.pauses_s):
            return PAUSE
        if any(abs(time_s - one.end_s) <= SENTENCE_S for one in self.sentences):
            return SENTENCE
        return None

    def torn(self, time_s: float) -> Sentence | None:
        """The sentence that a border there would cut in two."""
        for one in self.sentences:
            if one.start_s + SENTENCE_S < time_s < one.end_s - SENTENCE_S:
                return one
        return None

    def is_cuttable(self, start_s: float, end_s: float) -> bool:
        """Whether any time in between may have a border that cuts no sentence in two."""
        times = [*self.shots_s, *(one.end_s for one in self.sentences)]
        times += [min(max(start, start_s), end) for start, end in self.item.pauses_s if end >= start_s]
        return any(start_s <= time_s <= end_s and self.torn(time_s) is None for time_s in times)


@dataclass(kw_only=True, slots=True)
class Cuts:
    """How one long item was cut."""

    borders: Counter[str] = field(default_factory=Counter)  # what they are at -> how many
    wrong: list[str] = field(default_factory=list)

    @property
    def forced_fraction(self) -> float:
        """Of all borders, those that are where they are for the length alone."""
        return self.borders[FORCED] / max(1, self.borders.total())


def check_cuts(stretches: Sequence[Stretch], planted: Planted, *, min_s: float, max_s: float) -> Cuts:
    """Where the borders lie, and all that is wrong with them and with the gaps.

    stretches: units and gaps in order. min_s, max_s: lengths of a unit, between which its borders are free.
    """
    cuts = Cuts(wrong=[*_untiled(stretches, planted.item.duration_s), *_wrong_gaps(stretches, planted.item)])
    for before, after in zip(stretches, stretches[1:], strict=False):
        if before.gap or after.gap:
            cuts.borders[GAP] += 1  # the gap itself is checked
            continue
        time_s = before.end_s
        # Where else the border could be, its neighbours staying where they are.
        lowest_s = max(after.end_s - max_s, before.start_s + min_s)
        highest_s = min(before.start_s + max_s, after.end_s - min_s)
        kind, torn = planted.kind(time_s), planted.torn(time_s)
        if (kind is None or torn is not None) and planted.is_cuttable(lowest_s, highest_s):
            where = f'in the sentence "{torn.text}"' if torn else "at no shot border, in no pause, at no sentence's end"
            cuts.wrong.append(f"the border at {time_s:.2f} s lies {where}, and need not")
        cuts.borders[kind if kind is not None and torn is None else FORCED] += 1
    return cuts


def _untiled(stretches: Sequence[Stretch], duration_s: float) -> list[str]:
    """Where units and gaps do not add up to the item. The duration of coded sound is that of whole frames."""
    wrong, at = [], 0.0
    for one in stretches:
        if abs(one.start_s - at) > 1e-6:
            wrong.append(f"units and gaps leave {at:.3f} to {one.start_s:.3f} s to nobody, or to two")
        at = one.end_s
    if abs(at - duration_s) > BORDER_S:
        wrong.append(f"units and gaps end at {at:.2f} s of {duration_s:.2f} s")
    return wrong


def _wrong_gaps(stretches: Sequence[Stretch], item: LongItem) -> list[str]:
    wrong = []
    gaps = [one for one in stretches if one.gap]
    for one in gaps:
        if not any(start - REST_S <= one.start_s and one.end_s <= end + REST_S for start, end in item.rests_s):
            wrong.append(f"the gap {one.gap} from {one.start_s:.2f} to {one.end_s:.2f} s is no planted rest")
    for start, end in item.rests_s:
        left_out_s = sum(max(0.0, min(one.end_s, end) - max(one.start_s, start)) for one in gaps)
        if left_out_s < (end - start) / 2:
            wrong.append(f"the rest from {start:.2f} to {end:.2f} s is no gap")
    return wrong


def said_at(sentence: Sentence, words: Sequence[tuple[str, float, float]]) -> tuple[float, float] | None:
    """When these words say the sentence, whole and in order; None where they do not.

    words: (word, start, end) on the item's clock, in order of time.
    """
    expected = spelled(sentence.text)
    near = [
        (spelling, start_s, end_s)
        for word, start_s, end_s in words
        if end_s > sentence.start_s - 1 and start_s < sentence.end_s + 1
        for spelling in spelled(word)
    ]
    for at in range(len(near) - len(expected) + 1):
        if [word for word, _, _ in near[at : at + len(expected)]] == expected:
            return near[at][1], near[at + len(expected) - 1][2]
    return None


def is_in_time(sentence: Sentence, said_s: tuple[float, float]) -> bool:
    """Whether words with this beginning and end are those of the sentence."""
    start_s, end_s = said_s[0] - sentence.start_s, said_s[1] - sentence.end_s
    return -EARLY_S <= start_s <= SENTENCE_S and abs(end_s) <= SENTENCE_S


def spelled(text: str) -> list[str]:
    """The words without case and punctuation."""
    plain = "".join(letter if letter.isalnum() or letter == "'" else " " for letter in text.lower())
    return plain.split()

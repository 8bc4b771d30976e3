"""Comparisons made by worker processes before a walk asks for them: the walk's order stays, and so does its outcome.

Who leads is known of all units but those of the block that is gone through, so what a unit will be compared with is
known but for leaders of its own block; these are compared here, in turn. A comparison depends on the prints of its two
units and on the settings alone (`Tier.is_pairwise`), so the answers are those that the matcher itself would give.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from mmlake.border import Failure, Runner
from mmlake.dedup.matching import Found, Matcher, Question, coded_anew, is_mirrored, is_shared_out
from mmlake.dedup.prints import KEYS, Positions, PrintTable, Ragged
from mmlake.dedup.settings import DedupSettings

_AT_ONCE = 512  # units of a block: a fiftieth of 25,000, which is the share that is compared here
_TOGETHER = 32  # comparisons of one item: a tenth of a second
_LEAST = 64  # comparisons of a block; fewer are made sooner here
Make = Callable[[PrintTable, DedupSettings], Matcher]


def can_be_sent(make: Make) -> bool:
    """Whether a worker can import it; what a plugin made within a function it cannot."""
    try:
        pickle.dumps(make)
    except (pickle.PicklingError, AttributeError, TypeError):
        return False
    return True


class Part(NamedTuple):
    """Some questions, and the prints that they are about."""

    prints: dict[str, Ragged]
    ones: Positions  # rows of the prints
    others: Ragged  # of each of the ones those that it is compared with


class Ahead:
    """A matcher in front of another one, of which workers have made copies for the units that they are asked about."""

    def __init__(
        self, matcher: Matcher, prints: PrintTable, make: Make, *, settings: DedupSettings, runner: Runner
    ) -> None:
        """make: the matcher of some prints, with their keys among them; picklable."""
        self._matcher, self._runner = matcher, runner
        self._prints = {**prints, KEYS: matcher.keys}
        self._kernel = partial(compared, make=make, settings=settings)
        self.keys, self.min_shared, self.neighbours = matcher.keys, matcher.min_shared, matcher.neighbours
        self.shares_out, self.made_of = is_shared_out(matcher), coded_anew(matcher)
        self.is_mirrored = is_mirrored(matcher)
        self.at_once = _AT_ONCE if runner.workers > 1 else 0
        self._known: dict[int, tuple[Positions, Found]] = {}  # unit -> sorted others, what it is to them

    def prepare(self, questions: Iterable[Question]) -> None:
        """See `Prepares`. What a worker fails at is compared here once it is asked for."""
        asked = [(one, np.sort(others)) for one, others in questions if len(others)]
        self._known = {}
        if sum(len(others) for _, others in asked) < _LEAST:
            return
        parts = list(_in_parts(asked))
        items = (self._part(part) for part in parts)
        results = self._runner.map(self._kernel, items, code=5001, what="two prints cannot be compared")
        for part, found in zip(parts, results, strict=True):
            if isinstance(found, Failure):
                continue
            ends = np.cumsum([len(others) for _, others in part]).tolist()
            for (one, others), low, high in zip(part, [0, *ends[:-1]], ends, strict=True):
                self._known[one] = others, found.at(slice(low, high))

    def compare(self, one: int, others: Positions) -> Found:
        """See `mmlake.dedup.matching.Matcher`."""
        if one not in self._known:
            return self._matcher.compare(one, others)
        known, found = self._known[one]
        at = np.minimum(np.searchsorted(known, others), len(known) - 1)
        is_new = known[at] != others
        if not is_new.any():
            return found.at(at)
        both = _joined([found, self._matcher.compare(one, others[is_new])])
        at[is_new] = len(known) + np.arange(is_new.sum())
        return both.at(at)

    def _part(self, questions: list[Question]) -> Part:
        units, places = np.unique(
            np.concatenate([np.append(others, one) for one, others in questions]), return_inverse=True
        )
        ends = np.cumsum([len(others) + 1 for _, others in questions])
        offsets = np.concatenate(([0], ends - 1 - np.arange(len(ends))))
        others = Ragged(np.delete(places, ends - 1).astype(np.uint64), offsets)
        return Part({name: rows.take(units) for name, rows in self._prints.items()}, places[ends - 1], others)


def compared(part: Part, *, make: Make, settings: DedupSettings) -> Found:
    """What each of the ones is to its others, one after the other: a kernel (`mmlake.border`)."""
    matcher, ones = make(part.prints, settings), part.ones.tolist()
    return _joined([matcher.compare(one, part.others[at].astype(np.int64)) for at, one in enumerate(ones)])


def _joined(found: Sequence[Found]) -> Found:
    """The rows of all, which are of one matcher."""
    spans = [one.spans_s for one in found if one.spans_s is not None]
    details = [one.detail for one in found if one.detail is not None]
    return Found(
        np.concatenate([one.relation for one in found]),
        np.concatenate([one.score for one in found]),
        np.concatenate([one.method for one in found]),
        np.concatenate(spans) if spans else None,
        np.concatenate(details) if details else None,
    )


def _in_parts(questions: list[Question]) -> Iterator[list[Question]]:
    """Questions of about so many comparisons together."""
    part: list[Question] = []
    num = 0
    for question in questions:
        part.append(question)
        num += len(question[1])
        if num >= _TOGETHER:
            yield part
            part, num = [], 0
    if part:
        yield part

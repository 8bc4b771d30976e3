"""What comparisons have found, so that none is made again: a matcher around another one."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.greedy import Edges
from mmlake.dedup.matching import (
    Found,
    Matcher,
    Question,
    block_of,
    coded_anew,
    is_mirrored,
    is_shared_out,
    lacking_words,
    prepare,
)
from mmlake.dedup.prints import Positions

# relation, score, method, spans_s and detail of `Edges`
Columns = tuple[
    NDArray[np.int8], NDArray[np.float64], NDArray[np.int8], NDArray[np.float32] | None, NDArray[np.float64] | None
]


def no_edges() -> Edges:
    """Of nobody."""
    none = np.empty(0, np.int64)
    return Edges(none, none, none.astype(np.int8), none.astype(np.float64), none.astype(np.int8))


class Remembered:
    """A matcher that asks another one what is not known yet. `compare(a, [b])` and `compare(b, [a])` are two questions,
    so that each answer is what the matcher itself would have given; one question where it says that both are the same
    to the last bit (`matching.Mirrored`), and kept is what the unit before the other one is asked."""

    def __init__(self, matcher: Matcher, known: Edges) -> None:
        """known: right as left's comparison found it, HOLDS included, sorted by left and right."""
        self._matcher, self._known = matcher, known
        self._num, self._is_mirrored = len(matcher.keys), is_mirrored(matcher)
        self.keys, self.min_shared, self.neighbours = matcher.keys, matcher.min_shared, matcher.neighbours
        self.shares_out, self.at_once, self.made_of = is_shared_out(matcher), block_of(matcher), coded_anew(matcher)
        self.lacks = lacking_words(matcher)
        self._codes = known.left * self._num + known.right
        self._rows: dict[int, int] = {}  # code -> row of what is new
        self._relations, self._methods, self._scores, self._spans_s = array("b"), array("b"), array("d"), array("f")
        self._details = array("d")  # NaN: none
        self.num_asked = 0

    def prepare(self, questions: Iterable[Question]) -> None:
        """Say to the matcher what it will be asked of that."""
        prepare(
            self._matcher,
            ((one, others[self._missing(self._codes_of(one, others)[0])[1]]) for one, others in questions),
        )

    def compare(self, one: int, others: Positions) -> Found:
        """See `mmlake.dedup.matching.Matcher`."""
        codes, is_turned = self._codes_of(one, others)
        at, missing = self._missing(codes)
        if missing.all():
            return self._asked(one, others, codes, is_turned)
        if missing.any():
            self._asked(one, others[missing], codes[missing], is_turned[missing])
        return self._recalled(codes, at, is_turned)

    def compare_each(self, ones: Positions, others: Positions) -> Found:
        """See `mmlake.dedup.matching.Each`."""
        codes, is_turned = self._codes_of(ones, others)
        at, missing = self._missing(codes)
        asked = np.flatnonzero(missing)
        begins = np.flatnonzero(np.diff(ones[asked], prepend=-1))
        for low, high in zip(begins.tolist(), [*begins[1:].tolist(), len(asked)], strict=False):
            rows = asked[low:high]
            rows = rows[self._missing(codes[rows])[1]]  # not by one before it, as seen from the other
            if len(rows):
                self._asked(int(ones[rows[0]]), others[rows], codes[rows], is_turned[rows])
        return self._recalled(codes, at, is_turned)

    def learn(self, one: int, others: Positions) -> None:
        """Find out at once what each of the others is to the one, where it makes no difference who is asked."""
        if not self._is_mirrored:
            return
        codes, is_turned = self._codes_of(one, others)
        is_new = self._missing(codes)[1]
        if is_new.any():
            self._asked(one, others[is_new], codes[is_new], is_turned[is_new])

    def known(self) -> Edges:
        """All that is known by now, sorted."""
        if not self._rows:
            return self._known
        codes = np.array(list(self._rows), np.int64)
        both = joined(self._known, Edges(codes // self._num, codes % self._num, *self._new()))
        return both.take(np.argsort(both.left * self._num + both.right))

    def _codes_of(self, ones: int | Positions, others: Positions) -> tuple[Positions, NDArray[np.bool_]]:
        """(what each pair is known by, which are known as seen from the other)."""
        others = np.asarray(others, np.int64)
        if not self._is_mirrored:
            return ones * self._num + others, np.zeros(len(others), np.bool_)
        return np.minimum(ones, others) * self._num + np.maximum(ones, others), others < ones

    def _missing(self, codes: Positions) -> tuple[Positions, NDArray[np.bool_]]:
        """(the rows of these pairs in what was known before, -1 where they are not there; which of them the matcher has
        to be asked of)."""
        at = np.searchsorted(self._codes, codes)
        at[at == len(self._codes)] = 0
        at = np.where(self._codes[at] == codes, at, -1) if len(self._codes) else np.full(len(codes), -1)
        missing = at < 0
        missing[missing] = [code not in self._rows for code in codes[missing].tolist()]
        return at, missing

    def _asked(self, one: int, others: Positions, codes: Positions, is_turned: NDArray[np.bool_]) -> Found:
        found = self._matcher.compare(one, others)
        self._note(found.mirrored_at(is_turned) if self._is_mirrored else found, codes)
        return found

    def _note(self, found: Found, codes: Positions) -> None:
        self.num_asked += len(codes)
        first = len(self._scores)
        self._rows |= {code: first + at for at, code in enumerate(codes.tolist())}
        self._relations.extend(found.relation.tolist())
        self._methods.extend(found.method.tolist())
        self._scores.extend(found.score.tolist())
        nowhere = np.full((len(codes), 4), np.nan, np.float32)
        self._spans_s.extend((nowhere if found.spans_s is None else found.spans_s).ravel().tolist())
        self._details.extend([np.nan] * len(codes) if found.detail is None else found.detail.tolist())

    def _recalled(self, codes: Positions, at: Positions, is_turned: NDArray[np.bool_]) -> Found:
        """What is known of these pairs. at: their rows in what was known before, -1 for those that are not there."""
        num = len(codes)
        found = Found(
            np.zeros(num, np.int8), np.zeros(num), np.zeros(num, np.int8), np.full((num, 4), np.nan, np.float32)
        )
        detail = np.full(num, np.nan)
        of_old, of_new = np.flatnonzero(at >= 0), np.flatnonzero(at < 0)
        _fill(found, detail, of_old, self._known[2:], at[of_old])
        if len(of_new):
            _fill(found, detail, of_new, self._new(), np.array([self._rows[code] for code in codes[of_new].tolist()]))
        found = found if np.isnan(detail).all() else found._replace(detail=detail)
        return found.mirrored_at(is_turned) if self._is_mirrored else found

    def _new(self) -> Columns:
        """What was found out here, in the order in which it was asked, as long as nothing more is asked."""
        relation, method = np.frombuffer(self._relations, np.int8), np.frombuffer(self._methods, np.int8)
        spans_s = np.frombuffer(self._spans_s, np.float32).reshape(-1, 4)
        return relation, np.frombuffer(self._scores), method, spans_s, np.frombuffer(self._details)


def _fill(found: Found, detail: NDArray[np.float64], rows: Positions, columns: Columns, at: Positions) -> None:
    """Write what is known into some rows. at: the row of the columns of each."""
    relation, score, method, spans_s, details = columns
    found.relation[rows], found.score[rows], found.method[rows] = relation[at], score[at], method[at]
    if spans_s is not None and found.spans_s is not None:
        found.spans_s[rows] = spans_s[at]
    if details is not None:
        detail[rows] = details[at]


def joined(one: Edges, other: Edges) -> Edges:
    """The rows of both."""
    spans = detail = None
    if one.spans_s is not None or other.spans_s is not None:
        spans = np.concatenate(
            [np.full((len(side.left), 4), np.nan, np.float32) if side.spans_s is None else side.spans_s
             for side in (one, other)]
        )  # fmt: skip
    if one.detail is not None or other.detail is not None:
        detail = np.concatenate(
            [np.full(len(side.left), np.nan) if side.detail is None else side.detail for side in (one, other)]
        )
    return Edges(
        np.concatenate((one.left, other.left)), np.concatenate((one.right, other.right)),
        np.concatenate((one.relation, other.relation)), np.concatenate((one.score, other.score)),
        np.concatenate((one.method, other.method)), spans, detail,
    )  # fmt: skip

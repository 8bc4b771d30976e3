"""What comparisons have found, so that none is made again: a matcher around another one."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.led import Edges
from mmlake.dedup.matching import Found, Matcher, Mirrored, Question, block_of, coded_anew, is_shared_out, prepare
from mmlake.dedup.prints import Positions


def no_edges() -> Edges:
    """Of nobody."""
    none = np.empty(0, np.int64)
    return Edges(none, none, none.astype(np.int8), none.astype(np.float64), none.astype(np.int8))


class Remembered:
    """A matcher that asks another one what is not known yet. `compare(a, [b])` and `compare(b, [a])` are two questions,
    so that each answer is what the matcher itself would have given."""

    def __init__(self, matcher: Matcher, known: Edges) -> None:
        """known: right as left's comparison found it, HOLDS included, sorted by left and right."""
        self._matcher, self._known = matcher, known
        self._num = len(matcher.keys)
        self.keys, self.min_shared, self.neighbours = matcher.keys, matcher.min_shared, matcher.neighbours
        self.shares_out, self.at_once, self.made_of = is_shared_out(matcher), block_of(matcher), coded_anew(matcher)
        self._codes = known.left * self._num + known.right
        self._rows: dict[int, int] = {}  # code -> row of what is new
        self._relations, self._methods, self._scores, self._spans_s = array("b"), array("b"), array("d"), array("f")
        self._details = array("d")  # NaN: none
        self.num_asked = 0

    def prepare(self, questions: Iterable[Question]) -> None:
        """Say to the matcher what it will be asked of that."""
        prepare(self._matcher, ((one, others[self._missing(one, others)[0]]) for one, others in questions))

    def compare(self, one: int, others: Positions) -> Found:
        """See `mmlake.dedup.matching.Matcher`."""
        missing, codes, at, is_known = self._missing(one, others)
        if missing.all():
            return self._asked(one, others, codes)
        if missing.any():
            self._asked(one, others[missing], codes[missing])
        return self._recalled(codes, at, is_known)

    def learn(self, one: int, others: Positions) -> None:
        """Find out at once what each of the others is to the one, where it makes no difference who is asked."""
        if not isinstance(self._matcher, Mirrored):
            return
        codes = others * self._num + one
        is_new = ~self._found(codes)[1] & np.array([code not in self._rows for code in codes.tolist()], np.bool_)
        if is_new.any():
            self._note(self._matcher.compare(one, others[is_new]).mirrored(), codes[is_new])

    def known(self) -> Edges:
        """All that is known by now, sorted."""
        codes = np.array(list(self._rows), np.int64)
        spans = np.array(self._spans_s, np.float32).reshape(-1, 4)
        new = Edges(
            codes // max(1, self._num), codes % max(1, self._num), np.array(self._relations, np.int8),
            np.array(self._scores, np.float64), np.array(self._methods, np.int8), spans,
            np.array(self._details, np.float64),
        )  # fmt: skip
        both = joined(self._known, new)
        return both.take(np.argsort(both.left * self._num + both.right))

    def _missing(
        self, one: int, others: Positions
    ) -> tuple[NDArray[np.bool_], Positions, Positions, NDArray[np.bool_]]:
        """(which of the others the matcher has to be asked of, and what `_recalled` takes)."""
        codes = one * self._num + np.asarray(others, np.int64)
        at, is_known = self._found(codes)
        missing = [not known and code not in self._rows for known, code in zip(is_known, codes.tolist(), strict=True)]
        return np.array(missing, np.bool_), codes, at, is_known

    def _asked(self, one: int, others: Positions, codes: Positions) -> Found:
        found = self._matcher.compare(one, others)
        self._note(found, codes)
        return found

    def _found(self, codes: Positions) -> tuple[Positions, NDArray[np.bool_]]:
        """(the rows of these pairs in what was known before, which of them are there)."""
        at = np.searchsorted(self._codes, codes)
        is_known = np.zeros(len(codes), np.bool_)
        inside = at < len(self._codes)
        is_known[inside] = self._codes[at[inside]] == codes[inside]
        return at, is_known

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

    def _recalled(self, codes: Positions, at: Positions, is_known: NDArray[np.bool_]) -> Found:
        num = len(codes)
        found = Found(
            np.zeros(num, np.int8), np.zeros(num), np.zeros(num, np.int8), np.full((num, 4), np.nan, np.float32)
        )
        known, spans_s, detail = at[is_known], found.spans_s, np.full(num, np.nan)
        assert spans_s is not None
        found.relation[is_known], found.score[is_known] = self._known.relation[known], self._known.score[known]
        found.method[is_known] = self._known.method[known]
        if self._known.spans_s is not None:
            spans_s[is_known] = self._known.spans_s[known]
        if self._known.detail is not None:
            detail[is_known] = self._known.detail[known]
        for to in np.flatnonzero(~is_known).tolist():
            row = self._rows[int(codes[to])]
            found.relation[to], found.score[to] = self._relations[row], self._scores[row]
            found.method[to], spans_s[to] = self._methods[row], self._spans_s[4 * row : 4 * row + 4]
            detail[to] = self._details[row]
        return found if np.isnan(detail).all() else found._replace(detail=detail)


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

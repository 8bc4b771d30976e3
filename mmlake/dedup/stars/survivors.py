"""Who stays of units that are one thing: source priority, a clean verdict, fidelity, closeness to the rest, digest.

Fidelity is a list of criteria, each a number that was measured. Within a cluster they eliminate: those whose number is
as good as the best one, within the criterion's tolerance, go on to the next. So noise of a measure decides nothing, and
the outcome depends on the members alone. Across a whole corpus, where nobody knows yet what belongs together, the same
numbers in steps of the tolerance give a total order.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.criteria import Criterion
from mmlake.dedup.prints import Positions
from mmlake.dedup.stars.closest import REST, Closeness, are_closest, are_explained, but_itself, replaced_fraction
from mmlake.dedup.stars.outdone import by_both, by_both_of, by_its_original, copies_among
from mmlake.dedup.stars.saved import Files, are_originals, by_codecs, why_coded_up

if TYPE_CHECKING:
    from mmlake.dedup.matching import Lacks, MadeOf

_STARTERS, _FEW = 40, 12  # whose closeness is worked out, and against how many of the others, to find the finalists
_FINALISTS = 12  # whose closeness to the rest is worked out
_SEVERAL = 3  # copies make a coarse file an original: somebody saves one or two of any file
_A_THIRD = 0.25  # less of a number: the other one has a third more
_TINY = 1e-9
_MOST = 0.5  # of the members, whose numbers of `Criterion.unless` are alike
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Standing:
    """What decides between units; positions are rows of all arrays."""

    rank: Positions  # of the digest, smaller stays
    priority: NDArray[np.int64]  # smaller stays
    is_clean: NDArray[np.bool_]
    criteria: tuple[Criterion, ...]
    values: NDArray[np.float64]  # of shape (units, criteria); NaN where unknown

    def __len__(self) -> int:
        return len(self.rank)

    def take(self, rows: Positions) -> Standing:
        """These units, in this order."""
        return Standing(self.rank[rows], self.priority[rows], self.is_clean[rows], self.criteria, self.values[rows])

    @property
    def asks_all(self) -> bool:
        """Whether clusters elect again where they got members: a criterion says more of all than of two."""
        return any(criterion.files for criterion in self.criteria)

    def order(self) -> Positions:
        """All positions, the one that would stay first."""
        graded = (at for at, one in enumerate(self.criteria) if one.best and not (one.is_of_cluster or one.frame))
        grades = [-self._grade(at) for at in graded]
        keys = [self.priority, ~self.is_clean, *grades, self.rank]
        return np.lexsort(keys[::-1]).astype(np.int64)

    def allows(self, keepers: int | Positions, goers: int | Positions) -> NDArray[np.bool_]:
        """Which of the ones may go for the others, whatever their fidelity: no source gives way to a lower one, no
        clean unit to a flagged one."""
        same = self.priority[goers] == self.priority[keepers]
        is_clean = self.is_clean[keepers] | ~self.is_clean[goers]
        allowed: NDArray[np.bool_] = np.atleast_1d((self.priority[goers] > self.priority[keepers]) | (same & is_clean))
        return allowed

    def elect(
        self,
        members: Positions,
        closeness: Closeness,
        *,
        rest: Positions | None = None,
        made_of: MadeOf | None = None,
        lacks: Lacks | None = None,
    ) -> int:
        """The member that stays. rest: what a member should be close to, in place of the members. made_of: which was
        made of which by coding it anew, lacks: how many words only one of two has, where that is known."""
        others, left = members if rest is None else rest, self._first(members)
        originals = left[:0]  # of several others
        for at, criterion in enumerate(self.criteria):
            if len(left) == 1:
                break
            if criterion.is_closeness:
                left = self._closest(left, others, closeness, slack=criterion.margin)
            elif criterion.best == "usual":
                left = self._usual(left, at, others)
            elif criterion.recoded:
                left, originals = self._originals(left, at, made_of, others)
            elif criterion.is_of_pairs:
                if not self._have_alike(others[None], at)[0]:
                    witnesses = others[~self._are_outdone(others, left, at)] if criterion.silences else others
                    others, left = witnesses, left[~self._are_outdone(left, left, at)]
            elif criterion.best and not self._have_alike(others[None], at)[0]:
                best = self._best(left, at)
                if criterion.of_words and lacks is not None:
                    best = self._with_explained(left, best, at, lacks)
                left = np.union1d(best, self._spared(originals, best, at)) if criterion.spares else best
        return int(left[np.argmin(self.rank[left])])

    def elect_alike(
        self, members: Positions, closeness: Closeness, *, made_of: MadeOf | None = None, lacks: Lacks | None = None
    ) -> Positions:
        """What `elect` says of each of many clusters of one size, of shape (clusters, size); -1 where so many are left
        that they have to be asked in turn."""
        num, size = members.shape
        rows = np.take_along_axis(members, np.argsort(self.rank[members], axis=1), axis=1)  # the first one would stay
        left = self.priority[rows] == self.priority[rows].min(axis=1, keepdims=True)
        is_clean = self.is_clean[rows] & left
        left = np.where(is_clean.any(axis=1, keepdims=True), is_clean, left)
        is_open = np.ones(num, np.bool_)
        for at, criterion in enumerate(self.criteria):
            if criterion.is_closeness and size > 2:
                num_left = left.sum(axis=1)
                is_open &= num_left <= _FINALISTS
                asked = np.flatnonzero(is_open & (num_left > 1))
                left[asked] &= are_closest(rows[asked], left[asked], closeness, slack=criterion.margin)
            elif criterion.best == "usual" and size > 2:
                left = self._are_usual(rows, left, at)
            elif criterion.recoded and made_of is not None and size > 1:
                is_open &= size == 2  # of more, who was made of whom is asked in turn
                asked = np.flatnonzero(left.all(axis=1) & is_open)
                if len(asked):
                    left[asked] &= self._are_originals(rows[asked], at, made_of)
            elif criterion.is_of_pairs:
                outdone = self._outdone_by(rows, left, at)
                if criterion.silences:  # of others some have no say
                    is_open &= (size == 2) | ~outdone.any(axis=1) | (left.sum(axis=1) == 1)
                left &= ~outdone
            elif criterion.best and not criterion.is_of_cluster:
                best = self._are_best(rows, left, at) | self._have_alike(rows, at)[:, None]
                if lacks is not None and criterion.of_words and (is_asked := (left & ~best).any(axis=1)).any():
                    is_open &= ~is_asked | (size <= _FINALISTS)
                    asked = np.flatnonzero(is_asked & is_open)
                    sides = (left & ~best)[asked], (left & best)[asked], self.values[rows[asked], at]
                    best[asked] |= are_explained(rows[asked], *sides, lacks, of_words=criterion.of_words)
                left &= best
        winners: Positions = rows[np.arange(num), np.argmax(left, axis=1)]
        winners[~is_open] = -1
        return winners

    def _with_explained(self, left: Positions, best: Positions, at: int, lacks: Lacks) -> Positions:
        """The best by a criterion, and of the others left those that words explain which only one has."""
        worse = np.setdiff1d(left, best)
        if not len(worse):
            return best
        known = best[~np.isnan(self.values[best, at])]
        first = worse[self.take(worse).order()][:_STARTERS], known[self.take(known).order()][:_FEW]
        rows = np.concatenate(first)[None]
        is_worse, of_words = ~np.isin(rows, best), self.criteria[at].of_words
        is_explained = are_explained(rows, is_worse, ~is_worse, self.values[rows, at], lacks, of_words=of_words)
        return np.union1d(best, rows[is_explained])

    def _first(self, members: Positions) -> Positions:
        """Those of the best source, the clean ones of them where there are any."""
        left = members[self.priority[members] == self.priority[members].min()]
        clean: Positions = left[self.is_clean[left]]
        return clean if len(clean) else left

    def _originals(
        self, left: Positions, at: int, made_of: MadeOf | None, others: Positions
    ) -> tuple[Positions, Positions]:
        """(those left that were not made of another one, those of them that several were made of)."""
        if made_of is None:
            return left, left[:0]
        if len(left) > _STARTERS:
            left = left[self.take(left).order()]
        if self.criteria[at].files:
            rest = np.setdiff1d(others, left)
            rest = rest[np.argsort(self.rank[rest])][: _STARTERS - len(left)]
            stays = by_codecs(units := np.concatenate((left, rest)), made_of, self._files(units, at))[: len(left)]
            return left[stays] if stays.any() else left, left[:0]
        guards = [self._named(name) for name in self.criteria[at].no_less]
        is_copy, num_copies = copies_among(left, made_of, values_NG=self.values[left][:, guards], most=_STARTERS)
        return left[~is_copy], left[num_copies >= _SEVERAL]

    def _spared(self, originals: Positions, best: Positions, at: int) -> Positions:
        name = self.criteria[at].spares
        columns = [self._named(name), self._named(self.criteria[self._named(name)].also)]
        own, its = self.values[originals][:, columns], self.values[best][:, columns]
        spared: Positions = originals[~by_both(own, its, tolerance=_A_THIRD)]
        return spared

    def _are_originals(self, pairs: Positions, at: int, made_of: MadeOf) -> Mask:
        """Which of two were not made of the other. pairs: of shape (clusters, 2)."""
        if self.criteria[at].files:
            return are_originals(pairs, made_of, self._files(pairs, at))
        values = self.values[pairs][..., [self._named(name) for name in self.criteria[at].no_less]]
        is_copy = np.stack([made_of(pairs[:, one], pairs[:, 1 - one]) for one in range(2)], axis=1).astype(np.bool_)
        is_copy &= ~(values[:, ::-1] < values).any(axis=2)
        originals: Mask = ~is_copy
        return originals

    def _are_best(self, rows: Positions, left: Mask, at: int) -> Mask:
        """Which are unknown, or as good as the best one of those left."""
        criterion, values = self.criteria[at], self.values[rows, at]
        is_known = ~np.isnan(values) & left
        signed = np.where(is_known, values if criterion.best == "high" else -values, -np.inf)
        best = np.where(is_known.any(axis=1), signed.max(axis=1), 0.0)[:, None]
        size = np.where(is_known, np.abs(values), 0.0)
        slack = np.maximum(criterion.margin, criterion.tolerance * np.maximum(size, np.abs(best))) + _TINY
        as_good: Mask = ~is_known | (signed >= best - slack)
        return as_good

    def _outdone_by(self, rows: Positions, left: Mask, at: int) -> Mask:
        """Which have another one of their cluster among those left with more of both numbers."""
        outdone = np.zeros(rows.shape, np.bool_)
        is_asked = (left.sum(axis=1) > 1) & ~self._have_alike(rows, at)
        if self.criteria[at].frame:
            is_asked &= (~np.isnan(self.values[rows, at])).any(axis=1)  # hardly any
        for cluster in np.flatnonzero(is_asked).tolist():
            outdone[cluster] = self._are_outdone(rows[cluster], rows[cluster][left[cluster]], at)
        return outdone

    def _have_alike(self, rows: Positions, at: int) -> NDArray[np.bool_]:
        """Which clusters have the numbers of what `unless` names alike in most of their members, of two in both."""
        names = self.criteria[at].unless
        if not names:
            return np.zeros(len(rows), np.bool_)
        is_alike = np.ones(rows.shape, np.bool_)
        for name in names:
            values = self.values[rows, self._named(name)]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # nobody's is known
                median = np.nanmedian(values, axis=1, keepdims=True)
            is_alike &= np.abs(values - median) <= self.criteria[at].alike * np.abs(median)
        alike: NDArray[np.bool_] = is_alike.sum(axis=1) > _MOST * rows.shape[1]
        return alike

    def _named(self, name: str) -> int:
        return next(at for at, one in enumerate(self.criteria) if one.name == name)

    def _are_outdone(self, units: Positions, by: Positions, at: int) -> Mask:
        """Which give way to one of the others by both numbers."""
        criterion = self.criteria[at]
        columns = [at, *(self._named(name) for name in criterion.frame or (criterion.also,))]
        own, its = self.values[units][:, columns], self.values[by][:, columns]
        if criterion.frame:
            return by_its_original(own, its)
        return by_both(own, its, tolerance=criterion.tolerance)

    def _are_usual(self, rows: Positions, left: Mask, at: int) -> Mask:
        """Those left that are near the median of their cluster, where three and more are known and enough are near."""
        criterion, values = self.criteria[at], self.values[rows, at]
        num_known = (~np.isnan(values)).sum(axis=1)
        usual = np.full(len(rows), np.nan)
        for num in np.unique(num_known[num_known > 2]):
            some = num_known == num
            known = values[some]
            usual[some] = np.median(known[~np.isnan(known)].reshape(-1, num), axis=1)
        slack = np.maximum(criterion.margin, criterion.tolerance * np.abs(usual))
        is_near = np.abs(values - usual[:, None]) <= slack[:, None]
        is_usual = (num_known > 2) & (is_near.sum(axis=1) > criterion.share * num_known)
        near = left & (is_near | np.isnan(values))
        return np.where((near.any(axis=1) & is_usual)[:, None], near, left)

    def reason(self, keeper: int, goer: int, *, num_members: int = 2, method: str = "", score: float = 1) -> str:
        """Why the one stays and the other goes: the first difference that counts. num_members: of their cluster; of
        three and more, closeness decides before what comes after it in the list. method, score: of their pair."""
        if self.priority[keeper] != self.priority[goer]:
            return f"source priority {self.priority[keeper]} before {self.priority[goer]}"
        if self.is_clean[keeper] != self.is_clean[goer]:
            return "clean before flagged"
        of_cluster = coded_up = ""
        of_words = replaced_fraction(score)
        values = zip(self.criteria, self.values[keeper].tolist(), self.values[goer].tolist(), strict=True)
        for at, (criterion, one, other) in enumerate(values):
            if criterion.recoded:
                if criterion.recoded == method and self._is_original(at, keeper, goer):
                    return criterion.says
                coded_up = why_coded_up(self._files(np.array([keeper, goer]), at)) if criterion.files else ""
            elif criterion.is_of_cluster:
                of_cluster = "closest to the rest of its cluster" if num_members > 2 else ""
            elif criterion.of_words and abs(one - other) <= criterion.of_words * of_words:
                continue
            elif criterion.best and (criterion.is_of_pairs or one != other) and self._is_better(at, keeper, goer):
                numbers = f"{other:.4g} in the larger one" if criterion.frame else f"{one:.4g} against {other:.4g}"
                measured = f"{criterion.says}: {criterion.column}={numbers}"
                return f"{of_cluster}, or as close and {measured}" if of_cluster else measured
        return of_cluster or coded_up

    def _is_better(self, at: int, keeper: int, goer: int) -> bool:
        one, other = self.values[keeper, at], self.values[goer, at]
        criterion = self.criteria[at]
        if math.isnan(other):
            return False
        if criterion.frame:
            return bool(self._are_outdone(np.array([goer]), np.array([keeper]), at)[0])
        if criterion.is_of_pairs:
            size = self._named(criterion.also)
            own, its = (other, float(self.values[goer, size])), (one, float(self.values[keeper, size]))
            return by_both_of(own, its, tolerance=criterion.tolerance)
        if math.isnan(one):
            return False
        return self._as_good(at, one, other) and not self._as_good(at, other, one)

    def _files(self, units: Positions, at: int) -> Files:
        return Files.of(self.values[units][..., [self._named(name) for name in self.criteria[at].files]])

    def _is_original(self, at: int, keeper: int, goer: int) -> bool:
        """Whether a pair with the criterion's method says that the one that stays is the original."""
        if not self.criteria[at].files:
            return True
        is_lossless = self._files(np.array([keeper, goer]), at).is_lossless
        return bool(is_lossless[0] < is_lossless[1])

    def _grade(self, at: int) -> NDArray[np.float64]:
        """The values of a criterion in steps of its tolerance, higher is better; unknown ones stand last."""
        criterion, values = self.criteria[at], self.values[:, at]
        if criterion.margin:
            steps = np.floor(values / criterion.margin)
        elif not criterion.tolerance:
            steps = values
        else:
            with np.errstate(invalid="ignore"):
                steps = np.sign(values) * np.floor(np.log1p(np.abs(values) / _TINY) / math.log1p(criterion.tolerance))
        steps = steps if criterion.best == "high" else -steps
        return np.where(np.isnan(steps), -np.inf, steps)

    def _best(self, left: Positions, at: int) -> Positions:
        values = self.values[left, at]
        if np.isnan(values).all():
            return left
        best = np.nanmax(values) if self.criteria[at].best == "high" else np.nanmin(values)
        return left[[math.isnan(value) or self._as_good(at, float(value), float(best)) for value in values]]

    def _usual(self, left: Positions, at: int, members: Positions) -> Positions:
        known = self.values[members, at]
        known = known[~np.isnan(known)]
        if len(known) < 3:
            return left
        usual, criterion = float(np.median(known)), self.criteria[at]
        slack = max(criterion.margin, criterion.tolerance * abs(usual))
        if np.count_nonzero(np.abs(known - usual) <= slack) <= criterion.share * len(known):
            return left
        near = left[~(np.abs(self.values[left, at] - usual) > slack)]
        return near if len(near) else left

    def _as_good(self, at: int, value: float, best: float) -> bool:
        criterion = self.criteria[at]
        slack = max(criterion.margin, criterion.tolerance * max(abs(best), abs(value))) + _TINY
        return value >= best - slack if criterion.best == "high" else value <= best + slack

    def _closest(self, left: Positions, members: Positions, closeness: Closeness, *, slack: float) -> Positions:
        if len(members) < 3:
            return left
        rest = members[np.argsort(self.rank[members])]
        if len(left) > _FINALISTS:
            left = left[self.take(left).order()][:_STARTERS]
            means = closeness(left, but_itself(left, rest, _FEW))
            left = left[np.argsort(-means, kind="stable")[:_FINALISTS]]
        means = closeness(left, but_itself(left, rest, REST))
        closest: Positions = left[means >= means.max() - slack]
        return closest

"""A join of texts that goes on from the one before: the parts of a corpus that something new touches are joined anew.

Enters: the texts as they are, and the `Parts` of an earlier join. Leaves: the stars, and the `Parts` for next time.
Texts are of one part where keys tie them together, directly or through others. Nothing in a join reaches from one part
into another (mmlake/dedup/greedy.py, leaders.py): lists hold texts that have the key, only these are compared, and an
election asks its cluster alone. One thing does: a verdict may depend on how many texts of the corpus hold a shingle
(mmlake/dedup/text/templates.py). So the counts are those of the whole corpus, and pairs whose verdict asked for them
are kept (`text.pairs`): a part with one whose wording is another one now is joined anew although nothing of it came or
went. Pairs of which nothing changed are not compared again.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mmlake.dedup.greedy import Outcome
from mmlake.dedup.kept.comparisons import joined, no_edges
from mmlake.dedup.kept.join import Units, places
from mmlake.dedup.matching import Compare, Found
from mmlake.dedup.prints import Positions, PrintTable, Ragged, digests_of
from mmlake.dedup.prints import joined as side_by_side
from mmlake.dedup.settings import DedupSettings
from mmlake.dedup.stars.leaders import led_walk
from mmlake.dedup.stars.star_edges import Stars, stars_of
from mmlake.dedup.stars.survivors import Standing
from mmlake.dedup.text.matcher import TextMatcher, mark_holders, sampled
from mmlake.dedup.text.pairs import Pairs, are_by_counts, wordings
from mmlake.dedup.text.templates import Commonness, Scale
from mmlake.progress import Advance, silent

_MOST_ANEW = 0.5  # of the texts; above it a join of all costs less
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Parts:
    """A join of texts as it was; rows of all arrays but the last are positions."""

    digests: pa.Array  # sorted
    items: pa.Array | None
    sums: NDArray[np.uint64]  # of the prints of each
    criteria: str
    rank: Positions  # as `Standing` has it, and the next three
    priority: NDArray[np.int64]
    is_clean: Mask
    values: NDArray[np.float64]
    part_of: Positions  # the text that stands for the part of each
    is_beyond: Mask  # has pairs that were judged by counts, and are not among the next
    pairs: Pairs
    outcome: Outcome
    clusters: Ragged  # of each that elected the winner, then all members, sorted
    scale: Scale
    common: NDArray[np.uint8]  # as `Commonness` has it


class _Known(NamedTuple):
    """What an earlier join found of texts that are joined anew, in positions of the corpus."""

    elected: Ragged  # clusters in which nothing changed, as `Parts` has them
    pairs: Pairs  # of which nothing changed


def part_stars(
    prints: PrintTable,
    units: Units,
    standing: Standing,
    *,
    settings: DedupSettings,
    prior: Parts | None,
    advance: Advance = silent,
) -> tuple[Stars, Parts, Compare]:
    """(what `leaders.stars` gives, what the next join goes on from, how any texts compare).

    prior: of the same settings. A digest stands for its text: prints with the same number and sum are the same prints.
    """
    shingles, num, sums = prints["shingles"], len(standing), _sums(prints)
    order = standing.order()
    place = np.empty(num, np.int64)
    place[order] = np.arange(num)
    counted = cache(lambda: Commonness(shingles))
    compare = partial(_compared, prints, units, settings, counted)
    if prior is not None and _is_as_it_was(prior, units, sums, standing):
        advance(num)
        return stars_of(prior.outcome, place), prior, compare
    commonness = counted()
    now = _before_joins(units, sums, standing, commonness)
    is_anew = np.ones(num, np.bool_)
    known = _Known(now.clusters, now.pairs)
    if prior is not None:
        printed, at = _places(prior, now)
        is_new = _others(at, num)
        touched = is_new if is_new.all() else _touched(shingles, is_new)
        again, is_changed = _judged_again(prior, now, printed, at, commonness)
        is_other = (at < 0) | prior.is_beyond  # texts of which a comparison may give something else than before
        is_other[again.left[is_changed]] = is_other[again.right[is_changed]] = True
        is_touched = is_other.copy()
        is_touched[at >= 0] |= touched[at[at >= 0]]
        stays = ~_parts_with(prior, is_touched)
        if num - stays.sum() <= _MOST_ANEW * num:
            now, known = _taken_over(prior, now, at, stays, is_other, again, is_changed)
            is_anew[at[stays]] = False
    rows = np.flatnonzero(is_anew)
    advance(num - len(rows))
    now = _joined_anew(now, rows, prints, standing, commonness, settings, known, advance)
    return stars_of(now.outcome, place), now, compare


def _others(at: Positions, num: int) -> Mask:
    """Which of so many texts are at none of these places."""
    is_other = np.ones(num, np.bool_)
    is_other[at[at >= 0]] = False
    return is_other


def _before_joins(units: Units, sums: NDArray[np.uint64], standing: Standing, commonness: Commonness) -> Parts:
    """The texts, each a part of its own that nothing was compared with."""
    none = no_edges()
    return Parts(
        digests=units.digests,
        items=units.items,
        sums=sums,
        criteria=repr(standing.criteria),
        rank=standing.rank,
        priority=standing.priority,
        is_clean=standing.is_clean,
        values=standing.values,
        part_of=np.arange(len(standing)),
        is_beyond=np.zeros(len(standing), np.bool_),
        pairs=Pairs.zeros(0),
        outcome=Outcome(none, none, none),
        clusters=Ragged.empty(0),
        scale=commonness.scale,
        common=commonness.common(),
    )


def _is_as_it_was(prior: Parts, units: Units, sums: NDArray[np.uint64], standing: Standing) -> bool:
    """Whether texts, prints and standing are those of the earlier join: then so is all that follows from them."""
    strings = [(prior.digests, units.digests)]
    if prior.items is not None and units.items is not None:
        strings.append((prior.items, units.items))
    if (prior.items is None) != (units.items is None) or any(len(old) != len(new) for old, new in strings):
        return False
    return (
        prior.criteria == repr(standing.criteria)
        and np.array_equal(prior.sums, sums)
        and np.array_equal(prior.rank, standing.rank)
        and np.array_equal(prior.priority, standing.priority)
        and np.array_equal(prior.is_clean, standing.is_clean)
        and np.array_equal(prior.values, standing.values, equal_nan=True)
        and all(pc.all(pc.equal(old, new), skip_nulls=False).as_py() is True for old, new in strings)
    )


def _compared(
    prints: PrintTable,
    units: Units,
    settings: DedupSettings,
    counted: Callable[[], Commonness],
    one: int,
    others: Positions,
) -> Found:
    """The text against each of the others, by a matcher of these alone."""
    rows = np.concatenate(([one], others))
    mine = {name: values.take(rows) for name, values in prints.items()}
    items = None if units.items is None else units.items.take(rows)
    few = Units(units.digests.take(rows), partial(digests_of, mine), items)
    return few.judged_by(TextMatcher(mine, settings, commonness=counted())).compare(0, np.arange(1, len(rows)))


def _joined_anew(
    now: Parts,
    rows: Positions,
    prints: PrintTable,
    standing: Standing,
    commonness: Commonness,
    settings: DedupSettings,
    known: _Known,
    advance: Advance,
) -> Parts:
    """With the outcome of these texts, which are all of their parts."""
    mine = prints if len(rows) == len(standing) else {name: values.take(rows) for name, values in prints.items()}
    units = Units(now.digests, digests_of(mine), None if now.items is None else now.items.take(rows))
    place = np.empty(len(standing), np.int64)
    place[rows] = np.arange(len(rows))
    matcher = TextMatcher(mine, settings, commonness=commonness, known=known.pairs.moved(place))
    walk = led_walk(units.judged_by(matcher), standing.take(rows), equal=units.equal, advance=advance)
    elected = _moved(known.elected, place)
    row, ends = elected.values.tolist(), elected.offsets.tolist()
    # digests are sorted in both, so members stay sorted
    walk.known_elections = {tuple(row[low + 1 : high]): row[low] for low, high in itertools.pairwise(ends)}
    walk.elections = {}
    outcome = walk.outcome()
    clusters = Ragged.of(rows[[winner, *members]].astype(np.uint64) for members, winner in walk.elections.items())
    now.part_of[rows] = rows[walk.postings.part_of]
    now.is_beyond[rows] = matcher.pairs.is_beyond
    found = (
        joined(mine, theirs._replace(left=rows[theirs.left], right=rows[theirs.right]))
        for mine, theirs in zip(now.outcome, outcome, strict=True)
    )
    return replace(
        now, outcome=Outcome(*found), pairs=now.pairs.and_those(matcher.pairs.pairs().moved(rows)),
        clusters=side_by_side([now.clusters, clusters]),
    )  # fmt: skip


def _places(prior: Parts, now: Parts) -> tuple[Positions, Positions]:
    """(where the texts of an earlier join stand now, -1 for those that are gone or have other prints; the same, but -1
    also for those that stand otherwise, and for all where they are counted or elected by other rules)."""
    printed = places(prior.digests, now.digests)
    old = np.flatnonzero(printed >= 0)
    old = old[(prior.sums[old] == now.sums[printed[old]]).all(axis=1)]
    new, nowhere = printed[old], np.full(len(printed), -1, np.int64)
    printed, at = nowhere.copy(), nowhere.copy()
    printed[old] = new
    is_one_rule = prior.criteria == now.criteria and prior.scale == now.scale
    if not is_one_rule or (prior.items is None) != (now.items is None):
        return printed, nowhere
    if not (np.diff(now.rank[new][np.argsort(prior.rank[old])]) > 0).all():
        return printed, nowhere
    is_same = (prior.priority[old] == now.priority[new]) & (prior.is_clean[old] == now.is_clean[new])
    values = prior.values[old], now.values[new]
    is_same &= ((values[0] == values[1]) | (np.isnan(values[0]) & np.isnan(values[1]))).all(axis=1)
    if prior.items is not None and now.items is not None:
        is_same &= pc.equal(prior.items.take(old), now.items.take(new)).to_numpy(zero_copy_only=False)
    at[old[is_same]] = new[is_same]
    return printed, at


def _judged_again(
    prior: Parts, now: Parts, printed: Positions, at: Positions, commonness: Commonness
) -> tuple[Pairs, Mask]:
    """(the pairs of the earlier join that are there still, in its positions, with the codes that they have now; of
    which the wording is another one). printed, at: of `_places`."""
    pairs = prior.pairs.take((at[prior.pairs.left] >= 0) & (at[prior.pairs.right] >= 0))
    if not len(pairs.left):
        return pairs, np.zeros(0, np.bool_)
    sides, by_counts = np.stack((at[pairs.left], at[pairs.right])), are_by_counts(pairs.code)
    asked: Mask = ~by_counts & _hold(sides, ~by_counts, prior.common ^ now.common, commonness)
    if (printed < 0).any():  # which counts are others is not known: what is gone is known by its digest alone
        asked |= by_counts
    else:
        new = np.flatnonzero(_others(printed, len(now.rank)))
        asked |= by_counts & _hold(sides, by_counts, commonness.slots_of(new), commonness)
    rows = np.flatnonzero(asked)
    code = pairs.code.copy()
    code[rows] = commonness.codes_of_pairs(sides[0, rows], sides[1, rows])
    return pairs._replace(code=code), wordings(code) != wordings(pairs.code)


def _hold(sides: Positions, of: Mask, slots: NDArray[np.uint8], commonness: Commonness) -> Mask:
    """Which pairs have a text with a shingle in one of these slots. sides: of shape (2, pairs). of: those asked for."""
    holds = np.zeros(len(commonness), np.bool_)
    holds[sides[:, of]] = True
    texts = np.flatnonzero(holds)
    holds[texts] = commonness.holders(slots, texts)
    found: Mask = holds[sides[0]] | holds[sides[1]]
    return found


def _parts_with(prior: Parts, is_touched: Mask) -> Mask:
    """All texts of the parts of these."""
    parts = np.zeros(len(is_touched), np.bool_)
    parts[prior.part_of[is_touched]] = True
    return parts[prior.part_of]


def _taken_over(
    prior: Parts, now: Parts, at: Positions, stays: Mask, is_other: Mask, again: Pairs, is_changed: Mask
) -> tuple[Parts, _Known]:
    """(with the outcome of the texts that stay, what is known of the others). again, is_changed: of `_judged_again`."""
    now.part_of[at[stays]] = at[prior.part_of[stays]]
    kept = (edges.take(stays[edges.right]) for edges in prior.outcome)
    outcome = Outcome(*(one._replace(left=at[one.left], right=at[one.right]) for one in kept))
    members, begins = prior.clusters.values.astype(np.int64), prior.clusters.offsets[:-1]
    of_staying = stays[members[begins]]
    is_same = ~np.logical_or.reduceat(is_other[members], begins) & ~of_staying if len(begins) else of_staying
    elects = prior.clusters.take(np.flatnonzero(is_same))
    clusters = prior.clusters.take(np.flatnonzero(of_staying))
    left, right = stays[again.left], stays[again.right]  # one alone: what tied them together is gone
    return replace(
        now, outcome=outcome, pairs=again.take(left & right).moved(at),
        clusters=_moved(clusters, at),
    ), _Known(_moved(elects, at), again.take(~(left | right | is_changed)).moved(at))  # fmt: skip


def _moved(clusters: Ragged, at: Positions) -> Ragged:
    """Of texts that stand elsewhere, in an order that stays."""
    return Ragged(at[clusters.values.astype(np.int64)].astype(np.uint64), clusters.offsets)


def _touched(shingles: Ragged, is_new: Mask) -> Mask:
    """Which texts have a key of one that is new."""
    touched = is_new.copy()
    mark_holders(shingles, np.unique(sampled(shingles.take(np.flatnonzero(is_new))).values), touched)
    return touched


def _sums(prints: PrintTable) -> NDArray[np.uint64]:
    """Of shape (texts, 2), of the prints of each: the sum of its shingles, the numbers of both."""
    shingles, words = prints["shingles"], prints["words"]
    sums = np.zeros((len(shingles), 2), np.uint64)
    held = np.flatnonzero(shingles.lengths)
    if len(held):
        sums[held, 0] = np.add.reduceat(shingles.values, shingles.offsets[:-1][held])
    sums[:, 1] = (shingles.lengths << 32) + words.lengths
    return sums

"""The two ways to lay phones on a sound: any phones in any order, and the phones of given words.

Enters: how well each frame fits the states of phones (`phone_model`). Leaves: which phone each stretch of frames is.
Both are Viterbi searches over all frames, compiled once per machine.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from mmlake.numba_compiler import made
from mmlake.speech.phone_model import ALONE, FIRST, INSIDE, LAST, NUM_STATES, PhoneModel, Scores

# T frames, P phones, N nodes of the graph of words, S states that they have
_IMPOSSIBLE = np.float32(-1e30)
_BEAM = np.float32(230.0)  # nodes whose logarithm is so far below the best one's are left: 10^-100, which is wide
# logarithm of a pause, and of a noise, next to a word
_PAUSE, _NOISE = 6.5 * np.log(0.005), 6.5 * np.log(1e-8)

Span = tuple[int, int, int]  # number of the phone or word, first frame, and the one behind its last frame
Variants = Sequence[tuple[int, ...]]  # the ways to say a word, in numbers of phones


class Searches(NamedTuple):
    """Compiled functions; their parameters stand at the Python functions of this file."""

    loop: Callable[..., None]
    graph: Callable[..., None]


def spoken_phones(model: PhoneModel, scores: Scores) -> list[Span]:
    """The most likely phones, silence and noises among them. scores: of `states_P` at least."""
    num_frames = len(scores.values_TS)
    if num_frames < NUM_STATES:
        return []
    begin, before = (np.zeros((num_frames, len(model.phones)), np.int32) for _ in range(2))
    ends = np.empty(len(model.phones), np.float32)
    columns_P = scores.column_of[model.states_P]
    searches().loop(
        scores.values_TS, columns_P, model.transitions_P, model.trigrams, model.silence, begin, before, ends
    )
    phone, last, found = int(ends.argmax()), num_frames - 1, []
    while last >= 0 and phone >= 0:
        first = int(begin[last, phone])
        found.append((phone, first, last + 1))
        phone, last = int(before[first, phone]), first - 1
    return found[::-1]


@dataclass(slots=True)
class WordGraph:
    """All ways to say some words one after the other, with and without pauses."""

    model: PhoneModel
    states: list[tuple[int, ...]] = field(default_factory=list)  # of each node
    phones: list[int] = field(default_factory=list)
    word: list[int] = field(default_factory=list)  # that a node belongs to; -1: a pause or noise
    edges: list[tuple[int, int, float]] = field(default_factory=list)  # (from, to, logarithm); from -1: the start
    ends: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, model: PhoneModel, words: Sequence[Variants]) -> WordGraph:
        """The graph. words: each with at least one way to say it."""
        graph, silence = cls(model), model.silence
        pending = {(silence, silence): [-1]}  # nodes that may be left, by their phone and the one that must follow
        for number, variants in enumerate(words):
            pauses = graph._pauses(
                [node for (_, behind), nodes in pending.items() if behind == silence for node in nodes]
            )
            entries: dict[int, dict[int, list[int]]] = {}  # by the phone before and the one that follows
            for (before, behind), nodes in pending.items():
                entries.setdefault(before, {}).setdefault(behind, []).extend(nodes)
            following = {silence} | ({way[0] for way in words[number + 1]} if number + 1 < len(words) else set())
            leaving: dict[tuple[int, int], list[int]] = {}
            for way in variants:
                starts = [(before, nodes[way[0]]) for before, nodes in entries.items() if way[0] in nodes]
                graph._add_way(number, way, [(silence, pauses), *starts], following, leaving)
            pending = leaving
        at_end = [node for (_, behind), nodes in pending.items() if behind == silence for node in nodes]
        graph.ends = [*at_end, *graph._pauses(at_end)]
        return graph

    def _node(self, place: int, number: int, between: tuple[int, int, int], before: Sequence[int]) -> int:
        left, phone, right = between
        return self._add(self.model.states_between(place, phone, left, right), phone, number, before, 0.0)

    def _add(self, states: tuple[int, ...], phone: int, number: int, before: Sequence[int], logarithm: float) -> int:
        self.states.append(states)
        self.phones.append(phone)
        self.word.append(number)
        node = len(self.states) - 1
        self.edges += [(one, node, logarithm) for one in before]
        return node

    def _pauses(self, before: Sequence[int]) -> list[int]:
        """Silence and noises behind these nodes, and the start itself where it is one of them."""
        added = [
            self._add(
                tuple(self.model.states_P[phone].tolist()),
                phone,
                -1,
                before,
                _PAUSE if phone == self.model.silence else _NOISE,
            )
            for phone in np.flatnonzero(self.model.is_filler_P).tolist()
        ]
        return [*added, *(one for one in before if one < 0)]

    def _add_way(
        self,
        number: int,
        way: tuple[int, ...],
        starts: Sequence[tuple[int, Sequence[int]]],
        following: set[int],
        leaving: dict[tuple[int, int], list[int]],
    ) -> None:
        """One way to say a word. starts: (phone before it, nodes). leaving: its last nodes, by the last phone and what
        must follow, are added to it."""
        if len(way) == 1:
            for left, before in starts:
                for right in sorted(following):
                    node = self._node(ALONE, number, (left, way[0], right), before)
                    leaving.setdefault((way[0], right), []).append(node)
            return
        last = [self._node(FIRST, number, (left, way[0], way[1]), before) for left, before in starts if before]
        for left, phone, right in zip(way, way[1:], way[2:], strict=False):
            last = [self._node(INSIDE, number, (left, phone, right), last)]
        for right in sorted(following):
            node = self._node(LAST, number, (way[-2], way[-1], right), last)
            leaving.setdefault((way[-1], right), []).append(node)


def word_spans(graph: WordGraph, scores: Scores) -> list[Span] | None:
    """Number and frames of each word; None where the sound is too short for them. scores: of the graph's states."""
    num_frames, num_nodes = len(scores.values_TS), len(graph.states)
    columns_N = scores.column_of[np.array(graph.states)]
    edges = np.array(sorted((to, source, logarithm) for source, to, logarithm in graph.edges))
    firsts = np.searchsorted(edges[:, 0], np.arange(num_nodes + 1)).astype(np.int32)
    sources, logarithms = edges[:, 1].astype(np.int32), edges[:, 2].astype(np.float32)
    furthest_N = np.zeros(num_nodes, np.int32)  # that a node leads to
    np.maximum.at(furthest_N, sources[sources >= 0], edges[sources >= 0, 0].astype(np.int32))
    begin, before = (np.zeros((num_frames, num_nodes), np.int32) for _ in range(2))
    ends = np.empty(num_nodes, np.float32)
    transitions_N = graph.model.transitions_P[graph.phones]
    searches().graph(
        scores.values_TS, columns_N, transitions_N, firsts, sources, logarithms, furthest_N, _BEAM, begin, before, ends
    )
    node = max(graph.ends, key=lambda one: ends[one])
    if ends[node] <= _IMPOSSIBLE / 2:
        return None
    found: list[Span] = []
    last = num_frames - 1
    while node >= 0:
        first = int(begin[last, node])
        if (number := graph.word[node]) >= 0:
            behind = found.pop()[2] if found and found[-1][0] == number else last + 1
            found.append((number, first, behind))
        node, last = int(before[first, node]), first - 1
    return found[::-1]


@functools.lru_cache(maxsize=1)
def searches() -> Searches:
    """The searches; compiling them takes some seconds, once."""
    import numba

    f4, i4, i8, none = numba.float32, numba.int32, numba.int64, numba.void
    tables, tables3, numbers = f4[:, ::1], f4[:, :, ::1], i4[:, ::1]
    return Searches(
        loop=made(numba, none(tables, numbers, tables3, tables3, i8, numbers, numbers, f4[::1]), _loop),
        graph=made(
            numba,
            none(tables, numbers, tables3, i4[::1], i4[::1], f4[::1], i4[::1], f4, numbers, numbers, f4[::1]),
            _graph,
        ),
    )


def _loop(
    scores: Any, columns: Any, transitions: Any, trigrams: Any, silence: Any, begin: Any, before: Any, ends: Any
) -> None:
    """Fill begin (T, P): the first frame of a phone that ends in this frame; before (T, P): the phone before one that
    begins in this frame; ends (P): logarithms in the last frame. It begins in silence."""
    num_frames, num_phones = begin.shape
    score = np.full((num_phones, 3), _IMPOSSIBLE, np.float32)
    since = np.zeros((num_phones, 3), np.int32)
    entry = np.full(num_phones, _IMPOSSIBLE, np.float32)
    entry[silence] = 0.0
    before[0, :] = -1
    for t in range(num_frames):
        for p in range(num_phones):
            stay, leave = transitions[p, :, 0], transitions[p, :, 1]
            for state in (2, 1):
                kept, moved = score[p, state] + stay[state], score[p, state - 1] + leave[state - 1]
                if moved > kept:
                    since[p, state] = since[p, state - 1]
                score[p, state] = max(kept, moved) + scores[t, columns[p, state]]
            if entry[p] > score[p, 0] + stay[0]:
                since[p, 0] = t
            score[p, 0] = max(entry[p], score[p, 0] + stay[0]) + scores[t, columns[p, 0]]
            ends[p] = score[p, 2] + leave[2]
            begin[t, p] = since[p, 2]
            entry[p] = _IMPOSSIBLE
        if t + 1 == num_frames:
            return
        best = ends.max()
        for p in range(num_phones):
            if ends[p] < best - np.float32(50.0):
                continue
            previous = before[begin[t, p], p]
            follows = trigrams[previous if previous >= 0 else silence, p]
            for q in range(num_phones):
                total = ends[p] + follows[q]
                if total > entry[q]:
                    entry[q] = total
                    before[t + 1, q] = p


def _graph(
    scores: Any,
    columns: Any,
    transitions: Any,
    firsts: Any,
    sources: Any,
    logarithms: Any,
    furthest: Any,
    beam: Any,
    begin: Any,
    before: Any,
    ends: Any,
) -> None:
    """As `_loop`, of nodes whose predecessors are sources[firsts[n]:firsts[n + 1]], all of smaller numbers; -1 is the
    start. columns (N, 3): of the scores of a node's states. furthest (N): the last node that one leads to."""
    num_frames, num_nodes = begin.shape
    score = np.full((num_nodes, 3), _IMPOSSIBLE, np.float32)
    since = np.zeros((num_nodes, 3), np.int32)
    ends[:] = _IMPOSSIBLE
    low, high, least = 0, num_nodes - 1, _IMPOSSIBLE  # nodes that can be alive, and what they must reach
    for t in range(num_frames):
        best, next_low, next_high = _IMPOSSIBLE, num_nodes, -1
        # from the last node to the first: a node's sources are still those of the frame before
        for n in range(high, low - 1, -1):
            entry, source = _IMPOSSIBLE, np.int32(-1)
            for edge in range(firsts[n], firsts[n + 1]):
                one = sources[edge]
                if one >= 0 and ends[one] + logarithms[edge] > entry:
                    entry, source = ends[one] + logarithms[edge], one
                elif one < 0 and t == 0:
                    entry = logarithms[edge]
            if entry < least and score[n, 0] < least and score[n, 1] < least and score[n, 2] < least:
                score[n, 0] = score[n, 1] = score[n, 2] = ends[n] = _IMPOSSIBLE
                continue
            for state in (2, 1):
                kept = score[n, state] + transitions[n, state, 0]
                moved = score[n, state - 1] + transitions[n, state - 1, 1]
                if moved > kept:
                    since[n, state] = since[n, state - 1]
                score[n, state] = max(kept, moved) + scores[t, columns[n, state]]
            kept = score[n, 0] + transitions[n, 0, 0]
            if entry > kept:
                since[n, 0] = t
                before[t, n] = source
            score[n, 0] = max(entry, kept) + scores[t, columns[n, 0]]
            ends[n] = score[n, 2] + transitions[n, 2, 1]
            begin[t, n] = since[n, 2]
            best = max(best, score[n, 0], score[n, 1], score[n, 2])
            next_low, next_high = n, max(next_high, n, furthest[n])
        low, high, least = next_low, next_high, max(best - beam, _IMPOSSIBLE / np.float32(2.0))

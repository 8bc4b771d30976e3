"""Which windows of sound have the same voice: how many voices there are, and which one each window has.

Enters: a unit vector per window, in order of time. Leaves: the number of a voice per window, from 0 in order of first
appearance, and how far apart the voices are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# Calibrated on generated conversations of voices that are not those of the figures in docs/voices.md
MIN_SIMILARITY = 0.68  # mean cosine of the windows of two groups above which they are joined; splits voices rather
_SAME_VOICE = (
    0.81  # cosine of two centres above which they are one voice: halves of one have .85 to .94, two .65 to .77
)
_MAX_SEEDS = 1_200  # windows that groups are found in; the others join the nearest. Agglomeration costs their square
_MIN_WINDOWS = 6  # of a voice: 2.4 s. What is less is a laugh, or two voices at once
_MIN_FRACTION = 0.03  # of the windows
_SWITCH_COST = 0.25  # similarity that one window must gain for a change of voice, as two neighbours share most sound
_ROUNDS = 3


class Voices(NamedTuple):
    """The voices of a recording."""

    labels: np.ndarray  # int, per window
    margins: np.ndarray  # of each window: similarity to its own voice, less that to the next one; 1 where it is alone
    separation: float  # of the two voices that are most alike: 1 less their similarity; 1 where there is one


def cluster(vectors: np.ndarray, *, max_voices: int, min_similarity: float = MIN_SIMILARITY) -> Voices:
    """The voices of the windows. vectors: float32, shape (num_windows, D), at least one."""
    step = max(1, -(-len(vectors) // _MAX_SEEDS))
    seeds = vectors[::step]
    groups = _agglomerated(seeds, min_similarity=min_similarity)
    least = max(_MIN_WINDOWS / step, _MIN_FRACTION * len(seeds))
    sizes = np.bincount(groups)
    kept = [group for group in np.argsort(-sizes, kind="stable")[:max_voices] if sizes[group] >= least]
    kept = kept or [int(np.argmax(sizes))]
    centres = _unit(np.stack([seeds[groups == group].mean(axis=0) for group in kept]))
    labels = np.zeros(len(vectors), int)
    for at in range(_ROUNDS):
        labels = _smoothed(vectors @ centres.T)
        labels, centres = _centred(vectors, labels)
        while at == 0 and len(centres) > 1:
            between = np.triu(centres @ centres.T, 1)
            if between.max() < _SAME_VOICE:
                break
            into, gone = np.unravel_index(int(between.argmax()), between.shape)
            labels, centres = _centred(vectors, np.where(labels == gone, into, labels))
    order = np.unique(labels, return_index=True)[1].argsort()
    labels = order.argsort()[labels]
    return _measured(vectors @ centres[order].T, labels, centres)


def _centred(vectors: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(labels without numbers that no window has, the centre of each)."""
    alive = np.unique(labels)
    centres = _unit(np.stack([vectors[labels == label].mean(axis=0) for label in alive]))
    return np.searchsorted(alive, labels), centres


def _unit(vectors: np.ndarray) -> np.ndarray:
    lengths: np.ndarray = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-9))


def _agglomerated(vectors: np.ndarray, *, min_similarity: float) -> np.ndarray:
    """The group of each vector: the two groups with the highest mean similarity are joined until none reaches the
    bound (average linkage)."""
    num = len(vectors)
    sums = (vectors @ vectors.T).astype(np.float64)  # of similarities between groups, updated as they are joined
    sizes = np.ones(num)
    means = sums.copy()
    np.fill_diagonal(means, -np.inf)
    groups = np.arange(num)
    while True:
        best = int(np.argmax(means))
        into, gone = sorted(divmod(best, num))
        if means[into, gone] < min_similarity or into == gone:
            break
        sums[into] += sums[gone]
        sums[:, into] = sums[into]
        sizes[into] += sizes[gone]
        means[into] = sums[into] / (sizes[into] * np.maximum(sizes, 1))
        means[into, sizes == 0] = means[into, into] = -np.inf
        sizes[gone] = 0
        means[into, gone] = -np.inf
        means[:, into] = means[into]
        means[gone] = means[:, gone] = -np.inf
        groups[groups == gone] = into
    return np.unique(groups, return_inverse=True)[1]


def _smoothed(scores: np.ndarray) -> np.ndarray:
    """The path through the voices with the highest sum of similarities, less a cost for every change (Viterbi)."""
    num, num_voices = scores.shape
    best, came = scores[0].copy(), np.zeros((num, num_voices), int)
    for at in range(1, num):
        top = int(best.argmax())
        changes = best[top] - _SWITCH_COST > best
        came[at] = np.where(changes, top, np.arange(num_voices))
        best = np.where(changes, best[top] - _SWITCH_COST, best) + scores[at]
    labels = np.empty(num, int)
    labels[-1] = int(best.argmax())
    for at in range(num - 1, 0, -1):
        labels[at - 1] = came[at, labels[at]]
    return labels


def _measured(scores: np.ndarray, labels: np.ndarray, centres: np.ndarray) -> Voices:
    if len(centres) == 1:
        return Voices(labels, np.ones(len(labels)), 1.0)
    own = scores[np.arange(len(labels)), labels]
    others = scores.copy()
    others[np.arange(len(labels)), labels] = -np.inf
    between = centres @ centres.T
    np.fill_diagonal(between, -np.inf)
    return Voices(labels, own - others.max(axis=1), float(1 - between.max()))

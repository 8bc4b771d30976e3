"""Pieces of long recordings for a recognizer: its times drift, and its memory grows, with what it is given at once.

Enters: mono sound and where somebody speaks in it. Leaves: pieces that begin and end in silence where there is any.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mmlake.preprocess.settings import SOUND_RATE_HZ

WHOLE_UP_TO_S = 900.0  # seconds; longer recordings are cut (fifteen minutes)
PIECE_S = 600.0  # longest piece (ten minutes)
_LEAST_S = 300.0  # shortest piece but the last: silence is looked up in the rest of its ten minutes
_FRAME_S = 0.1  # of the softest moment, where nobody ever stops

Spans = Sequence[tuple[float, float]]


def pieces(samples: np.ndarray, speech: Spans | None) -> list[tuple[int, int]]:
    """(first sample, sample behind the last) of each piece, in order and without gaps. speech: seconds, in order; None
    where no voice detector ran."""
    rate_hz = SOUND_RATE_HZ
    if len(samples) <= WHOLE_UP_TO_S * rate_hz:
        return [(0, len(samples))]
    found, start = [], 0
    while len(samples) - start > PIECE_S * rate_hz:
        least, most = start + round(_LEAST_S * rate_hz), start + round(PIECE_S * rate_hz)
        end = None if speech is None else _in_silence(speech, least, most)
        end = _softest(samples, least, most) if end is None else end
        found.append((start, end))
        start = end
    return [*found, (start, len(samples))]


def _in_silence(speech: Spans, least: int, most: int) -> int | None:
    """The middle of the longest pause that lies between the samples; None where there is none."""
    edges = [(0.0, 0.0), *speech, (most / SOUND_RATE_HZ, most / SOUND_RATE_HZ)]
    best, longest = None, 0
    for (_, before_s), (after_s, _) in zip(edges, edges[1:], strict=False):
        first = max(least, round(before_s * SOUND_RATE_HZ))
        last = min(most, round(after_s * SOUND_RATE_HZ))
        if last - first > longest:
            best, longest = (first + last) // 2, last - first
    return best


def _softest(samples: np.ndarray, least: int, most: int) -> int:
    """The middle of the softest tenth of a second between the samples."""
    size = round(_FRAME_S * SOUND_RATE_HZ)
    num = (most - least) // size
    frames = samples[least : least + num * size].reshape(num, size)
    return least + int(np.square(frames, dtype=np.float64).sum(axis=1).argmin()) * size + size // 2

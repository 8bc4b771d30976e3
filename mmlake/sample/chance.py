"""Random streams: one per part of the sample, so that a change in one part does not move another."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T")


def stream(seed: int, *names: str | int) -> np.random.Generator:
    """The random generator that belongs to this seed and these names, the same on every run and machine."""
    return np.random.default_rng([seed, *(zlib.crc32(str(name).encode()) for name in names)])


def pick(rng: np.random.Generator, options: Sequence[T]) -> T:
    """One of the options, each equally likely."""
    return options[int(rng.integers(len(options)))]


def scaled(base: int, scale: float) -> int:
    """How many of something there are at that scale: never fewer than one, so that every case stays in the smallest
    corpus."""
    return max(1, round(base * scale))

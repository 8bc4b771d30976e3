"""One scrambling of 64-bit numbers, for the hashes and keys of all tiers."""

from __future__ import annotations

import numpy as np


def mix64(values: np.ndarray) -> np.ndarray:
    """The values scrambled so that every input bit reaches every output bit; a bijection on uint64 (finalizer of
    SplitMix64)."""
    z = values.astype(np.uint64, copy=True)
    z ^= z >> np.uint64(30)
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(27)
    z *= np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return z

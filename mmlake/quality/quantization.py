"""In which steps the samples of a recording go, from their values alone.

The least distance of two values says it where there are many; a tone whose period is a whole number of samples has few,
which lie far apart however fine the steps are.
"""

from __future__ import annotations

import numpy as np

_MOST_VALUES = 257  # of 8 bits, both ends taken in, and of each law of telephones
_MOST_STEPS = 4_096  # of 12 bits, the finest of converters that are coarser than files
_BITS = 24  # that float32 keeps
_FULL = 32_768
_ROUNDING = 1 / _FULL  # of a value that was brought from a coarser scale to 16 bits
_COARSEST = 1 / 128  # step of 8 bits


def quantization_step(samples: np.ndarray) -> float:
    """The step at the extreme, full scale 1; at most 1/128 where all steps are alike. samples: float32, shape
    (num_samples,)."""
    values = np.unique(samples)
    least = float(np.diff(values).min(initial=_COARSEST))
    if len(values) > _MOST_VALUES:
        return least
    if (step := _companded_step(values)) is not None:
        return step
    return least if _is_even(values) else min(least, _common_step(values))


def _is_even(values: np.ndarray) -> bool:
    """Whether they lie on a scale of at most 4,096 equal steps, whatever is missing of it."""
    if len(values) < 3:
        return True
    heights = (values - values[0]).astype(np.float64)
    steps = heights[-1] / np.arange(1, _MOST_STEPS + 1)[:, None]
    astray = np.abs(heights - np.round(heights / steps) * steps).max(axis=1)
    return bool((astray <= _ROUNDING).any())


def _companded_step(values: np.ndarray) -> float | None:
    """The step below the extreme where all values are of the A-law or the mu-law (ITU-T G.711), whose steps grow with
    the level; None where they are not."""
    whole = np.abs(values.astype(np.float64)) * _FULL
    for law in (_A_LAW, _MU_LAW):
        if bool(np.isin(whole, law).all()):
            number = max(1, int(np.searchsorted(law, whole.max())))
            return float(law[number] - law[number - 1]) / _FULL
    return None


def _common_step(values: np.ndarray) -> float:
    """The power of two that all are multiples of."""
    whole = np.abs(np.round(values.astype(np.float64) * (1 << _BITS))).astype(np.int64)
    bits = int(np.bitwise_or.reduce(whole))
    return (bits & -bits) / (1 << _BITS)


# the 16-bit values of each segment
_MANTISSAS = np.arange(16)
_MU_LAW = np.concatenate([(8 * _MANTISSAS + 132 << segment) - 132 for segment in range(8)])
_A_LAW = np.concatenate([16 * _MANTISSAS + 8, *((16 * _MANTISSAS + 264) << segment for segment in range(7))])

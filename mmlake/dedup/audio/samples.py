"""Samples that can be reckoned with: files of floats can hold anything."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def finite(samples: NDArray[np.floating]) -> NDArray[np.float32]:
    """The samples as float32, 0 in place of NaN, the largest number in place of infinity."""
    single = np.asarray(samples, np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        is_finite = np.isfinite(single.sum())  # as any of them that is none makes it; a tenth of a search
    return single if is_finite else np.nan_to_num(single)

"""What is used of `scipy.signal`, from its compiled modules alone: the package imports half of scipy, which is a second
of processor time in every worker that measures a sound.

The numbers are those of the package, bit for bit. Its modules are not a public interface: where a release has them no
more, or they want other arguments, the package itself is asked.
"""

from __future__ import annotations

from functools import cache
from importlib.machinery import ExtensionFileLoader, PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

_PACKAGE = "scipy.signal"
_ANOTHER_RELEASE = (ImportError, AttributeError, TypeError, ValueError)


def filtered(
    sections: NDArray[np.float64], block_NC: NDArray[np.float32], states: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(the samples of each channel behind the second-order sections, the states that the next block begins with).

    sections: shape (S, 6). block_NC: N samples, C channels. states: shape (S, 2, C), zeros at first. As
    `scipy.signal.sosfilt`."""
    samples_CN = np.array(block_NC.T, np.float64, order="C")
    states_CS2 = np.array(np.moveaxis(states, 2, 0), order="C")
    try:
        _compiled("_sosfilt")._sosfilt(np.ascontiguousarray(sections), samples_CN, states_CS2)  # in place
    except _ANOTHER_RELEASE:
        from scipy.signal import sosfilt

        block, after = sosfilt(sections, block_NC, axis=0, zi=states)
        return block, after
    return samples_CN.T, np.moveaxis(states_CS2, 0, 2)


def prominences(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far each peak stands out from what is around it, in their order. As `scipy.signal.find_peaks` and
    `scipy.signal.peak_prominences`."""
    numbers = np.ascontiguousarray(values, np.float64)
    try:
        kernels = _compiled("_peak_finding_utils")
        peaks, _, _ = kernels._local_maxima_1d(numbers)
        return np.asarray(kernels._peak_prominences(numbers, peaks, -1)[0])  # -1: as far as the values go
    except _ANOTHER_RELEASE:
        from scipy.signal import find_peaks, peak_prominences

        return np.asarray(peak_prominences(values, find_peaks(values)[0])[0])


@cache
def _compiled(name: str) -> ModuleType:
    """The compiled module of `scipy.signal` without the package's own code. Raises ImportError where there is none of
    that name."""
    import scipy

    parts = _PACKAGE.split(".")[1:]
    spec = PathFinder.find_spec(f"{_PACKAGE}.{name}", [str(Path(place, *parts)) for place in scipy.__path__])
    if spec is None or not isinstance(spec.loader, ExtensionFileLoader):
        raise ImportError(f"{_PACKAGE} has no compiled module {name}")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

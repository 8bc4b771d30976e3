"""Which of 256 levels a value of a deep picture is shown at: of 16 or 32 bits, of floats, or of an instrument.

Enters: the values of a picture, of all its colours together. Leaves: levels 0..255. Bytes are levels already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np

# of whole numbers: 8, 10, 12 and 14 bits, kept in 16, as cameras, microscopes and depth sensors give them; then all 16
_WHOLE_WHITES: Final[tuple[float, ...]] = (255.0, 1_023.0, 4_095.0, 16_383.0)
_FLOAT_WHITES: Final[tuple[float, ...]] = (1.0, 255.0)  # fractions (PFM, scikit-image) and levels of 8 bits
_LEAST_RANGE: Final = 1 / 16  # of white: what holds less is seen as one grey, as temperatures of a room in 16 bits


def levels(values: np.ndarray) -> np.ndarray:
    """The values as float32 levels 0..255, of the same shape: from black to the `white` that they are measured from, or
    from the least to the greatest of them where they have none. What is no number is black."""
    low, high = _finite_bounds(values)
    top = white(low, high, values.dtype)
    return stretched(values, (low, high) if top is None else (0.0, top))


def white(low: float, high: float, dtype: np.dtype) -> float | None:
    """The value of white in a picture whose values reach from low to high, as its programs keep it; None where an
    instrument measured them, or so little of black to white is used that nothing would be seen."""
    if dtype.kind == "f":
        whites = _FLOAT_WHITES
    else:
        whites = (*_WHOLE_WHITES, 32_767 if dtype.kind == "i" and dtype.itemsize == 2 else 65_535)
    found = next((float(most) for most in whites if low >= 0 and high <= most), None)
    is_faint = found is not None and dtype.kind != "f" and 0 < high - low < _LEAST_RANGE * found
    return None if is_faint else found


def stretched(values: np.ndarray, bounds: tuple[float, float] | None = None) -> np.ndarray:
    """The values as float32 levels 0..255 between these bounds, or between the least and the greatest of them; zeros
    where these are one. What is no number is black, and what is infinite the nearer bound."""
    import numpy as np

    low, high = bounds or _finite_bounds(values)
    if high <= low:
        return np.zeros(values.shape, np.float32)
    is_whole = values.dtype.kind != "f" or np.isfinite(values).all()
    numbers = values if is_whole else np.nan_to_num(values, nan=low, posinf=high, neginf=low)
    found: np.ndarray = (numbers.astype(np.float32) - np.float32(low)) * np.float32(255 / (high - low))
    return found


def _finite_bounds(values: np.ndarray) -> tuple[float, float]:
    import numpy as np

    finite = values if values.dtype.kind != "f" else values[np.isfinite(values)]
    return (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)

"""Which names an archive has, or a directory with those below it, in eight bytes each."""

from __future__ import annotations

import unicodedata

import numpy as np
from numpy.typing import NDArray

from mmlake.sources.names import label_of


class Names:
    """Which names an archive, or a directory with those below it, has, as far as hashes say."""

    def __init__(self, hashes: NDArray[np.int64]) -> None:
        """hashes: of what `label_of` gives for each."""
        self._sorted = np.sort(hashes)

    def __contains__(self, path: str) -> bool:
        if not len(self._sorted):
            return False
        spellings = {path, unicodedata.normalize("NFD", path)}
        wanted = np.array([hash(label_of(f"{start}{one}")) for one in spellings for start in ("", "./")], np.int64)
        at = np.minimum(np.searchsorted(self._sorted, wanted), len(self._sorted) - 1)
        return bool((self._sorted[at] == wanted).any())

"""Files as if they had been written long ago: what is read of them is kept."""

from __future__ import annotations

import os
import time
from pathlib import Path

SETTLES_S = 0.05
_LONG_AGO_NS = 5_000_000_001  # and no whole second


def aged(path: Path) -> Path:
    """The file, as if it had been written long ago; only its second time, that of its inode, is of now."""
    before_ns = time.time_ns() - _LONG_AGO_NS
    os.utime(path, ns=(before_ns, before_ns))
    time.sleep(SETTLES_S)
    return path

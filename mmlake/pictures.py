"""Which formats of pictures may be opened. Pillow detects a format by the bytes whatever the name says, and would
start a program for some."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

# EPS is a program that Pillow hands to Ghostscript, WMF and EMF one that Windows draws; IPTC holds a picture of any
# format, these included.
_PROGRAMS: Final = frozenset({"EPS", "WMF", "IPTC"})


@lru_cache(maxsize=1)
def picture_formats() -> tuple[str, ...]:
    """The formats for `Image.open(..., formats=)`: all that Pillow reads, in its order, without those that are
    programs."""
    from PIL import Image

    Image.init()
    return tuple(name for name in Image.ID if name not in _PROGRAMS)

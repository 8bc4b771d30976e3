"""Average hashes: 64 cells of a picture, each brighter or darker than their mean."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from mmlake.plugins import Advance, Blobs, DedupSettings, Match, Prints

METHOD = "example-average-hash"
_RADIUS_BITS = 3  # of 64


def opened(row: Mapping[str, Any], store: Blobs) -> AbstractContextManager[bytes]:
    """The picture's bytes, which `fingerprint` is given, perhaps in another process."""
    return nullcontext(store.read(row["digest"]))


def fingerprint(pictures: Sequence[bytes], settings: DedupSettings) -> list[Prints]:
    """One hash per picture. What it raises becomes the row of that picture."""
    return [{METHOD: _hash(data)} for data in pictures]


def _hash(data: bytes) -> np.ndarray:
    from PIL import Image

    with Image.open(io.BytesIO(data)) as picture:
        cells = np.asarray(picture.convert("L").resize((8, 8)), np.float64).ravel()
    return np.packbits(cells > cells.mean()).view(">u8").astype(np.uint64)


def pairs(prints: list[Prints], *, settings: DedupSettings, advance: Advance) -> list[Match]:
    """Every pair within the radius; all are compared, which is fine for some thousands."""
    known = [(at, one[METHOD][0]) for at, one in enumerate(prints) if len(one.get(METHOD, ()))]
    found = []
    for place, (i, left) in enumerate(known):
        for j, right in known[place + 1 :]:
            bits = int(left ^ right).bit_count()
            if bits <= _RADIUS_BITS:
                found.append((i, j, METHOD, 1 - bits / 64))
        advance(1)
    return found


def bound(settings: DedupSettings) -> float:
    """The smallest score of a pair."""
    return 1 - _RADIUS_BITS / 64

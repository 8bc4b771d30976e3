"""Pictures as small pictures: an encoder without weights."""

from __future__ import annotations

import io

import numpy as np

from mmlake.plugins import Classical, EmbedSettings, Media

DIMENSION = 8 * 8 * 3


def load(settings: EmbedSettings, device: str) -> Classical:
    """The encoder; nothing is loaded."""
    return Classical(describe, "bytes", revision="1")


def describe(media: Media) -> np.ndarray:
    """Eight by eight cells of colour around grey."""
    from PIL import Image

    with Image.open(io.BytesIO(media.data())) as picture:
        return np.asarray(picture.convert("RGB").resize((8, 8)), np.float64).ravel() - 127.5

"""How much of a picture is red."""

from __future__ import annotations

import io

import numpy as np

from mmlake.plugins import Measures, Subject


def measures(subject: Subject) -> Measures:
    """example_red_fraction: share of pixels, 0 to 1, whose red is above 128 and twice the green and the blue."""
    from PIL import Image

    with Image.open(io.BytesIO(subject.blobs[0])) as picture:
        rgb_HWC = np.asarray(picture.convert("RGB").resize((64, 64)), np.int32)
    red, others = rgb_HWC[..., 0], rgb_HWC[..., 1:].max(axis=-1)
    return {"example_red_fraction": float(((red > 128) & (red > 2 * others)).mean())}

"""Renditions of an item that a search should still find: the queries of automatic media probes.

Enters: an item's bytes or samples and a seeded generator. Leaves: a changed rendition. Encoding it is the caller's
work.
"""

from __future__ import annotations

import io
import warnings
from typing import Final

import numpy as np

from mmlake.errors import UnreadableItem
from mmlake.media.pictures import picture_formats, shown

# modality -> name; for video the caller distorts its keyframes
DISTORTIONS: Final = {"image": "crop-resize-jpeg", "video": "crop-resize-jpeg", "audio": "trim-gain-noise"}
_MAX_PIXELS = 64_000_000
_NOISE_DB = 20.0  # signal to noise of the distorted sound: clearly audible, speech stays clear


def distort_image(data: bytes, rng: np.random.Generator) -> bytes:
    """The picture as a JPEG, cropped by 5 to 15 % at each side, resized to 60 to 90 %, at quality 50 to 80. Raises
    UnreadableItem."""
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns about what the track says, and what is refused here
            opened = Image.open(io.BytesIO(data), formats=picture_formats())
            if opened.width * opened.height > _MAX_PIXELS:
                raise UnreadableItem(3004, f"num_pixels={opened.width * opened.height} not in [1, {_MAX_PIXELS}]")
            picture = shown(opened).convert("RGB")
    except Image.DecompressionBombError as error:
        raise UnreadableItem(3004, f"num_pixels not in [1, {_MAX_PIXELS}]") from error
    except (OSError, ValueError, SyntaxError) as error:  # what Pillow raises on bytes that are no picture
        raise UnreadableItem(3001, f"num_bytes={len(data)} hold no picture that can be distorted") from error
    left, top, right, bottom = rng.uniform(0.05, 0.15, size=4)
    width, height = picture.size
    box = (
        round(left * width),
        round(top * height),
        max(round((1 - right) * width), round(left * width) + 1),
        max(round((1 - bottom) * height), round(top * height) + 1),
    )
    scale = rng.uniform(0.6, 0.9)
    picture = picture.crop(box)
    picture = picture.resize(
        (max(round(picture.width * scale), 1), max(round(picture.height * scale), 1)), Image.Resampling.BICUBIC
    )
    sink = io.BytesIO()
    picture.save(sink, format="JPEG", quality=int(rng.integers(50, 81)))
    return sink.getvalue()


def distort_samples(samples: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The sound, float32 mono, trimmed by 5 to 15 % at each end, changed in level by up to 6 dB, with white noise 20
    dB below it."""
    head, tail = (int(len(samples) * share) for share in rng.uniform(0.05, 0.15, size=2))
    kept = np.asarray(samples[head : len(samples) - tail], dtype=np.float32)
    power = float(np.mean(np.square(kept, dtype=np.float64))) if len(kept) else 0.0
    noise = rng.standard_normal(len(kept)).astype(np.float32) * np.float32(np.sqrt(power) * 10 ** (-_NOISE_DB / 20))
    return np.clip((kept + noise) * np.float32(10 ** (rng.uniform(-6, 6) / 20)), -1.0, 1.0).astype(np.float32)

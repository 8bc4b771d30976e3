"""Bytes and arrays made small enough to show, and the budget that keeps a report small.

Enters: blobs, samples, vectors. Leaves: thumbnails, waveform peaks, 2-d points, and data URIs for as long as the budget
lasts.
"""

from __future__ import annotations

import base64
import io
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from mmlake.media.pictures import picture_formats, shown

_MAX_PIXELS = 64_000_000
_BLOCK_ROWS = 4_096  # vectors that are projected at once
# offset, bytes, type. SVG is not among them: it is a document, not a picture
_MAGIC: tuple[tuple[int, bytes, str], ...] = (
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"GIF8", "image/gif"),
    (8, b"WEBP", "image/webp"),
    (8, b"WAVE", "audio/wav"),
    (0, b"fLaC", "audio/flac"),
    (0, b"OggS", "audio/ogg"),
    (0, b"ID3", "audio/mpeg"),
    (0, b"\xff\xfb", "audio/mpeg"),
    (0, b"\xff\xf3", "audio/mpeg"),
    (0, b"\xff\xf2", "audio/mpeg"),
    (4, b"ftyp", "video/mp4"),
    (0, b"\x1aE\xdf\xa3", "video/webm"),
)


def media_type(data: bytes) -> str | None:
    """MIME type detected from the first bytes, of the kinds that a browser plays; None for everything else."""
    return next((kind for offset, magic, kind in _MAGIC if data[offset : offset + len(magic)] == magic), None)


def thumbnail(data: bytes, *, max_side_px: int = 160, quality: int = 72) -> bytes | None:
    """A small JPEG of the picture, upright; None where the bytes are no picture."""
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns about what the track says, and what is refused here
            opened = Image.open(io.BytesIO(data), formats=picture_formats())
            if opened.width * opened.height > _MAX_PIXELS:
                return None
            opened.draft("RGB", (2 * max_side_px, 2 * max_side_px))
            picture = shown(opened).convert("RGB")
    # what Pillow raises on bytes that are no picture
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None
    picture.thumbnail((max_side_px, max_side_px), Image.Resampling.LANCZOS)
    sink = io.BytesIO()
    picture.save(sink, format="JPEG", quality=quality, optimize=True)
    return sink.getvalue()


def waveform_peaks(samples: np.ndarray, *, num_bins: int = 120) -> list[float]:
    """The largest magnitude in each of num_bins equal stretches, 0..1 and rounded; fewer where the samples are
    fewer."""
    magnitudes = np.abs(np.asarray(samples, dtype=np.float32)).ravel()
    count = min(num_bins, len(magnitudes))
    if count == 0:
        return []
    starts = (np.arange(count) * len(magnitudes)) // count
    return [round(float(min(peak, 1.0)), 3) for peak in np.nan_to_num(np.maximum.reduceat(magnitudes, starts))]


# N vectors, D embedding
def project(vectors_ND: np.ndarray, *, most_points: int | None = None) -> tuple[list[tuple[float, float]], float]:
    """(points scaled to [-1, 1], share of variance that they show). Method: the first two principal components, each
    with its largest loading positive. most_points: of more vectors every n-th has a point; the components and the scale
    are those of all, read a block at a time."""
    num, width = vectors_ND.shape
    shown = evenly(num, most_points)
    mean_D = sum((block.sum(axis=0) for block in _blocks(vectors_ND)), np.zeros(width)) / max(num, 1)
    scatter_DD = np.zeros((width, width))
    for block in _blocks(vectors_ND):
        block -= mean_D
        scatter_DD += block.T @ block
    if num < 2 or not np.any(scatter_DD):
        return [(0.0, 0.0) for _ in shown], 0.0
    values, axes_DD = np.linalg.eigh(scatter_DD)
    axes_D2 = axes_DD[:, ::-1][:, :2]
    axes_D2 = axes_D2 * np.sign(axes_D2[np.argmax(np.abs(axes_D2), axis=0), range(axes_D2.shape[1])])
    points = np.zeros((num, 2))
    points[:, : axes_D2.shape[1]] = np.vstack([(block - mean_D) @ axes_D2 for block in _blocks(vectors_ND)])
    scale = float(np.abs(points).max())
    fraction = float(values[::-1][:2].sum() / values.sum())
    chosen = points[shown.start : shown.stop : shown.step].tolist()
    return [(round(x / scale, 4), round(y / scale, 4)) for x, y in chosen], round(fraction, 4)


def evenly(num: int, most: int | None) -> range:
    """Every n-th of so many places, with n as small as leaves at most `most` of them."""
    return range(0, num, 1 if most is None else max(1, -(-num // max(most, 1))))


def _blocks(vectors_ND: np.ndarray) -> Iterator[np.ndarray]:
    for start in range(0, len(vectors_ND), _BLOCK_ROWS):
        yield np.array(vectors_ND[start : start + _BLOCK_ROWS], dtype=np.float64)


@dataclass(slots=True)
class Budget:
    """How many more bytes of media the report may take, and what no longer fitted."""

    num_bytes: int
    left_out: Counter[str] = field(default_factory=Counter)

    def uri(self, data: bytes | None, *, kinds: tuple[str, ...], largest: int | None = None) -> str | None:
        """A data URI, or None where there is nothing, it is no medium of these kinds, or it does not fit (which is
        counted)."""
        if not data:
            return None
        kind = media_type(data)
        if kind is None or kind.partition("/")[0] not in kinds:
            self.left_out[f"{kinds[0]} of a type that browsers do not show"] += 1
            return None
        text = base64.b64encode(data).decode("ascii")
        if len(text) > self.num_bytes or (largest is not None and len(data) > largest):
            self.left_out[f"{kinds[0]} too large for the report"] += 1
            return None
        self.num_bytes -= len(text)
        if kinds[0] == "audio" and kind.startswith("video/"):
            kind = kind.replace("video/", "audio/")
        return f"data:{kind};base64,{text}"

"""What filters measure: of a picture's bytes, of a text, of the rows of a sample."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake.border import Failure, attempt
from mmlake.errors import UnreadableItem
from mmlake.letters import count_words
from mmlake.media.pictures import picture_formats
from mmlake.modalities import MODALITIES
from mmlake.quality.image import luma
from mmlake.quality.text import MEASURES
from mmlake.rows.filter import Filter
from mmlake.rows.order import content_mask, sample_numbers
from mmlake.rows.schema import METADATA, METADATA_POSITION

_MAX_PIXELS = 178_956_970  # what Pillow calls a decompression bomb is twice its own limit of 89,478,485


class Picture:
    """An encoded picture, opened and decoded at most once however many filters measure it."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    @cached_property
    def size_px(self) -> tuple[int, int]:
        """(width, height) by the header alone. Raises UnreadableItem where one is zero or the pixels are too many to
        decode."""
        from PIL import Image, UnidentifiedImageError

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                with Image.open(io.BytesIO(self._data), formats=picture_formats()) as picture:
                    width_px, height_px = picture.size
            except UnidentifiedImageError as error:
                raise UnreadableItem(
                    3001, f"size_bytes={len(self._data)}, and they do not decode as a picture"
                ) from error
        for name, value in (("width_px", width_px), ("height_px", height_px)):
            if value < 1:
                raise UnreadableItem(3001, f"{name}={value} not in [1, inf)")
        if width_px * height_px > _MAX_PIXELS:
            raise UnreadableItem(3004, f"pixels={width_px * height_px} not in [1, {_MAX_PIXELS}]")
        return width_px, height_px

    @cached_property
    def luma_HW(self) -> np.ndarray:
        """uint8 luma of the first frame, longer side at most 512 px: one size, so that a bound means the same on
        every picture."""
        assert self.size_px
        return luma(self._data).clip(0, 255).astype(np.uint8)


def measured(data: bytes, *, filters: Sequence[Filter]) -> list[float | None | Failure]:
    """The measures that the filters ask for, of one encoded picture, up to the first that drops it. A kernel of
    mmlake.border."""
    picture, values = Picture(data), list[float | None | Failure]()
    for one in filters:
        assert one.take is not None
        value = attempt(one.take, picture, code=3001, what=f"{one.measure} cannot be taken of the picture's bytes")
        values.append(value)
        if isinstance(value, Failure) or not one.holds(value):
            break
    return values


def aspect_ratio(picture: Picture) -> float:
    """The longer side over the shorter one: 1 is a square, and a portrait counts like a landscape."""
    return max(picture.size_px) / min(picture.size_px)


def width_to_height(picture: Picture) -> float:
    """Width over height: below 1 for a portrait."""
    return picture.size_px[0] / picture.size_px[1]


def min_side_px(picture: Picture) -> float:
    """The shorter side."""
    return float(min(picture.size_px))


def sharpness(picture: Picture) -> float:
    """Variance of the Laplacian: low where the picture is out of focus, 0 where it is flat. Method: Pech-Pacheco et
    al. 2000."""
    import cv2

    return float(cv2.Laplacian(picture.luma_HW, cv2.CV_64F).var())


def qr_fraction(picture: Picture) -> float:
    """The fraction of the picture's area that QR codes cover."""
    import cv2

    found, corners = cv2.QRCodeDetector().detectMulti(picture.luma_HW)
    if not found or corners is None:
        return 0.0
    area = sum(cv2.contourArea(np.asarray(one, np.float32).reshape(-1, 1, 2)) for one in corners)
    return min(1.0, float(area) / picture.luma_HW.size)


def num_words(text: str) -> float:
    """Words as preprocessing counts them: two characters of a script without spaces are one."""
    return float(count_words(text))


def text_measure(name: str, text: str) -> float | None:
    """The measure of that name that the quality stage takes of texts; None where it makes no sense on this one."""
    return MEASURES[name](text)


def images_per_word(table: pa.Table) -> np.ndarray:
    """For each row its sample's images over its words, which count as one where there are none."""
    samples = sample_numbers(table)
    size = int(samples.max()) + 1 if len(samples) else 0
    images = np.bincount(samples, weights=_is(table, "image"), minlength=size)
    texts = np.flatnonzero(_is(table, "text"))
    counts = (
        [count_words(text) if text else 0 for text in table["text_content"].take(pa.array(texts)).to_pylist()]
        if "text_content" in table.column_names
        else []
    )
    words = np.bincount(samples[texts], weights=counts or None, minlength=size) if counts else np.zeros(size)
    ratios: np.ndarray = (images / np.maximum(words, 1))[samples]
    return ratios


def misplaced(table: pa.Table) -> dict[int, str]:
    """The rows that no sample has, each with the reason: an unknown modality, metadata that is not at -1, content
    below 0."""
    positions = pc.cast(table["position"], pa.int64())
    content = content_mask(table)
    at = np.array(pc.fill_null(positions, np.iinfo(np.int64).min).to_numpy())
    known = np.array(pc.is_in(table["modality"], value_set=pa.array([*MODALITIES, METADATA])).to_numpy(), dtype=bool)
    wrong = np.flatnonzero(~known | (~content & (at != METADATA_POSITION)) | (content & (at < 0)))
    rows = table.select(["modality", "position"]).take(pa.array(wrong)).to_pylist()
    return {
        int(index): _misplacement(row["modality"], row["position"], bool(known[index]))
        for index, row in zip(wrong, rows, strict=True)
    }


def _misplacement(modality: str | None, position: int | None, known: bool) -> str:
    if not known:
        return f"modality={modality or 'null'} not in [{', '.join([*MODALITIES, METADATA])}]"
    place = "null" if position is None else position
    return (
        f"position={place} of a metadata row not in [-1, -1]"
        if modality == METADATA
        else f"position={place} not in [0, inf)"
    )


def _is(table: pa.Table, modality: str) -> np.ndarray:
    return np.array(pc.fill_null(pc.equal(table["modality"], modality), False).to_numpy(), dtype=bool)

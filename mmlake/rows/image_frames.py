"""One frame of a picture that has several, as a picture of its own.

A page of a TIFF stays a TIFF with the same pixels, a frame of a GIF, WebP, APNG or AVIF becomes a PNG. A picture that
cannot have frames (JPEG, a still PNG) is given back as it is.
"""

from __future__ import annotations

import io
import warnings
from typing import TYPE_CHECKING

from mmlake.border import Failure, attempt
from mmlake.errors import UnreadableItem
from mmlake.formats import sniff
from mmlake.media.pictures import picture_formats
from mmlake.media.tiff import NotCopied, Tiff
from mmlake.media.tiff_pages import MARKS
from mmlake.preprocess import PreprocessSettings

if TYPE_CHECKING:
    from PIL.Image import Image

# an animation's decoder holds the frame, the one before it and what is painted, four bytes a pixel: a quarter of the
# budget is a quarter of a gigabyte
_CANVASES = 4
_PAINTED_FRAMES = 8  # of the budget's size: about five seconds of decoding
_ANIMATED = ("GIF", "WEBP", "PNG", "AVIF")
_STILL = ("WEBP", "PNG", "AVIF")  # with one frame they are no animations, and a frame index says nothing


def pick_frame(data: bytes, index: int, *, settings: PreprocessSettings | None = None) -> bytes:
    """The frame as a file, or the picture itself where it has no frames. Raises UnreadableItem 1003 out of range,
    3001 where the data are no picture, 3002, 3004."""
    return Frames(data, settings=settings or PreprocessSettings()).pick(index)


class Frames:
    """The frames of a picture. Taken in their order, each is decoded once."""

    def __init__(self, data: bytes, *, settings: PreprocessSettings) -> None:
        self._data, self._settings = data, settings
        self._tiff: Tiff | None = None
        self._picture: Image | None = None

    def pick(self, index: int) -> bytes:
        """As `pick_frame`."""
        if self._data[:4] not in MARKS and not _may_be_animated(self._data) and _is_picture(self._data):
            return self._data
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns where our own budget decides
            found = attempt(
                self._page if self._data[:4] in MARKS else self._frame,
                index,
                code=3001,
                what=f"frame_index={index}: size_bytes={len(self._data)} of picture data do not decode",
            )
        if isinstance(found, Failure):
            raise UnreadableItem(found.code, found.reason)
        return found

    def _page(self, index: int) -> bytes:
        self._tiff = self._tiff or Tiff(self._data)
        _check_range(index, self._tiff.num_pages)
        if self._tiff.num_pages == 1:
            return self._data
        try:
            return self._tiff.page(index, max_pixels=self._settings.max_pixels)
        except NotCopied:
            return self._decoded(index, "TIFF", compression="tiff_deflate")

    def _frame(self, index: int) -> bytes:
        picture = self._open()
        num_frames = int(getattr(picture, "n_frames", 1))
        if picture.format not in _ANIMATED or (num_frames == 1 and picture.format in _STILL):
            return self._data
        _check_range(index, num_frames)
        return self._data if num_frames == 1 else self._decoded(index, "PNG")

    def _decoded(self, index: int, kind: str, **options: str) -> bytes:
        picture = self._open()
        budget = self._settings.max_pixels // (_CANVASES if kind == "PNG" else 1)
        num_pixels = _checked_size(picture, budget)
        # A frame is painted over all frames before it.
        if kind == "PNG" and num_pixels * (index + 1) > self._settings.max_pixels * _PAINTED_FRAMES:
            raise UnreadableItem(
                3004,
                f"num_pixels={num_pixels * (index + 1)} up to frame {index} not in [1, "
                f"{self._settings.max_pixels * _PAINTED_FRAMES}]",
            )
        sink = io.BytesIO()
        picture.seek(index)
        _checked_size(picture, budget)
        picture.copy().save(sink, format=kind, **options)
        return sink.getvalue()

    def _open(self) -> Image:
        from PIL import Image

        if self._picture is None:
            try:
                self._picture = Image.open(io.BytesIO(self._data), formats=picture_formats())
            except Image.DecompressionBombError as error:
                raise UnreadableItem(
                    3004, f"the header's size is above max_pixels={self._settings.max_pixels}"
                ) from error
        return self._picture


def _checked_size(picture: Image, budget: int) -> int:
    width_px, height_px = picture.size
    if width_px * height_px > budget:
        raise UnreadableItem(3004, f"num_pixels={width_px * height_px} ({width_px}x{height_px}) not in [1, {budget}]")
    return width_px * height_px


def _check_range(index: int, num_frames: int) -> None:
    if not 0 <= index < num_frames:
        raise UnreadableItem(1003, f"frame_index={index} not in [0, {num_frames - 1}]")


def _is_picture(data: bytes) -> bool:
    kind = sniff.kind_by_magic(data[: sniff.HEAD_BYTES])
    return kind is not None and kind.modality == "image"


def _may_be_animated(data: bytes) -> bool:
    return (
        data[:6] in (b"GIF87a", b"GIF89a")
        or data[:8] == b"\x89PNG\r\n\x1a\n"
        or (data[:4] == b"RIFF" and data[8:12] == b"WEBP")
        or data[4:12] in (b"ftypavis", b"ftypavif")
    )

"""TIFFs of more than 8 bits, of which Pillow reads but some, and some as noise: floats, numbers of 32 bits, numbers
with a sign, colours of 16 bits and more, each also with its colours in planes of their own.

Enters: the bytes of a file. Leaves: a Pillow picture that `Image.open` finds under NAME once `register` was called: of
colours 8 bits, by the levels that all of them share (`picture_levels`), of grey floats. Strips and tiles are decoded by
libtiff within OpenCV, of planes each by itself: OpenCV gives memory that nobody wrote for them.
Left to Pillow: grey of 16 bits, which it reads well, and CMYK, CIELAB, YCbCr.
Legend: H height, W width, C samples of a pixel.
"""

from __future__ import annotations

import contextlib
import functools
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mmlake.errors import UnreadableItem
from mmlake.media.picture_levels import levels, white
from mmlake.media.tiff import NotCopied, Tiff
from mmlake.media.tiff_pages import MARKS

if TYPE_CHECKING:
    from PIL.Image import Image

NAME: Final = "DEEP TIFF"
_UNSIGNED, _SIGNED, _FLOAT = 1, 2, 3
_READ: Final = {(_UNSIGNED, 16), (_UNSIGNED, 32), (_SIGNED, 16), (_SIGNED, 32), (_FLOAT, 32), (_FLOAT, 64)}
_GREY_BY_PILLOW: Final = (_UNSIGNED, 16)
_WHITE_IS_ZERO, _BLACK_IS_ZERO, _RGB = 0, 1, 2
_PREMULTIPLIED, _ALPHA = 1, 2  # what a fourth sample is; another one is not shown
_LEAST_ALPHA: Final = 1 / 65_535
_PLANES: Final = 2
_MAX_BYTES: Final = 1 << 30  # of decoded samples, which are held at once
_DEFAULTS: Final[dict[int, tuple[int, ...]]] = {258: (1,), 277: (1,), 339: (1,), 284: (1,), 274: (1,), 338: (0,)}
_ASKED: Final = frozenset((256, 257, 262, *_DEFAULTS))


@functools.lru_cache(maxsize=1)
def register() -> None:
    """Makes Pillow know the format."""
    from PIL import Image, ImageFile

    class DeepTiff(ImageFile.ImageFile):
        """Such a picture at its first page; `seek` goes to the others, also to those that Pillow reads itself."""

        format, format_description = "TIFF", "TIFF of more than 8 bits"

        def _open(self) -> None:
            assert self.fp is not None
            try:
                first = _Page.of(Tiff(data := self.fp.read(), most=1), 0)
                if first is None:
                    raise SyntaxError("a TIFF that Pillow reads")
                self._tiff = Tiff(data)
            except (UnreadableItem, LookupError) as error:
                raise SyntaxError("no TIFF whose pages are found") from error
            self._at, self._is_loaded = 0, False
            self._size, self._mode = (first.width, first.height), first.mode
            exif = Image.Exif()
            exif[0x0112] = first.orientation
            self.info["exif"] = exif.tobytes()
            with contextlib.suppress(UnreadableItem):  # a profile out of bounds costs no picture
                if profile := self._tiff.profile(0):
                    self.info["icc_profile"] = profile
            self.n_frames = self._tiff.num_pages

        def load(self) -> Any:
            """Decodes the page. Raises OSError where it cannot be."""
            if not self._is_loaded:
                try:
                    shown = _picture(self._tiff, self._at)
                except (UnreadableItem, NotCopied, LookupError) as error:
                    is_cut = isinstance(error, UnreadableItem) and error.code == 3002
                    raise OSError("the page is truncated" if is_cut else "the page is not decoded") from error
                self.im, self._mode, self._size, self._is_loaded = shown.im, shown.mode, shown.size, True
            return super().load()

        def seek(self, frame: int) -> None:
            """Goes to a page. Raises EOFError behind the last one."""
            if not 0 <= frame < self.n_frames:
                raise EOFError("no more pages")
            if frame != self._at:
                self._at, self._is_loaded = frame, False
                self._size = _size(self._tiff, frame)

        def tell(self) -> int:
            """The number of the page."""
            return self._at

    Image.register_open(NAME, DeepTiff, lambda prefix: prefix[:4] in MARKS)


@dataclass(frozen=True, slots=True)
class _Page:
    """What a page says of its pixels that is read here."""

    width: int
    height: int
    num_samples: int
    kind: int
    bits: int
    photometric: int
    extra: int
    is_planar: bool
    orientation: int

    @classmethod
    def of(cls, tiff: Tiff, index: int) -> _Page | None:
        """None where Pillow reads the page, or nothing does. Raises LookupError where it lacks a size."""
        stated = _DEFAULTS | tiff.stated(index, _ASKED)
        width, height, photometric = (stated[tag][0] for tag in (256, 257, 262))
        (num_samples, planar, orientation, extra), kinds = (stated[tag][0] for tag in (277, 284, 274, 338)), stated[339]
        kind, bits = kinds[0], stated[258][0]
        is_grey = num_samples == 1 and photometric in (_WHITE_IS_ZERO, _BLACK_IS_ZERO)
        is_colour = num_samples in (3, 4) and photometric == _RGB
        if len({*kinds}) > 1 or len({*stated[258]}) > 1 or (kind, bits) not in _READ or not (is_grey or is_colour):
            return None
        if is_grey and (kind, bits) == _GREY_BY_PILLOW:
            return None
        return cls(width, height, num_samples, kind, bits, photometric, extra, planar == _PLANES, orientation)

    @property
    def mode(self) -> str:
        """Of the picture, as Pillow names it."""
        return "F" if self.num_samples == 1 else "RGBA" if self.has_alpha else "RGB"

    @property
    def has_alpha(self) -> bool:
        """Whether a fourth sample says how opaque a pixel is."""
        return self.num_samples == 4 and self.extra in (_PREMULTIPLIED, _ALPHA)


def _size(tiff: Tiff, index: int) -> tuple[int, int]:
    """Width and height of a page. Raises OSError."""
    try:
        stated = tiff.stated(index, _ASKED)
        return stated[256][0], stated[257][0]
    except (UnreadableItem, LookupError) as error:
        raise OSError("the page does not say how large it is") from error


def _picture(tiff: Tiff, index: int) -> Image:
    """The page decoded. Raises OSError, UnreadableItem, NotCopied, LookupError."""
    from PIL import Image

    page = _Page.of(tiff, index)
    if page is None:
        with Image.open(io.BytesIO(tiff.page(index, max_pixels=_MAX_BYTES)), formats=("TIFF",)) as picture:
            picture.load()
            return picture.copy()
    num_bytes = page.width * page.height * page.num_samples * page.bits // 8
    if num_bytes > _MAX_BYTES:
        raise Image.DecompressionBombError(f"num_bytes={num_bytes} of samples not in [1, {_MAX_BYTES}]")
    num_pixels = page.width * page.height
    if page.is_planar:
        planes = [_decoded(tiff.plane(index, nth, max_pixels=num_pixels)) for nth in range(page.num_samples)]
        values_HWC = np.concatenate(planes, axis=-1)
    else:
        values_HWC = _decoded(tiff.pixels(index, max_pixels=num_pixels))
    if values_HWC.shape != (page.height, page.width, page.num_samples):
        raise OSError("the page does not have the pixels that it states")
    return _shown(values_HWC, page)


def _decoded(page: bytes) -> np.ndarray:
    """Samples of shape (H, W, C) in the order of the file. Raises OSError."""
    import cv2

    level = cv2.utils.logging.getLogLevel()
    cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)  # libtiff's complaints would go to stderr
    try:
        found = cv2.imdecode(np.frombuffer(page, np.uint8), cv2.IMREAD_UNCHANGED)
    except cv2.error as error:
        raise OSError("the page does not decode") from error
    finally:
        cv2.utils.logging.setLogLevel(level)
    if found is None:
        raise OSError("the page does not decode")
    values_HWC: np.ndarray = found[..., None] if found.ndim == 2 else found
    order = [2, 1, 0, 3][: values_HWC.shape[2]]  # OpenCV begins with blue
    return values_HWC if len(order) < 3 else values_HWC[..., order]


def _shown(values_HWC: np.ndarray, page: _Page) -> Image:
    from PIL import Image

    if page.num_samples == 1:
        grey_HW = values_HWC[..., 0].astype(np.float32) if page.kind == _FLOAT else levels(values_HWC[..., 0])
        return Image.fromarray(grey_HW.max(initial=0) - grey_HW if page.photometric == _WHITE_IS_ZERO else grey_HW)
    shown_HWC = levels(values_HWC[..., :3])
    if page.has_alpha:
        opaque = float(values_HWC[..., 3].max(initial=0))
        opaque = white(0, opaque, values_HWC.dtype) or opaque
        alpha_HW1 = (values_HWC[..., 3:] / np.float32(opaque)).clip(0, 1)
        if page.extra == _PREMULTIPLIED:
            shown_HWC = (shown_HWC / np.maximum(alpha_HW1, _LEAST_ALPHA)).clip(0, 255)
        shown_HWC = np.concatenate([shown_HWC, alpha_HW1 * 255], axis=-1)
    return Image.fromarray(np.rint(shown_HWC).astype(np.uint8))

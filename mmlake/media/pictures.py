"""Which formats of pictures may be opened, and what is seen of them: colours in sRGB, transparent ones on a ground.
Pillow detects a format by the bytes whatever the name says, and would start a program for some."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from mmlake.media import colour_profiles
from mmlake.media.picture_levels import levels

if TYPE_CHECKING:
    import numpy as np
    from PIL.Image import Image

# EPS is a program that Pillow hands to Ghostscript, WMF and EMF one that Windows draws; IPTC holds a picture of any
# format, these included.
_PROGRAMS: Final = frozenset({"EPS", "WMF", "IPTC"})
_HEIC: Final = re.compile(rb"....ftyp(heic|heix|heim|heis|hevc|hevx|mif1|msf1)", re.DOTALL)
_ALPHA_MODES: Final = frozenset({"RGBA", "LA", "PA", "RGBa", "La"})
# whose fourth byte is filler in the files of many programs: zero throughout, it makes nothing transparent
_FILLED: Final = frozenset({"BMP", "DIB", "TGA", "DDS", "SGI"})
_LEAST_STD: Final = 2.0  # grey levels; a picture with less shows nothing (rule `blank`)
LOSSY_FORMATS: Final = ("AVIF", "HEIF")  # as Pillow names them; both have a mode without loss that hardly anybody uses
_FAINT_STD, _CLEARER = 12.0, 3.0  # one with less shows little, where another ground shows so many times as much


def lacks_decoder(data: bytes) -> bool:
    """Whether it is a picture as telephones take them (HEIC) and the extra `heif` is not installed."""
    return _HEIC.match(data) is not None and importlib.util.find_spec("pillow_heif") is None


def is_lossy(data: bytes, picture_format: str | None) -> bool:
    """Whether a file that is no JPEG is one of a lossy codec. Of WebP the first chunk of pixels says so (RFC 9649)."""
    if picture_format != "WEBP":
        return picture_format in LOSSY_FORMATS
    at = 12
    while at + 8 <= len(data):
        kind, size = data[at : at + 4], int.from_bytes(data[at + 4 : at + 8], "little")
        if kind in (b"VP8 ", b"VP8L"):
            return kind == b"VP8 "
        at += 8 + (16 if kind == b"ANMF" else size + size % 2)  # the chunks of a frame lie within it
    return False


@contextmanager
def one_thread() -> Iterator[None]:
    """A context in which OpenCV starts no threads: for thumbnails they cost a third more CPU time and save none."""
    import cv2

    before = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        yield
    finally:
        cv2.setNumThreads(before)


@lru_cache(maxsize=1)
def picture_formats() -> tuple[str, ...]:
    """The formats for `Image.open(..., formats=)`: all that Pillow reads, in its order, without those that are
    programs, and HEIC where the extra `heif` is installed.

    From then on Pillow refuses no PNG for a text or a colour profile of more than 1 MiB, as printers and image
    generators write them; what all texts of one picture take stays bounded, by 64 MiB.
    """
    from PIL import Image, PngImagePlugin

    from mmlake.media import deep_tiffs

    PngImagePlugin.MAX_TEXT_CHUNK = PngImagePlugin.MAX_TEXT_MEMORY
    colour_profiles.keep_codes_of_pngs()
    Image.init()
    with suppress(ImportError):
        import pillow_heif

        pillow_heif.register_heif_opener()
    deep_tiffs.register()  # before Pillow's own TIFF, which takes some of them for others
    return deep_tiffs.NAME, *(name for name in Image.ID if name not in {*_PROGRAMS, deep_tiffs.NAME})


def draft_colour(picture: Image, side_px: int) -> None:
    """Lets libjpeg shrink a JPEG while it decodes: to YCbCr, or to RGB where the file stores that, of which libjpeg
    makes grey but no YCbCr, or a profile asks for it."""
    is_rgb = _stores_rgb(picture) or colour_profiles.is_converted(picture)
    picture.draft("RGB" if is_rgb else "YCbCr", (side_px, side_px))


def draft_grey(picture: Image, side_px: int) -> None:
    """Lets libjpeg shrink a JPEG while it decodes, to grey; where a profile says other colours than sRGB's, in
    colour as the file stores it, since its grey is none of sRGB."""
    mode = "L" if not colour_profiles.is_converted(picture) else "RGB" if _stores_rgb(picture) else "YCbCr"
    picture.draft(mode, (side_px, side_px))


def _stores_rgb(picture: Image) -> bool:
    """By libjpeg's rule (jdapimin.c, default_decompress_parms): JFIF is YCbCr, Adobe says which, else the components'
    names decide."""
    if "jfif" in picture.info:
        return False
    if "adobe" in picture.info:
        return picture.info.get("adobe_transform") == 0
    return bytes(component[0] for component in getattr(picture, "layer", ())) == b"RGB"


def shown(picture: Image) -> Image:
    """The picture as a viewer shows it, for whoever wants 8 bits: upright, `opaque`, in sRGB, and 16 bits and floats
    scaled to 8, which Pillow would clip. It may be in any mode that converts to RGB and L; its own pixels may
    be turned."""
    import numpy as np
    from PIL import Image, ImageOps

    ImageOps.exif_transpose(picture, in_place=True)  # copies only what it turns
    upright = opaque(picture)
    if upright.mode.startswith(("I", "F")):
        upright = Image.fromarray(np.rint(deep_levels(upright)).astype(np.uint8))
    return upright


def deep_levels(picture: Image) -> np.ndarray:
    """float32 levels 0..255 of grey of 16 and 32 bits or of floats, as sRGB has them, of shape (height, width)."""
    import numpy as np

    return colour_profiles.toned(picture, levels(np.asarray(picture)))


def opaque(picture: Image) -> Image:
    """The picture in sRGB (CIELAB as RGB), or, where parts of it are transparent, laid on white as most viewers do; on
    black where next to nothing of it is seen on white (white drawings and logos, light that glows)."""
    from PIL import Image, ImageStat

    if picture.format in _FILLED and picture.mode == "RGBA" and picture.getchannel("A").getextrema() == (0, 0):
        return picture.convert("RGB")
    if picture.mode == "LAB":
        return picture.convert("RGB")  # the one mode that Pillow makes no grey of
    picture = colour_profiles.in_srgb(picture)
    is_deep = picture.mode.startswith(("I", "F"))  # 16 and 32 bit: no ground has that many levels
    if is_deep or (picture.mode not in _ALPHA_MODES and "transparency" not in picture.info):
        return picture
    # Pillow makes nothing but LA of premultiplied grey
    layer = (picture.convert("LA") if picture.mode == "La" else picture).convert("RGBA")
    on_white = Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB")
    shown = ImageStat.Stat(on_white.convert("L")).stddev[0]
    if shown >= _FAINT_STD:
        return on_white
    on_black = Image.alpha_composite(Image.new("RGBA", layer.size, "black"), layer).convert("RGB")
    is_lost = shown < _LEAST_STD or ImageStat.Stat(on_black.convert("L")).stddev[0] >= _CLEARER * shown
    return on_black if is_lost else on_white

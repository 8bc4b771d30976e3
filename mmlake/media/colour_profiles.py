"""Pictures of other colour spaces in sRGB, as viewers show them: by their ICC profile, or, of a PNG, by what its chunks
cICP, gAMA and cHRM state (PNG 3, section 12.8).

Enters: a picture as Pillow opened it, drafted or not. Leaves: the same object where its colours are those of sRGB, or
nothing says otherwise; else a new one in sRGB, which no longer names a space. LittleCMS converts, relative to white and
with black-point compensation, as browsers do. What a profile does to a grid of colours decides whether it is another
space, not its name. Left alone: HDR (PQ and HLG), CIELAB, CMYK without a profile, which Pillow converts.
"""

from __future__ import annotations

import io
import logging
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from mmlake.media.matrix_profiles import BT709, BT2020, D65, P3, matrix_profile

if TYPE_CHECKING:
    import numpy as np
    from PIL.Image import Image
    from PIL.ImageCms import ImageCmsTransform

_log = logging.getLogger(__name__)

MAX_PROFILE_BYTES: Final = 4 << 20  # those of presses have up to 3 MB
_KEPT: Final = 16  # conversions of a process; each has its profile and a table of 2 MB at most
_SAME: Final = 3  # levels; the many profiles of sRGB round its curve by so much
_GRID: Final = 9  # levels of each colour whose conversion is compared
_SRGB_GAMMA: Final = 1 / 2.2  # as files state sRGB's curve in one number
_NEAR_GAMMA, _NEAR_POINT = 0.05, 0.002  # within which a gamma, and x and y, are sRGB's
_GAMMAS: Final = (1 / 16, 16.0)
_CICP: Final = "cicp"
_SPACES: Final = frozenset({"icc_profile", "gamma", "chromaticity", "srgb", _CICP})  # of `Image.info`
_CHANNELS: Final = {
    **dict.fromkeys(("L", "LA", "La", "I", "F", "I;16", "I;16L", "I;16B", "I;16N"), "L"),
    **dict.fromkeys(("RGB", "RGBA", "RGBa", "RGBX", "YCbCr", "P", "PA"), "RGB"),
    "CMYK": "CMYK",
}
_FITTING: Final = {"L": ("GRAY", "RGB"), "RGB": ("RGB",), "CMYK": ("CMYK",)}
# codes of ITU-T H.273; the curve of films is shown as sRGB's
_CODED_PRIMARIES: Final = {1: BT709, 9: BT2020, 12: P3}
_CODED_GAMMAS: Final = {1: None, 4: 2.2, 6: None, 8: 1.0, 13: None, 14: None, 15: None}


@dataclass(frozen=True, slots=True)
class _Conversion:
    """What a profile does to the pixels of its channels: nothing, a curve of 256 levels for grey, or a transform."""

    fault: str | None = None  # why the profile is passed over
    curve: np.ndarray | None = None
    transform: ImageCmsTransform | None = None

    @property
    def is_needed(self) -> bool:
        return self.curve is not None or self.transform is not None


_NONE: Final = _Conversion()


def in_srgb(picture: Image) -> Image:
    """The picture in sRGB. What its file says of transparent colours is in its alpha then. Grey of more than 8 bits is
    left to `toned`."""
    found = _conversion_of(picture)
    if not found.is_needed or picture.mode.startswith(("I", "F")):
        return picture
    if found.curve is not None:
        converted = _in_grey(picture, found.curve)
    else:
        assert found.transform is not None
        converted = _in_colour(picture, found.transform)
    converted.info = {name: value for name, value in picture.info.items() if name not in (*_SPACES, "transparency")}
    return converted


def is_converted(picture: Image) -> bool:
    """Whether `in_srgb` changes its colours: then it needs all of them, not the grey that libjpeg makes."""
    return _conversion_of(picture).is_needed


def toned(picture: Image, levels: np.ndarray) -> np.ndarray:
    """The levels 0..255 of a grey picture of more than 8 bits, as sRGB has them; of the same shape and dtype."""
    import numpy as np

    curve = _conversion_of(picture).curve
    return levels if curve is None else np.interp(levels, np.arange(256), curve).astype(levels.dtype)


def profile_fault(picture: Image) -> str | None:
    """Why its profile is passed over, in our own words; None where it has none, or one that can be used."""
    return _conversion_of(picture).fault


def keep_codes_of_pngs() -> None:
    """Makes Pillow keep the chunk cICP of PNGs, which it passes over: in `info`, four numbers."""
    from PIL import ImageFile, PngImagePlugin

    def chunk(stream: Any, position: int, length: int) -> bytes:
        data = ImageFile._safe_read(stream.fp, length)
        if length == 4:
            stream.im_info[_CICP] = tuple(data)
        return data

    PngImagePlugin.PngStream.chunk_cICP = chunk  # type: ignore[attr-defined]


def _conversion_of(picture: Image) -> _Conversion:
    info, channels = picture.info, _CHANNELS.get(picture.mode)
    if channels is None or _SPACES.isdisjoint(info):
        return _NONE
    profile = _coded(info) or info.get("icc_profile", b"")
    if not isinstance(profile, bytes):  # Pillow's word for one whose parts or compression are damaged
        return _Conversion(fault="the colour profile is not whole")
    if not profile and channels != "CMYK":
        try:
            profile = _stated(info)
        except ValueError:
            return _Conversion(fault="the stated chromaticities or gamma make no space of colours")
    if not profile:
        return _NONE
    if len(profile) > MAX_PROFILE_BYTES:
        return _Conversion(fault=f"num_bytes={len(profile)} of the colour profile not in [0, {MAX_PROFILE_BYTES}]")
    return _conversion(profile, channels)


def _coded(info: dict[Any, Any]) -> bytes:
    """The profile of a space named by codes; none where they name sRGB, HDR, or nothing known here."""
    primaries, transfer, matrix, is_full = info.get(_CICP, (0, 0, 0, 0))
    if primaries not in _CODED_PRIMARIES or transfer not in _CODED_GAMMAS or matrix or is_full != 1:
        return b""
    return matrix_profile(_CODED_PRIMARIES[primaries], gamma=_CODED_GAMMAS[transfer])


def _stated(info: dict[Any, Any]) -> bytes:
    """The profile of what gAMA and cHRM state; none where that is sRGB. Raises ValueError."""
    gamma, points = info.get("gamma"), info.get("chromaticity")
    if "srgb" in info or (gamma is None and points is None):
        return b""
    white_x, white_y, *rest = points or (*D65, *(value for point in BT709 for value in point))
    if len(rest) != 6 or (gamma is not None and not _GAMMAS[0] <= gamma <= _GAMMAS[1]):
        raise ValueError("no gamma, or not four points")
    exact = (*D65, *(value for point in BT709 for value in point))
    curve = None if gamma is None or abs(gamma / _SRGB_GAMMA - 1) <= _NEAR_GAMMA else 1 / gamma
    if curve is None and all(abs(a - b) <= _NEAR_POINT for a, b in zip((white_x, white_y, *rest), exact, strict=True)):
        return b""
    primaries = ((rest[0], rest[1]), (rest[2], rest[3]), (rest[4], rest[5]))
    return matrix_profile(primaries, white=(white_x, white_y), gamma=curve)


@lru_cache(maxsize=_KEPT)  # this module owns them; LittleCMS lets threads share a transform
def _conversion(profile: bytes, channels: str) -> _Conversion:
    """channels: L, RGB or CMYK."""
    if not _has_littlecms():
        return _NONE
    from PIL import ImageCms

    try:
        opened = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        space = opened.profile.xcolor_space.strip()
        if space not in _FITTING[channels]:
            return _Conversion(fault=f"the colour profile is one of {_named(space)}, and the picture is {channels}")
        mode = "L" if space == "GRAY" else space
        transform = ImageCms.buildTransform(
            opened,
            ImageCms.createProfile("sRGB"),
            mode,
            "RGB",
            renderingIntent=ImageCms.Intent.RELATIVE_COLORIMETRIC,
            flags=ImageCms.Flags.BLACKPOINTCOMPENSATION,
        )
        return _needed(transform, channels, mode)
    except (ImageCms.PyCMSError, OSError, ValueError, TypeError):
        return _Conversion(fault="the colour profile does not parse")


def _named(space: str) -> str:
    return space if space.isascii() and space.isalnum() else "an unknown space"


def _needed(transform: ImageCmsTransform, channels: str, mode: str) -> _Conversion:
    """The conversion, or none where it changes colours by no more than the profiles of sRGB differ."""
    import numpy as np
    from PIL import Image

    if channels == "CMYK":
        return _Conversion(transform=transform)
    if channels == "L":
        ramp = Image.fromarray(np.arange(256, dtype=np.uint8)[None]).convert(mode)
        curve_L = np.asarray(transform.apply(ramp).convert("L"), np.float32)[0]
        return _NONE if np.abs(curve_L - np.arange(256)).max() <= _SAME else _Conversion(curve=curve_L)
    steps = np.linspace(0, 255, _GRID).round().astype(np.uint8)
    grid_HWC = np.stack(np.meshgrid(steps, steps, steps, indexing="ij"), axis=-1).reshape(_GRID, -1, 3)
    shown_HWC = np.asarray(transform.apply(Image.fromarray(grid_HWC))).astype(np.int16)
    return _NONE if np.abs(shown_HWC - grid_HWC).max() <= _SAME else _Conversion(transform=transform)


def _in_grey(picture: Image, curve_L: np.ndarray) -> Image:
    from PIL import Image

    levels = [round(level) for level in curve_L.tolist()]
    if picture.mode == "L" and "transparency" not in picture.info:
        return picture.point(levels)
    grey, alpha = picture.convert("LA").split()
    return Image.merge("LA", (grey.point(levels), alpha))


def _in_colour(picture: Image, transform: ImageCmsTransform) -> Image:
    if picture.mode == "CMYK":
        return transform.apply(picture)
    is_clear = picture.mode in ("RGBA", "RGBa", "PA") or "transparency" in picture.info
    layer = picture.convert("RGBA") if is_clear else picture
    converted = transform.apply(layer.convert("RGB"))
    if is_clear:
        converted.putalpha(layer.getchannel("A"))
    return converted


@lru_cache(maxsize=1)
def _has_littlecms() -> bool:
    from PIL import features

    found = bool(features.check("littlecms2"))
    if not found:
        _log.warning("Pillow was built without LittleCMS: pictures with a colour profile are seen without it")
    return found

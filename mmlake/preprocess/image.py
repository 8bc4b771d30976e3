"""Images: size from the header first, then every byte decoded once to see that it can be."""

from __future__ import annotations

import io
import warnings
from typing import TYPE_CHECKING

from mmlake.errors import UnreadableItem
from mmlake.formats import sniff
from mmlake.media.colour_profiles import profile_fault
from mmlake.media.pictures import lacks_decoder, picture_formats
from mmlake.media.png_chunks import bad_chunks
from mmlake.media.tiff_pages import MARKS, page_places
from mmlake.preprocess.damage import Damages
from mmlake.preprocess.settings import PreprocessSettings

if TYPE_CHECKING:
    from PIL.Image import Image

_SCAN = b"\xff\xda"  # begins a pass over the picture of a JPEG
_MAX_PASSES = 50  # over a picture of `max_pixels`, each of .1 s; encoders make at most ten or so, 100 of a smaller one
_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG_XL = "image/jxl"
_BARE_JPEG_XL = b"\xff\x0a"  # without its container: too little to know a file by, but one that nothing opens
_ORIENTATION_TAG = 0x0112
# Pillow raises all of these on malformed pictures met in the wild; anything else is a fault of ours and shows as such
_DECODE_ERRORS = (
    OSError,
    ValueError,
    IndexError,
    RuntimeError,
    SyntaxError,
    NotImplementedError,
    EOFError,
    KeyError,
    TypeError,
    OverflowError,
    ZeroDivisionError,
)
_CUT_OFF = (
    "truncated",
    "premature end",
    "broken data stream",
    "unexpected end",
    "could not create decoder object",
    "failed to decode",
)
_HARMLESS = ("extraneous bytes",)  # libjpeg's word for padding before a marker: every pixel is there


def image_track(data: bytes, *, settings: PreprocessSettings) -> dict[str, object]:
    """The picture columns of a track; later frames of an animation may be damaged. Raises UnreadableItem 3001, 3002,
    3004."""
    from PIL import Image

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow warns where our own budget decides
        try:
            picture = Image.open(io.BytesIO(data), formats=picture_formats())
        except Image.DecompressionBombError as error:
            raise UnreadableItem(3004, f"the header's size is above max_pixels={settings.max_pixels}") from error
        except _DECODE_ERRORS as error:
            raise _unreadable(data, error) from error
        with picture:
            _check_budget(picture, settings)
            num_frames, damages = _count_frames(picture, data), Damages()
            kind = picture.format or ""
            if fault := profile_fault(picture):
                damages.add(f"{fault}; the colours are taken for those of sRGB")
            width_px, height_px = picture.size
            try:
                _decode(picture, data, settings)
                orientation = _orientation(picture)  # Pillow decodes a PNG for it, and a second time it does not fail
                _decode_later(picture, num_frames, settings, damages)
            except Image.DecompressionBombError as error:
                raise UnreadableItem(3004, f"the picture's size is above max_pixels={settings.max_pixels}") from error
            except _DECODE_ERRORS as error:
                raise _unreadable(data, error, kind=kind) from error
    if orientation >= 5:  # 5..8 swap the axes
        width_px, height_px = height_px, width_px
    if kind == "PNG":
        for at_byte, what in bad_chunks(data):
            damages.add(what, at_byte=at_byte)
    sizes = {"width_px": width_px, "height_px": height_px, "orientation": orientation, "num_frames": num_frames}
    return {**sizes, "damages": damages.column()}


def _check_budget(picture: Image, settings: PreprocessSettings) -> None:
    width_px, height_px = picture.size
    if width_px * height_px > settings.max_pixels:
        raise UnreadableItem(
            3004, f"num_pixels={width_px * height_px} ({width_px}x{height_px}) not in [1, {settings.max_pixels}]"
        )


def _orientation(picture: Image) -> int:
    """EXIF orientation 1..8; 1 where there is none or it makes no sense."""
    try:
        value = picture.getexif().get(_ORIENTATION_TAG, 1)
    except _DECODE_ERRORS:
        return 1  # broken EXIF next to good pixels is no reason to lose the picture
    return value if isinstance(value, int) and 1 <= value <= 8 else 1


def _count_frames(picture: Image, data: bytes) -> int:
    try:
        if data[:4] in MARKS:
            return max(1, len(page_places(data)))
        return int(getattr(picture, "n_frames", 1))
    except (UnreadableItem, *_DECODE_ERRORS):
        return 1  # the frame directory is broken: decoding the first frame decides


def _decode(picture: Image, data: bytes, settings: PreprocessSettings) -> None:
    if picture.format in ("JPEG", "MPO"):
        _decode_jpeg(picture, data, settings)
    else:
        picture.load()


def _decode_later(picture: Image, num_frames: int, settings: PreprocessSettings, damages: Damages) -> None:
    """Decodes the frames behind the first one. One that is larger than the budget is damage: a frame of a GIF may make
    its screen larger, which viewers do not show."""
    from PIL import Image

    if picture.format in ("JPEG", "MPO"):
        return
    at_s = _shown_s(picture)
    for index in range(1, min(num_frames, settings.max_image_frames)):
        try:
            picture.seek(index)
            _check_budget(picture, settings)
            picture.load()
        except (UnreadableItem, Image.DecompressionBombError):
            most = f"max_pixels={settings.max_pixels}"
            damages.add(
                f"frame {index} of {num_frames} is larger than {most}, and is not decoded, nor what follows", at_s=at_s
            )
            return
        except _DECODE_ERRORS:  # the picture is there, and what the animation was until now
            damages.add(f"frame {index} of {num_frames} does not decode, nor what follows", at_s=at_s)
            return
        at_s += _shown_s(picture)


def _shown_s(picture: Image) -> float:
    """How long the frame is shown; 0 where the file does not say."""
    duration_ms = picture.info.get("duration")
    return duration_ms / 1000 if isinstance(duration_ms, (int, float)) and duration_ms >= 0 else 0.0


def _decode_jpeg(picture: Image, data: bytes, settings: PreprocessSettings) -> None:
    """Read the whole entropy-coded stream at an eighth of the size, with libjpeg's complaints as errors: Pillow
    accepts half a picture that ends in a forged end mark."""
    import simplejpeg

    num_pixels = picture.size[0] * picture.size[1] * data.count(_SCAN)  # a few more where thumbnails have some
    if num_pixels > _MAX_PASSES * settings.max_pixels:
        raise UnreadableItem(
            3004, f"num_pixels={num_pixels} of all scans not in [1, {_MAX_PASSES * settings.max_pixels}]"
        )
    try:
        simplejpeg.decode_jpeg(data, "GRAY", min_height=1, min_width=1, min_factor=8, strict=True)
    except ValueError as error:
        if _is_cut_off(error):
            raise
        picture.load()  # colour spaces that TurboJPEG lacks, padding before markers: the other decoder decides


def _is_cut_off(error: Exception) -> bool:
    message = str(error).lower()
    return any(word in message for word in _CUT_OFF) and not any(word in message for word in _HARMLESS)


def _unreadable(data: bytes, error: Exception, *, kind: str = "") -> UnreadableItem:
    """The finding in our own words: the decoder's own are only read for whether the data stop early."""
    bad = next(bad_chunks(data), None) if data.startswith(_PNG) else None
    place = f"; at byte {bad[0]} {bad[1]}" if bad else ""
    if _is_cut_off(error) or isinstance(error, EOFError):
        reason = f"the {kind or 'picture'} data of size_bytes={len(data)} stop before the picture is complete"
        return UnreadableItem(3002, reason + place)
    if not kind and lacks_decoder(data):
        remedy = "run: pip install 'mmlake[heif]', then mmlake retry"
        return UnreadableItem(3001, f"HEIC pictures need the library 'pillow-heif', which is not installed; {remedy}")
    named = sniff.kind_by_magic(data[: sniff.HEAD_BYTES])
    if data.startswith(_BARE_JPEG_XL) or (named is not None and named.content_type == _JPEG_XL):
        return UnreadableItem(3001, "JPEG XL pictures have no decoder here; convert them at their source")
    what = f"{kind} picture data" if kind else f"{named.content_type} data" if named else "unknown picture data"
    reason = f"size_bytes={len(data)} of {what} do not decode ({type(error).__name__})"
    return UnreadableItem(3001, reason + place)

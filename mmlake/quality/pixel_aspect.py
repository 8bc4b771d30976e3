"""Whether the shape of the pixels that a film claims can be that of its size. Only headers are read: no circle
is searched for in the pictures."""

from __future__ import annotations

from fractions import Fraction

from mmlake.errors import UnreadableItem
from mmlake.media.decoders import open_media, picture_stream
from mmlake.quality.measurement import Measurement, Measures, Subject
from mmlake.quality.rule import Rule

_ERROR = "pixel_aspect_error"
# sizes of broadcasts and tapes, whose pixels are oblong (ITU-R BT.601, DV, CIF, HDV, DVCPRO HD); all are shown 4:3 or
# 16:9, give or take the 8 columns at either side that analogue lines have not
_OBLONG = frozenset(
    [(720, 480), (704, 480), (720, 576), (704, 576), (352, 288), (176, 144), (352, 240), (352, 480), (352, 576)]
    + [(480, 576), (544, 576), (1440, 1080), (1280, 1080), (960, 720)]
)
_SHOWN = (4 / 3, 16 / 9)
# sizes whose sides have these ratios are of square pixels
_SQUARE = (16 / 9, 9 / 16, 4 / 3, 3 / 4, 1.0)
_SAME = 0.005  # relative; sides are whole pixels
_BROKEN = 4.0  # width over height of a pixel, or the reverse, that no film has


def pixel_aspect_error(width_px: int, height_px: int, ratio: Fraction | None) -> float:
    """How far the shown shape is from the one that the size is made for, as a share of it. ratio: width of a pixel over
    its height; None or 0 where the film does not say."""
    aspect = float(ratio or 1)
    if not 1 / _BROKEN <= aspect <= _BROKEN:
        return 1.0
    stored = width_px / height_px
    if (width_px, height_px) in _OBLONG:
        return min(abs(stored * aspect / shown - 1) for shown in _SHOWN)
    return abs(aspect - 1) if any(abs(stored / square - 1) < _SAME for square in _SQUARE) else 0.0


def _measures(subject: Subject) -> Measures:
    import av.error

    measures: Measures = {_ERROR: None}
    if subject.path is None:
        return measures
    try:
        with open_media(subject.path) as container:
            stream = picture_stream(container)
            width_px, height_px = stream.codec_context.width, stream.codec_context.height
            if width_px > 0 and height_px > 0:
                measures[_ERROR] = pixel_aspect_error(width_px, height_px, stream.sample_aspect_ratio)
    except (UnreadableItem, av.error.FFmpegError):
        pass  # the track has said so
    return measures


PIXEL_ASPECT_MEASUREMENT = Measurement(
    name="pixel-aspect", modalities=("video",), measures=(_ERROR,), columns=(), take=_measures, needs_file=True
)

WRONG_PIXEL_ASPECT = Rule(
    name="wrong_pixel_aspect",
    error_code=4321,
    severity="P2",
    measure=_ERROR,
    high=0.05,
    what="The film claims pixels of a shape that its size is not made for: it is shown squeezed or stretched.",
    fix="Inspect a keyframe, and set the right ratio (ffmpeg's `setsar`) where people are too narrow.",
)

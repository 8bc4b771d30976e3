"""How coarsely a codec quantized a frame, by what its decoder exports: no guess from pixels.

Enters: a frame decoded with `EXPORT`. Leaves: the mean step between two values of a coefficient, in one unit for
MPEG-1, -2, -4, H.263, H.264 and VP9; None for the codecs whose decoders export nothing (HEVC, AV1, VP8, Motion JPEG).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

import numpy as np

if TYPE_CHECKING:
    from av import VideoFrame

EXPORT = {"export_side_data": "venc_params"}  # option of a codec context, before it decodes
_HEAD = struct.Struct("@IQQii")  # AVVideoEncParams: blocks, their offset and size, kind of codec, parameter
_VP9, _H264, _MPEG = 0, 1, 2
_AREA, _DELTA = slice(2, 4), 4  # of the integers of a block: width and height, and what it adds to the parameter
# H.264's step doubles every six parameters from .625 (ITU-T H.264, 8.5.9); of VP9's table the ends and one in between
_VP9_PARAMETERS, _VP9_STEPS = (0, 1, 95, 255), (4.0, 8.0, 102.0, 1_828.0)  # in eighths


def quantizer_step(frame: VideoFrame) -> float | None:
    """The mean over the frame; the exported parameter of MPEG codecs is the step."""
    held: Iterable[Any] = cast(Any, frame.side_data)  # a sequence, whatever PyAV's stubs say
    found = [bytes(one) for one in held if one.type.name == "VIDEO_ENC_PARAMS"]
    if not found or len(found[0]) < _HEAD.size:
        return None
    num, offset, size, kind, parameter = _HEAD.unpack_from(found[0])
    mean = float(parameter)
    if num and size >= 20 and offset + num * size <= len(found[0]):
        blocks = np.frombuffer(found[0], np.int32, num * size // 4, offset).reshape(num, -1)
        area = blocks[:, _AREA].prod(axis=1)
        mean += float((blocks[:, _DELTA] * area).sum() / max(1, area.sum()))
    if kind == _H264:
        return float(0.625 * 2 ** (mean / 6))
    if kind == _VP9:
        return float(np.exp(np.interp(mean, _VP9_PARAMETERS, np.log(_VP9_STEPS)))) / 8
    return mean if kind == _MPEG and mean > 0 else None

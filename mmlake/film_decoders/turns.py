"""How a film says that its pictures are to be turned and mirrored before they are shown.

Enters: a decoded frame with the display matrix of its container (ISO/IEC 14496-12, 8.3.2), or of the stream. Leaves:
the turn, as FFmpeg's `av_display_rotation_get` has it, and whether the picture is turned over before, which that
function says nothing of: a selfie that is stored as a mirror shows it would be upside down.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from av import VideoFrame

# (degrees counter-clockwise, whether it is turned over top to bottom before): as EXIF spells the same
EXIF = {
    (0, False): 1, (90, False): 8, (180, False): 3, (270, False): 6,
    (0, True): 4, (90, True): 7, (180, True): 2, (270, True): 5,
}  # fmt: skip


def turn_of(frame: VideoFrame) -> tuple[int, bool]:
    """(degrees counter-clockwise: 0, 90, 180, 270; whether the picture is turned over, top to bottom, before that)."""
    return round(frame.rotation / 90) * 90 % 360, _is_mirrored(frame)


def _is_mirrored(frame: VideoFrame) -> bool:
    sides: Any = frame.side_data  # of which PyAV's stubs have another type
    for data in sides:
        if data.type.name == "DISPLAYMATRIX":
            a, b, _, c, d, *_ = struct.unpack("=9i", bytes(data))
            return bool(a * d - b * c < 0)
    return False


def upright(pixels_HWC: np.ndarray, rotation: int, is_mirrored: bool) -> np.ndarray:
    """The stored picture as it is shown."""
    return np.rot90(pixels_HWC[::-1] if is_mirrored else pixels_HWC, k=rotation // 90 % 4)

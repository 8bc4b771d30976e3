"""When each frame of a film is shown, without decoding it: by the time stamps of its packets.

They are believed only where they agree with what decoding found. Where they do not (two packets for one frame, frames
that are never shown, packets that do not decode, no time stamps), the film is decoded once more.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mmlake.errors import UnreadableItem
from mmlake.media.decoders import open_media, picture_stream
from mmlake.media.stamps import Stamps
from mmlake.preprocess.containers.container import Decoding, FrameClock

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.stream import VideoStream

# F frames
_TOLERANCE_US = 2  # of shots, whose times are seconds as float64


def frame_times(path: Path, *, num_frames: int, num_errors: int, shot_starts_s: Iterable[float]) -> np.ndarray:
    """The time of each displayed frame in microseconds, on the clock of the track: int64, shape (num_frames,).

    num_frames, num_errors, shot_starts_s: what the track says; every shot starts with a frame. Raises UnreadableItem
    3001, 3003, and 3302 where they do not agree with the film.
    """
    starts_us = np.array([round(start_s * 1e6) for start_s in shot_starts_s if math.isfinite(start_s)], np.int64)
    if not num_errors:
        with open_media(path) as container:
            times_us = _by_packets(container, picture_stream(container))
        if times_us is not None and len(times_us) == num_frames and _holds(times_us, starts_us):
            return times_us
    with open_media(path) as container:
        times_us = _by_decoding(container, picture_stream(container))
    if len(times_us) != num_frames:
        raise UnreadableItem(3302, f"num_frames={len(times_us)}, expected the {num_frames} of its track")
    return times_us


def _by_packets(container: InputContainer, stream: VideoStream) -> np.ndarray | None:
    """The sorted time stamps of the packets that are shown; None where one has none, two have the same, or
    all are those of decoding."""
    import av.error

    stamps, order = [], Stamps(container)
    try:
        for packet in container.demux(stream):
            if not packet.size or packet.is_discard:  # at the end; cut off by an edit list
                continue
            if packet.pts is None or order.is_made_up(packet):
                return None
            stamps.append(packet.pts)
    except (av.error.FFmpegError, ValueError):
        return None
    if not stamps or stream.time_base is None or order.are_of_decoding:
        return None
    stamps.sort()
    if any(left == right for left, right in zip(stamps, stamps[1:], strict=False)):
        return None
    clock = FrameClock(container, stream)
    return _microseconds([clock.time_of(stamp, stream.time_base) for stamp in stamps])


def _by_decoding(container: InputContainer, stream: VideoStream) -> np.ndarray:
    clock = FrameClock(container, stream)
    return _microseconds([clock.time_of(frame.pts, frame.time_base) for frame in Decoding(container, [stream])])


def _microseconds(times_s: list[float]) -> np.ndarray:
    return np.round(np.array(times_s, np.float64) * 1e6).astype(np.int64)


def _holds(times_us: np.ndarray, starts_us: np.ndarray) -> bool:
    """Whether a frame is shown at each of these times."""
    after = np.minimum(np.searchsorted(times_us, starts_us - _TOLERANCE_US), len(times_us) - 1)
    return bool((np.abs(times_us[after] - starts_us) <= _TOLERANCE_US).all())

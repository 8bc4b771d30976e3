"""Time stamps of frames that FFmpeg makes up, and what they should be.

Enters: decoded frames of a container, in order. Leaves: the same with the time at which they are shown or played.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from av import AudioFrame, VideoFrame
    from av.container import InputContainer
    from av.packet import Packet

_TOLERANCE_S = 0.02  # as where the mono track is made (mmlake/preprocess/sound.py)
# how far the stamps of bare frames may be off, by FFmpeg's names of containers; MP2 is an mp3. In MPEG-TS and MPEG-PS
# the first frame of some that come together has a stamp, and the others of less than half a second are counted
_GUESSED_S = dict.fromkeys(("mp3", "aac", "ac3", "eac3"), math.inf) | dict.fromkeys(("mpegts", "mpeg"), 0.5)


class Stamps:
    """When the pictures of a container are shown that has no times for that, or those of decoding, and when the sound
    of a chained Ogg file is played, whose clock begins anew with each stream in it, and that of frames without a
    container.

    AVI keeps packets in the order of decoding and their number alone. Where pictures are stored out of order (DivX,
    Xvid, H.264) the times of presentation that FFmpeg makes up go backwards; decoders give pictures in order, each with
    the time of the packet that it came with, which is what the program ffmpeg goes by as well. Some writers of MP4 and
    Matroska leave out when pictures are shown (MP4's table `ctts`), so that each has the time at which it is decoded:
    from the first one on that goes back, where the times of decoding did not, these are taken as in AVI.

    Bare frames (MP3, AAC, AC-3) have no times, and in MPEG-TS and MPEG-PS not each. FFmpeg counts them at the rate of
    the first one: behind a change of the rate, as where files were laid end to end, each frame begins where the one
    before ends.
    """

    def __init__(self, container: InputContainer) -> None:
        self._is_needed, self._last = container.format.name == "avi", -1
        self._shown, self._decoded, self._excess = -math.inf, -math.inf, 0  # of frames: the last times, and how much
        # more often that of presentation went back
        self._has_order = self._is_reordered = False
        self._is_ogg, self._guess_s = container.format.name == "ogg", _GUESSED_S.get(container.format.name, 0.0)
        self._before, self._end = 0, 0  # of a chained file: how long the streams before last, and the sound so far
        self._rate_hz, self._has_changed, self._end_s = 0, False, 0.0  # of guessed ones: the first rate, and their end

    def is_made_up(self, packet: Packet[Any]) -> bool:
        """Whether the packet's time of presentation is a guess."""
        if packet.stream.type != "video":
            return False
        differs = packet.pts != packet.dts
        self._has_order |= differs
        self._is_reordered |= bool(packet.stream.codec_context.has_b_frames)
        return self._is_needed and differs

    @property
    def are_of_decoding(self) -> bool:
        """Whether the packets that `is_made_up` was asked about are all shown when they are decoded, although pictures
        are stored out of order."""
        return self._is_reordered and not self._has_order

    def correct(self, frame: Any) -> None:
        """Set the time stamp of the next frame that the decoder gave, where it is a guess."""
        is_sound = not hasattr(frame, "pict_type")
        if self._is_ogg and is_sound:
            self._chain(frame)
        if self._guess_s and is_sound:
            self._count(frame)
        if is_sound or not (self._is_needed or self._goes_back(frame)):
            self._last = self._last if is_sound or frame.pts is None else frame.pts
            return
        if frame.dts is not None and frame.dts > self._last:
            frame.pts = frame.dts
        elif self._last >= 0:  # at the end no packet comes with it
            frame.pts = self._last + max(1, getattr(frame, "duration", 0) or 0)
        self._last = self._last if frame.pts is None else frame.pts

    def _goes_back(self, frame: VideoFrame) -> bool:
        """Whether times of presentation went back more often so far than those of decoding: on a clock that jumps both
        do."""
        if frame.pts is not None:
            self._excess += frame.pts < self._shown
            self._shown = frame.pts
        if frame.dts is not None:
            self._excess -= frame.dts < self._decoded
            self._decoded = frame.dts
        self._is_needed = self._excess > 0
        return self._is_needed

    def _chain(self, frame: AudioFrame) -> None:
        """Move a frame of sound behind the streams before its own."""
        if frame.pts is None or frame.time_base is None:
            return
        rate_hz = 1 / frame.time_base
        if frame.pts + self._before < self._end - _TOLERANCE_S * rate_hz:
            self._before = self._end - frame.pts
        frame.pts += self._before
        self._end = max(self._end, frame.pts + round(frame.samples * rate_hz / frame.sample_rate))

    def _count(self, frame: AudioFrame) -> None:
        """Let a bare frame behind a change of the rate begin where the one before ends."""
        if frame.time is None or frame.time_base is None:
            return
        self._rate_hz = self._rate_hz or frame.sample_rate
        self._has_changed |= frame.sample_rate != self._rate_hz
        start_s: float = frame.time
        if self._has_changed and abs(start_s - self._end_s) < self._guess_s:
            start_s, frame.pts = self._end_s, round(self._end_s / frame.time_base)
        self._end_s = start_s + frame.samples / frame.sample_rate

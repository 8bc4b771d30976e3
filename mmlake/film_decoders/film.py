"""What a film decoder has to know of a film, and what it gives: pictures.

A picture has the time stamp that the container gives it, on the clock of its stream, and its pixels as they are stored:
turned and stretched by whoever shows them.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mmlake.errors import UnreadableItem
from mmlake.film_decoders.turns import turn_of
from mmlake.media.decoders import frames, open_media, picture_stream

if TYPE_CHECKING:
    from av import VideoFrame


class Refused(Exception):
    """The row or its device cannot decode this film: the default row does it instead, and the row says why.

    code: 3111 to 3114 of the error catalogue. reason: our own words.
    """

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{code}: {reason}")
        self.code, self.reason = code, reason


@dataclass(frozen=True, kw_only=True, slots=True)
class Film:
    """A local film whose container was opened by the closed list of formats, and whose first picture decodes."""

    path: Path
    stream_index: int
    codec: str
    width_px: int  # as stored
    height_px: int
    rotation: int  # degrees that the picture is to be turned counter-clockwise: 0, 90, 180, 270
    is_mirrored: bool = False  # whether it is turned over, top to bottom, before that
    time_base: Fraction
    first_pts: int  # of the picture that is shown first

    @classmethod
    def of(cls, path: Path) -> Film:
        """Raises UnreadableItem 3001, 3003."""
        with open_media(path) as container:
            stream = picture_stream(container)
            first = next(iter(frames(container, stream)), None)
            if first is None or stream.time_base is None:
                raise UnreadableItem(3001, f"num_frames=0 of the {stream.codec_context.name} stream decode")
            rotation, is_mirrored = turn_of(first)
            return cls(
                path=path,
                stream_index=stream.index,
                codec=stream.codec_context.name,
                width_px=first.width,
                height_px=first.height,
                rotation=rotation,
                is_mirrored=is_mirrored,
                time_base=stream.time_base,
                first_pts=first.pts or 0,
            )

    def shrunk(self, shorter_px: int) -> tuple[int, int] | None:
        """(width, height) with its shorter side at most so long, both even as chroma wants them; None where it is."""
        scale = shorter_px / min(self.width_px, self.height_px)
        if scale >= 1:
            return None
        return max(2, round(self.width_px * scale / 2) * 2), max(2, round(self.height_px * scale / 2) * 2)


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture: as a frame of FFmpeg, or as RGB."""

    pts: int | None  # on the stream's clock
    duration: int  # likewise; 0 where unknown
    frame: VideoFrame | None
    rgb_HWC: np.ndarray | None = None  # uint8

    def as_frame(self, time_base: Fraction) -> VideoFrame:
        """A frame with its time stamp, in YUV."""
        import av

        if self.frame is not None:
            return self.frame
        assert self.rgb_HWC is not None
        frame = av.VideoFrame.from_ndarray(self.rgb_HWC, format="rgb24").reformat(format="yuv420p")
        frame.pts, frame.time_base, frame.duration = self.pts, time_base, self.duration
        return frame

    def as_rgb(self, size: tuple[int, int]) -> np.ndarray:
        """uint8 of that (width, height), shape (H, W, 3), shrunk and converted at once."""
        import av

        frame = self.frame
        if frame is None:
            assert self.rgb_HWC is not None
            if self.rgb_HWC.shape[1::-1] == size:
                return self.rgb_HWC
            frame = av.VideoFrame.from_ndarray(self.rgb_HWC, format="rgb24")
        small = frame.reformat(width=size[0], height=size[1], format="rgb24", interpolation="AREA")
        pixels: np.ndarray = small.to_ndarray()
        return pixels

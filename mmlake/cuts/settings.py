"""The settings of cutting."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from mmlake.errors import SettingsError
from mmlake.records import LATER

MEDIA = ("encode", "copy")
_LARGE_PIXELS = 11_000_000  # 3840 x 2160 has 8.3 million, and takes less than 1 GB
OF_CLIPS = ("media", "crf", "preset", "keyframe_every_frames", "sound_bitrate")  # what their bytes depend on


@dataclass(frozen=True, kw_only=True)
class CutSettings:
    """How clips and segments are cut."""

    media: str = "encode"
    # encode: exact to the frame. copy: the film's own packets, which costs no CPU and loses no quality, and begins at
    # the keyframe at or before the clip's start; the sample says how much earlier
    crf: int = 20
    # of libx264, 0 to 51, smaller is better; below its default of 23, for a second encoding shall cost little
    preset: str = "veryfast"
    # of libx264; `medium` takes twice the CPU and saves no bytes on grainy film (docs/decisions/0026)
    keyframe_every_frames: int = 30  # a trainer that reads frames by chance decodes at most so many for one
    sound_bitrate: int = 96_000  # of the AAC track, in bit/s; sound for training is its own member
    recordings_sound: bool = False
    # 16 kHz mono sound next to recordings too; the loader makes it from the medium, and both would nearly double MP3s
    denoiser: str = field(default="none", metadata=LATER)
    # row of DENOISERS (mmlake/speech/denoise.py) for the 16 kHz sound of samples whose speech is little above noise;
    # pictures, media and the lake's own tracks stay as they are
    denoiser_model: str = field(default="", metadata=LATER)
    # directory of the denoiser's weights
    denoise_below_db: float = field(default=10.0, metadata=LATER)
    # signal to noise; cleaner sound is left as it is
    workers: int = 2  # programs at the same time, each with one thread
    timeout_s: float = 1800.0  # of one clip
    memory_bytes: int = 2 << 30
    # of one program; 1280 x 720 takes 160 MB. Pictures of more than 11 megapixels have as much more as they are larger

    def __post_init__(self) -> None:
        if self.media not in MEDIA:
            raise SettingsError(f"cuts.media is {self.media!r}, expected one of {', '.join(MEDIA)}")
        if not 0 <= self.crf <= 51 or self.keyframe_every_frames < 1 or self.workers < 1 or self.timeout_s <= 0:
            raise SettingsError(
                f"cuts has crf={self.crf}, keyframe_every_frames={self.keyframe_every_frames}, workers={self.workers}, "
                f"timeout_s={self.timeout_s:g}; expected 0 <= crf <= 51, and the others above 0"
            )

    def of_picture(self, num_pixels: int) -> CutSettings:
        """The same, with the memory that a film of such pictures may take: H.264 of 7680 x 4320 takes 2.7 GB, HEVC of
        10 bit 3.4, with all frames that wait for others."""
        return replace(self, memory_bytes=max(self.memory_bytes, self.memory_bytes * num_pixels // _LARGE_PIXELS))

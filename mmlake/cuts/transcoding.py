"""Training renditions of films: one codec, one height, one rate, a keyframe every so often, in one MP4 each.

Enters: a local film. Leaves: an MP4 and, next to it, what it was made of and by what, written last: what is there and
sound is not made again.
"""

from __future__ import annotations

import dataclasses
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmlake.cuts.cache import Cut, commit, known
from mmlake.cuts.runner import FAILED, IS_X86, as_file, program_digest, run_ffmpeg
from mmlake.cuts.settings import CutSettings
from mmlake.durable import make_directory
from mmlake.errors import SettingsError, UnreadableItem
from mmlake.locks import waiting_lock
from mmlake.media.decoders import FORMATS, num_pixels, open_media, picture_stream, playable_sound
from mmlake.media.transport_clock import on_one_clock
from mmlake.records import canonical_json, digest_of

_FORMAT = 1  # counted up when the code makes other bytes of the same rendition and program
_ENCODERS = {"h264": "libx264", "hevc": "libx265"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Rendition:
    """How films are transcoded."""

    codec: str = "h264"
    # h264, which everything decodes, or hevc, which takes a third less room and three times the CPU
    height_px: int = 480
    # lower films keep their height; pixels become square
    frame_rate: float = 0.0
    # frames per second; 0 keeps the film's own times
    keyframe_every_frames: int = 30
    # a trainer that reads frames by chance decodes at most so many for one
    crf: int = 23
    # of the encoder, 0 to 51, smaller is better

    def __post_init__(self) -> None:
        if self.codec not in _ENCODERS:
            raise SettingsError(f"codec is {self.codec!r}, expected one of {', '.join(_ENCODERS)}")
        if self.height_px < 16 or self.frame_rate < 0 or self.keyframe_every_frames < 1 or not 0 <= self.crf <= 51:
            raise SettingsError(
                f"rendition has height_px={self.height_px}, frame_rate={self.frame_rate:g}, "
                f"keyframe_every_frames={self.keyframe_every_frames}, crf={self.crf}; expected 16 or more, 0 or more, "
                "1 or more, 0 to 51"
            )


def transcoded(film: Path, digest: str, folder: Path, rendition: Rendition, *, settings: CutSettings) -> Cut:
    """The rendition in the folder; it is made where it is not there, or is not what was written. digest: of the film.
    Raises UnreadableItem 3001, 3003, 3102, 3103, 3303."""
    asked = dataclasses.asdict(rendition) | {"sound_bitrate": settings.sound_bitrate, "preset": settings.preset}
    made_by = {"format": _FORMAT, "program": program_digest()}
    key = digest_of(canonical_json(asked | made_by).encode())[:16]
    path = folder / digest[:2] / f"{digest}-{key}.mp4"
    make_directory(path.parent)
    with waiting_lock(path.parent / "lock"):
        if (there := known(path)) is not None:
            return there
        part = path.parent / f"{secrets.token_hex(8)}.part"
        try:
            limits = settings.of_picture(num_pixels(film))
            with on_one_clock(film) as readable:
                run_ffmpeg(_graph(readable, part, rendition, settings), settings=limits, what="the film")
            facts = {"source_digest": digest, "rendition": asked, "made_by": made_by} | _facts(part)
            return commit(part, path, facts)
        finally:
            part.unlink(missing_ok=True)


def _graph(film: Path, out: Path, rendition: Rendition, settings: CutSettings) -> Any:
    """From the streams that a player shows, placed by their time stamps."""
    import ffmpeg

    with open_media(film) as container:
        picture, sound = picture_stream(container).index, playable_sound(container)
        sound_index, num_channels = (None, 0) if sound is None else (sound.index, sound.channels)
    source = ffmpeg.input(as_file(film), threads=1, format_whitelist=FORMATS, protocol_whitelist="file,pipe")
    frames = source[str(picture)].filter("scale", "trunc(iw*sar/2)*2", "trunc(ih/2)*2").filter("setsar", 1)
    frames = frames.filter("scale", -2, f"min({rendition.height_px // 2 * 2},ih)")
    if rendition.frame_rate:
        frames = frames.filter("fps", rendition.frame_rate)
    nodes = [frames]
    options: dict[str, Any] = {"fps_mode": "passthrough", "enc_time_base:v": "demux"}
    if rendition.frame_rate:
        options = {"fps_mode": "cfr"}
    if sound_index is not None:
        nodes.append(source[str(sound_index)].filter("aresample", 48_000, **{"async": 1, "first_pts": 0}))
        options |= {"c:a": "aac", "b:a": settings.sound_bitrate, "ac": min(2, num_channels)}
    options |= {"c:v": _ENCODERS[rendition.codec], "crf": rendition.crf, "preset": settings.preset}
    options |= {"g": rendition.keyframe_every_frames, "pix_fmt": "yuv420p", "flags": "+bitexact"}
    if rendition.codec == "h264" and IS_X86:
        options["x264-params"] = "asm=sse4.2"
    if rendition.codec == "hevc":
        options |= {"x265-params": "log-level=error:pools=1:frame-threads=1", "tag:v": "hvc1"}
    plain = {"map_metadata": -1, "map_chapters": -1, "fflags": "+bitexact", "movflags": "+faststart", "threads": 1}
    return ffmpeg.output(*nodes, as_file(out), format="mp4", protocol_whitelist="file", **plain, **options)


def _facts(made: Path) -> dict[str, Any]:
    """Counted in the rendition itself, without decoding it."""
    with open_media(made) as container:
        stream = picture_stream(container)
        num_frames = sum(1 for packet in container.demux(stream) if packet.size)
        if not num_frames:
            raise UnreadableItem(FAILED, "num_frames=0 in the rendition, expected some")
        return {
            "num_frames": num_frames,
            "width_px": stream.width,
            "height_px": stream.height,
            "duration_s": (container.duration or 0) / 1e6,
        }

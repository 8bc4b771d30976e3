"""A small rendition of a film, for pages that people read. Never a training sample."""

from __future__ import annotations

import tempfile
from pathlib import Path

from mmlake.cuts.runner import as_file, run_ffmpeg
from mmlake.cuts.settings import CutSettings
from mmlake.media.decoders import FORMATS, num_pixels

_PREVIEW_HEIGHT_PX = 240  # at most


def preview(film: bytes, *, settings: CutSettings) -> bytes:
    """The film as a small MP4 of H.264 and AAC, with the times of its frames. Raises UnreadableItem 3001,
    3003, 3102, 3103, 3303."""
    import ffmpeg

    with tempfile.TemporaryDirectory(prefix="mmlake-") as folder:
        given, made = Path(folder) / "film", Path(folder) / "preview.mp4"
        given.write_bytes(film)
        source = ffmpeg.input(as_file(given), threads=1, format_whitelist=FORMATS, protocol_whitelist="file,pipe")
        graph = ffmpeg.output(
            source,
            as_file(made),
            format="mp4",
            vf=f"scale=-2:'min({_PREVIEW_HEIGHT_PX},trunc(ih/2)*2)'",
            vcodec="libx264",
            preset="veryfast",
            crf=30,
            pix_fmt="yuv420p",
            fps_mode="passthrough",
            acodec="aac",
            ac=1,
            audio_bitrate="48k",
            map_metadata=-1,
            fflags="+bitexact",
            movflags="+faststart",
            threads=1,
        )
        run_ffmpeg(graph, settings=settings.of_picture(num_pixels(given)), what="the film")
        return made.read_bytes()

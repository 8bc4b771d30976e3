"""Audio files: one decode to a sound track and the facts of the stream."""

from __future__ import annotations

from pathlib import Path

from mmlake.errors import UnreadableItem
from mmlake.preprocess.container import Decoding, check_complete, opened
from mmlake.preprocess.settings import PreprocessSettings
from mmlake.preprocess.sound import SoundWriter, check_bounds


def audio_track(path: Path, *, settings: PreprocessSettings) -> tuple[dict[str, object], bytes]:
    """(the sound columns of a track, FLAC bytes). Raises UnreadableItem 3001, 3002, 3003, 3005, 3006, 3007,
    3009."""
    with opened(path) as container:
        if not container.streams.audio:
            raise UnreadableItem(3003, f"num_audio_streams=0 of {len(container.streams)} streams not in [1, inf)")
        stream = container.streams.audio[0]
        codec = stream.codec_context.name if stream.codec_context else "unknown"
        container_s = container.duration / 1e6 if container.duration is not None else None
        check_bounds(stream, container_s, settings=settings)  # before anything is decoded
        decoding = Decoding(container, [stream])
        with SoundWriter(origin_s=(container.start_time or 0) / 1e6, settings=settings) as writer:
            for frame in decoding:
                writer.add(frame)  # type: ignore[arg-type]
            sound = writer.finish()
    if sound is None:
        raise UnreadableItem(3001, f"num_samples=0 of {decoding.num_packets} {codec} packets decoded")
    flac, duration_s = sound
    num_errors = decoding.num_errors + writer.num_dropped
    check_complete(
        decoded_s=duration_s,
        container_s=container_s,
        num_errors=num_errors,
        num_packets=decoding.num_packets,
        settings=settings,
    )
    columns: dict[str, object] = {
        "duration_s": duration_s,
        "container_duration_s": container_s,
        "audio_codec": codec,
        "sample_rate_hz": writer.sample_rate_hz,
        "num_channels": writer.num_channels,
        "num_decode_errors": num_errors,
    }
    return columns, flac

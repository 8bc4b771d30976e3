"""Audio files: one decode to a sound track and the facts of the stream."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mmlake.decoders import sound_stream
from mmlake.errors import UnreadableItem
from mmlake.preprocess.containers.bare_streams import check_bytes, is_without_length
from mmlake.preprocess.containers.container import Decoding, check_complete, check_decrypted, claimed_s, opened
from mmlake.preprocess.damage import MD5_AT_BYTE, Damages, FlacCheck, StreamInfo, add_bad_pages
from mmlake.preprocess.settings import PreprocessSettings
from mmlake.preprocess.sound import SoundWriter, check_bounds, check_duration

if TYPE_CHECKING:
    from av.audio.stream import AudioStream
    from av.container import InputContainer

_BLOCK_SAMPLES = 1 << 16


@dataclass(slots=True)
class _Recording:
    """What one decode of a recording gave."""

    sound: tuple[bytes, float] | None  # FLAC bytes, duration
    writer: SoundWriter
    num_packets: int = 0
    num_errors: int = 0
    num_bytes: int = 0  # that decode
    damages: Damages = field(default_factory=Damages)


def audio_track(path: Path, *, settings: PreprocessSettings) -> tuple[dict[str, object], bytes]:
    """(the sound columns of a track, FLAC bytes). Raises UnreadableItem 3001, 3002, 3003, 3005, 3006, 3007,
    3009, 3010."""
    with opened(path) as container:
        if (stream := sound_stream(container)) is None:
            raise UnreadableItem(3003, f"num_audio_streams=0 of {len(container.streams)} streams not in [1, inf)")
        codec = stream.codec_context.name
        container_s, is_bare = claimed_s(container), is_without_length(container)
        check_bounds(stream, container_s, settings=settings)  # before anything is decoded
        info = StreamInfo.of(stream) if container.format.name == "flac" else None
        found = None
        if info is not None and not info.has_one_block_size:
            found = _of_blocks(path, info, settings)
        if found is None:
            found = _of_frames(container, stream, info, settings)
    num_bad_pages = add_bad_pages(found.damages, path, codec=codec, rate_hz=found.writer.sample_rate_hz)
    if found.sound is None:
        raise UnreadableItem(3001, f"num_samples=0 of {found.num_packets} {codec} packets decoded")
    flac, duration_s = found.sound
    if is_bare:
        check_bytes(path, found.num_bytes, settings=settings)
    check_complete(
        decoded_s=duration_s,
        container_s=container_s,
        num_errors=found.num_errors,
        num_packets=found.num_packets,
        num_bad_pages=num_bad_pages,
        settings=settings,
    )
    columns: dict[str, object] = {
        "duration_s": duration_s,
        "container_duration_s": container_s,
        "audio_codec": codec,
        "sample_rate_hz": found.writer.sample_rate_hz,
        "num_channels": found.writer.num_channels,
        "num_decode_errors": found.num_errors,
        "damages": found.damages.column(),
    }
    return columns, flac


def _of_frames(
    container: InputContainer, stream: AudioStream, info: StreamInfo | None, settings: PreprocessSettings
) -> _Recording:
    """By FFmpeg, each frame at its time."""
    origin_s = (container.start_time or 0) / 1e6
    decoding = Decoding(container, [stream], origin_s=origin_s)
    check = None if info is None else FlacCheck(info)
    with SoundWriter(origin_s=origin_s, settings=settings) as writer:
        for frame in decoding:
            writer.add(frame)  # type: ignore[arg-type]
            if check is not None:
                check.add_frame(frame, decoding.damages, origin_s=origin_s)  # type: ignore[arg-type]
        sound = writer.finish()
    check_decrypted("audio", num_encrypted=decoding.num_encrypted, packets=decoding.packets, settings=settings)
    if check is not None and not decoding.damages.places and not check.holds():
        decoding.damages.add("the sound is not the one that the MD5 in the header is of", at_byte=MD5_AT_BYTE)
    writer.add_dropped(decoding.damages)
    num_errors = decoding.errors.total() + writer.num_dropped
    return _Recording(sound, writer, decoding.packets.total(), num_errors, decoding.num_bytes, decoding.damages)


def _of_blocks(path: Path, info: StreamInfo, settings: PreprocessSettings) -> _Recording | None:
    """By libFLAC, in the order of the file: FFmpeg takes the number of a sample for that of a frame where blocks of
    old files differ in length. None where that does not give the sound that the header's MD5 is of."""
    import soundfile

    check = FlacCheck(info)
    try:
        with soundfile.SoundFile(path) as source, SoundWriter(origin_s=0.0, settings=settings) as writer:
            check_duration(source.frames / source.samplerate, settings=settings)
            for block in source.blocks(blocksize=_BLOCK_SAMPLES, dtype="int32", always_2d=True):
                check.add(block)
                writer.add_samples(block.mean(axis=1, dtype=np.float32) / 2**31, source.samplerate, source.channels)
            sound = writer.finish()
    except soundfile.LibsndfileError:
        return None
    return _Recording(sound, writer) if check.holds() else None

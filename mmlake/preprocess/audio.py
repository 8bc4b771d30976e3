"""Audio files: one decode to a sound track and the facts of the stream."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mmlake.errors import UnreadableItem
from mmlake.media import ogg_pages
from mmlake.media.decoders import one_page_sound, open_link, sound_stream
from mmlake.media.sound_codecs import without_sound
from mmlake.media.sound_conversion import mixed
from mmlake.preprocess.containers.bare_streams import check_bytes, is_without_length
from mmlake.preprocess.containers.container import (
    Decoding,
    check_complete,
    check_decrypted,
    claimed_s,
    opened,
)
from mmlake.preprocess.containers.framing import missing_bytes
from mmlake.preprocess.containers.later_files import add_later_file
from mmlake.preprocess.containers.misread_sound import is_misread
from mmlake.preprocess.containers.stream_clocks import check_clock, is_of_a_counter
from mmlake.preprocess.damage import MD5_AT_BYTE, Damages, FlacCheck, StreamInfo, add_bad_pages, add_pages
from mmlake.preprocess.outputs import Output, Outputs
from mmlake.preprocess.settings import PreprocessSettings
from mmlake.preprocess.sound import SoundWriter, check_bounds, check_duration
from mmlake.streams import Slice

if TYPE_CHECKING:
    from av.audio.stream import AudioStream
    from av.container import InputContainer

_BLOCK_SAMPLES = 1 << 16
_LOST_LINK = (3001, 3002, 3003)  # of one link of a chain, whose others are read


@dataclass(slots=True)
class _Recording:
    """What one decode of a recording gave."""

    sound: tuple[Output, float] | None  # FLAC, duration
    writer: SoundWriter
    codec: str
    container_s: float | None = None
    num_bad_pages: int = 0
    num_packets: int = 0
    num_errors: int = 0
    num_bytes: int = 0  # that decode
    damages: Damages = field(default_factory=Damages)


def audio_track(
    path: Path, *, settings: PreprocessSettings, outputs: Outputs | None = None
) -> tuple[dict[str, object], Output]:
    """(the sound columns of a track, FLAC). Raises UnreadableItem 3001, 3002, 3003, 3005, 3006, 3007, 3009 to 3012.

    outputs: of the item; in memory where there are none."""
    outputs = outputs or Outputs()
    with path.open("rb") as file:
        links = ogg_pages.links(file)
    found = _of_links(path, links, settings, outputs) if len(links) > 1 else _of_file(path, settings, outputs)
    if found.sound is None:
        raise UnreadableItem(3001, f"num_samples=0 of {found.num_packets} {found.codec} packets decoded")
    flac, duration_s = found.sound
    add_later_file(found.damages, path, at_s=duration_s, settings=settings)
    check_complete(
        decoded_s=duration_s,
        container_s=found.container_s,
        num_errors=found.num_errors,
        num_packets=found.num_packets,
        num_bad_pages=found.num_bad_pages,
        settings=settings,
    )
    columns: dict[str, object] = {
        "duration_s": duration_s,
        "container_duration_s": found.container_s,
        "audio_codec": found.codec,
        "sample_rate_hz": found.writer.sample_rate_hz,
        "num_channels": found.writer.num_channels,
        "num_decode_errors": found.num_errors,
        "damages": found.damages.column(),
    }
    return columns, flac


def _of_file(path: Path, settings: PreprocessSettings, outputs: Outputs) -> _Recording:
    with opened(path) as container:
        stream = _sound(container, path)
        container_s, is_bare = claimed_s(container), is_without_length(container)
        # before anything is decoded
        is_other = is_misread(path, stream)
        is_unsure = is_other or is_of_a_counter(container)
        check_bounds(stream, None if is_unsure else container_s, settings=settings)
        info = StreamInfo.of(stream) if container.format.name == "flac" else None
        found = None
        if is_other:
            found = _as_written(path, stream.codec_context.name, settings, outputs)
        elif info is not None and not info.has_one_block_size:
            found = _of_blocks(path, info, settings, outputs)
        elif stream.codec_context.name == "vorbis" and container.format.name == "ogg":
            found = _of_page(path, settings, outputs)
        if found is None:
            found = _of_frames(path, container, stream, info, settings, outputs)
    found.container_s = None if is_other else container_s
    found.num_bad_pages = add_bad_pages(found.damages, path, codec=found.codec, rate_hz=found.writer.sample_rate_hz)
    if is_bare and found.sound is not None:
        check_bytes(path, found.num_bytes, settings=settings)
    return found


def _sound(container: InputContainer, path: Path) -> AudioStream:
    """Raises UnreadableItem 3001, 3003."""
    if (stream := sound_stream(container)) is None:
        raise without_sound(container, path)
    return stream


def _of_page(path: Path, settings: PreprocessSettings, outputs: Outputs) -> _Recording | None:
    with path.open("rb") as file:
        page = one_page_sound(file)
    if page is None:
        return None
    with SoundWriter(origin_s=0.0, settings=settings, outputs=outputs) as writer:
        _add_page(page, writer)
        return _Recording(writer.finish(), writer, codec="vorbis")


def _add_page(page: tuple[np.ndarray, int], writer: SoundWriter) -> None:
    samples, rate_hz = page
    if len(samples):
        writer.add_samples(mixed(np.nan_to_num(samples)), rate_hz, samples.shape[1])


def _of_links(path: Path, links: list[ogg_pages.Link], settings: PreprocessSettings, outputs: Outputs) -> _Recording:
    """A chained Ogg file link by link, each behind the ones before. Raises UnreadableItem 3001 where none decodes, 3002
    where too few of the bytes are in links that do, 3007 and 3009."""
    if shortfall := missing_bytes(path):
        raise UnreadableItem(3002, shortfall)
    lost, lost_bytes = "", 0
    with SoundWriter(origin_s=0.0, settings=settings, outputs=outputs) as writer:
        found = _Recording(None, writer, codec="")
        for number, link in enumerate(links, 1):
            try:
                _add_link(found, path, link, settings)
            except UnreadableItem as error:
                place = f"stream {number} of {len(links)} in a chained Ogg file: {error.reason}"
                if error.code not in _LOST_LINK:
                    raise UnreadableItem(error.code, place) from error
                found.damages.add(place, at_s=writer.next_stream(origin_s=0.0), at_byte=link.at_byte)
                lost, lost_bytes = lost or place, lost_bytes + link.size_bytes
        found.sound = writer.finish()
    writer.add_dropped(found.damages)
    found.num_errors += writer.num_dropped
    size_bytes = sum(link.size_bytes for link in links)
    low = settings.min_decoded_fraction
    if lost_bytes > (1 - low) * size_bytes:
        fraction = f"decoded_fraction={1 - lost_bytes / size_bytes:.3f} of {size_bytes} bytes not in [{low:g}, 1]"
        raise UnreadableItem(3002 if found.sound else 3001, f"{fraction}; {lost}")
    return found


def _add_link(found: _Recording, path: Path, link: ogg_pages.Link, settings: PreprocessSettings) -> None:
    """Raises UnreadableItem 3001, 3003 where nothing of it decodes, 3006, 3007, 3009."""
    writer = found.writer
    with open_link(path, link) as container:
        stream = _sound(container, path)
        codec, rate_hz, container_s = stream.codec_context.name, stream.codec_context.sample_rate, claimed_s(container)
        check_bounds(stream, container_s, settings=settings)
        origin_s = (container.start_time or 0) / 1e6
        start_s = writer.next_stream(origin_s=origin_s)
        decoding = Decoding(container, [stream], origin_s=origin_s)
        with path.open("rb") as file:
            page = one_page_sound(Slice(file, link.at_byte, link.size_bytes)) if codec == "vorbis" else None
        if page is not None:
            _add_page(page, writer)
        for frame in decoding if page is None else ():
            writer.add(frame)  # type: ignore[arg-type]
    decoded_s = writer.next_stream(origin_s=0.0) - start_s
    num_packets, damages = decoding.packets.total(), decoding.damages
    with path.open("rb") as file:
        part = Slice(file, link.at_byte, link.size_bytes)
        found.num_bad_pages += add_pages(damages, part, codec=codec, rate_hz=rate_hz, origin_s=origin_s)
    found.damages.add_all(damages, at_s=start_s, at_byte=link.at_byte)
    found.codec = found.codec or codec
    found.container_s = (found.container_s or 0.0) + (decoded_s if container_s is None else container_s)
    found.num_packets += num_packets
    found.num_errors += decoding.errors.total()
    if num_packets and not decoded_s:
        raise UnreadableItem(3001, f"num_samples=0 of {num_packets} {codec} packets decoded")
    if not damages.places:
        check_complete(
            decoded_s=decoded_s, container_s=container_s, num_errors=0, num_packets=num_packets, settings=settings
        )


def _of_frames(
    path: Path,
    container: InputContainer,
    stream: AudioStream,
    info: StreamInfo | None,
    settings: PreprocessSettings,
    outputs: Outputs,
) -> _Recording:
    """By FFmpeg, each frame at its time."""
    origin_s = (container.start_time or 0) / 1e6
    decoding = Decoding(container, [stream], origin_s=origin_s)
    check = None if info is None else FlacCheck(info)
    with SoundWriter(origin_s=origin_s, settings=settings, outputs=outputs) as writer:
        for frame in decoding:
            writer.add(frame)  # type: ignore[arg-type]
            if check is not None:
                check.add_frame(frame, decoding.damages, origin_s=origin_s)  # type: ignore[arg-type]
        sound = writer.finish()
    check_decrypted("audio", num_encrypted=decoding.num_encrypted, packets=decoding.packets, settings=settings)
    check_clock(path, decoding.clocks, decoding.num_astray, decoding.packets, settings=settings)
    if check is not None and not decoding.damages.places and not check.holds():
        decoding.damages.add("the sound is not the one that the MD5 in the header is of", at_byte=MD5_AT_BYTE)
    writer.add_dropped(decoding.damages)
    num_errors = decoding.errors.total() + writer.num_dropped
    return _Recording(
        sound,
        writer,
        codec=stream.codec_context.name,
        num_packets=decoding.packets.total(),
        num_errors=num_errors,
        num_bytes=decoding.num_bytes,
        damages=decoding.damages,
    )


def _as_written(path: Path, codec: str, settings: PreprocessSettings, outputs: Outputs) -> _Recording | None:
    """By libsndfile; None where it does not read it either."""
    import soundfile

    try:
        with (
            soundfile.SoundFile(path) as source,
            SoundWriter(origin_s=0.0, settings=settings, outputs=outputs) as writer,
        ):
            check_duration(source.frames / source.samplerate, settings=settings)
            while len(block := source.read(_BLOCK_SAMPLES, dtype="float32", always_2d=True)):
                writer.add_samples(mixed(np.nan_to_num(block)), source.samplerate, source.channels)
            return _Recording(writer.finish(), writer, codec=codec)
    except soundfile.LibsndfileError:
        return None


def _of_blocks(path: Path, info: StreamInfo, settings: PreprocessSettings, outputs: Outputs) -> _Recording | None:
    """By libFLAC, in the order of the file: FFmpeg takes the number of a sample for that of a frame where blocks of
    old files differ in length. None where that does not give the sound that the header's MD5 is of."""
    import soundfile

    check = FlacCheck(info)
    try:
        with (
            soundfile.SoundFile(path) as source,
            SoundWriter(origin_s=0.0, settings=settings, outputs=outputs) as writer,
        ):
            check_duration(source.frames / source.samplerate, settings=settings)
            for block in source.blocks(blocksize=_BLOCK_SAMPLES, dtype="int32", always_2d=True):
                check.add(block)
                writer.add_samples(mixed(block.astype(np.float32) / 2**31), source.samplerate, source.channels)
            sound = writer.finish()
    except soundfile.LibsndfileError:
        return None
    return _Recording(sound, writer, codec="flac") if check.holds() else None

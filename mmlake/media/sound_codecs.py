"""Why a container gives no sound: it has no stream of sound, or one in a codec that has no decoder here.

Enters: a file, and it as a container that `sound_stream` found nothing in. Leaves: the fault that says which, and what
to make of the file. Nothing is decoded.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from mmlake.errors import UnreadableItem
from mmlake.media.wav_chunks import wav_chunks

if TYPE_CHECKING:
    from av.container import InputContainer

# of the Ogg Vorbis codec for Windows: modes 1 to 3, and the same with another packing of blocks ("+")
_VORBIS_TAGS: Final = frozenset((0x674F, 0x6750, 0x6751, 0x676F, 0x6770, 0x6771))
_OGG: Final = b"OggS"


def without_sound(container: InputContainer, path: Path) -> UnreadableItem:
    """The fault of a file without a stream of sound that can be decoded: 3001 where there is one in another codec, 3003
    where there is none."""
    num_streams, num_audio = len(container.streams), len(container.streams.audio)
    if not num_audio:
        return UnreadableItem(3003, f"num_audio_streams=0 of {num_streams} streams not in [1, inf)")
    if container.format.name == "wav":
        return UnreadableItem(3001, _wav_reason(path))
    return UnreadableItem(
        3001,
        f"num_decoders=0 of {num_audio} audio streams in {container.format.name} not in [1, inf): a codec that is not "
        "read; convert the sound at its source, to FLAC or Opus",
    )


def _wav_reason(path: Path) -> str:
    tag, remedy = 0, "convert it to FLAC or Ogg with the program that wrote it"
    size = path.stat().st_size
    with path.open("rb") as file:
        for chunk in wav_chunks(file, size):
            file.seek(chunk.start_byte)
            if chunk.name == b"fmt ":
                tag = int.from_bytes(file.read(2), "little")
            elif chunk.name == b"data" and file.read(len(_OGG)) == _OGG:
                num_bytes = min(chunk.end_byte, size) - chunk.start_byte
                remedy = f"save the num_bytes={num_bytes} from byte {chunk.start_byte} on as .ogg, which they are"
            if chunk.name == b"data":
                break
    kind = "Vorbis in a WAV" if tag in _VORBIS_TAGS else "a codec"
    return f"format_tag=0x{tag:04x}: {kind}, which has no decoder here; {remedy}"

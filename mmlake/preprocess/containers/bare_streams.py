"""Streams that no header says the length of: MP3 without a count of frames in its first one, what was written to a pipe
(AIFF, AVI, ASF), ADTS, AC-3, AMR, and bare video.

What FFmpeg says of them is the size of the file over the bits that the first frames take, several times too much where
a recording begins in silence. So sound is whole where nearly all of its bytes decode.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import IO, TYPE_CHECKING

from mmlake.errors import UnreadableItem
from mmlake.media.id3 import ID3_BYTES, id3_bytes
from mmlake.preprocess.settings import PreprocessSettings

if TYPE_CHECKING:
    from av.container import InputContainer

_BARE = frozenset(("aac", "ac3", "eac3", "amr", "h264", "hevc", "mpegvideo"))  # by FFmpeg's names
_AIFF_OF_A_PIPE = 0x7F00_0000  # bytes that SoX declares where it cannot go back to the header
_FRAMES_OF_A_PIPE = 1 << 30  # of AVI, as FFmpeg writes it
# ASF's File Properties Object; of a broadcast, duration and number of packets are not valid (ASF 01.20.06, section 3.2)
_ASF_PROPERTIES, _IS_BROADCAST = bytes.fromhex("a1dcab8c47a9cf118ee400c00c205365"), 1
_ASF_HEAD_BYTES = 65_536
_LEAST_MISSING_BYTES = 4_096  # of a short file a few frames at the end are much
_COUNTED_FRACTION = 0.99  # of an MP3 that its first frame counts; encoders disagree on whether it takes in the tags
_ID3V1_BYTES, _APE_BYTES, _APE_HAS_HEADER = 128, 32, 1 << 31


def is_without_length(container: InputContainer) -> bool:
    """Whether no header says how long it is."""
    if container.format.name == "mp3":
        with open(container.name, "rb") as file:
            return not mp3_header(file)[2] & 1 or _has_more(file)
    if container.format.name == "aiff":
        with open(container.name, "rb") as file:
            return int.from_bytes(file.read(8)[4:], "big") >= _AIFF_OF_A_PIPE
    return container.format.name in _BARE


def is_of_a_pipe(container: InputContainer) -> bool:
    """Whether what its header says of length and number of frames was written before anything was known: AVI and ASF
    whose writer could not go back."""
    if container.format.name == "avi":
        return any(stream.frames == _FRAMES_OF_A_PIPE for stream in container.streams)
    if container.format.name == "asf":
        with open(container.name, "rb") as file:
            head = file.read(_ASF_HEAD_BYTES)
        at = head.find(_ASF_PROPERTIES)
        return at >= 0 and bool(int.from_bytes(head[at + 88 : at + 92], "little") & _IS_BROADCAST)
    return False


def mp3_header(file: IO[bytes]) -> tuple[int, bytes, int]:
    """(where the first frame begins; its Xing, Info or VBRI header; what that says, 1 for frames, 2 for bytes)."""
    start = _behind_tags(file)
    file.seek(start)
    frame = file.read(200)
    if frame[36:40] == b"VBRI":
        return start, frame[36:], 1
    at = max(frame.find(b"Xing"), frame.find(b"Info"))
    if at < 0 or len(frame) < at + 16:
        return start, b"", 0
    return start, frame[at:], struct.unpack(">I", frame[at + 4 : at + 8])[0]


def _has_more(file: IO[bytes]) -> bool:
    """Whether an MP3 goes on behind the bytes that its first frame counts, as where files were laid end to end."""
    start, header, flags = mp3_header(file)
    if not flags & 2:
        return False
    declared: int = struct.unpack(">I", header[8 + 4 * (flags & 1) :][:4])[0]
    present: int = file.seek(0, 2) - start - _tag_bytes(file)
    return declared < present * _COUNTED_FRACTION and present - declared > _LEAST_MISSING_BYTES


def _behind_tags(file: IO[bytes]) -> int:
    """Where the ID3v2 tags at the start end: programs put theirs before those of others, and covers are megabytes."""
    start = 0
    while True:
        file.seek(start)
        if not (length := id3_bytes(file.read(ID3_BYTES))):
            return start
        start += length


def check_bytes(path: Path, decoded_bytes: int, *, settings: PreprocessSettings) -> None:
    """Raises UnreadableItem 3002 where fewer bytes decode than `min_decoded_fraction` of those that are no tags."""
    with path.open("rb") as file:
        present = path.stat().st_size - mp3_header(file)[0] - _tag_bytes(file)
    low = settings.min_decoded_fraction
    if decoded_bytes < low * present and present - decoded_bytes > _LEAST_MISSING_BYTES:
        fraction = f"decoded_fraction={decoded_bytes / present:.3f}"
        raise UnreadableItem(3002, f"{fraction} ({decoded_bytes} of {present} bytes) not in [{low:g}, inf)")


def _tag_bytes(file: IO[bytes]) -> int:
    """Of an ID3v1 and an APE tag at the end."""
    size = file.seek(0, 2)
    file.seek(max(0, size - _ID3V1_BYTES))
    found = _ID3V1_BYTES if file.read(3) == b"TAG" else 0
    file.seek(max(0, size - found - _APE_BYTES))
    footer = file.read(_APE_BYTES)
    if len(footer) == _APE_BYTES and footer[:8] == b"APETAGEX":
        length, _, flags = struct.unpack("<III", footer[12:24])
        found += length + (_APE_BYTES if flags & _APE_HAS_HEADER else 0)
    return min(found, size)

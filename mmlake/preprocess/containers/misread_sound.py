"""Forms of sound that FFmpeg takes for others, and that libsndfile reads as they were written.

G.721 and G.723 in WAV and AU come too loud and distorted; GSM 06.10 in AIFF is said to last 160 times too long;
integers of 24 bits that lie in 32 (WAVE_FORMAT_EXTENSIBLE, as Windows records them) are taken for floats of an old
editor.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from av.audio.stream import AudioStream

_MISREAD = frozenset((("wav", "g726"), ("au", "g726le"), ("aiff", "gsm")))  # (container, codec), by FFmpeg's names
_PADDED = "pcm_f24le"  # as FFmpeg takes 24 bits in 32
_HEAD_BYTES, _EXTENSIBLE = 65_536, b"\xfe\xff"  # of a WAV, whose format may stand behind other chunks; its tag


def is_misread(path: Path, stream: AudioStream) -> bool:
    """Whether FFmpeg reads something else than what was written."""
    codec = stream.codec_context.name
    if codec != _PADDED:
        return (stream.container.format.name, codec) in _MISREAD
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    at = head.find(b"fmt ")
    return at >= 0 and head[at + 8 : at + 10] == _EXTENSIBLE

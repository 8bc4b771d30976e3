"""Tags of ID3v2 (id3.org, 2.4.0, section 3), which stand before the sound of MP3 and AAC, and within where files were
laid end to end."""

from __future__ import annotations

ID3_BYTES = 10  # of the head of a tag
_HAS_FOOTER = 0x10


def id3_bytes(head: bytes) -> int:
    """How long the tag is that begins there, its head and its copy behind it included; 0 where none does."""
    if len(head) < ID3_BYTES or head[:3] != b"ID3":
        return 0
    size = head[6] << 21 | head[7] << 14 | head[8] << 7 | head[9]
    return ID3_BYTES + size + (ID3_BYTES if head[5] & _HAS_FOOTER else 0)

"""The smallest sound and film that are recognised by their bytes."""

from __future__ import annotations

import struct


def sound() -> bytes:
    data = bytes(16)
    return (
        b"RIFF"
        + struct.pack("<I", 36 + len(data))
        + b"WAVEfmt "
        + struct.pack("<IHHIIHH", 16, 1, 1, 8000, 16000, 2, 16)
        + b"data"
        + struct.pack("<I", len(data))
        + data
    )


def film() -> bytes:
    def box(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", 8 + len(body)) + name + body

    return box(b"ftyp", b"isom\0\0\2\0isom") + box(
        b"moov", box(b"trak", box(b"mdia", box(b"hdlr", bytes(8) + b"vide" + bytes(13))))
    )

"""Zips made field by field, so that any of them can say something else than the others."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Made:
    """One member. What is None follows from the others."""

    name: bytes
    data: bytes = b""
    method: int = 0
    flags: int = 0
    size: int | None = None  # as both headers say
    crc: int | None = None
    packed: bytes | None = None
    extra: bytes = b""  # of the entry in the directory
    mode: int = 0o100644
    # fields of the header before the bytes that differ: name, method, flags, crc, packed_size, size
    header: dict[str, Any] | None = None
    at: int | None = None  # where the directory says that the header stands
    packed_size: int | None = None  # as the directory says
    behind: bytes = b""  # between its bytes and the next member


def made(*members: Made, end: dict[str, int] | None = None, comment: bytes = b"", tail: bytes = b"") -> bytes:
    """A zip of these members; `end` changes fields of the end record: entries, size, offset, comment."""
    body, directory = b"", b""
    for member in members:
        packed = _packed(member)
        crc = zlib.crc32(member.data) if member.crc is None else member.crc
        size = len(member.data) if member.size is None else member.size
        said = {
            "name": member.name,
            "method": member.method,
            "flags": member.flags,
            "crc": crc,
            "packed_size": len(packed),
            "size": size,
        } | (member.header or {})
        at = len(body) if member.at is None else member.at
        body += (
            struct.pack(
                "<4s5H3L2H",
                b"PK\3\4",
                20,
                said["flags"],
                said["method"],
                0,
                33,
                said["crc"],
                said["packed_size"],
                said["size"],
                len(said["name"]),
                0,
            )
            + said["name"]
        )
        body += packed + member.behind
        length = len(packed) if member.packed_size is None else member.packed_size
        directory += struct.pack(
            "<4s6H3L5H2L",
            b"PK\1\2",
            3 << 8 | 20,
            20,
            member.flags,
            member.method,
            0,
            33,
            crc,
            length,
            size,
            len(member.name),
            len(member.extra),
            0,
            0,
            0,
            member.mode << 16,
            at,
        )
        directory += member.name + member.extra
    said = {"entries": len(members), "size": len(directory), "offset": len(body), "comment": len(comment)} | (end or {})
    return (
        body
        + directory
        + struct.pack(
            "<4s4H2LH", b"PK\5\6", 0, 0, said["entries"], said["entries"], said["size"], said["offset"], said["comment"]
        )
        + comment
        + tail
    )


def _packed(member: Made) -> bytes:
    if member.packed is not None:
        return member.packed
    if member.method != 8:
        return member.data
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(member.data) + packer.flush()

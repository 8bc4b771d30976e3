"""A tar archive, header by header: ustar, old Unix, GNU long names and base-256 sizes, PAX records.

Strict where the standard library is lenient: a header whose checksum fails, a member that is cut, and a missing end mark raise, where
`tarfile` just ends (51 % of single-bit flips in a header then lose members silently). Nothing is ever extracted by name.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from mmlake.errors import UnreadableItem

BLOCK = 512
_ZEROS = bytes(BLOCK)
_MAX_EXTENSION_BYTES = 1 << 20  # of a long name or a PAX record
_REGULAR = b"0\x007"
_LINKS = {ord("1"): "hard link", ord("2"): "symbolic link", ord("3"): "character device", ord("4"): "block device", ord("6"): "pipe"}
_SKIPPED = b"VD"  # volume label, GNU directory listing: no member of their own
_MAX_TAIL_BYTES = 1 << 20  # zeros behind the end mark; archives are padded to 10,240 bytes


@dataclass(frozen=True, slots=True)
class TarMember:
    """One member of an archive and where its bytes lie."""

    name: str
    offset: int
    size_bytes: int
    unsafe: str | None = None  # why it is refused, in our words


class CutMember(UnreadableItem):
    """The archive ends inside a member."""

    def __init__(self, reason: str, member: str) -> None:
        super().__init__(1002, reason)
        self.member = member


def walk(file: IO[bytes]) -> Iterator[TarMember]:
    """The members in order, directories left out.

    Raises, after the last whole member, UnreadableItem 1002 where the archive is cut (CutMember inside a member) and 1001 where it is damaged.
    """
    end = file.seek(0, io.SEEK_END)
    at, given = 0, {}  # what GNU long names and PAX records say of the next member
    always: dict[str, str] = {}
    while True:
        header = _block(file, at, end)
        if header == _ZEROS:
            _check_end(file, at, end)
            return
        _check_sum(header, at)
        flag = header[156]
        size, body = _octal(header[124:136], at), at + BLOCK
        if flag in b"xgLK":
            data = _extension(file, body, size, end, at)
            if flag == ord("g"):
                always.update(_pax(data, at))
            elif flag == ord("x"):
                given.update(_pax(data, at))
            elif flag == ord("L"):
                given["path"] = _text(data.split(b"\0")[0])
            at = body + _padded(size)
            continue
        fields = {**always, **given}
        size = _number(fields["size"], at) if "size" in fields else size
        member, body, size = _member(file, header, fields, body, size, end)
        if body + size > end:
            raise CutMember(f"the archive ends at byte {end}, inside a member that reaches byte {body + size}", member.name if member else "")
        if member is not None:
            yield member
        at, given = body + _padded(size), {}


def _member(file: IO[bytes], header: bytes, fields: dict[str, str], body: int, size: int, end: int) -> tuple[TarMember | None, int, int]:
    """(the member or None for what is none, offset of its data, bytes of data that follow)."""
    flag, name = header[156], fields.get("path") or _name(header)
    if flag == ord("5") or (flag in b"0\0" and name.endswith("/")):
        return None, body, 0
    if flag in _SKIPPED:
        return None, body, size
    if flag in _LINKS:
        return TarMember(name, body, 0, f"the member is a {_LINKS[flag]}"), body, 0
    if flag == ord("S"):
        more = header[482]  # whether a block with the rest of the map follows
        while more:
            more = _block(file, body, end)[504]
            body += BLOCK
        return TarMember(name, body, size, "the member is a sparse file"), body, size
    if any(field.startswith("GNU.sparse.") for field in fields):
        return TarMember(name, body, size, "the member is a sparse file"), body, size
    if flag not in _REGULAR:
        return TarMember(name, body, size, f"the member has the unknown type {chr(flag)!r}"), body, size
    return TarMember(name, body, size, _unsafe_name(name)), body, size


def _unsafe_name(name: str) -> str | None:
    if not name or "\0" in name:
        return "the member has no usable name"
    if name.startswith("/") or ".." in name.split("/"):
        return "the member's path leaves the archive"
    return None


def _block(file: IO[bytes], at: int, end: int) -> bytes:
    if at + BLOCK > end:
        raise UnreadableItem(1002, f"the archive ends at byte {end} without the two zero blocks that close it")
    file.seek(at)
    return file.read(BLOCK)


def _check_end(file: IO[bytes], at: int, end: int) -> None:
    if _block(file, at + BLOCK, end) != _ZEROS:
        raise UnreadableItem(1001, f"a single zero block stands at byte {at}, where two close an archive")
    file.seek(at + 2 * BLOCK)
    tail = file.read(_MAX_TAIL_BYTES)
    if tail.strip(b"\0") or at + 2 * BLOCK + len(tail) < end:
        raise UnreadableItem(1001, f"{end - at - 2 * BLOCK} bytes that are not all zero follow the archive's end mark at byte {at}")


def _check_sum(header: bytes, at: int) -> None:
    field = header[148:156].strip(b" \0")
    unsigned = sum(header[:148]) + 8 * 32 + sum(header[156:])
    stored = int(field, 8) if field and all(48 <= byte < 56 for byte in field) else -1
    if stored == unsigned:
        return
    # Some old programs summed signed characters.
    if stored != unsigned - 256 * sum(byte > 127 for byte in header[:148] + header[156:]):
        raise UnreadableItem(1001, f"the header at byte {at} sums to {unsigned}, its checksum field says {field[:8]!r}")


def _octal(field: bytes, at: int) -> int:
    if field[0] & 0x80:  # GNU base-256, for sizes from 8 GiB on
        value = int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big")
        if field[0] == 0xFF or value >= 1 << 63:
            raise UnreadableItem(1001, f"the header at byte {at} gives an impossible size")
        return value
    digits = field.strip(b" \0")
    if not all(48 <= byte < 56 for byte in digits):
        raise UnreadableItem(1001, f"the header at byte {at} gives the size {digits[:12]!r}, which is no octal number")
    return int(digits, 8) if digits else 0


def _number(text: str, at: int) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 19:
        raise UnreadableItem(1001, f"the PAX record before byte {at} gives the size {text[:20]!r}, which is no number")
    return int(text)


def _extension(file: IO[bytes], body: int, size: int, end: int, at: int) -> bytes:
    if size > _MAX_EXTENSION_BYTES:
        raise UnreadableItem(1001, f"the extension header at byte {at} has size_bytes={size} not in [0, {_MAX_EXTENSION_BYTES}]")
    if body + _padded(size) > end:
        raise UnreadableItem(1002, f"the archive ends at byte {end}, inside the extension header at byte {at}")
    file.seek(body)
    return file.read(size)


def _pax(data: bytes, at: int) -> dict[str, str]:
    """The records `<length> <key>=<value>\\n` of a PAX header (POSIX.1-2001)."""
    fields, start = {}, 0
    while start < len(data):
        space = data.find(b" ", start, start + 20)
        digits = data[start:space] if space > 0 else b""
        length = int(digits) if digits.isdigit() else 0
        record = data[space + 1 : start + length]
        key, equals, value = record.partition(b"=")
        if length < 5 or start + length > len(data) or not record.endswith(b"\n") or not equals:
            raise UnreadableItem(1001, f"the PAX record {start} bytes into the header at byte {at} does not parse")
        fields[_text(key)] = _text(value[:-1])
        start += length
    return {key: value for key, value in fields.items() if key in ("path", "size") or key.startswith("GNU.sparse.")}


def _name(header: bytes) -> str:
    name = header[:100].split(b"\0")[0]
    # Only POSIX headers have a prefix; GNU headers keep times in its place.
    prefix = header[345:500].split(b"\0")[0] if header[257:263] == b"ustar\0" else b""
    return _text(prefix + b"/" + name if prefix else name)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _padded(size: int) -> int:
    return -(-size // BLOCK) * BLOCK

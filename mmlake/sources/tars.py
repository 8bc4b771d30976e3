"""A tar archive, header by header: ustar, old Unix, GNU long names and base-256 sizes, PAX records.

Strict where the standard library is lenient: a header whose checksum fails, a member that is cut, and a missing end mark raise, where
`tarfile` just ends (51 % of single-bit flips in a header then lose members silently). Nothing is ever extracted by name.
A million headers are walked per shard: what runs once per header is written for speed, figures in benchmarks/README.md.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from typing import IO, NamedTuple
from zlib import adler32

from mmlake.errors import UnreadableItem

BLOCK = 512
_ZEROS = bytes(BLOCK)
_MAX_EXTENSION_BYTES = 1 << 20  # of a long name or a PAX record
_FILE = ord("0")
_REGULAR = b"0\x007"
_LINKS = {ord("1"): "hard link", ord("2"): "symbolic link", ord("3"): "character device", ord("4"): "block device", ord("6"): "pipe"}
_SKIPPED = b"VD"  # volume label, GNU directory listing: no member of their own
_MAX_TAIL_BYTES = 1 << 20  # zeros behind the end mark; archives are padded to 10,240 bytes
_NEAR_BYTES = 1 << 13  # bodies up to here are cheaper to read along than to pass over
_RUN_BYTES = 1 << 18  # read at a time while bodies are small
_LOOK_BYTES = 1 << 13  # read at least, where a read is more than a call of the system: a header and the first bytes of what follows it


class Window:
    """The part of a file that was read last, so that headers and the first bytes of small members cost one read for many."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.size_bytes = file, file.seek(0, io.SEEK_END)
        self._start, self._data, self._last = 0, b"", 0
        is_local = isinstance(file, io.BufferedReader) and isinstance(file.raw, io.FileIO)
        self._handle = file.fileno() if is_local else None

    def read(self, at: int, size_bytes: int) -> bytes:
        """The bytes from there on; fewer only where the file ends."""
        begin = at - self._start
        end = begin + size_bytes
        if begin < 0 or end > len(self._data):
            is_near = 0 <= at - self._last <= _NEAR_BYTES
            if self._handle is not None and not is_near:
                self._last = at
                return os.pread(self._handle, size_bytes, at)  # a third of what seek and read take
            self.file.seek(at)
            self._start, begin, end = at, 0, size_bytes
            self._data = self.file.read(max(size_bytes, _RUN_BYTES if is_near else _LOOK_BYTES))
        self._last = at
        return self._data[begin:end]


class TarMember(NamedTuple):
    """One member of an archive and where its bytes lie."""

    name: str
    offset: int
    size_bytes: int
    unsafe: str | None = None  # why it is refused, in our words
    is_plain: bool = False  # whether the header before its bytes says all of this by itself


class CutMember(UnreadableItem):
    """The archive ends inside a member."""

    def __init__(self, reason: str, member: str) -> None:
        super().__init__(1002, reason)
        self.member = member


def walk(window: Window) -> Iterator[TarMember]:
    """The members in order, directories left out. window: of the archive; what it read last reaches into the member that was given last.

    Raises, after the last whole member, UnreadableItem 1002 where the archive is cut (CutMember inside a member) and 1001 where it is damaged.
    """
    end = window.size_bytes
    at = 0
    given: dict[str, str] = {}  # what GNU long names and PAX records say of the next member
    always: dict[str, str] = {}
    read, is_given = window.read, False
    while True:
        header, body = read(at, BLOCK) if at + BLOCK <= end else b"", at + BLOCK
        # Nearly every header: a file whose size is eleven octal digits, and nothing said before it.
        if not is_given and len(header) == BLOCK and header[156] == _FILE and header[135] in b" \0" and header[124:135].isdigit():
            _check_sum(header, at)
            size = _octal(header[124:136], at)
            if body + size <= end:
                name = plain_name(header)
                if size or name[-1:] != "/":
                    yield TarMember(name, body, size, _unsafe_name(name), True)
                at = body + size + -size % BLOCK
                continue
        header = _block(window, at, end)
        if header == _ZEROS:
            _check_end(window, at, end)
            return
        _check_sum(header, at)
        flag, size = header[156], _octal(header[124:136], at)
        if flag in b"xgLK":
            data = _extension(window, body, size, end, at)
            if flag == ord("g"):
                always.update(_pax(data, at))
            elif flag == ord("x"):
                given.update(_pax(data, at))
            elif flag == ord("L"):
                given["path"] = _text(data.split(b"\0")[0])
            is_given = bool(given or always)
            at = body + _padded(size)
            continue
        fields = {**always, **given} if always or given else {}
        size = _number(fields["size"], at) if "size" in fields else size
        member, body, size = _member(window, header, fields, body, size, end)
        if body + size > end:
            raise CutMember(f"the archive ends at byte {end}, inside a member that reaches byte {body + size}", member.name if member else "")
        if member is not None:
            yield member
        at = body + _padded(size)
        given, is_given = {}, bool(always)


def _member(window: Window, header: bytes, fields: dict[str, str], body: int, size: int, end: int) -> tuple[TarMember | None, int, int]:
    """(the member or None for what is none, offset of its data, bytes of data that follow)."""
    flag, name = header[156], fields.get("path") or plain_name(header)
    if flag == ord("5") or (flag in b"0\0" and name.endswith("/") and (not size or not flag)):
        return None, body, 0  # old archives know directories by their name alone
    if flag in _SKIPPED:
        return None, body, size
    if flag in _LINKS:
        return TarMember(name, body, 0, f"the member is a {_LINKS[flag]}"), body, 0
    if flag == ord("S"):
        more = header[482]  # whether a block with the rest of the map follows
        while more:
            more = _block(window, body, end)[504]
            body += BLOCK
        return TarMember(name, body, size, "the member is a sparse file"), body, size
    if fields and any(field.startswith("GNU.sparse.") for field in fields):
        return TarMember(name, body, size, "the member is a sparse file"), body, size
    if flag not in _REGULAR:
        return TarMember(name, body, size, f"the member has the unknown type {chr(flag)!r}"), body, size
    return TarMember(name, body, size, _unsafe_name(name)), body, size


def _unsafe_name(name: str) -> str | None:
    if not name or "\0" in name or name[-1] == "/":
        return "the member has no usable name"
    if name[0] == "/" or (".." in name and ".." in name.split("/")):
        return "the member's path leaves the archive"
    return None


def _block(window: Window, at: int, end: int) -> bytes:
    block = window.read(at, BLOCK) if at + BLOCK <= end else b""
    if len(block) < BLOCK:  # also where the file became shorter since its size was taken
        raise UnreadableItem(1002, f"the archive ends at byte {end} without the two zero blocks that close it")
    return block


def _check_end(window: Window, at: int, end: int) -> None:
    if _block(window, at + BLOCK, end) != _ZEROS:
        raise UnreadableItem(1001, f"a single zero block stands at byte {at}, where two close an archive")
    tail = window.read(at + 2 * BLOCK, _MAX_TAIL_BYTES)
    if tail.strip(b"\0") or at + 2 * BLOCK + len(tail) < end:
        raise UnreadableItem(1001, f"{end - at - 2 * BLOCK} bytes that are not all zero follow the archive's end mark at byte {at}")


def _check_sum(header: bytes, at: int) -> None:
    field = header[148:156]
    digits = field.strip(b" \0")
    try:
        stored = int(digits, 8) if digits.isdigit() else -1
    except ValueError:  # 8 and 9
        stored = -1
    # The low half of Adler-32 is 1 + the sum of the bytes modulo 65,521, which only a header full of high bytes reaches.
    if stored == (adler32(header) & 0xFFFF) - (adler32(field) & 0xFFFF) + 8 * 32:
        return
    unsigned = sum(header) - sum(field) + 8 * 32
    # Some old programs summed signed characters.
    if stored not in (unsigned, unsigned - 256 * sum(byte > 127 for byte in header[:148] + header[156:])):
        raise UnreadableItem(1001, f"the header at byte {at} sums to {unsigned}, its checksum field says {digits[:8]!r}")


def _octal(field: bytes, at: int) -> int:
    if field[0] & 0x80:  # GNU base-256, for sizes from 8 GiB on
        value = int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big")
        if field[0] == 0xFF or value >= 1 << 63:
            raise UnreadableItem(1001, f"the header at byte {at} gives an impossible size")
        return value
    digits = field.strip(b" \0")
    try:
        if digits.isdigit() or not digits:
            return int(digits or b"0", 8)
    except ValueError:  # 8 and 9
        pass
    raise UnreadableItem(1001, f"the header at byte {at} gives the size {digits[:12]!r}, which is no octal number")


def _number(text: str, at: int) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 19:
        raise UnreadableItem(1001, f"the PAX record before byte {at} gives the size {text[:20]!r}, which is no number")
    return int(text)


def _extension(window: Window, body: int, size: int, end: int, at: int) -> bytes:
    if size > _MAX_EXTENSION_BYTES:
        raise UnreadableItem(1001, f"the extension header at byte {at} has size_bytes={size} not in [0, {_MAX_EXTENSION_BYTES}]")
    if body + _padded(size) > end:
        raise UnreadableItem(1002, f"the archive ends at byte {end}, inside the extension header at byte {at}")
    return window.read(body, size)


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


def plain_name(header: bytes) -> str:
    """The name that the header says by itself."""
    end = header.find(b"\0", 0, 100)
    name = header[: end if end >= 0 else 100]
    if header[345] and header[257:263] == b"ustar\0":  # only POSIX headers have a prefix; GNU headers keep times in its place
        name = header[345:500].partition(b"\0")[0] + b"/" + name
    return name.decode("utf-8", "surrogateescape")


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _padded(size: int) -> int:
    return -(-size // BLOCK) * BLOCK


def name_and_size(header: bytes) -> tuple[str, int]:
    """What the header of a regular member says by itself, without the records before it. Raises UnreadableItem 1001 where it is no such header."""
    if len(header) != BLOCK or header[156] not in _REGULAR:
        raise UnreadableItem(1001, "the block is no header of a regular member")
    _check_sum(header, 0)
    return plain_name(header), _octal(header[124:136], 0)

"""A zip archive, entry by entry (APPNOTE 6.3): zip64, data descriptors, comments, bytes before the archive.

Enters: a file. Leaves: its members and where their bytes lie. What the central directory says of a member is held
against the header before its bytes; where both differ, or members share bytes, the member is refused. Nothing is
expanded here, and nothing is extracted by name.
"""

from __future__ import annotations

import stat
import struct
from collections.abc import Iterator
from typing import NamedTuple
from zlib import crc32

from mmlake.errors import UnreadableItem
from mmlake.formats.tar import CutMember
from mmlake.streams import Window

STORED, DEFLATED, BZIP2, LZMA, ZSTD = 0, 8, 12, 14, 93
METHODS = (STORED, DEFLATED, BZIP2, LZMA, ZSTD)
HEADER, ENTRY, END = b"PK\3\4", b"PK\1\2", b"PK\5\6"
_DESCRIPTOR = b"PK\7\10"

_HEADER = struct.Struct("<4x5H3L2H")  # needed, flags, method, time, date, crc, packed, size, name, extra
# made by, needed, flags, method, time, date, crc, packed, size, name, extra, comment, disk, internal, external, offset
_ENTRY = struct.Struct("<4x6H3L5H2L")
_END = struct.Struct("<4x4H2LH")  # disk, disk of the directory, entries here, entries, size, offset, comment
_END64 = struct.Struct("<4x12x2L4Q")
_LOCATOR_BYTES = 20
_MAX_COMMENT_BYTES = 0xFFFF
_FULL, _FULL_SHORT = 0xFFFFFFFF, 0xFFFF  # the number stands in the zip64 record
_ENCRYPTED, _DESCRIBED, _UTF8 = 1, 8, 1 << 11  # flags
_MOST = (1 << 63) - 1  # what a table can hold
_EXTRA_ZIP64, _EXTRA_NAME = 1, 0x7075
_BEHIND = (ENTRY, END, b"PK\6\6", b"PK\6\10")  # what may follow the last member
_TRIED = 16  # end records that are tried: members and comments may hold such bytes
_NAMED_METHODS = {1: "shrink", 6: "implode", 9: "deflate64", 95: "xz", 96: "jpeg", 97: "wavpack", 98: "ppmd", 99: "aes"}
_KINDS = {
    stat.S_IFLNK: "symbolic link",
    stat.S_IFCHR: "character device",
    stat.S_IFBLK: "block device",
    stat.S_IFIFO: "pipe",
    stat.S_IFSOCK: "socket",
    stat.S_IFDIR: "folder with bytes",
}


class ZipMember(NamedTuple):
    """One member and what the archive says of it."""

    name: str
    spelling: bytes  # the name as it is written before its bytes
    header: int  # where that stands
    packed_bytes: int
    size_bytes: int
    method: int
    flags: int
    crc: int
    refused: tuple[int, str] | None = None  # code and reason, in our words


class Directory(NamedTuple):
    """Where the central directory lies."""

    start: int
    stop: int
    num_entries: int
    shift: int  # what offsets in it are short of: bytes before the archive
    is_counted_long: bool  # whether the number of entries is one of zip64, and no remainder
    fault: tuple[int, str] | None = None  # what else is wrong


def directory_of(window: Window) -> Directory:
    """Where the archive's directory lies. Raises UnreadableItem: 1002 where its end is missing, 1001 where that
    leads nowhere."""
    size = window.size_bytes
    begin = max(0, size - _END.size - _MAX_COMMENT_BYTES)
    tail = window.read(begin, size - begin)
    candidates: list[tuple[int, int]] = []  # (where an end record stands, how many bytes too many stand behind it)
    at, is_exact = len(tail), False
    while not is_exact and (at := tail.rfind(END, 0, at)) >= 0:
        if at + _END.size <= len(tail):
            over = len(tail) - at - _END.size - _END.unpack_from(tail, at)[6]
            is_exact = over == 0
            candidates.insert(0 if is_exact else len(candidates), (begin + at, over))
    for at, over in candidates[:_TRIED]:
        if (found := _directory_at(window, at, tail[at - begin :])) is not None:
            if over > 0:
                return found._replace(fault=(1001, f"{over} bytes follow the archive's end record"))
            return found._replace(fault=(1002, f"the comment ends {-over} bytes behind the file")) if over else found
    if not candidates:
        raise _unclosed(window)
    raise UnreadableItem(1001, f"the end record at byte {candidates[0][0]} leads to no directory")


def _unclosed(window: Window) -> UnreadableItem:
    return UnreadableItem(1002, f"the archive ends at byte {window.size_bytes} without the directory that closes it")


def _directory_at(window: Window, at: int, record: bytes) -> Directory | None:
    """The directory that the end record leads to."""
    _, _, _, num_entries, size, offset, _ = _END.unpack_from(record)
    stop, is_long = at, False
    locator = window.read(at - _LOCATOR_BYTES, _LOCATOR_BYTES) if at >= _LOCATOR_BYTES else b""
    if locator[:4] == b"PK\6\7":
        stated = int.from_bytes(locator[8:16], "little")
        for place in (at - _LOCATOR_BYTES - _END64.size, stated):
            long = window.read(place, _END64.size) if 0 <= place <= at - _END64.size else b""
            if len(long) == _END64.size and long[:4] == b"PK\6\6":
                _, _, _, num_entries, size, offset = _END64.unpack(long)
                stop, is_long = place, True
                break
    for start in (stop - size, offset):
        if start >= 0 and start + size <= stop and (window.read(start, 4) == ENTRY if size else not num_entries):
            shift = _shift(window, start, start - offset) if size else 0
            return Directory(start, start + size, num_entries, shift, is_long)
    return None


def _shift(window: Window, start: int, shift: int) -> int:
    """What is added to the offsets: what the directory's own place says, or nothing where only that leads to a
    header."""
    try:
        header = _entry(window, start, window.size_bytes, 0)[0].header if shift else -1
    except UnreadableItem:
        return shift
    is_header, is_shifted = (place >= 0 and window.read(place, 4) == HEADER for place in (header, header + shift))
    return 0 if is_header and not is_shifted else shift


def walk(window: Window, directory: Directory) -> Iterator[tuple[int, ZipMember]]:
    """(where its entry stands, member) of all in the directory, folders left out. Raises UnreadableItem 1001 where
    the directory is damaged."""
    at, num = directory.start, 0
    while at < directory.stop:
        member, length, is_folder = _entry(window, at, directory.stop, directory.shift)
        if not is_folder:
            yield at, member
        at += length
        num += 1
    if num != directory.num_entries and (directory.is_counted_long or num & 0xFFFF != directory.num_entries):
        reason = f"num_members={num} is not {directory.num_entries}, which the archive's end record states"
        raise UnreadableItem(1001, reason)


def entry_at(window: Window, at: int, directory: Directory) -> ZipMember:
    """The member whose entry stands there."""
    return _entry(window, at, directory.stop, directory.shift)[0]


def _entry(window: Window, at: int, stop: int, shift: int) -> tuple[ZipMember, int, bool]:
    """(member, length of its entry, whether it is a folder)."""
    head, broken = window.read(at, _ENTRY.size), f"the archive's directory breaks at byte {at}"
    if head[:4] != ENTRY or at + _ENTRY.size > stop or len(head) < _ENTRY.size:
        raise UnreadableItem(1001, broken)
    made_by, _, flags, method, _, _, *numbers, disk, _, external, header = _ENTRY.unpack(head)
    crc, packed, size, num_name, num_extra, num_comment = numbers
    length = _ENTRY.size + num_name + num_extra + num_comment
    body = window.read(at + _ENTRY.size, num_name + num_extra)
    if at + length > stop or len(body) < num_name + num_extra:
        raise UnreadableItem(1001, broken)
    raw, extra = body[:num_name], body[num_name:]
    if _FULL in (size, packed, header):
        size, packed, header = _long(extra, size, packed, header)
    name = _name(raw, extra, flags)
    mode = external >> 16
    is_folder = not size and (name.endswith("/") or (stat.S_ISDIR(mode) and bool(name)))
    refused = _refused(name, flags, method, packed, size) or _special(mode, made_by >> 8)
    if disk not in (0, _FULL_SHORT) and refused is None:
        refused = (1007, "the member lies in another volume of the archive")
    header += shift
    if not 0 <= header < window.size_bytes:
        reason = f"the member's header stands at byte {header}, the archive has {window.size_bytes}"
        header, refused = -1, refused or (1001, reason)
    return ZipMember(name, raw, header, packed, min(size, _MOST), method, flags, crc, refused), length, is_folder


def walk_headers(window: Window) -> Iterator[tuple[int, ZipMember]]:
    """(where its header stands, member) of all from the start on, for archives without a usable directory.

    Raises, after the last whole member, UnreadableItem 1002 where the archive is cut (CutMember inside a member) and
    1001 where no header follows.
    """
    at = 4 if window.read(0, 4) in (_DESCRIPTOR, b"PK00") else 0
    while True:
        head = window.read(at, 4)
        if head in _BEHIND:
            return
        if len(head) < 4:
            raise _unclosed(window)
        member, start = header_at(window, at)
        is_sized = not member.flags & _DESCRIBED or member.packed_bytes
        if not is_sized and window.read(start, 4) not in (HEADER, *_BEHIND, _DESCRIPTOR):
            unknown = f"the size of the member at byte {at} stands behind its bytes"
            unread = "without the archive's directory nothing from there on is read"
            raise CutMember(f"{unknown}: {unread}", member.name)
        stop = start + member.packed_bytes
        if stop > window.size_bytes:
            raise CutMember(_inside(window, f"a member that reaches byte {stop}"), member.name)
        if not (member.name.endswith("/") and not member.size_bytes):
            yield at, member
        at = stop + (_descriptor_bytes(window.read(stop, 28)) if member.flags & _DESCRIBED else 0)


def _descriptor_bytes(data: bytes) -> int:
    """How long the record behind a member's bytes is: with or without a mark, with short sizes or long ones."""
    mark = 4 if data[:4] == _DESCRIPTOR else 0
    ends = (mark + length for length in (12, 20))
    return next((end for end in ends if data[end : end + 4] in (HEADER, *_BEHIND)), mark + 12)


def header_at(window: Window, at: int) -> tuple[ZipMember, int]:
    """(the member as the header there says it, where its bytes begin). Raises UnreadableItem 1001 and 1002."""
    flags, method, crc, packed, size, raw, extra = _header(window, at)
    name, body_at = _name(raw, extra, flags), at + _HEADER.size + len(raw) + len(extra)
    refused = _refused(name, flags, method, packed, size)
    return ZipMember(name, raw, at, packed, min(size, _MOST), method, flags, crc, refused), body_at


def _header(window: Window, at: int) -> tuple[int, int, int, int, int, bytes, bytes]:
    """(flags, method, CRC, packed bytes, bytes, name, extra field)."""
    head = window.read(at, _HEADER.size)
    if head[:4] != HEADER:
        raise UnreadableItem(1002 if at >= window.size_bytes else 1001, f"no member's header stands at byte {at}")
    if len(head) < _HEADER.size:
        raise UnreadableItem(1002, _inside(window, f"the header at byte {at}"))
    _, flags, method, _, _, crc, packed, size, num_name, num_extra = _HEADER.unpack(head)
    body = window.read(at + _HEADER.size, num_name + num_extra)
    if len(body) < num_name + num_extra:
        raise UnreadableItem(1002, _inside(window, f"the header at byte {at}"))
    raw, extra = body[:num_name], body[num_name:]
    if _FULL in (packed, size):
        size, packed, _ = _long(extra, size, packed, 0)
    return flags, method, crc, packed, size, raw, extra


def data_of(window: Window, member: ZipMember, stop: int) -> int:
    """Where the member's bytes begin. stop: where the next thing in the archive begins.

    Raises UnreadableItem: 1001 where the header there describes another member, 1007 where the bytes reach into what
    follows, 1002 where the file ends.
    """
    flags, method, crc, packed, size, raw, extra = _header(window, member.header)
    start = member.header + _HEADER.size + len(raw) + len(extra)
    end = start + member.packed_bytes
    stated, said = (member.spelling, member.method, member.flags & _ENCRYPTED), (raw, method, flags & _ENCRYPTED)
    sizes = (member.packed_bytes, packed), (member.size_bytes, size), (member.crc, crc)
    what = ""
    if stated != said:
        names = zip(("another name", "another method", "another encryption"), stated, said, strict=True)
        what = next(name for name, one, other in names if one != other)
    elif any(one != other and not (flags & _DESCRIBED and not other) for one, other in sizes):
        what = "other sizes or another CRC"
    if what:
        both = f"the archive's directory and the header at byte {member.header}"
        raise UnreadableItem(1001, f"{both} say {what} of the member")
    if end > window.size_bytes:
        raise UnreadableItem(1002, _inside(window, f"a member that reaches byte {end}"))
    if end > stop:
        raise UnreadableItem(1007, f"the member's bytes reach byte {end}, into what begins at byte {stop}")
    return start


def _inside(window: Window, what: str) -> str:
    return f"the archive ends at byte {window.size_bytes}, inside {what}"


def _long(extra: bytes, size: int, packed: int, offset: int) -> tuple[int, int, int]:
    """The numbers that did not fit their fields."""
    data = _extra_field(extra, _EXTRA_ZIP64)
    values = iter(int.from_bytes(data[at : at + 8], "little") for at in range(0, len(data) - 7, 8))
    size, packed, offset = (next(values, number) if number == _FULL else number for number in (size, packed, offset))
    return size, packed, offset


def _extra_field(extra: bytes, wanted: int) -> bytes:
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        if kind == wanted:
            return extra[at + 4 : at + 4 + length]
        at += 4 + length
    return b""


def _name(raw: bytes, extra: bytes, flags: int) -> str:
    """UTF-8 where the archive says so or the bytes are, else code page 437, as the format has it."""
    if raw.isascii():
        return raw.decode()
    if flags & _UTF8:
        return raw.decode("utf-8", "surrogateescape")
    better = _extra_field(extra, _EXTRA_NAME)
    if len(better) > 5 and better[0] == 1 and int.from_bytes(better[1:5], "little") == crc32(raw):
        return better[5:].decode("utf-8", "surrogateescape")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("cp437")


def _refused(name: str, flags: int, method: int, packed: int, size: int) -> tuple[int, str] | None:
    folders = name.replace("\\", "/").split("/")
    if not name or "\0" in name or not folders[-1]:
        return 1007, "the member has no usable name"
    if not folders[0] or ".." in folders or (name[1:2] == ":" and name[:1].isalpha()):
        return 1007, "the member's path leaves the archive"
    if flags & _ENCRYPTED:
        return 1005, "the member is encrypted"
    if method not in METHODS:
        known = f" ({_NAMED_METHODS[method]})" if method in _NAMED_METHODS else ""
        return 1005, f"the member is packed by method {method}{known}, which is not read"
    if method == STORED and packed != size:
        return 1001, f"the member is stored as it is, in {packed} bytes, and has size_bytes={size}"
    return None


def _special(mode: int, system: int) -> tuple[int, str] | None:
    """Why a member that is no regular file is refused: systems other than Unix (3) and macOS (19) have no such
    modes."""
    kind = stat.S_IFMT(mode)
    if system not in (3, 19) or kind in (0, stat.S_IFREG):
        return None
    return 1007, f"the member is a {_KINDS.get(kind, 'file of an unknown kind')}"

"""A tar archive, header by header: ustar, old Unix, GNU long names and base-256 sizes, PAX records.

Strict where the standard library is lenient: a header whose checksum fails, a member that is cut, and a missing end
mark raise, where `tarfile` just ends (51 % of single-bit flips in a header then lose members silently). Nothing is ever
extracted by name.
A million headers are walked per shard: what runs once per header is written for speed, figures in benchmarks/README.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple
from zlib import adler32

import numpy as np

from mmlake.errors import UnreadableItem
from mmlake.streams import Window

BLOCK = 512
_ZEROS = bytes(BLOCK)
_MAX_EXTENSION_BYTES = 1 << 20  # of a long name or a PAX record
_REGULAR = b"0\x007"
_LINKS = {
    ord("1"): "hard link",
    ord("2"): "symbolic link",
    ord("3"): "character device",
    ord("4"): "block device",
    ord("6"): "pipe",
}
_HARD_LINK = ord("1")
_SKIPPED = b"VD"  # volume label, GNU directory listing: no member of their own
_MAX_TAIL_BYTES = 1 << 20  # zeros behind the end mark; archives are padded to 10,240 bytes
_SUM_DIGITS = 6  # of a checksum as nearly every program writes it, before a zero and a space
_ONES = np.ones(BLOCK, np.float32)
_OCTAL_PLACES = 8 ** np.arange(_SUM_DIGITS)[::-1]
_DIRECTORY, _PAX = ord("5"), ord("x")
_IN_RUNS = b"0\x005"  # the types of headers that runs are made of
_IN_UNSAFE = ("..", "\0/", "/\0", "\0\0")  # names between zeros of which some may be unsafe have one of these
_TIME = re.compile(rb"([1-9]\d) mtime=\d+(?:\.\d+)?\n")  # all that a record says that need not be obeyed


class TarMember(NamedTuple):
    """One member of an archive and where its bytes lie, of any form."""

    name: str
    offset: int
    size_bytes: int
    unsafe: str | None = None  # why it is refused, in our words
    link: str | None = None  # the earlier member whose bytes a hard link shares


class CutMember(UnreadableItem):
    """The archive ends inside a member."""

    def __init__(self, reason: str, member: str) -> None:
        super().__init__(1002, reason)
        self.member = member


@dataclass(frozen=True, slots=True)
class Run:
    """Members that lie one behind the other, each described by a single header: regular files with safe names."""

    names: str  # with a zero between each two: no name holds one
    offsets: list[int]
    sizes: list[int]  # bytes
    # the first bytes of each, as many as were asked for where the archive has them; of small members perhaps all
    heads: list[bytes]


class RunSize(NamedTuple):
    """What a run has at most."""

    num_headers: int  # held against their sums at a time
    size_bytes: int  # of the archive, up to where the last header begins


LONG = RunSize(512, 1 << 62)
SHORT = RunSize(32, 1 << 20)  # for those who stop early: a run is read to its end before its first member is given


def walk(window: Window, *, head_bytes: int, whole_bytes: int = 0, most: RunSize = LONG) -> Iterator[Run | TarMember]:
    """The members in order, directories left out. window: of the archive. head_bytes: of each member in a run that are
    read along. most: of a run.

    whole_bytes: members of a run up to this size are read along whole where that costs no read of its own.

    Raises, after the last whole member, UnreadableItem 1002 where the archive is cut (CutMember inside a member) and
    1001 where it is damaged.
    """
    end = window.size_bytes
    at = 0
    given: dict[str, str] = {}  # what GNU long names and PAX records say of the next member
    always: dict[str, str] = {}
    runs = _Runs(window, head_bytes, whole_bytes, most)
    while True:
        while not given and not always:
            run, at = runs.from_(at)
            if run is None:
                break
            if run.offsets:
                yield run
        header, body = _block(window, at, end), at + BLOCK
        if header == _ZEROS:
            _check_end(window, at, end)
            return
        _check_sum(header, at)
        flag, size = header[156], _octal(header[124:136], at)
        if flag in b"xXgLK":
            data = _extension(window, body, size, end, at)
            if flag == ord("g"):
                always.update(_pax(data, at))
            elif flag in b"xX":  # X: the same as Solaris writes it
                given.update(_pax(data, at))
            else:
                given["path" if flag == ord("L") else "linkpath"] = _text(data.split(b"\0")[0])
            at = body + _padded(size)
            continue
        fields = {**always, **given} if always or given else {}
        size = _number(fields["size"], at) if "size" in fields else size
        member, body, size = _member(window, header, fields, body, size, end)
        if body + size > end:
            reason = f"the archive ends at byte {end}, inside a member that reaches byte {body + size}"
            raise CutMember(reason, member.name if member else "")
        if member is not None:
            yield member
        at = body + _padded(size)
        given = {}


class _Runs:
    """Runs of an archive's members, from any header on."""

    def __init__(self, window: Window, head_bytes: int, whole_bytes: int, most: RunSize) -> None:
        self._window, self._end, self._width, self._most = window, window.size_bytes, BLOCK + head_bytes, most
        self._whole_bytes = whole_bytes
        # whether a record with nothing but a time stands before members, as the webdataset library writes it
        self._has_times = False

    def from_(self, at: int) -> tuple[Run | None, int]:
        """(the members from there on that are of the plainest forms, None where the first is not; where the next
        header stands)."""
        read, held, end, width = self._window.read, self._window.held, self._end, self._width
        whole_bytes, has_times = self._whole_bytes, self._has_times
        # a size below 0: no member
        blocks, places, sizes, heads, start = list[bytes](), list[int](), list[int](), list[bytes](), at
        num_headers, last = self._most.num_headers, min(end - BLOCK, at + self._most.size_bytes)
        while len(blocks) < num_headers and at <= last:
            block = read(at, width + 2 * BLOCK if has_times else width)
            if len(block) < BLOCK:
                break
            flag = block[156]
            if flag == _PAX:
                if not has_times:
                    self._has_times = has_times = True
                    block = read(at, width + 2 * BLOCK)
                time = _TIME.match(block, BLOCK, 2 * BLOCK)
                if time is None or block[124:135] != b"%011o" % int(time[1]) or time.end() != BLOCK + int(time[1]):
                    break
                blocks.append(block[:width])
                places.append(at)
                sizes.append(-1)
                heads.append(b"")
                at += 2 * BLOCK
                block = block[2 * BLOCK :]
                if len(block) < BLOCK:
                    break
                flag = block[156]
            elif has_times:
                block = block[:width]
            digits = block[124:135]
            # sizes from 8 GiB on have other forms
            if flag not in _IN_RUNS or block[135] not in b" \0" or not digits.isdigit():
                break
            try:
                size = 0 if flag == _DIRECTORY else int(digits, 8)
            except ValueError:  # 8 and 9
                break
            body = at + BLOCK
            if body + size > end:
                break
            heads.append((size <= whole_bytes and held(body, size)) or block[BLOCK : BLOCK + size])
            blocks.append(block)
            places.append(at)
            sizes.append(-1 if flag == _DIRECTORY else size)
            at = body + size + -size % BLOCK
        if not blocks:
            return None, start
        names = _names(blocks, sizes, width)
        if len(names) < len(blocks):  # what follows is read by itself
            at = places[len(names)]
        if not names:
            return None, start
        if len(names) == len(sizes) and min(sizes) >= 0:  # as in most archives
            return Run("\0".join(names), [place + BLOCK for place in places], sizes, heads), at
        members = [one for one in zip(names, places, sizes, heads, strict=False) if one[2] >= 0]
        names, places, sizes, heads = map(list, zip(*members, strict=True)) if members else ([], [], [], [])
        return Run("\0".join(names), [place + BLOCK for place in places], sizes, heads), at


def _names(blocks: list[bytes], sizes: list[int], width: int) -> list[str]:
    """What the headers at the start of the blocks call their members, up to the first whose sum does not hold or
    whose name is unsafe. sizes: below 0 for no member."""
    if len(blocks[-1]) < width:  # where the archive ends
        blocks = [*blocks[:-1], blocks[-1].ljust(width, b"\0")]
    headers = np.frombuffer(b"".join(blocks), np.uint8).reshape(len(blocks), width)
    digits = headers[:, 148 : 148 + _SUM_DIGITS] - ord("0")  # what is below "0" wraps to far above 7
    blanks = headers[:, 154:156]
    # A product of floats, which hold sums of 512 bytes exactly, takes a third of the time of a sum of bytes.
    whole = (headers[:, :BLOCK].astype(np.float32) @ _ONES).astype(np.int64)
    sums = whole - headers[:, 148:156].sum(axis=1, dtype=np.int64) + 8 * 32
    is_octal = (digits <= 7).all(axis=1) & ((blanks == 0) | (blanks == 32)).all(axis=1)
    is_plain = is_octal & (sums == digits.astype(np.int64) @ _OCTAL_PLACES)
    num_plain = len(blocks) if is_plain.all() else int(is_plain.argmin())
    raw = np.ascontiguousarray(headers[:num_plain, :100]).view("S100")[:, 0].tolist()
    text = b"\0".join(raw)
    if headers[:num_plain, 345].any() or text.count(b"\0") >= max(num_plain, 1):
        names = [plain_name(block) for block in blocks[:num_plain]]
    else:
        names = _text(text).split("\0") if raw else []
    bounded = "\0".join(["", *names, ""])
    if not any(map(bounded.__contains__, _IN_UNSAFE)):  # as in nearly every archive: asked of all names at once
        return names
    unsafe = (at for at, name in enumerate(names) if sizes[at] >= 0 and _unsafe_name(name) is not None)
    return names[: next(unsafe, num_plain)]


def _member(
    window: Window, header: bytes, fields: dict[str, str], body: int, size: int, end: int
) -> tuple[TarMember | None, int, int]:
    """(the member or None for what is none, offset of its data, bytes of data that follow)."""
    flag, name = header[156], fields.get("path") or plain_name(header)
    if flag == ord("5") or (flag in b"0\0" and name.endswith("/") and (not size or not flag)):
        return None, body, 0  # old archives know directories by their name alone
    if flag in _SKIPPED:
        return None, body, size
    if flag in _LINKS:
        if flag != _HARD_LINK:
            return TarMember(name, body, 0, f"the member is a {_LINKS[flag]}"), body, 0
        if (unsafe := _unsafe_name(name)) is not None:
            return TarMember(name, body, 0, unsafe), body, 0
        link = fields.get("linkpath") or _text(header[157:257].partition(b"\0")[0])
        unsafe = "the member is a hard link to what the archive does not hold before it"
        return TarMember(name, body, 0, unsafe, link), body, 0
    more = flag == ord("S") and header[482]  # whether a block with the rest of the map of a sparse file follows
    while more:
        more = _block(window, body, end)[504]
        body += BLOCK
    if flag == ord("S") or (fields and any(field.startswith("GNU.sparse.") for field in fields)):
        unsafe = "the member is a sparse file"
    else:
        unsafe = _unsafe_name(name) if flag in _REGULAR else f"the member has the unknown type {chr(flag)!r}"
    return TarMember(name, body, size, unsafe), body, size


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
        rest_bytes = end - at - 2 * BLOCK
        reason = f"{rest_bytes} bytes that are not all zero follow the archive's end mark at byte {at}"
        raise UnreadableItem(1001, reason)


def _check_sum(header: bytes, at: int) -> None:
    field = header[148:156]
    digits = field.strip(b" \0")
    try:
        stored = int(digits, 8) if digits.isdigit() else -1
    except ValueError:  # 8 and 9
        stored = -1
    # The low half of Adler-32 is 1 + the sum of the bytes modulo 65,521, which only a header full of high bytes
    # reaches.
    if stored == (adler32(header) & 0xFFFF) - (adler32(field) & 0xFFFF) + 8 * 32:
        return
    unsigned = sum(header) - sum(field) + 8 * 32
    # Some old programs summed signed characters.
    if stored not in (unsigned, unsigned - 256 * sum(byte > 127 for byte in header[:148] + header[156:])):
        reason = f"the header at byte {at} sums to {unsigned}, its checksum field says {digits[:8]!r}"
        raise UnreadableItem(1001, reason)


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
    digits = text.lstrip("0") or text[:1]  # some writers fill up with zeros
    if not text.isascii() or not text.isdigit() or len(digits) > 19:
        raise UnreadableItem(1001, f"the PAX record before byte {at} gives the size {text[:20]!r}, which is no number")
    return int(digits)


def _extension(window: Window, body: int, size: int, end: int, at: int) -> bytes:
    if size > _MAX_EXTENSION_BYTES:
        reason = f"the extension header at byte {at} has size_bytes={size} not in [0, {_MAX_EXTENSION_BYTES}]"
        raise UnreadableItem(1001, reason)
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
    kept = [key for key in fields if key in ("path", "size", "linkpath") or key.startswith("GNU.sparse.")]
    return {key: fields[key] for key in kept}


def plain_name(header: bytes) -> str:
    """The name that the header says by itself."""
    end = header.find(b"\0", 0, 100)
    name = header[: end if end >= 0 else 100]
    # only POSIX headers have a prefix; GNU headers keep times in its place
    if header[345] and header[257:263] == b"ustar\0":
        name = header[345:500].partition(b"\0")[0] + b"/" + name
    return name.decode("utf-8", "surrogateescape")


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _padded(size: int) -> int:
    return -(-size // BLOCK) * BLOCK


def name_and_size(header: bytes) -> tuple[str, int]:
    """What the header of a regular member says by itself, without the records before it. Raises UnreadableItem 1001
    where it is no such header."""
    if len(header) != BLOCK or header[156] not in _REGULAR:
        raise UnreadableItem(1001, "the block is no header of a regular member")
    _check_sum(header, 0)
    return plain_name(header), _octal(header[124:136], 0)

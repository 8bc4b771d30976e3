"""What storage, networks and attackers do to files, each as a function of the bytes and a generator of chance."""

from __future__ import annotations

import random
import re
import tarfile
from collections.abc import Callable

from tests.hostile.seeds import Seed, compress, seeds, tar, zipped

BLOCK = 512
_ODD_NAMES = (
    b"",
    b"/etc/passwd",
    b"../up.png",
    b"a/../../b",
    b".",
    b"./",
    b"a\x00b",
    b"\xff\xfe.png",
    b"x" * 100,
    b"a\nb.txt",
    b"#dup=1",
    b"%2F",
    b"\xe2\x80\xaegnp.txt",
    b" ",
    b"CON",
)
_ODD_SIZES = (
    b"77777777777\0", b"00000000000\0", b"-0000000001\0", b"99999999999\0", b"            ", b"\0" * 12,
    b"0x100000000\0", b"\xff" * 12, b"\x80" + b"\xff" * 11,
    b"\x80" + bytes(10) + b"\x05", b"\xff" * 11 + b"\xfe", b"\x80\0\0\0\x01" + bytes(7), b"1\x00000000000",
    b"00000000001 ",
)  # fmt: skip
_ODD_TEXTS = (
    b"\0",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"{",
    b"}",
    b'"',
    b"\\u",
    b"\\ud800",
    b"1e999",
    b"NaN",
    b"[" * 200,
    b'{"a":' * 120,
    b"9" * 5000,
    b"\r",
    b"\n\n",
    b"\xef\xbb\xbf",
    b"\x1b$B",
)


_ODD_VALUES = (
    b"null",
    b'""',
    b"[]",
    b"{}",
    b"true",
    b"-1",
    b"1e308",
    b"[null]",
    b'["a",null,3]',
    b'"\\ud800"',
    b'"\\u0000"',
    b'{"":{"":1}}',
    b'"http://localhost/x"',
    b"[[]]",
    b"99999999999999999999",
)
_TOKEN = re.compile(rb'"[^"\n]{0,60}"|-?\d+|null|\[[^\[\]\n]{0,60}\]')


def truncate(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def cut_front(data: bytes, rng: random.Random) -> bytes:
    return data[rng.randrange(len(data) + 1) :]


def flip_one(data: bytes, rng: random.Random) -> bytes:
    return _flipped(data, rng, 1)


def flip_many(data: bytes, rng: random.Random) -> bytes:
    return _flipped(data, rng, rng.choice((2, 8, 64, 500)))


def _flipped(data: bytes, rng: random.Random, num_bits: int) -> bytes:
    changed = bytearray(data)
    for _ in range(num_bits if data else 0):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def insert(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice((rng.randbytes(rng.choice((1, 7, 512, 3000))), rng.choice(_ODD_TEXTS))) + data[at:]


def delete(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + data[at + rng.choice((1, 2, 100, 512, 1024)) :]


def swap_blocks(data: bytes, rng: random.Random) -> bytes:
    num_blocks = len(data) // BLOCK
    if num_blocks < 2:
        return data[::-1]
    one, other = (BLOCK * at for at in sorted(rng.sample(range(num_blocks), 2)))
    return (
        data[:one]
        + data[other : other + BLOCK]
        + data[one + BLOCK : other]
        + data[one : one + BLOCK]
        + data[other + BLOCK :]
    )


def fill(data: bytes, rng: random.Random) -> bytes:
    at, size = rng.randrange(len(data) + 1), rng.choice((4, 64, 512, 4096, 20_000))
    end = min(len(data), at + size)
    return data[:at] + rng.choice((b"\0", b"\xff", b"A")) * (end - at) + data[end:]


def duplicate(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + data[at : at + rng.choice((16, 512, 1024, 8192))] + data[at:]


def splice(data: bytes, rng: random.Random) -> bytes:
    other = rng.choice(seeds()).data
    return data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]


def append(data: bytes, rng: random.Random) -> bytes:
    return data + rng.choice(
        (bytes(rng.randrange(20_000)), rng.randbytes(rng.randrange(1, 2000)), rng.choice(seeds()).data)
    )


def overwrite_number(data: bytes, rng: random.Random) -> bytes:
    """A length or a count in any binary format, made extreme."""
    if len(data) < 8:
        return data
    width, at = rng.choice((2, 4, 8)), rng.randrange(len(data) - 7)
    if rng.random() < 0.5:  # formats keep their counts at both ends
        at = rng.choice((rng.randrange(min(64, len(data) - 7)), len(data) - 8 - rng.randrange(min(64, len(data) - 7))))
    value = rng.choice(
        (
            0,
            1,
            (1 << 8 * width) - 1,
            1 << (8 * width - 1),
            (1 << (8 * width - 1)) - 1,
            len(data),
            len(data) * 2,
            rng.getrandbits(8 * width),
        )
    )
    return data[:at] + (value % (1 << 8 * width)).to_bytes(width, rng.choice(("little", "big"))) + data[at + width :]


def edit_header(data: bytes, rng: random.Random) -> bytes:
    """A field of one tar header changed, and the checksum made good, so that what reads the field meets it."""
    headers = [at for at in range(0, len(data) - BLOCK + 1, BLOCK) if data[at + 257 : at + 262] == b"ustar"]
    if not headers:
        return _flipped(data, rng, 1)
    at = rng.choice(headers)
    header = bytearray(data[at : at + BLOCK])
    field = rng.choice(("name", "name", "size", "size", "size", "type", "type", "link", "prefix", "magic", "flip"))
    if field == "name":
        header[:100] = rng.choice(_ODD_NAMES)[:100].ljust(100, b"\0")
    elif field == "size":
        header[124:136] = rng.choice(_ODD_SIZES)
    elif field == "type":
        header[156] = rng.choice(b"\x001234567xgLKSVDMNAZ\xff ")
    elif field == "link":
        header[157:257] = rng.choice(_ODD_NAMES)[:100].ljust(100, b"\0")
    elif field == "prefix":
        header[345:500] = rng.choice((b"..", b"/", b"p" * 155, b"\xff" * 155)).ljust(155, b"\0")
    elif field == "magic":
        header[257:265] = rng.choice((b"ustar  \0", b"ustar\0" + b"00", bytes(8), b"USTAR\0\xff\xff"))
    else:
        header[rng.randrange(BLOCK)] ^= 1 << rng.randrange(8)
    return data[:at] + repaired(bytes(header)) + data[at + BLOCK :]


def repaired(header: bytes) -> bytes:
    """The tar header with the checksum that its bytes have."""
    total = sum(header[:148]) + 8 * 32 + sum(header[156:])
    return header[:148] + b"%06o\0 " % total + header[156:]


def edit_text(data: bytes, rng: random.Random) -> bytes:
    """One piece of a text replaced by what breaks parsers."""
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(_ODD_TEXTS) + data[at + rng.choice((0, 1, 5, 50)) :]


def edit_json(data: bytes, rng: random.Random) -> bytes:
    """One key or value of a JSON text replaced by another: it still parses, and says something that nobody expects."""
    tokens = list(_TOKEN.finditer(data[:200_000]))
    if not tokens:
        return edit_text(data, rng)
    chosen = rng.choice(tokens)
    fields = (b'"text"', b'"texts"', b'"images"', b'"caption"', b'"transcript"', b'"license"', b'"id"', b'"image"')
    return data[: chosen.start()] + rng.choice((*_ODD_VALUES, *fields)) + data[chosen.end() :]


_ZIP_FIELDS = {  # (offset, bytes) of the numbers in each kind of record
    b"PK\3\4": ((6, 2), (8, 2), (14, 4), (18, 4), (22, 4), (26, 2), (28, 2)),
    b"PK\1\2": (
        (4, 2),
        (8, 2),
        (10, 2),
        (16, 4),
        (20, 4),
        (24, 4),
        (28, 2),
        (30, 2),
        (32, 2),
        (34, 2),
        (38, 4),
        (42, 4),
    ),
    b"PK\5\6": ((4, 2), (8, 2), (10, 2), (12, 4), (16, 4), (20, 2)),
}


def edit_entry(data: bytes, rng: random.Random) -> bytes:
    """One number, or the name, of one record of a zip, in the directory alone or before the bytes alone; or one
    record put in the place of another."""
    found = list(_RECORD.finditer(data))
    if not found:
        return _flipped(data, rng, 1)
    chosen = rng.choice(found)
    at, fields = chosen.start(), _ZIP_FIELDS[chosen[0]]
    if rng.random() < 0.15:
        name_at = at + {b"PK\3\4": 30, b"PK\1\2": 46, b"PK\5\6": 22}[chosen[0]]
        name = rng.choice((*_ODD_NAMES, b"000.png", b"mimetype"))
        return data[:name_at] + name + data[name_at + len(name) :]
    if rng.random() < 0.1:
        other = rng.choice(found).start()
        return data[:at] + data[other : other + 46] + data[at + 46 :]
    offset, width = rng.choice(fields)
    old = int.from_bytes(data[at + offset : at + offset + width], "little")
    values = (
        0,
        1,
        (1 << 8 * width) - 1,
        1 << (8 * width - 1),
        old + 1,
        old - 1,
        old * 2,
        old // 2,
        rng.choice(found).start(),
        rng.choice((8, 9, 12, 14, 93, 1 << 11, 1 << 3)),
    )
    return (
        data[: at + offset]
        + (rng.choice(values) % (1 << 8 * width)).to_bytes(width, "little")
        + data[at + offset + width :]
    )


_RECORD = re.compile(rb"PK\x03\x04|PK\x01\x02|PK\x05\x06")


GENERAL: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    truncate, cut_front, flip_one, flip_one, flip_many, insert, delete, swap_blocks, fill, duplicate, splice, append,
    overwrite_number, overwrite_number, edit_text,
)  # fmt: skip


def _mutate(seed: Seed, rng: random.Random) -> bytes:
    data = seed.data
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        edit = edit_header if seed.method is None else edit_entry
        one = (
            edit
            if seed.members and rng.random() < 0.4
            else edit_json
            if ".json" in seed.name and rng.random() < 0.4
            else rng.choice(GENERAL)
        )
        data = one(data, rng)
    return data


def _with_mutated_member(seed: Seed, rng: random.Random) -> bytes:
    """A sound archive whose content is not."""
    members = list(seed.members)
    for _ in range(rng.choice((1, 2, 4))):
        at = rng.randrange(len(members))
        name, data = members[at]
        if rng.random() < 0.25:
            name = rng.choice(
                (
                    rng.choice(members)[0],
                    name.rpartition(".")[0] or "x",
                    name + rng.choice((".gz", ".json", ".png", ".cls", ".")),
                    chr(rng.randrange(1, 0x3000)) + name,
                )
            )
        members[at] = (name, (edit_json if name.endswith(".json") else rng.choice(GENERAL))(data, rng))
    named = tuple((name.replace("\0", "_").encode("utf-8", "ignore").decode(), data) for name, data in members)
    if seed.method is not None:
        return zipped(named, seed.method)
    return tar(named, seed.dialect if seed.dialect == tarfile.PAX_FORMAT else tarfile.GNU_FORMAT)


def mutated(number: int, seed: int) -> tuple[str, bytes, Seed]:
    """(path of the file, bytes, the seed they were made from) of the input with this number; the same for the same
    two numbers, on every machine."""
    rng = random.Random(f"{seed}:{number}")
    start = rng.choice(seeds())
    inner = _with_mutated_member(start, rng) if start.members and rng.random() < 0.25 else None
    if start.compression and inner is None and rng.random() < 0.5:
        data = Seed(name=start.name, data=compress(start.data, start.compression))
        payload = _mutate(data, rng)
    else:
        payload = compress(_mutate(start, rng) if inner is None else inner, start.compression)
    name = start.name
    if start.companions:
        return name, payload, start
    chance = rng.random()
    if chance < 0.04:
        name, payload = f"{name}.gz", compress(payload, "gz")
    elif chance < 0.08:
        name, payload = f"{name}.zst", compress(payload, "zst")
    elif chance < 0.10:
        packing = rng.choice(("bz2", "xz"))
        name, payload = f"{name}.{packing}", compress(payload, packing)
    elif chance < 0.18:  # the name says something else than the bytes
        name = rng.choice(
            ("x", "x.txt", "x.bin", f"x.{rng.choice(seeds()).name}", "x.tar", "x.zip", "x.jsonl", "x.parquet")
        )
    return name, payload, start

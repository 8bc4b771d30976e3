"""What S3 states of an object's bytes: an ETag, which in most storages is their MD5, and of an upload in parts the MD5
of the MD5s of its parts.

No API promises that, and a bucket that is encrypted by KMS has other ETags. So one that is no hash of what was
transferred is a reason to transfer it once more, and only two transfers that differ show that bytes changed on the way.
"""

from __future__ import annotations

import hashlib
import re
from typing import IO, Any

_MD5 = re.compile(r"[0-9a-f]{32}")
_READ_BYTES = 1 << 20


def may_be_md5(etag: str) -> bool:
    """Whether the ETag has the form of a hash of the whole object."""
    return _MD5.fullmatch(etag) is not None


def md5(data: bytes | bytearray | memoryview = b"") -> Any:
    """A hasher, against accidents of transfers and not against malice."""
    return hashlib.md5(data, usedforsecurity=False)


def etag_of(file: IO[bytes], *, part_bytes: int) -> str:
    """The ETag that the rest of the file gets as an upload in such parts, where ETags are hashes."""
    parts: list[bytes] = []
    while True:
        hasher, left = md5(), part_bytes
        while left and (chunk := file.read(min(left, _READ_BYTES))):
            hasher.update(chunk)
            left -= len(chunk)
        if left < part_bytes:
            parts.append(hasher.digest())
        if left:
            return f"{md5(b''.join(parts)).hexdigest()}-{len(parts)}"

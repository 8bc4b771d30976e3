"""Large blobs on S3, an object each: read by ranges through the block cache, and held against their names."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from typing import IO, cast

from mmlake.errors import UnreadableItem
from mmlake.records import Digest
from mmlake.remote.bucket import Bucket, ObjectInfo
from mmlake.remote.cache import BlockCache
from mmlake.remote.checked_file import CheckedFile
from mmlake.remote.reading import open_file
from mmlake.remote.s3 import Damaged, Missing

_BUFFER_BYTES = 64 << 10


def is_sound(bucket: Bucket, digest: Digest, found: ObjectInfo) -> bool | None:
    """Whether the object hashes to the digest; None where it has gone meanwhile. What does not is transferred again,
    since bytes may change on the way."""
    try:
        return any(bucket.hashed(found, hashlib.sha256()) == digest for _ in range(2))
    except Missing:
        return None


def opened(
    bucket: Bucket,
    cache: BlockCache,
    digest: Digest,
    found: ObjectInfo,
    *,
    gone: Callable[[UnreadableItem], Exception],
    corrupt: Callable[[str], Exception],
) -> IO[bytes]:
    """The object as a seekable file. Reading it in order to its end raises Damaged where bytes changed on the way.

    gone: the error where its version is no longer there. corrupt: the one where it has this hash in place of its name.
    """
    identity = f"{bucket.endpoint} {bucket.name} {found.key}@{found.etag}"

    def read_range(offset: int, size: int) -> bytes:
        try:
            return bucket.read_range(found.key, etag=found.etag, offset=offset, size=size)
        except UnreadableItem as error:
            raise gone(error) from None

    def differs(actual: str) -> None:
        cache.forget(identity, found.size_bytes)
        raise Damaged(f"GET {bucket.name}/{found.key}") if is_sound(bucket, digest, found) else corrupt(actual)

    raw = open_file(cache, identity, found.size_bytes, read_range)
    checked = CheckedFile(raw, size_bytes=found.size_bytes, expected=digest, hasher=hashlib.sha256(), otherwise=differs)
    return cast("IO[bytes]", io.BufferedReader(checked, _BUFFER_BYTES))

"""A blob as a local file whose bytes are those of its name."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mmlake.records import Digest
from mmlake.store.blobs import Blobs


@contextmanager
def checked_file(store: Blobs, digest: Digest) -> Iterator[Path]:
    """The file, gone with the context. Raises BlobMissing, BlobCorrupt, and what a failing store raises."""
    with store.local(digest) as path:
        with path.open("rb") as file:  # a large blob is its own file, which nobody else checks
            actual = hashlib.file_digest(file, "sha256").hexdigest()
        if actual != digest:
            raise store.corrupt(digest, actual)
        yield path

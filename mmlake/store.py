"""Blobs by the SHA-256 of their bytes: `blobs/ab/cd/<sha256>.<ext>`.

Enters: bytes or a stream. Leaves: a digest that names them for ever. A blob is written aside in its own directory, synced, renamed and
never written again, so a killed writer leaves at most a `.part` file that nothing refers to.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from mmlake.errors import BlobCorrupt, BlobMissing
from mmlake.records import Digest, digest_of

_CHUNK_BYTES = 1 << 20  # one reused buffer; larger ones page-fault (FACTS: fresh 16 MiB buffers halve the read speed)


class BlobStore:
    """Immutable blobs under one root directory."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root)

    def put(self, data: bytes | memoryview, *, extension: str = "bin") -> Digest:
        """The digest of the bytes, which are durable in the store when this returns. Bytes that are already there are not written again."""
        digest = digest_of(data)
        if self._find(digest) is None:
            with _Aside(self._directory(digest)) as aside:
                aside.file.write(data)
                aside.commit(f"{digest}.{extension}")
        return digest

    def put_stream(self, stream: IO[bytes], *, extension: str = "bin") -> tuple[Digest, int]:
        """(digest, size in bytes) of what the stream still holds; read in chunks, never whole."""
        hasher, size, buffer = hashlib.sha256(), 0, bytearray(_CHUNK_BYTES)
        view = memoryview(buffer)
        with _Aside(self.root / "incoming") as aside:
            while count := stream.readinto(buffer) if hasattr(stream, "readinto") else _read_into(stream, buffer):
                hasher.update(view[:count])
                aside.file.write(view[:count])
                size += count
            digest = hasher.hexdigest()
            if self._find(digest) is None:
                aside.commit(f"{digest}.{extension}", directory=self._directory(digest))
        return digest, size

    def path(self, digest: Digest) -> Path:
        """The file that holds the blob. Raises BlobMissing."""
        if (path := self._find(digest)) is None:
            raise BlobMissing(f"blob {digest} is named but absent from {self.root}; run `mmlake fsck`, then ingest its source shard again")
        return path

    def read(self, digest: Digest) -> bytes:
        """The blob's bytes, checked against its name. Raises BlobMissing, BlobCorrupt."""
        data = self.path(digest).read_bytes()
        if (actual := digest_of(data)) != digest:
            raise BlobCorrupt(f"blob {digest} in {self.root} now hashes to {actual}; run `mmlake fsck`")
        return data

    def open(self, digest: Digest) -> IO[bytes]:
        """The blob as a binary file, unchecked. Raises BlobMissing."""
        return self.path(digest).open("rb")

    def size(self, digest: Digest) -> int:
        """Size in bytes. Raises BlobMissing."""
        return self.path(digest).stat().st_size

    def __contains__(self, digest: Digest) -> bool:
        return self._find(digest) is not None

    def digests(self) -> Iterator[Digest]:
        """Every digest in the store, sorted."""
        for outer in sorted(self.root.glob("[0-9a-f][0-9a-f]")):
            for inner in sorted(outer.iterdir()):
                for name in sorted(os.listdir(inner)):
                    if not name.endswith(".part"):
                        yield name.partition(".")[0]

    def verify(self, digest: Digest) -> str | None:
        """None when the blob's bytes hash to its name, else what is wrong: "missing" or "corrupt"."""
        try:
            with self.open(digest) as file:
                return None if hashlib.file_digest(file, "sha256").hexdigest() == digest else "corrupt"
        except BlobMissing:
            return "missing"

    def _directory(self, digest: Digest) -> Path:
        return self.root / digest[:2] / digest[2:4]

    def _find(self, digest: Digest) -> Path | None:
        directory = self._directory(digest)
        try:
            names = os.listdir(directory)
        except FileNotFoundError:
            return None
        return next((directory / name for name in sorted(names) if name.startswith(digest) and not name.endswith(".part")), None)


def _read_into(stream: IO[bytes], buffer: bytearray) -> int:
    data = stream.read(len(buffer))
    buffer[: len(data)] = data
    return len(data)


class _Aside:
    """A file beside its final place that appears there only through `commit`; otherwise it is removed on leaving."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._path = directory / f"{secrets.token_hex(8)}.part"

    def __enter__(self) -> _Aside:
        self.file = self._path.open("xb")
        return self

    def commit(self, name: str, *, directory: Path | None = None) -> Path:
        """Sync the bytes, give them their name, sync the directory."""
        self.file.flush()
        os.fsync(self.file.fileno())
        target = (directory or self._path.parent) / name
        target.parent.mkdir(parents=True, exist_ok=True)
        os.replace(self._path, target)
        sync_directory(target.parent)
        return target

    def __exit__(self, *exc: object) -> None:
        self.file.close()
        self._path.unlink(missing_ok=True)


def sync_directory(directory: Path) -> None:
    """Make renames inside the directory durable."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_atomically(path: Path, data: bytes) -> None:
    """Put the bytes at the path so that a reader sees the old file or the new one, never a part; durable on return."""
    with _Aside(path.parent) as aside:
        aside.file.write(data)
        aside.commit(path.name)

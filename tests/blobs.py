"""Doing harm to blobs, wherever in the store their bytes lie."""

from __future__ import annotations

from pathlib import Path

from mmlake.store import BlobStore, PackIndex


def place_of(store: BlobStore, digest: str) -> tuple[Path, int, int]:
    """(file, offset, size in bytes) of a blob that is there once and not empty."""
    for path in store.root.glob("packs/*.idx"):
        if (entry := PackIndex(path.read_bytes()).find(digest)) is not None:
            return path.with_suffix(".pack"), entry.offset, entry.size_bytes
    (path,) = (store.root / digest[:2] / digest[2:4]).glob(f"{digest}.*")
    return path, 0, path.stat().st_size


def rot(store: BlobStore, digest: str) -> None:
    """Flip every bit of the blob's last byte."""
    path, offset, size = place_of(store, digest)
    with path.open("r+b") as file:
        file.seek(offset + size - 1)
        last = file.read(1)[0]
        file.seek(offset + size - 1)
        file.write(bytes([last ^ 0xFF]))


def file_of(store: BlobStore, digest: str) -> Path:
    """The file of a blob that was put outside of a batch, to be harmed."""
    path, offset, _ = place_of(store, digest)
    assert offset == 0
    return path

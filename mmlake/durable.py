"""What a power cut does not take back: directories and names that are on the disk when a call returns.

Enters: paths. Leaves: nothing that a later step relies on and the disk does not have. A stamp, a ref or an index is
written after what it names went through here, or through `store.write_atomically` and the commits of the store, which
do (docs/decisions/0041-what-is-synced-when.md).
"""

from __future__ import annotations

import os
from pathlib import Path


def sync_directory(directory: str | os.PathLike[str]) -> None:
    """Make the names in the directory durable."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_directory(directory: Path) -> None:
    """Let the directory be there, and those above it; what was missing is durable on return."""
    missing, above = list[Path](), directory
    while not above.exists():
        missing.append(above)
        above = above.parent
    directory.mkdir(parents=True, exist_ok=True)
    for made in reversed(missing):
        sync_directory(made.parent)


def put_in_place(written: Path, path: Path) -> None:
    """Give the synced file its name, over what is there; durable on return. The directory is there."""
    os.replace(written, path)
    sync_directory(path.parent)
    if written.parent != path.parent:
        sync_directory(written.parent)

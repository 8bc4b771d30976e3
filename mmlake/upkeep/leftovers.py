"""What killed writers left, anywhere in a lake."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from mmlake.errors import BlobCorrupt
from mmlake.lake import Lake

SCRATCH = "scratch"  # files of steps that run
_BLOBS = "blobs"  # their store sweeps, and knows no other names


def remove_leftovers(lake: Lake, *, older_than_s: float, now_s: float) -> int:
    """The number of unfinished files removed, those last written `older_than_s` or longer before `now_s`: of the store
    and next to every other file of the lake, and what steps had in `scratch`. No step is running meanwhile."""
    removed = lake.store.sweep(older_than_s=older_than_s, now_s=now_s)
    for path in files_of(lake.root):
        is_left = path.name.endswith(".part") or path.relative_to(lake.root).parts[0] == SCRATCH
        with suppress(FileNotFoundError):
            if is_left and now_s - path.stat(follow_symlinks=False).st_mtime >= older_than_s:
                path.unlink()
                removed += 1
    for folder in sorted((lake.root / SCRATCH).glob("*")):
        if folder.is_dir() and not folder.is_symlink() and not any(path.is_file() for path in folder.rglob("*")):
            shutil.rmtree(folder, ignore_errors=True)
    return removed


def refuse_pipes(root: Path) -> None:
    """Raises BlobCorrupt where a pipe, a socket or a device lies below the root: who reads one may wait for good."""
    for folder, _, names in os.walk(root):
        for path in (Path(folder, name) for name in names):
            with suppress(FileNotFoundError):  # of a step that runs
                mode = path.lstat().st_mode
                if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
                    raise BlobCorrupt(f"{path} is a pipe, a socket or a device in the place of a file; remove it")


def files_of(root: Path) -> Iterator[Path]:
    """Every file below the root but those of the store of blobs; links to directories are not followed."""
    for folder, folders, names in os.walk(root):
        if folder == str(root):
            folders[:] = [name for name in folders if name != _BLOBS]
        yield from (Path(folder, name) for name in names)

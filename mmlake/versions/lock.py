"""The one-writer rule of the version store."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mmlake.errors import LakeLocked


@contextmanager
def writing(root: Path) -> Iterator[None]:
    """Hold the writer's lock of the directory. Raises LakeLocked at once where another writer has it; a dead writer's lock is free."""
    root.mkdir(parents=True, exist_ok=True)
    with (root / "writer.lock").open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LakeLocked(f"another process is writing versions or refs in {root}; wait for it to end, then run this again") from error
        yield

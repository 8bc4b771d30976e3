"""One writer at a time: a lock file that the kernel frees when its holder ends, however it ends."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mmlake.errors import LakeLocked


@contextmanager
def holding(path: Path, *, what: str) -> Iterator[None]:
    """Hold the lock of that file, whose directory is made where it is missing. Raises LakeLocked at once where another has it.

    what: what the lock guards, as the error's subject: "the catalog /lake/catalog".
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LakeLocked(f"{what} is being written by another process; wait for it to end, or stop it, then run this again") from error
        yield


@contextmanager
def sharing(path: Path) -> Iterator[None]:
    """Hold the lock of that file together with any number of others who share it; waits for one who holds it alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        yield

"""Locks on files, which the kernel frees when their holder ends, however it ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mmlake.durable import make_directory
from mmlake.errors import LakeLocked


@contextmanager
def exclusive_lock(path: Path, *, what: str) -> Iterator[None]:
    """Hold the lock of that file alone; its directory is made where it is missing. Raises LakeLocked at once where
    another holds it.

    what: what the lock guards, as the error's subject: "the catalog /lake/catalog".
    """
    make_directory(path.parent)
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LakeLocked(
                f"{what} is being written by another process; wait for it to end, or stop it, then run this again"
            ) from error
        yield


def lasting_lock(path: Path, *, taken: Callable[[str], str], note: str = "") -> int:
    """The descriptor of a lock that lasts until this process ends, also where it becomes another program. Raises
    LakeLocked at once where another has it.

    note: left in the file for those who come while it is held.
    taken: the error's text, given the note of the holder.
    """
    make_directory(path.parent)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        with open(descriptor, encoding="utf-8", errors="replace") as file:
            raise LakeLocked(taken(file.read(200).strip())) from error
    os.ftruncate(descriptor, 0)
    os.write(descriptor, note.encode())
    os.set_inheritable(descriptor, True)
    return descriptor


@contextmanager
def shared_lock(path: Path) -> Iterator[None]:
    """Hold the lock of that file together with others who share it; waits for one who holds it alone."""
    make_directory(path.parent)
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        yield


@contextmanager
def waiting_lock(path: Path) -> Iterator[None]:
    """Hold the lock of that file alone; waits for those who hold it. Its directory is made where it is missing."""
    make_directory(path.parent)
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield

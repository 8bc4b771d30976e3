"""Locks on files, which the kernel frees when their holder ends, however it ends."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from mmlake.durable import make_directory
from mmlake.errors import LakeLocked, SettingsError

_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


@contextmanager
def exclusive_lock(path: Path, *, what: str) -> Iterator[None]:
    """Hold the lock of that file alone; its directory is made where it is missing. Raises LakeLocked at once where
    another holds it.

    what: what the lock guards, as the error's subject: "the catalog /lake/catalog".
    """
    with _opened(path) as file:
        try:
            _lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
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
    with _opened(path) as file:
        _lock(file, fcntl.LOCK_SH)
        yield


@contextmanager
def waiting_lock(path: Path) -> Iterator[None]:
    """Hold the lock of that file alone; waits for those who hold it. Its directory is made where it is missing."""
    with _opened(path) as file:
        _lock(file, fcntl.LOCK_EX)
        yield


def _opened(path: Path) -> IO[bytes]:
    """The file of the lock. Raises SettingsError where nothing can be written."""
    try:
        make_directory(path.parent)
        return path.open("ab")
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise
        raise SettingsError(
            f"{path.parent} cannot be written ({os.strerror(error.errno)}): it can be read, and nothing in it made; "
            "mount it for writing, correct its owner or mode, or name another lake"
        ) from error


def _lock(file: IO[bytes], how: int) -> None:
    """Raises SettingsError where the file system has no locks."""
    try:
        fcntl.flock(file, how)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        raise SettingsError(
            f"the file system of {file.name!r} has no locks (flock: {os.strerror(error.errno)}), so two writers could "
            "not be kept apart; put the lake on a local disk, or mount this one with locks"
        ) from error

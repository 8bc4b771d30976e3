"""Locks on files, which the kernel frees when their holder ends, however it ends."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from mmlake.durable import make_directory
from mmlake.errors import LakeLocked, SettingsError

_log = logging.getLogger(__name__)

_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
_SAID_AFTER_S, _SAID_AGAIN_S = 2.0, 60.0  # what waits longer says so


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
    """Hold the lock of that file together with others who share it; waits for one who holds it alone, and says so."""
    with _opened(path) as file:
        _wait(file, fcntl.LOCK_SH)
        yield


@contextmanager
def waiting_lock(path: Path) -> Iterator[None]:
    """Hold the lock of that file alone; waits for those who hold it, and says so. Its directory is made where it
    is missing."""
    with _opened(path) as file:
        _wait(file, fcntl.LOCK_EX)
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


def _wait(file: IO[bytes], how: int) -> None:
    """A person who sees nothing happen stops the command: a line says what is waited for, and another each minute."""
    try:
        _lock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        over = threading.Event()
        threading.Thread(target=_say_until, args=(over, file), daemon=True).start()
        try:
            _lock(file, how)
        finally:
            over.set()


def _say_until(over: threading.Event, file: IO[bytes]) -> None:
    pause_s = _SAID_AFTER_S
    while not over.wait(pause_s):
        _log.warning("waiting for %s, which %s holds; this goes on by itself", file.name, _holder(file))
        pause_s = _SAID_AGAIN_S


def _holder(file: IO[bytes]) -> str:
    """Who holds the lock of the file, as far as the kernel says (proc(5), /proc/locks; Linux only)."""
    try:
        inode = str(os.fstat(file.fileno()).st_ino)
        for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
            _, kind, _, _, process, place, *_ = line.split()  # of one who waits "->" stands before the kind
            if kind == "FLOCK" and place.rpartition(":")[2] == inode:
                words = Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace").split("\0")
                command = " ".join(Path(word).name for word in words[:3] if word.isprintable())
                return f"process {process} ({command})"  # further words may hold a login
    except (OSError, ValueError):  # another system, or the holder has just ended
        pass
    return "another process"


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

"""The one border for every item: what is the machine's fault stops a run, what is an item's fault becomes its row.

Enters: a kernel (a function of one item) and items. Leaves: for each item, in order, what the kernel made of it, or a
`Failure` with a code of the catalogue and a reason. Every stage that reads items goes through here, and nowhere else in
the house is an `Exception` caught.

A kernel is picklable (a top-level function, or `functools.partial` over picklable arguments), and so is an item: bytes,
a local path, plain records. It reads no store, so that a runner may call it in another process. The caller prepares
the item from the store (`opened`), and stores what comes back.
"""

from __future__ import annotations

import errno
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Protocol, TypeVar

from mmlake.errors import BlobCorrupt, BlobMissing, MmlakeError, UnreadableItem
from mmlake.progress import Advance, silent

K = TypeVar("K")
T = TypeVar("T")
R = TypeVar("R")

_log = logging.getLogger(__name__)
# What the operating system says of disks, handles, rights, locks, memory and networks. A decoder that makes nothing of
# its bytes says EINVAL, or nothing at all.
_MACHINE_ERRNOS = frozenset(
    {
        *(errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.ENXIO, errno.ENODEV),  # disks
        *(errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EAGAIN),  # handles, memory
        *(errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR),  # rights; the file held for the item is gone
        *(errno.ENOLCK, errno.EDEADLK, errno.EBUSY),  # locks
        *(errno.ESTALE, errno.EREMOTEIO, errno.ETIMEDOUT, errno.EPIPE),  # network file systems and stores
        *(errno.ECONNRESET, errno.ECONNREFUSED, errno.ECONNABORTED, errno.ENETUNREACH, errno.EHOSTUNREACH),
    }
)
# FFmpeg also says EIO, ENOMEM and EPERM of bytes that are wrong; these it says of the file alone
_FFMPEG_ERRNOS = frozenset({errno.EMFILE, errno.ENFILE, errno.EACCES, errno.ENOENT, errno.ESTALE})


@dataclass(frozen=True, slots=True)
class Failure:
    """What became of an item that cannot be worked on; it becomes the item's row."""

    code: int  # a key of the error catalogue
    reason: str  # our own words, with the measured value


def is_machine_fault(error: BaseException) -> bool:
    """Whether the error is of the machine, its settings or its stores rather than of the item's bytes: then it raises,
    and nothing is stamped.

    A lost or changed blob is the item's: other items are there.
    """
    if isinstance(error, (BlobMissing, BlobCorrupt)):
        return False
    if type(error).__module__.startswith("av."):  # PyAV's errors are also OSError and MemoryError, by FFmpeg's number
        return getattr(error, "errno", None) in _FFMPEG_ERRNOS
    if isinstance(error, OSError):
        return error.errno in _MACHINE_ERRNOS or isinstance(error, (ConnectionError, TimeoutError))
    if isinstance(error, RuntimeError):
        return "can't start new thread" in str(error)  # Python's words, which it has no class for
    # an interrupt, a missing library (ImportError) and whatever else concerns all items alike
    return isinstance(error, (MmlakeError, MemoryError, ImportError)) or not isinstance(error, Exception)


def attempt(kernel: Callable[[T], R], item: T, *, code: int, what: str) -> R | Failure:
    """What the kernel makes of the item, or why it cannot be worked on. Raises what is the machine's fault.

    code, what: for an error that the kernel did not foresee, such as 3001 and "the bytes do not decode as image".
    """
    try:
        return kernel(item)
    except (UnreadableItem, BlobMissing, BlobCorrupt) as error:
        return _foreseen(error)
    # the border itself: decoders raise anything on hostile bytes, and one item must not stop its shard
    except Exception as error:
        if is_machine_fault(error):
            raise
        _log.warning("%s: an unforeseen %s", what, type(error).__name__)
        _log.debug("%s", what, exc_info=True)
        return Failure(code, f"{what} ({type(error).__name__})")


def _foreseen(error: UnreadableItem | BlobMissing | BlobCorrupt) -> Failure:
    """The failure that the error says. Raises the machine's fault that it was made from."""
    if isinstance(error, BlobMissing):
        return Failure(2001, "the store holds no blob of this digest")
    if isinstance(error, BlobCorrupt):
        return Failure(2002, "the blob's bytes do not hash to its digest")
    cause = error.__cause__
    while cause is not None:
        if is_machine_fault(cause):
            raise cause
        cause = cause.__cause__
    return Failure(error.code, error.reason)


class Runner(Protocol):
    """Where kernels run: in this process, or in others."""

    @property
    def workers(self) -> int:
        """How many run at once."""

    def map(
        self, kernel: Callable[[T], R], items: Iterable[T], *, code: int, what: str, advance: Advance = silent
    ) -> Iterator[R | Failure]:
        """One result per item, in input order; code and what as in `attempt`.

        Items are taken in the caller's thread, lazily, and as few ahead of their results as keep the runner busy: what
        an item names stays valid only until its result was taken. Raises what is the machine's fault.
        """


class InProcess:
    """The Runner that works here, one item after the other."""

    workers = 1

    def map(
        self, kernel: Callable[[T], R], items: Iterable[T], *, code: int, what: str, advance: Advance = silent
    ) -> Iterator[R | Failure]:
        """See `Runner.map`; an item is taken when its result is asked for."""
        for item in items:
            yield attempt(kernel, item, code=code, what=what)
            advance(1)


IN_PROCESS = InProcess()


def map_opened(
    runner: Runner,
    kernel: Callable[[T], R],
    keys: Iterable[K],
    *,
    opened: Callable[[K], AbstractContextManager[T]],
    code: int,
    what: str,
    advance: Advance = silent,
) -> Iterator[tuple[K, R | Failure]]:
    """(key, what the kernel made of its item or why it failed), in the order of the keys.

    opened: the item of a key, as a context that stays open until its result was used, such as a blob kept as a local
    file. What it raises is the machine's fault, but for UnreadableItem, BlobMissing and BlobCorrupt.
    """
    waiting: deque[tuple[K, ExitStack, Failure | None]] = deque()

    def items() -> Iterator[T]:
        for key in keys:
            stack = ExitStack()
            try:
                item = stack.enter_context(opened(key))
            except (UnreadableItem, BlobMissing, BlobCorrupt) as error:
                waiting.append((key, stack, _foreseen(error)))
                continue
            waiting.append((key, stack, None))
            yield item

    results = runner.map(kernel, items(), code=code, what=what)
    try:
        for result in results:
            yield from _failed(waiting, advance)
            key, stack, _ = waiting.popleft()
            with stack:
                yield key, result
            advance(1)
        yield from _failed(waiting, advance)
    finally:
        if (close := getattr(results, "close", None)) is not None:
            close()  # before the files of its items go
        for _, stack, _ in waiting:
            stack.close()


def _failed(waiting: deque[tuple[K, ExitStack, Failure | None]], advance: Advance) -> Iterator[tuple[K, Failure]]:
    """Those at the front that no kernel saw."""
    while waiting and waiting[0][2] is not None:
        key, _, failure = waiting.popleft()
        assert failure is not None
        yield key, failure
        advance(1)

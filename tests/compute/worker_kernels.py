"""Kernels for the tests of the worker pool; here because a worker imports its kernel."""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import resource
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mmlake.errors import ModelMissing, UnreadableItem


@dataclass(frozen=True)
class Row:
    """What a stage might return."""

    name: str
    values: tuple[float, ...]


class Place(NamedTuple):
    """What a stage might return."""

    at: int
    side: str


def double(item: int) -> int:
    return 2 * item


def failing(item: str) -> object:
    """What the first word says; anything else comes back."""
    verb, _, rest = item.partition(" ")
    if verb == "crash":
        ctypes.string_at(0)
    if verb == "abort":
        os.abort()
    if verb == "exit":
        os._exit(int(rest))
    if verb == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if verb == "hang":
        while True:
            time.sleep(60)
    if verb == "hoard":
        return len(np.ones(int(rest), np.uint8))
    if verb == "refuse":
        raise UnreadableItem(3004, rest)
    if verb == "raise":
        raise ValueError(rest)
    if verb == "disk":
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/there")
    if verb == "model":
        raise ModelMissing(rest)
    if verb == "warn":
        logging.getLogger("mmlake.decoder").warning("a word about %s", rest)
    return item


def crash_where_another_was(item: tuple[str, str]) -> str:
    """Ends a worker that did "spoil" before; alone it is well."""
    name, verb = item
    if verb == "spoil":
        os.environ["SPOILT"] = "1"
    elif os.environ.get("SPOILT"):
        os.abort()
    return name


def anything(item: object) -> object:
    """Values of every kind that may come back."""
    return [
        item,
        None,
        True,
        -(2**70),
        float("inf"),
        -0.0,
        "\udcff ü",
        b"\0\xff",
        (1, "a"),
        {"k": [1.5] * 12, 3: {}},
        Row("r", (0.1, 2.0)),
        Place(4, "left"),
        np.float32(0.1),
        np.int64(7),
        np.arange(6, dtype=">i2").reshape(2, 3),
        np.zeros((0, 3), np.float32),
        np.array(5),
    ]


def unsendable(item: object) -> object:
    return {item}


def whose(item: object) -> tuple[int, int]:
    return os.getpid(), os.getppid()


def large(item: bytes) -> bytes:
    return item[::-1]


def threads(item: object) -> tuple[int, list[str]]:
    """(threads of OpenCV, threads of this process by name)."""
    import cv2
    import pyarrow as pa

    pa.array(range(1000)).take(pa.array([1, 2]))
    cv2.resize(np.zeros((900, 900, 3), np.uint8), (300, 300))
    return cv2.getNumThreads(), [(path / "comm").read_text().strip() for path in Path("/proc/self/task").iterdir()]


def loaded(item: object) -> list[str]:
    import sys

    return [name for name in ("torch", "lancedb", "dagster", "transformers") if name in sys.modules]


def large_or_peak(item: int) -> bytes | int:
    """So many bytes; of 0, the most memory that the process ever held, in bytes."""
    if item:
        return os.urandom(item)
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

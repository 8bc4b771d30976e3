"""How many films one GPU decodes at once, over all processes of a machine: locks on files that the kernel frees when
their holder ends, however it ends."""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mmlake.film_decoders.film import Refused
from mmlake.film_decoders.settings import DecodeSettings

STREAMS_TAKEN = 3112
_ASK_AGAIN_S = 0.02  # a tenth of what the shortest clip takes


@contextmanager
def stream_slot(device: str, settings: DecodeSettings) -> Iterator[None]:
    """Hold one of the device's streams. Raises Refused 3112 where none came free in time."""
    descriptor = _taken(_directory(device, settings), device, settings)
    try:
        yield
    finally:
        os.close(descriptor)


def _directory(device: str, settings: DecodeSettings) -> Path:
    folder = settings.slots_dir or Path(tempfile.gettempdir()) / f"mmlake-streams-{os.getuid()}"
    directory = Path(folder) / device.replace(":", "-")
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def _taken(directory: Path, device: str, settings: DecodeSettings) -> int:
    """The descriptor of the first lock that is free."""
    deadline = time.monotonic() + settings.stream_wait_s
    while True:
        for number in range(settings.max_streams):
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = os.open(directory / f"{number:03d}.lock", flags, 0o666)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                continue
            return descriptor
        if time.monotonic() >= deadline:
            raise Refused(
                STREAMS_TAKEN,
                f"num_streams={settings.max_streams} of {device} were taken for {settings.stream_wait_s:g} s, "
                f"max_streams={settings.max_streams}",
            )
        time.sleep(_ASK_AGAIN_S)

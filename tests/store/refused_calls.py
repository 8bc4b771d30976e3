"""System calls that fail when a test wants it."""

from __future__ import annotations

import errno
import os

import pytest


class Refusing:
    """A system call that fails at its n-th use, before it does anything, and counts them all."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str, *, fail_at: int, code: int = errno.EIO) -> None:
        self.count, self._real, self._fail_at, self._code = 0, getattr(os, name), fail_at, code
        monkeypatch.setattr(os, name, self)

    def __call__(self, *args, **kwargs):
        self.count += 1
        if self.count == self._fail_at:
            raise OSError(self._code, os.strerror(self._code))
        return self._real(*args, **kwargs)

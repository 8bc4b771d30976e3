"""How functions are compiled by numba: once per machine, where a folder to keep their code in can be written.

Processes that want the same function at once, as the workers of a pool do, compile it one after the other, so that all
but the first find its code.
"""

from __future__ import annotations

import fcntl
import os
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any


def made(numba: Any, signature: Any, function: Callable[..., Any]) -> Any:
    """The function compiled for arguments of these types, now or when it was called for the first time on this
    machine; signature None: for those of the first call."""
    given = () if signature is None else (signature,)
    with alone(function.__module__):
        try:
            return numba.njit(*given, nogil=True, cache=True)(function)
        except (RuntimeError, OSError):  # no folder to keep compiled code in: HOME and the package are read-only
            return numba.njit(*given, nogil=True)(function)


@contextmanager
def alone(module: str, name: str = "") -> Iterator[None]:
    """The only one on this machine that compiles functions of the module, or those of that name in it. Where its folder
    cannot be written there is no lock, and each process compiles."""
    handle = None
    with suppress(OSError, KeyError, TypeError):
        folder = Path(sys.modules[module].__file__ or "").parent / "__pycache__"
        folder.mkdir(exist_ok=True)
        handle = os.open(folder / f"{name or module.rpartition('.')[2]}.compiling", os.O_RDWR | os.O_CREAT, 0o644)
        fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)


def linked(function: Callable[..., Any], inner: Mapping[str, Any], stamp: str = "") -> Callable[..., Any]:
    """The function with the compiled ones in place of those that it calls. numba keeps its code until the file of the
    function changes; stamp: what else it depends on."""
    one = types.FunctionType(function.__code__, {**function.__globals__, **inner}, function.__name__)
    one.__module__, one.__qualname__ = function.__module__, f"{function.__qualname__}{stamp}"
    return one

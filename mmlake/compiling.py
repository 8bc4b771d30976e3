"""How functions are compiled by numba: once per machine, where a folder to keep their code in can be written."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import Any


def made(numba: Any, signature: Any, function: Callable[..., Any]) -> Any:
    """The function compiled for arguments of these types, now or when it was called for the first time on this
    machine; signature None: for those of the first call."""
    given = () if signature is None else (signature,)
    try:
        return numba.njit(*given, nogil=True, cache=True)(function)
    except (RuntimeError, OSError):  # no folder to keep compiled code in: HOME and the package are read-only
        return numba.njit(*given, nogil=True)(function)


def linked(function: Callable[..., Any], inner: Mapping[str, Any], stamp: str = "") -> Callable[..., Any]:
    """The function with the compiled ones in place of those that it calls. numba keeps its code until the file of the
    function changes; stamp: what else it depends on."""
    one = types.FunctionType(function.__code__, {**function.__globals__, **inner}, function.__name__)
    one.__module__, one.__qualname__ = function.__module__, f"{function.__qualname__}{stamp}"
    return one

"""LanceDB, imported without the checks of a client that no lake uses.

`import lancedb` imports the client of a REST catalog: some 370 functions, whose arguments pydantic compiles a check for
at once, 0.7 of 1.8 s of CPU. Here each compiles its own at its first call.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

_lock = threading.Lock()


def lancedb() -> ModuleType:
    """The module."""
    os.environ.setdefault("LANCEDB_LOG", "error")  # its warnings are about its own plans of a filter
    with _lock:
        if "lancedb" not in sys.modules:
            import pydantic

            at_once = pydantic.validate_call
            pydantic.validate_call = _at_first_call(at_once)  # type: ignore[assignment]
            try:
                import lancedb
            finally:
                pydantic.validate_call = at_once
    import lancedb

    return lancedb


def _at_first_call(validate_call: Callable[..., Any]) -> Callable[..., Any]:
    """The decorator, which does its work when the function is called."""

    def decorate(function: Callable[..., Any] | None = None, /, **options: Any) -> Callable[..., Any]:
        made: Callable[..., Any]
        if function is None or options:  # not as the client uses it
            made = validate_call(function, **options)
            return made

        @functools.cache
        def checked() -> Any:
            return validate_call(function)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            return checked()(*args, **kwargs)

        return call

    return decorate

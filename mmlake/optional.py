"""Libraries that only some installations have, imported when first needed and with the remedy in the error; and what
importing a large library costs."""

from __future__ import annotations

import gc
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from mmlake.errors import MissingExtra


def need(module: str, *, extra: str, purpose: str) -> ModuleType:
    """The imported module. Raises MissingExtra naming the extra that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        culprit = error.name or module
        is_absent = isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{culprit}.")
        state = (
            "which is not installed"
            if is_absent
            else f"which is installed but does not load (its import of '{culprit}' fails)"
        )
        raise MissingExtra(
            f"{purpose} needs the library '{module}', {state}; run: pip install 'mmlake[{extra}]'"
        ) from error


def defer(package: str) -> None:
    """Let the package's own code run when something is first asked of it, and not when a module in it is imported.

    For a package that collects more than anybody here needs. Does nothing where it is imported already, or absent."""
    spec = None if package in sys.modules else importlib.util.find_spec(package)
    if spec is None or spec.loader is None:
        return
    module, loader = importlib.util.module_from_spec(spec), spec.loader

    def load(name: str) -> object:
        if vars(module).pop("__getattr__", None) is not None:
            loader.exec_module(module)
        return getattr(module, name)

    vars(module)["__getattr__"] = load
    sys.modules[package] = module


@contextmanager
def kept_imports() -> Iterator[None]:
    """A block that imports what this process keeps to its end: without the search for garbage, and what is there by the
    end of the block is searched no more.

    Each search visits the modules of all imports before it. For a program of its own: what is garbage by then stays."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()  # before it is enabled: the next object would have all of them searched
        if was_enabled:
            gc.enable()

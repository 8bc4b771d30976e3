"""Libraries that only some installations have, imported when first needed and with the remedy in the error.

And large ones, of which no more is imported than is used."""

from __future__ import annotations

import gc
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import Any

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
    _put_off(package, _asked_for)


def defer_classes(package: str) -> None:
    """As `defer`, and a class that is imported from the package by name is made when it is first used: when it is
    called, asked for a public attribute, or whether something is of it. To annotate with it is not to use it.

    A name that the package lacks is found out then, too. To inherit from such a class is to inherit from a stand-in."""
    stand_ins: dict[str, _StandIn] = {}

    def ask(load: Callable[[str], object], name: str) -> object:
        if not name[:1].isupper():
            return load(name)
        return stand_ins.setdefault(name, _StandIn(name, (), {"load": load}))

    _put_off(package, ask)


def _asked_for(load: Callable[[str], object], name: str) -> object:
    return load(name)


def _put_off(package: str, ask: Callable[[Callable[[str], object], str], object]) -> None:
    spec = None if package in sys.modules else importlib.util.find_spec(package)
    if spec is None or spec.loader is None:
        return
    module, loader = importlib.util.module_from_spec(spec), spec.loader

    def load(name: str) -> object:
        if vars(module).pop("__getattr__", None) is not None:
            loader.exec_module(module)
        return getattr(module, name)

    vars(module)["__getattr__"] = partial(ask, load)
    sys.modules[package] = module


class _StandIn(type):
    """A class of which the name is known."""

    def _real(cls) -> Any:
        return vars(cls)["load"](cls.__name__)

    def __call__(cls, *args: Any, **fields: Any) -> Any:
        return cls._real()(*args, **fields)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls._real())

    def __subclasscheck__(cls, other: type) -> bool:
        return other is cls or issubclass(other, cls._real())

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):  # what annotations are asked for by who compares signatures
            raise AttributeError(name)
        return getattr(cls._real(), name)


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

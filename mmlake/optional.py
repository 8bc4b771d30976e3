"""Libraries that only some installations have, imported when first needed and with the remedy in the error."""

from __future__ import annotations

import importlib
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

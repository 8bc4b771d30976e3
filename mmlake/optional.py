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
        raise MissingExtra(f"{purpose} needs the library '{module}', which is not installed; run: pip install 'mmlake[{extra}]'") from error

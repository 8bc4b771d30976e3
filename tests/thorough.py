"""How much a test draws: a few cases by default, so that the suite stays short; MMLAKE_THOROUGH=1 draws them all."""

from __future__ import annotations

import os
from typing import TypeVar

IS_THOROUGH = os.environ.get("MMLAKE_THOROUGH", "0") not in ("", "0")
T = TypeVar("T")


def drawn(usual: T, thorough: T) -> T:
    """How many cases, or which, a test has."""
    return thorough if IS_THOROUGH else usual

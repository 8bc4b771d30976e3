"""How much a test draws: a few cases by default, so that the suite stays short; MMLAKE_THOROUGH=1 draws them all, and
runs what takes a minute and more by itself."""

from __future__ import annotations

import os
from typing import TypeVar

import pytest

IS_THOROUGH = os.environ.get("MMLAKE_THOROUGH", "0") not in ("", "0")
T = TypeVar("T")
takes_minutes = pytest.mark.skipif(not IS_THOROUGH, reason="takes minutes: MMLAKE_THOROUGH=1")


def drawn(usual: T, thorough: T) -> T:
    """How many cases, or which, a test has."""
    return thorough if IS_THOROUGH else usual

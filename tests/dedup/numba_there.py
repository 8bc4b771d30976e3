"""A mark for tests of compiled loops. Asking a module for its loops would compile them while tests are collected, in
one worker, with the others waiting."""

from __future__ import annotations

import importlib.util

import pytest

needs_numba = pytest.mark.skipif(importlib.util.find_spec("numba") is None, reason="numba is absent")

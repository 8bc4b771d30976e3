"""The sample corpus: a small landing zone made from nothing, byte for byte the same on every run, and the truth about it."""

from __future__ import annotations

"""What one entry of the error catalogue says."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorCode:
    """One entry of the error catalogue, as it stands in `docs/errors.md`."""

    # 1xxx sources, 2xxx store, 3xxx preprocess, 4xxx quality, 5xxx dedup and embed, 6xxx catalog, 7xxx versions to
    # loader, 8xxx environment
    code: int
    name: str  # short and stable: it is what tests and reports say
    severity: str  # P0 must not enter a version, P1 isolate for review, P2 depends on the use
    what: str  # what happened, seen from the row
    fix: str  # what to do about it
    is_transient: bool = False  # whether trying again may help although nothing was changed

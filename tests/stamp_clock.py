"""A clock for stamps, whose seconds two quick runs would share."""

from __future__ import annotations

import pytest


class Clock:
    """Stamps of one minute after another, in a year that no test sees."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.minute = 0
        monkeypatch.setattr("mmlake.tables.Stopwatch.fields", self.fields)

    def fields(self, **spent: float) -> dict[str, object]:
        self.minute += 1
        return {"seconds": 0.0, "cpu_seconds": 0.0, "written_at": self.now}

    @property
    def now(self) -> str:
        return f"2099-01-01T00:{self.minute:02d}:00+00:00"

"""How many tables a version is said to be while it is made."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mmlake.publish import VERSION_STEPS
from mmlake_assets import run


def test_a_version_is_all_of_its_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bar of one table stood full after the first of nine, and a log said `5 of 1 table`."""
    begun: list[tuple[str, int]] = []
    runner: Any = SimpleNamespace(
        ran=SimpleNamespace(versions={}, made=[]),
        instance=SimpleNamespace(add_dynamic_partitions=lambda *given: None),
        run=lambda *given, **named: None,
    )
    lake: Any = SimpleNamespace(cuts=SimpleNamespace(uncut=SimpleNamespace(now=dict)))
    request: Any = SimpleNamespace(branch="curated", recipe=SimpleNamespace(name="curated"))
    monkeypatch.setattr(run, "needs_version", lambda *given, **named: ("curated-v001", True))
    monkeypatch.setattr(run, "ask_for", lambda *given: None)
    run._publish(lake, request, runner, lambda name, total: begun.append((name, total)))
    assert begun == [("version curated-v001", len(VERSION_STEPS))]
    assert runner.ran.made == ["curated-v001"]

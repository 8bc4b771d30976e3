"""A run that publishes many recipes of an unchanged lake inspects its tables as often as one that publishes one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mmlake.publish import version
from mmlake_assets import run
from tests.lakes import Done, copied


@pytest.fixture
def own(done, tmp_path: Path) -> Iterator[Done]:
    yield from copied(done, tmp_path)


def test_nothing_new_is_found_out_once_for_all_recipes(own, monkeypatch) -> None:
    asked: list[str] = []

    def noted(lake) -> bool:
        asked.append(lake)
        return found(lake)

    found = version.can_be_selected_from
    for module in (version, run):
        monkeypatch.setattr(module, "can_be_selected_from", noted)
    ran = own.again(recipes=("everything", "curated"))
    assert ran.versions == own.versions and not ran.made and len(asked) == 1

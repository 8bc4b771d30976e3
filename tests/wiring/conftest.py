"""Lakes of a few texts, run without Dagster."""

from __future__ import annotations

from pathlib import Path

import pytest

from mmlake import pipeline, publish
from mmlake.lake import Lake
from mmlake.publish.version import publish_version
from mmlake.settings import Settings
from tests import make


class Site:
    """A landing zone and its lake."""

    def __init__(self, base: Path, texts: list[str]) -> None:
        self.zone, self.root = base / "landing", base / "lake"
        self.land("text/a.jsonl", texts)

    def land(self, name: str, texts: list[str]) -> None:
        make.land(self.zone, {name: make.jsonl(texts)})

    def lake(self, **sections) -> Lake:
        """The lake, opened anew."""
        return Lake(self.root, landing=self.zone, settings=Settings.of(sections))

    def tables(self, **sections) -> int:
        """The number of stage tables that had to be made."""
        lake = self.lake(**sections)
        pipeline.refresh(lake)
        return pipeline.run_tables(lake)

    def catalogued(self, **sections) -> Lake:
        """The lake once tables and catalog are up to date."""
        self.tables(**sections)
        lake = self.lake(**sections)
        if not publish.samples_are_current(lake):
            publish.update_samples(lake)
        if not publish.catalog_is_current(lake):
            publish.update_catalog(lake)
        return lake

    def publish(self, recipe: str = "curated", **sections) -> str:
        """The version of the recipe that holds the landing zone as it is now."""
        lake = self.catalogued(**sections)
        name, is_new = publish.needs_version(lake, recipe)
        if is_new or not publish.version_is_complete(lake, name):
            publish_version(lake, name)
        return name


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Two clean texts and one that is too short."""
    return Site(tmp_path, [make.prose(1), make.prose(2), "Too short."])

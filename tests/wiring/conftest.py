"""Lakes of a few texts, run without Dagster."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mmlake import pipeline, publish
from mmlake.lake import Lake
from mmlake.publish.version import publish_version
from mmlake.settings import Settings
from tests import make
from tests.once import once

TEXTS = [make.prose(1), make.prose(2), "Too short."]


class Site:
    """A landing zone and its lake. published: the base of a site of which a copy is taken, and whose lake is copied
    where the first thing that is asked for is its version `curated`."""

    def __init__(self, base: Path, texts: list[str], *, published: Path | None = None) -> None:
        self.zone, self.root, self._published = base / "landing", base / "lake", published
        if published is None:
            self.land("text/a.jsonl", texts)
        else:
            shutil.copytree(published / "landing", self.zone)

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
        is_first = recipe == "curated" and not sections and not self.root.exists()
        if is_first and self._published and _files(self.zone) == _files(self._published / "landing"):
            shutil.copytree(self._published / "lake", self.root)
        lake = self.catalogued(**sections)
        name, is_new = publish.needs_version(lake, recipe)
        if is_new or not publish.version_is_complete(lake, name):
            publish_version(lake, name)
        return name


def _files(zone: Path) -> dict[str, tuple[int, int]]:
    """Size and time of each file."""
    return {
        str(path.relative_to(zone)): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in zone.rglob("*")
        if path.is_file()
    }


@pytest.fixture(scope="session")
def published_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a site of these texts lies that was published once; nobody changes it."""
    return once(tmp_path_factory, "published-site", lambda base: Site(base, TEXTS).publish())


@pytest.fixture
def site(published_site: Path, tmp_path: Path) -> Site:
    """Two clean texts and one that is too short."""
    return Site(tmp_path, TEXTS, published=published_site)

"""A small lake, run once through Dagster, for the tests that look at it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import pytest

from mmlake.lake import Lake
from mmlake_assets.instance import open_instance
from mmlake_assets.run import Ran, run_lake
from mmlake_resources import CudaExecutorResource, LakeResource
from tests import make

RECIPES = ("everything", "curated")


@dataclass
class Done:
    """A lake, its instance and what the run did."""

    resource: LakeResource
    instance: dg.DagsterInstance
    ran: Ran

    @property
    def lake(self) -> Lake:
        return self.resource.open()

    def again(self) -> Ran:
        return run_lake(self.resource, CudaExecutorResource(device="cpu"), self.instance, recipes=RECIPES, phase=lambda name, total: None)


def run_on(landing: Path, root: Path) -> Iterator[Done]:
    resource = LakeResource(root=str(root), landing=str(landing))
    with open_instance(root) as instance:
        ran = run_lake(resource, CudaExecutorResource(device="cpu"), instance, recipes=RECIPES, phase=lambda name, total: None)
        yield Done(resource, instance, ran)


@pytest.fixture(scope="session")
def done(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Done]:
    base = tmp_path_factory.mktemp("graph")
    yield from run_on(make.small_landing(base / "landing"), base / "lake")


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Done]:
    """The same, but this test's own, to be changed."""
    yield from run_on(make.small_landing(tmp_path / "landing"), tmp_path / "lake")

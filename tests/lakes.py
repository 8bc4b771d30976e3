"""Lakes for tests: a small landing zone, run through Dagster in this process."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import dagster as dg

from mmlake.lake import Lake
from mmlake_assets.instance import open_instance
from mmlake_assets.run import Ran, run_lake
from mmlake_resources import CudaExecutorResource, LakeResource

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


def copied(done: Done, base: Path) -> Iterator[Done]:
    """The lake and its landing zone once more, times included, under another root."""
    source = Path(done.resource.root)
    shutil.copytree(source, base / "lake")
    shutil.copytree(done.lake.landing.root, base / "landing")
    resource = LakeResource(root=str(base / "lake"), landing=str(base / "landing"))
    resource.open().remember_landing()
    with open_instance(base / "lake") as instance:
        yield Done(resource, instance, done.ran)

"""Lakes for tests: a small landing zone, run through Dagster in this process."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import pytest

from mmlake import publish
from mmlake.lake import Lake
from mmlake.publish.version import publish_version
from mmlake_assets.instance import open_instance
from mmlake_assets.run import Ran, run_lake
from mmlake_resources import CudaExecutorResource, LakeResource
from tests import make
from tests.once import once

RECIPES = ("everything", "curated")


@dataclass
class Done:
    """A lake, its instance and the versions that the run made."""

    resource: LakeResource
    instance: dg.DagsterInstance
    versions: dict[str, str]  # by recipe

    @property
    def base(self) -> Path:
        """The folder of lake and landing zone."""
        return Path(self.resource.root).parent

    @property
    def lake(self) -> Lake:
        return self.resource.open()

    def again(self, *, recipes: Sequence[str] = RECIPES) -> Ran:
        return run_lake(
            self.resource,
            CudaExecutorResource(device="cpu"),
            self.instance,
            recipes=recipes,
            phase=lambda name, total: None,
        )


@dataclass(frozen=True)
class Kept:
    """Where a lake that was run lies, with its landing zone, and the versions that the run made."""

    base: Path
    versions: dict[str, str]  # by recipe


def done_once(factory: pytest.TempPathFactory) -> Kept:
    """A small lake that one process ran."""
    base = once(factory, "small-lake", _run)
    return Kept(base, json.loads((base / "versions.json").read_text()))


def _run(base: Path) -> None:
    landing, root = make.small_landing(base / "landing"), base / "lake"
    with open_instance(root) as instance:
        ran = run_lake(
            LakeResource(root=str(root), landing=str(landing)),
            CudaExecutorResource(device="cpu"),
            instance,
            recipes=RECIPES,
            phase=lambda name, total: None,
        )
    (base / "versions.json").write_text(json.dumps(ran.versions))


def copied(kept: Done | Kept, base: Path) -> Iterator[Done]:
    """The lake and its landing zone once more, times included, under another root."""
    shutil.copytree(kept.base / "lake", base / "lake")
    shutil.copytree(kept.base / "landing", base / "landing")
    resource = LakeResource(root=str(base / "lake"), landing=str(base / "landing"))
    resource.open().remember_landing()
    with open_instance(base / "lake") as instance:
        yield Done(resource, instance, kept.versions)


def published(lake: Lake, recipe: str) -> str:
    """The name of a version by that recipe, whose shards are written. The tables are made, the catalog too."""
    path = lake.root / "recipes" / "one.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(recipe)
    request = publish.wanted(lake, str(path))
    name, _ = publish.needs_version(lake, request.branch, request.recipe)
    publish.ask_for(lake, name, request)
    publish_version(lake, name)
    return name

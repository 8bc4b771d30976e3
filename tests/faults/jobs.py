"""What is disturbed: each job is a process forked from one that has imported what a run needs, and nothing more."""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mmlake import pipeline, publish, upkeep
from mmlake.border import InProcess
from mmlake.compute import Executor
from mmlake.lake import Lake
from mmlake.optional import kept_imports
from mmlake.progress import silent
from mmlake.publish.version import publish_version
from mmlake.shards import name_again
from mmlake.versions import VersionStore
from mmlake.versions.migration import read_table
from mmlake_assets.console import RARELY
from tests.wiring.plain_run import PRELOADED

FAR_S = 4e9  # a time at which every grace period is over


def opened(root: str | Path, landing: str | Path | None = None) -> Lake:
    """The lake, worked on by this process alone."""
    return Lake(root, landing=None if landing is None else str(landing), executor=Executor("cpu"), runner=InProcess())


def run(root: str, landing: str) -> None:
    """Tables, catalog and the version `everything` of the lake, up to date."""
    make_tables(root, landing)
    publish_all(root)


def run_alone(root: str, landing: str) -> None:
    """`run` as the command does it, which keeps other writers out."""
    with opened(root).locked("run"):
        run(root, landing)


def make_tables(root: str, landing: str) -> None:
    """Tables and catalog of the lake, up to date."""
    lake = opened(root, landing)
    pipeline.refresh(lake)
    lake.remember_landing()
    pipeline.run_tables(lake)
    if not publish.samples_are_current(lake):
        publish.update_samples(lake)
    if not publish.catalog_is_current(lake):
        publish.update_catalog(lake)


def publish_all(root: str) -> None:
    """The version `everything` of the lake with its training shards, up to date."""
    lake = opened(root)
    name, is_new = publish.needs_version(lake, "everything")
    if is_new or not publish.version_is_complete(lake, name):
        publish_version(lake, name)


def collect(root: str) -> None:
    """Two passes of the garbage collection, which merge packs, too."""
    for _ in range(2):
        upkeep.collect(opened(root), now_s=FAR_S, grace_s=0)


def collect_now(root: str) -> dict[str, int]:
    """What one pass of the garbage collection by the clock counted, as `mmlake gc` makes it."""
    return upkeep.collect(opened(root), now_s=time.time()).to_dict()


def compact(root: str) -> None:
    """The catalog's files merged."""
    opened(root).catalog.compact()


def repair(root: str) -> None:
    """What `fsck --repair` does."""
    opened(root).store.rebuild_indexes()
    checked(opened(root), repair=True)


def checked(lake: Lake, *, repair: bool = False) -> list[str]:
    """What `fsck` finds wrong, and where it repairs, what is left."""
    kinds = [(kind, list(kind.units(lake))) for kind in upkeep.named(()) if kind.units is not None]
    found = upkeep.checked_all(lake, kinds, repair=repair, advance_of=lambda kind: silent)
    return [problem for one in found for problem in one.left]


def migrate(root: str) -> None:
    """What `mmlake migrate` does: versions of the release before are converted, their shards named again."""
    versions = VersionStore(Path(root) / "versions", clock=lambda: "2026-01-02T00:00:00+00:00")
    versions.migrate()
    name_again(Path(root) / "shards", read_table(versions.root))


def read(root: str) -> list[str]:
    """Three ways to read a lake: the catalog, a version, a blob."""
    lake = opened(root)
    found = lake.catalog.search("harbour", limit=3)
    tag = min(lake.versions.tags())
    rows = lake.versions.samples(tag)
    digest = lake.versions.items(tag)["parent_digest"][0].as_py()
    return [str(found.num_rows), str(rows.num_rows), str(len(lake.store.read(digest)))]


JOBS: dict[str, Callable[..., Any]] = {
    job.__name__: job
    for job in (run, run_alone, make_tables, publish_all, collect, collect_now, compact, repair, migrate, read)
}


def _answer(asked: dict[str, Any], pipe: int) -> None:
    """In the forked process: do the job, and write what became of it into the pipe."""
    found: dict[str, Any] = {}
    try:
        if ctypes.CDLL(None).faults_arm(asked["control"].encode()) != 0:
            raise RuntimeError("the shim cannot be armed")
        found["value"] = JOBS[asked["job"]](*asked["given"])
    except BaseException as error:
        found = {"error": type(error).__name__, "message": str(error)}
    os.write(pipe, json.dumps(found).encode())


def serve() -> None:
    """A job for every line of standard input. As in the command, no search for garbage goes through what is imported:
    each job would, and have the memory of it for itself."""
    with kept_imports():
        for name in PRELOADED:
            importlib.import_module(name)
    gc.set_threshold(*RARELY)
    for line in sys.stdin:
        into, out = os.pipe()
        if (child := os.fork()) == 0:
            os.close(into)
            sys.stdin = open(os.devnull)  # noqa: SIM115 - until the process ends
            os.dup2(2, 1)  # standard output is the server's
            try:
                _answer(json.loads(line), out)
            finally:
                os._exit(0)
        os.close(out)
        with open(into, "rb") as pipe:
            said = pipe.read()
        _, status = os.waitpid(child, 0)
        ended = {"signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0}
        print(json.dumps(ended | (json.loads(said) if said and not ended["signal"] else {})), flush=True)


if __name__ == "__main__":
    serve()

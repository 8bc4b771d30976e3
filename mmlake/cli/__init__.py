"""The library half of the `mmlake` command: everything but the commands that go through Dagster (`run`, `publish`,
`retry`, `demo`, `ui`), which are added by `mmlake_assets.console`.

Each command gathers plain data first and then prints it, as a table for people or as JSON for programs (`--json`).
"""

from __future__ import annotations

from mmlake.cli import (
    bench,
    bench_av,
    clusters,
    environments,
    inspect,
    maintain,
    outliers,
    recipes,
    review,
    rows,
    transcode,
    upkeep,
    versions,
    word_errors,
)
from mmlake.cli.app import app

__all__ = [
    "app",
    "bench",
    "bench_av",
    "clusters",
    "environments",
    "inspect",
    "maintain",
    "outliers",
    "recipes",
    "review",
    "rows",
    "transcode",
    "upkeep",
    "versions",
    "word_errors",
]

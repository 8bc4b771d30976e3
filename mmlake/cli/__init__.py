"""The library half of the `mmlake` command: everything but `run`, `demo` and `ui`, which go through Dagster and are
added by `mmlake_assets.console`.

Each command gathers plain data first and then prints it, as a table for people or as JSON for programs (`--json`).
"""

from __future__ import annotations

from mmlake.cli import inspect, maintain, rows, upkeep, versions
from mmlake.cli.app import app

__all__ = ["app", "inspect", "maintain", "rows", "upkeep", "versions"]

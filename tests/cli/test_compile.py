"""`mmlake compile`: every loop that numba compiles is made ahead by it."""

from __future__ import annotations

import json
import re
from pathlib import Path

from typer.testing import CliRunner

import mmlake
from mmlake.cli.app import app
from mmlake.compiled_loops import LOOPS

ROOT = Path(mmlake.__file__).parent
IMPORT = re.compile(
    r"^from mmlake\.(numba_compiler import (linked, )?made|dedup\.loops\.machine_code import .*\bloops)\b", re.M
)


def test_each_module_with_compiled_loops_is_named() -> None:
    """A module that takes the signatures of its loops from its first call has nothing to compile ahead."""
    found = set()
    for path in ROOT.rglob("*.py"):
        if IMPORT.search(path.read_text()):
            found.add("mmlake." + ".".join(path.relative_to(ROOT).with_suffix("").parts))
    assert {module for module, _ in LOOPS.values()} == found


def test_the_command_compiles_all_and_says_how_long_each_took() -> None:
    said = CliRunner().invoke(app, ["compile", "--json"])
    assert said.exit_code == 0
    assert set(json.loads(said.stdout)["seconds"]) == set(LOOPS)
    kept = {path.name.partition(".")[0] for path in (ROOT / "dedup" / "loops" / "__pycache__").glob("*.loops")}
    assert kept >= {"text", "keys", "text-walk"}

"""What docs/timeline-of-films.md names exists, and every line says whether it is met."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "timeline-of-films.md").read_text()
SHORT = {"p/": "tests/preprocess/", "q/": "tests/quality/"}


@cache
def _functions(path: str) -> frozenset[str]:
    body = ast.parse((ROOT / path).read_text()).body
    return frozenset(node.name for node in body if isinstance(node, ast.FunctionDef))


def _tests(text: str) -> list[tuple[str, str]]:
    """(file, function) of each test that is named."""
    found = re.findall(r"`(p/|q/|tests/)([\w/]+\.py)::(\w+)`", text)
    return [(SHORT.get(folder, folder) + path, name) for folder, path, name in found]


def test_every_test_that_is_named_exists() -> None:
    named = _tests(PAGE)
    assert len(named) > 60
    assert [f"{path}::{name}" for path, name in named if name not in _functions(path)] == []


def test_every_line_says_whether_it_is_met_and_what_shows_it() -> None:
    lines = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| ")]
    rows = [cells for cells in lines if cells[0] not in ("asked", "floor", "---")]
    said = [cells for cells in rows if not re.match(r"met|partly|open", cells[-1])]
    shown = r"`|\]\(|^the same"  # a test, a command, a page, or that of the line above
    unshown = [one for one in rows if not one[-1].startswith("open") and not re.search(shown, one[1] + one[2])]
    assert (said, unshown) == ([], [])

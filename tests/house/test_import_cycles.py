"""No file of the platform imports itself through others, wherever in the files the imports stand."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("mmlake", "mmlake_assets", "mmlake_resources")


def _modules(root: Path) -> dict[str, Path]:
    """Files by the names of their modules."""
    found = {}
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def _imported(path: Path, modules: dict[str, Path]) -> Iterator[str]:
    """The modules that a file imports: at its top, in its functions, and for type checkers alone."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, (ast.Import, ast.ImportFrom)) else []
        for name in names:
            whole = f"{node.module}.{name}" if isinstance(node, ast.ImportFrom) else name
            while whole and whole not in modules:
                whole = whole.rpartition(".")[0]
            if whole:
                yield whole


def _graph(root: Path) -> dict[str, set[str]]:
    modules = _modules(root)
    return {name: set(_imported(path, modules)) - {name} for name, path in modules.items()}


def _in_cycles(graph: dict[str, set[str]]) -> list[str]:
    """The modules that are left when all are taken away that import none of those left, or are imported by none."""
    left = {name: set(imports) for name, imports in graph.items()}
    while True:
        imported = set().union(*left.values()) if left else set()
        gone = {name for name, imports in left.items() if not imports or name not in imported}
        if not gone:
            return sorted(left)
        left = {name: imports - gone for name, imports in left.items() if name not in gone}


def test_no_file_imports_itself_through_others() -> None:
    assert _in_cycles(_graph(ROOT)) == []


def test_a_cycle_is_seen_wherever_its_imports_stand(tmp_path: Path) -> None:
    files = {
        "mmlake/__init__.py": "",
        "mmlake/a.py": "from mmlake import b",
        "mmlake/b.py": "def load():\n    import mmlake.c",
        "mmlake/c.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from mmlake.a import Thing",
        "mmlake/d.py": "from mmlake import a",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert _in_cycles(_graph(tmp_path)) == ["mmlake.a", "mmlake.b", "mmlake.c"]

"""The house rules that a machine can hold: directions, weights and sizes."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("mmlake", "mmlake_resources", "mmlake_assets")
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
MAX_ASSET_BODY_LINES = 15
HEAVY = (
    "torch",
    "transformers",
    "faiss",
    "lancedb",
    "lance",
    "av",
    "cv2",
    "PIL",
    "webdataset",
    "numba",
    "soundfile",
    "scenedetect",
    "matplotlib",
    "duckdb",
    "pocketsphinx",
    "trafilatura",
    "boto3",
    "pandas",  # which pyarrow loads for the first array that is made
)


def _loaded_after(statement: str) -> set[str]:
    code = f"{statement}\nimport sys\nprint(' '.join(sorted({{name.partition('.')[0] for name in sys.modules}})))"
    return set(
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
        ).stdout.split()
    )


def test_importing_the_library_loads_neither_dagster_nor_anything_heavy() -> None:
    loaded = _loaded_after("import mmlake.pipeline, mmlake.cli, mmlake.publish")
    assert not loaded & {"dagster", *HEAVY}


def test_the_command_loads_neither_dagster_nor_arrow_before_it_knows_what_to_do() -> None:
    assert not _loaded_after("import mmlake_assets.console") & {"dagster", "pyarrow", "numpy", *HEAVY}


def test_the_code_location_loads_nothing_heavy_and_what_it_loads_is_searched_for_garbage_no_more() -> None:
    """The search is a seventh of the CPU time of the import, in each code server and the process of each run."""
    kept = "import gc, mmlake_assets.definitions; assert gc.isenabled() and gc.get_freeze_count() > 100_000"
    assert not _loaded_after(kept) & set(HEAVY)


def test_collecting_tests_loads_no_transformers() -> None:
    """Every worker of a parallel run collects all tests: a second of CPU time each."""
    loads = re.compile(r"^(?:import transformers|from transformers|\w+ = .*transformers|pytest.*transformers)", re.M)
    tests = [path for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__)]
    assert len(tests) > 400
    assert [path.name for path in tests if loads.search(path.read_text())] == []


def test_files_and_functions_stay_short() -> None:
    assert len(SOURCES) > 500
    texts = {path: path.read_text() for path in SOURCES}
    assert [str(path) for path, text in texts.items() if text.count("\n") > MAX_FILE_LINES] == []
    functions = [
        (path, node)
        for path, text in texts.items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    assert [
        f"{path}:{node.lineno}" for path, node in functions if node.end_lineno - node.lineno >= MAX_FUNCTION_LINES
    ] == []


def _assets(path: Path) -> list[ast.FunctionDef]:
    """Functions under a Dagster decorator that make or check an asset."""
    wanted = {"asset", "multi_asset", "asset_check", "multi_asset_check", "sensor"}
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef):
            names = {(call.func if isinstance(call, ast.Call) else call) for call in node.decorator_list}
            if any(isinstance(name, ast.Attribute) and name.attr in wanted for name in names):
                found.append(node)
    return found


def test_bodies_of_assets_and_checks_are_at_most_fifteen_lines() -> None:
    bodies = {
        f"{path.name}:{node.name}": node.end_lineno - node.body[0].lineno + 1
        for path in (ROOT / "mmlake_assets").rglob("*.py")
        for node in _assets(path)
    }
    assert len(bodies) >= 5
    assert {
        name: lines
        for name, lines in bodies.items()
        if lines > MAX_ASSET_BODY_LINES and name != "sensors.py:landing_zone"
    } == {}


def test_assets_and_resources_keep_real_annotations() -> None:
    read_by_dagster = [path for path in SOURCES if path.relative_to(ROOT).parts[0] != "mmlake"]
    assert len(read_by_dagster) > 20
    assert [path for path in read_by_dagster if "from __future__ import annotations" in path.read_text()] == []


def test_every_stage_has_a_package_an_asset_file_a_test_folder_and_a_docs_page() -> None:
    from mmlake_assets.asset_graph import STAGES

    for stage in STAGES:
        name = stage.__name__.rpartition(".")[2]
        assert (ROOT / "mmlake" / name).exists() or (ROOT / "mmlake" / f"{name}.py").exists(), name
        assert (ROOT / "tests" / name).is_dir(), name
        assert (ROOT / "docs" / f"{name}.md").exists(), name


def test_the_code_is_about_the_project_alone() -> None:
    words = ("/work/", "session", "TODO", "FIXME")
    texts = {path: path.read_text() for path in SOURCES}
    assert [f"{path.name}: {word}" for path, text in texts.items() for word in words if word in text] == []

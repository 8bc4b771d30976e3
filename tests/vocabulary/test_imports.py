"""The vocabulary is cheap to import: a training job, a worker or a notebook pays for nothing that it does not use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
VOCABULARY = (
    "mmlake, mmlake.errors, mmlake.records, mmlake.schemas, mmlake.tables, mmlake.store, mmlake.contracts, "
    "mmlake.progress, mmlake.optional, mmlake.locks"
)
HEAVY = {
    "dagster",
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
    "pandas",
    "scipy",
    "matplotlib",
    "duckdb",
}


def test_importing_the_vocabulary_loads_nothing_heavy() -> None:
    code = f"import {VOCABULARY}, sys; print(*{{name.partition('.')[0] for name in sys.modules}})"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout.split()
    assert "pyarrow" in loaded
    assert HEAVY & set(loaded) == set()


def test_the_store_needs_the_standard_library_alone() -> None:
    """A repair script runs where nothing is installed."""
    code = (
        "import mmlake.store, sys; print(*{name.partition('.')[0] for name in sys.modules} - "
        "set(sys.stdlib_module_names) - {'__main__', 'mmlake'})"
    )
    loaded = subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout.split()
    assert loaded == []

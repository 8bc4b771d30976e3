"""The examples run as they stand."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_training_from_a_manifest_runs_and_resumes(done) -> None:
    command = [sys.executable, str(ROOT / "examples" / "train_from_manifest.py"), done.resource.root, "everything-v001"]
    result = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    assert result.returncode == 0, result.stderr
    assert "another loader goes on" in result.stdout

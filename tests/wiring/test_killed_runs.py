"""Runs that are killed outright, wherever they are, and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mmlake.lake import Lake
from tests import make

RUN = """
import sys
from mmlake import pipeline, publish
from mmlake.lake import Lake
from mmlake.publish.version import publish_version
lake = Lake(sys.argv[1], landing=sys.argv[2])
pipeline.refresh(lake)
pipeline.run_tables(lake)
if not publish.catalog_is_current(lake):
    publish.update_catalog(lake)
for recipe in ("everything", "curated"):
    name, is_new = publish.needs_version(lake, recipe)
    if is_new or not publish.version_is_complete(lake, name):
        publish_version(lake, name)
"""
ROOT = Path(__file__).parents[2]


def start(lake: Path, landing: Path) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-W", "ignore", "-c", RUN, str(lake), str(landing)], cwd=ROOT, start_new_session=True, stderr=subprocess.DEVNULL)


def finished(lake: Path) -> int:
    """How many tables, catalogs and version steps have their stamp."""
    return sum(1 for _ in (lake / "tables").rglob("*.stamp.json")) if (lake / "tables").exists() else 0


@pytest.mark.slow
def test_a_run_killed_nine_times_ends_at_the_manifests_of_one_that_was_left_alone(tmp_path: Path) -> None:
    landing = make.land(
        tmp_path / "landing",
        {"image/a.tar": make.tar({"0.png": make.picture(1), "1.png": make.picture(2)}), "audio/one.wav": make.sound(1), "text/a.txt": b"", "video/v.mp4": make.film(1)},
    )
    assert start(tmp_path / "whole", landing).wait(300) == 0
    steps = finished(tmp_path / "whole")
    for part in range(1, 10):
        process = start(tmp_path / "killed", landing)
        while process.poll() is None and finished(tmp_path / "killed") < part * steps // 10:
            time.sleep(0.002)
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
    assert 0 < finished(tmp_path / "killed") <= steps
    assert start(tmp_path / "killed", landing).wait(300) == 0
    assert Lake(tmp_path / "killed").versions.tags() == Lake(tmp_path / "whole").versions.tags()

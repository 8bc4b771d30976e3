"""Runs that are killed outright, wherever they are, and started again."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from mmlake.lake import Lake
from tests import make
from tests.thorough import drawn
from tests.wiring.plain_run import PRELOADED, run_all


def start(lake: Path, landing: Path) -> BaseProcess:
    """A process that has run nothing yet; it is forked from one that has only imported."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*PRELOADED])
    process = context.Process(target=run_all, args=(lake, landing))
    process.start()
    return process


def whole(lake: Path, landing: Path) -> None:
    process = start(lake, landing)
    process.join(300)
    assert process.exitcode == 0


def finished(lake: Path) -> int:
    """How many tables, catalogs and version steps have their stamp."""
    return sum(1 for _ in (lake / "tables").rglob("*.stamp.json")) if (lake / "tables").exists() else 0


@pytest.mark.slow
def test_a_run_killed_several_times_ends_at_the_trees_of_one_that_was_left_alone(tmp_path: Path) -> None:
    landing = make.land(
        tmp_path / "landing",
        {
            "image/a.tar": make.tar({"0.png": make.picture(1), "1.png": make.picture(2)}),
            "audio/one.wav": make.sound(1),
            "text/a.txt": b"",
            "video/v.mp4": make.film(1),
        },
    )
    whole(tmp_path / "whole", landing)
    steps = finished(tmp_path / "whole")
    for part in drawn((2, 5, 8), range(1, 10)):
        process = start(tmp_path / "killed", landing)
        while process.is_alive() and finished(tmp_path / "killed") < part * steps // 10:
            time.sleep(0.01)  # a tenth of the tables takes longer, and counting lists all of them
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            process.kill()
        process.join()
    assert 0 < finished(tmp_path / "killed") <= steps
    whole(tmp_path / "killed", landing)
    killed, whole_ = (_trees(Lake(tmp_path / name)) for name in ("killed", "whole"))
    assert killed == whole_


def _trees(lake: Lake) -> dict[str, str]:
    return {name: lake.versions.read(name).tree for name in lake.versions.tags()}

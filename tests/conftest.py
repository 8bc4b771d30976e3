"""What every test has: no telemetry, no hub, and a quiet, single-threaded machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

os.environ |= {"DO_NOT_TRACK": "1", "DAGSTER_DISABLE_TELEMETRY": "yes", "HF_HUB_OFFLINE": "1", "RAY_USAGE_STATS_ENABLED": "0", "TOKENIZERS_PARALLELISM": "false"}
sys.path.insert(0, str(Path(__file__).parents[1]))  # `from tests import make` from any folder


@pytest.fixture(scope="session")
def done(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """A small lake, run once; tests look at it and change nothing."""
    from tests import make
    from tests.lakes import run_on

    base = tmp_path_factory.mktemp("done")
    yield from run_on(make.small_landing(base / "landing"), base / "lake")


@pytest.fixture
def own(done, tmp_path: Path) -> Iterator[object]:
    """A copy of it, with its landing zone and history, that the test may change."""
    from tests.lakes import copied

    yield from copied(done, tmp_path)

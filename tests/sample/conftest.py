from __future__ import annotations

from pathlib import Path

import pytest

from mmlake import sample


@pytest.fixture(scope="session")
def small(tmp_path_factory) -> tuple[Path, sample.Truth]:
    """The smallest useful corpus, made once: (folder, truth)."""
    out = tmp_path_factory.mktemp("sample")
    return out, sample.generate(out, settings=sample.SampleSettings(scale=0.15))

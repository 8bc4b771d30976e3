"""A site per test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.sources.web.site import Site, running


@pytest.fixture
def site() -> Iterator[Site]:
    with running() as one:
        yield one

"""A hub on this machine that huggingface_hub takes for the real one."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import huggingface_hub.constants
import pytest
from hub_server import Hub, serving
from site_server import Site, serving_site

from mmlake.remote.backoff import Budget, Retries


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """An empty hub; the cache of remote blocks and huggingface_hub's own home are the test's."""
    with serving() as server:
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", server.url)
        monkeypatch.setattr(
            huggingface_hub.constants,
            "HUGGINGFACE_CO_URL_TEMPLATE",
            server.url + "/{repo_id}/resolve/{revision}/{filename}",
        )
        monkeypatch.setattr(huggingface_hub.constants, "HF_TOKEN_PATH", str(tmp_path / "no-token"))
        monkeypatch.delenv("HF_TOKEN", raising=False)
        monkeypatch.delenv("HUGGING_FACE_HUB_TOKEN", raising=False)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        yield server


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Site]:
    """An empty web server; the cache of remote blocks, netrc and proxies are the test's."""
    with serving_site() as server:
        for name in (
            "http_proxy",
            "HTTP_PROXY",
            "https_proxy",
            "HTTPS_PROXY",
            "all_proxy",
            "ALL_PROXY",
            "MMLAKE_STORAGE_OPTIONS",
        ):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("NETRC", str(tmp_path / "no-netrc"))
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        yield server


@pytest.fixture
def waits() -> list[float]:
    """The seconds that `patient` would have slept."""
    return []


@pytest.fixture
def patient(waits: list[float]) -> Retries:
    """Retries that note their waits and do not wait."""
    return Retries(rng=random.Random(7), sleep=waits.append, budget=Budget())

"""One S3 server for all tests here, a bucket for each, and a proxy that breaks connections."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mmlake.remote import s3
from mmlake.remote.bucket import Bucket
from mmlake.remote.settings import RemoteSettings
from tests.remote.servers import Proxy, proxy_before, s3_server

KEY_ID, SECRET = "AKIARECOGNIZABLE0001", "recognizable/Secret+0123456789abcdefghij"


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    """Of each worker one: between two files here it has files of other folders, and a server takes seconds to start."""
    pytest.importorskip("boto3")
    pytest.importorskip("moto")
    with s3_server(KEY_ID, SECRET) as address:
        yield address


@pytest.fixture(scope="package")
def surroundings() -> Iterator[pytest.MonkeyPatch]:
    """Credentials that a test can search for, and nothing of the machine's own."""
    with pytest.MonkeyPatch.context() as patch:
        if not os.environ.get("MMLAKE_TEST_S3", "").startswith("http"):
            patch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
            patch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        for name, value in (
            ("AWS_DEFAULT_REGION", "us-east-1"),
            ("AWS_EC2_METADATA_DISABLED", "true"),
            ("NO_PROXY", "127.0.0.1"),
        ):
            patch.setenv(name, value)
        for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
            patch.setenv(name, "/dev/null")
        for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
            patch.delenv(name, raising=False)
        yield patch


@pytest.fixture(scope="package")
def one_proxy(endpoint: str, surroundings: pytest.MonkeyPatch) -> Iterator[Proxy]:
    with proxy_before(endpoint) as one:
        surroundings.setenv("MMLAKE_S3_ENDPOINT", one.endpoint)
        yield one


@pytest.fixture(scope="package")
def one_client(one_proxy: Proxy) -> Iterator[Any]:
    """Making a client takes half a second, so there is one."""
    one = s3.new_client()
    yield one
    one.close()


@pytest.fixture
def proxy(one_proxy: Proxy) -> Iterator[Proxy]:
    one_proxy.faults, one_proxy.seen, one_proxy.most_at_once = [], [], 0
    yield one_proxy
    one_proxy.faults = []


@pytest.fixture
def client(one_client: Any, proxy: Proxy) -> Any:
    return one_client


@pytest.fixture
def remote(tmp_path: Path) -> RemoteSettings:
    """Small blocks, so that small objects have many."""
    return RemoteSettings(
        cache_dir=str(tmp_path / "cache"), block_bytes=1024, cache_bytes=1 << 20, ahead_blocks=8, request_blocks=4
    )


@pytest.fixture
def name(client: Any, proxy: Proxy) -> str:
    """A fresh bucket's name."""
    one = f"mmlake-{secrets.token_hex(6)}"
    client.create_bucket(Bucket=one)
    proxy.seen.clear()
    return one


@pytest.fixture
def bucket(client: Any, name: str, remote: RemoteSettings) -> Bucket:
    return Bucket(name, client=client, settings=remote)

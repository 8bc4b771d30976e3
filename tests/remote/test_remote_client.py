"""Where the client comes from: the environment, or a deployment's resource; and what is said where it cannot be
made."""

from __future__ import annotations

import socket
import sys

import pytest

from mmlake.errors import MissingExtra, RemoteUnavailable, SettingsError
from mmlake.lake import Lake
from mmlake.landing import S3Landing
from mmlake.remote import s3
from mmlake.remote.bucket import Bucket
from mmlake.remote.connections import RemoteConnections
from mmlake.settings import Settings
from mmlake_resources import LakeResource
from tests.remote.conftest import SECRET
from tests.remote.servers import Fault


def test_a_missing_library_is_reported_with_its_remedy(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(MissingExtra, match=r"pip install 'mmlake\[s3\]'"):
        s3.new_client()


@pytest.mark.parametrize("endpoint", ["http://key:hidden@host", "ftp://host", "host:9000", "http://host?token=hidden"])
def test_a_wrong_endpoint_is_refused_and_never_repeated(monkeypatch, endpoint) -> None:
    pytest.importorskip("boto3")
    monkeypatch.setenv("MMLAKE_S3_ENDPOINT", endpoint)
    with pytest.raises(SettingsError, match="MMLAKE_S3_ENDPOINT is not") as raised:
        s3.new_client()
    assert "hidden" not in str(raised.value)


def test_connections_have_one_client_for_one_environment(proxy, monkeypatch, remote) -> None:
    connections = RemoteConnections()
    one = connections.s3_client(remote)
    assert connections.s3_client(remote) is one
    assert RemoteConnections().s3_client(remote) is not one
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET[::-1])
    assert connections.s3_client(remote) is not one


def test_no_credentials_are_a_setting_to_make(proxy, monkeypatch, remote) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    with pytest.raises(SettingsError, match="no usable credentials .*AWS_PROFILE"):
        Bucket("somewhere", settings=remote).head("x")


def test_nobody_at_the_endpoint_is_reported(proxy, monkeypatch, remote) -> None:
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _: None)
    with socket.socket() as taken:  # and does not listen, so that nobody else does
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setenv("MMLAKE_S3_ENDPOINT", f"http://127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(RemoteUnavailable, match="LIST s3://somewhere/: 6 tries failed.*EndpointConnectionError"):
            list(Bucket("somewhere", settings=remote).objects(""))


def test_a_deployment_names_its_storage_in_the_resource(proxy, name, tmp_path, monkeypatch) -> None:
    """The client is then that of dagster-aws, and retries as often as ours."""
    pytest.importorskip("dagster_aws")
    monkeypatch.delenv("MMLAKE_S3_ENDPOINT")
    lake = LakeResource(
        root=str(tmp_path / "lake"), landing=f"s3://{name}/zone", s3_endpoint=proxy.endpoint, s3_region="us-east-1"
    ).open()
    assert isinstance(lake.landing, S3Landing)
    lake.landing.bucket.put("zone/a", b"1")
    proxy.faults = [Fault(key="list-type=2", times=5, status=503)]
    assert [entry.path for entry in lake.landing.files(".")] == ["a"]
    assert proxy.count("GET", "list-type=2") == 6


def test_a_store_that_is_elsewhere_than_the_lakes_blobs_is_refused(tmp_path) -> None:
    (tmp_path / "blobs").mkdir()
    with pytest.raises(
        SettingsError, match=r"store.location is s3://bucket/lake, but the blobs of lake .* lie in .*/blobs; copy them"
    ):
        _ = Lake(tmp_path, settings=Settings.of({"store": {"location": "s3://bucket/lake"}})).store


def test_reading_ahead_keeps_to_its_number_of_requests(bucket, proxy, remote) -> None:
    data = bytes(200_000)
    bucket.put("one", data)
    landing = S3Landing(f"s3://{bucket.name}", client=bucket.client, remote=remote)
    proxy.faults = [Fault(key="/one", times=99, delay_s=0.01)]
    proxy.most_at_once = 0
    with landing.open("one") as file:
        assert file.read() == data
    assert 1 < proxy.most_at_once <= remote.threads + 1

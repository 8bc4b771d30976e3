"""A bucket behind a proxy that breaks: the right bytes, by as few tries as it takes, or an error that says so."""

from __future__ import annotations

import io
import random

import pytest

from mmlake.errors import RemoteUnavailable, SettingsError, UnreadableItem
from mmlake.remote import backoff
from mmlake.remote.bucket import SINGLE_PUT_BYTES, Bucket
from mmlake.remote.s3 import Missing
from tests.remote.servers import Fault

DATA = random.Random(7).randbytes(100_000)


@pytest.fixture
def etag(bucket: Bucket, proxy) -> str:
    bucket.put("one.bin", DATA)
    found = bucket.head("one.bin")
    proxy.seen.clear()
    assert found is not None
    return found.etag


def test_a_range_is_its_bytes(bucket, etag) -> None:
    assert bucket.read_range("one.bin", etag=etag, offset=5000, size=70_000) == DATA[5000:75_000]


def test_a_busy_storage_is_asked_again(bucket, proxy, etag) -> None:
    proxy.faults = [Fault(key="one.bin", times=3, status=503)]
    assert bucket.read_range("one.bin", etag=etag, offset=0, size=100) == DATA[:100]
    assert proxy.count("GET", "one.bin") == 4


def test_a_body_that_is_cut_goes_on_where_it_broke(bucket, proxy, etag) -> None:
    proxy.faults = [
        Fault(key="one.bin", cut_after=30_000),
        Fault(key="one.bin", cut_after=0),
        Fault(key="one.bin", cut_after=40_000),
    ]
    bucket._retries = quick()
    assert bucket.read_range("one.bin", etag=etag, offset=0, size=len(DATA)) == DATA
    assert proxy.count("GET", "one.bin") == 4


def test_progress_makes_the_next_failure_the_first_again(bucket, proxy, etag) -> None:
    """Ten cuts of one range are more than the six tries of a call, and yet each brought something."""
    proxy.faults = [Fault(key="one.bin", times=10, cut_after=9000)]
    bucket._retries = quick()
    assert bucket.read_range("one.bin", etag=etag, offset=0, size=len(DATA)) == DATA
    assert proxy.count("GET", "one.bin") == 11


def test_a_body_that_never_comes_is_given_up_with_the_number_of_tries(bucket, proxy, etag) -> None:
    proxy.faults = [Fault(key="one.bin", times=99, cut_after=0)]
    bucket._retries = quick()
    with pytest.raises(
        RemoteUnavailable, match=r"GET s3://mmlake-\w+/one.bin: 6 tries in .* all failed, the last by a cut body"
    ):
        bucket.read_range("one.bin", etag=etag, offset=0, size=len(DATA))
    assert proxy.count("GET", "one.bin") == 6


def test_a_spent_budget_ends_the_retries(bucket, proxy, etag) -> None:
    proxy.faults = [Fault(key="one.bin", times=99, cut_after=0)]
    bucket._retries = quick(backoff.Budget(ceiling=2.0, per_second=0.0))
    with pytest.raises(RemoteUnavailable, match=r"retry budget is spent \(2 retries for 1 calls\)"):
        bucket.read_range("one.bin", etag=etag, offset=0, size=len(DATA))
    assert proxy.count("GET", "one.bin") == 3


def test_an_outage_is_reported_with_status_and_tries(bucket, proxy, etag, monkeypatch) -> None:
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _: None)
    proxy.faults = [Fault(key="one.bin", times=99, status=503)]
    with pytest.raises(RemoteUnavailable, match=r"status 503 ServiceUnavailable after 6 tries") as raised:
        bucket.read_range("one.bin", etag=etag, offset=0, size=10)
    assert "secret text" not in str(raised.value)
    assert raised.value.__cause__ is None


def test_a_request_for_a_pause_is_obeyed(bucket, proxy, etag, monkeypatch) -> None:
    slept = []
    monkeypatch.setattr("botocore.endpoint.time.sleep", slept.append)
    proxy.faults = [Fault(key="one.bin", status=503, retry_after="3")]
    bucket.read_range("one.bin", etag=etag, offset=0, size=10)
    assert slept == [3.0]


def test_an_object_that_was_replaced_is_never_mixed(bucket, proxy, etag) -> None:
    bucket.delete(["one.bin"])
    bucket.put("one.bin", DATA[::-1])
    with pytest.raises(UnreadableItem, match="1001.*changed while it was read"):
        bucket.read_range("one.bin", etag=etag, offset=0, size=100)


def test_an_object_that_is_replaced_between_two_pieces_is_never_mixed(bucket, proxy, etag) -> None:
    """The connection breaks, and the object is another one when the rest is asked for."""
    bucket._retries = backoff.Retries(sleep=lambda _: (bucket.delete(["one.bin"]), bucket.put("one.bin", DATA[::-1])))
    proxy.faults = [Fault(key="one.bin", cut_after=50_000)]
    with pytest.raises(UnreadableItem, match="changed while it was read"):
        bucket.read_range("one.bin", etag=etag, offset=0, size=len(DATA))


def test_another_etag_in_the_answer_is_another_object(bucket, proxy, etag) -> None:
    proxy.faults = [Fault(key="one.bin", etag='"0123"', times=9)]
    with pytest.raises(UnreadableItem, match="'0123' came"):
        bucket.read_range("one.bin", etag=etag, offset=0, size=100)


def test_a_storage_without_ranges_is_refused(bucket, proxy, etag) -> None:
    proxy.faults = [Fault(key="one.bin", drop_headers=("range",))]
    with pytest.raises(RemoteUnavailable, match="does not keep to byte ranges"):
        bucket.read_range("one.bin", etag=etag, offset=50, size=100)


def test_what_is_not_there_is_missing(bucket) -> None:
    assert bucket.head("none.bin") is None
    with pytest.raises(Missing):
        bucket.read_range("none.bin", etag="0" * 32, offset=0, size=1)


@pytest.mark.parametrize("code", ["ExpiredToken", "InvalidAccessKeyId", "SignatureDoesNotMatch"])
def test_refused_credentials_stop_the_run(bucket, proxy, etag, code) -> None:
    proxy.faults = [Fault(key="one.bin", status=403, code=code)]
    with pytest.raises(RemoteUnavailable, match=f"refuses the credentials .{code}"):
        bucket.read_range("one.bin", etag=etag, offset=0, size=1)


def test_one_object_that_is_refused_is_one_row(bucket, proxy, etag) -> None:
    proxy.faults = [Fault(key="one.bin", status=403, code="AccessDenied")]
    with pytest.raises(UnreadableItem, match="1001.*status=403"):
        bucket.read_range("one.bin", etag=etag, offset=0, size=1)


def test_a_bucket_that_is_not_there_is_a_wrong_setting(client, remote) -> None:
    with pytest.raises(SettingsError, match="no such bucket"):
        list(Bucket("mmlake-nowhere", client=client, settings=remote).objects(""))


def test_a_second_write_leaves_the_first(bucket) -> None:
    assert bucket.put("once", b"first") is not None
    assert bucket.put("once", b"second") is None
    assert bucket.client.get_object(Bucket=bucket.name, Key="once")["Body"].read() == b"first"


def test_a_write_whose_answer_is_lost_is_made_once(bucket, proxy) -> None:
    proxy.faults = [Fault(method="PUT", key="once", lost_answer=True)]
    bucket.put("once", b"first")
    assert proxy.count("PUT", "once") == 2
    assert bucket.client.get_object(Bucket=bucket.name, Key="once")["Body"].read() == b"first"


def test_a_storage_with_conditional_writes_is_known(bucket) -> None:
    assert bucket.is_conditional("lake/")
    assert list(bucket.objects("")) == []


def test_a_storage_that_ignores_conditions_is_known(bucket, proxy) -> None:
    proxy.faults = [Fault(method="PUT", key="probe-", times=9, drop_headers=("if-none-match",))]
    assert not bucket.is_conditional("lake/")


def test_a_large_file_comes_back_whole(bucket, proxy) -> None:
    data = random.Random(3).randbytes(SINGLE_PUT_BYTES + 5000)
    proxy.faults = [Fault(method="PUT", key="partNumber=2", status=503)]
    bucket.upload("large", io.BytesIO(data), size_bytes=len(data), metadata={"extension": "bin"})
    found = bucket.head("large")
    assert found is not None and found.metadata == {"extension": "bin"}
    assert bucket.read_range("large", etag=found.etag, offset=0, size=len(data)) == data


def test_a_failed_upload_leaves_neither_object_nor_parts(bucket, proxy, monkeypatch) -> None:
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _: None)
    proxy.faults = [Fault(method="PUT", key="partNumber=2", times=99, status=503)]
    with pytest.raises(RemoteUnavailable, match="PUT s3://"):
        bucket.upload("large", io.BytesIO(bytes(SINGLE_PUT_BYTES + 5000)), size_bytes=SINGLE_PUT_BYTES + 5000)
    assert bucket.head("large") is None
    assert "Uploads" not in bucket.client.list_multipart_uploads(Bucket=bucket.name)


def test_an_upload_whose_writer_died_is_ended_once_it_is_old(bucket) -> None:
    bucket.client.create_multipart_upload(Bucket=bucket.name, Key="lake/dead")
    began_s = bucket.client.list_multipart_uploads(Bucket=bucket.name)["Uploads"][0]["Initiated"].timestamp()
    assert bucket.abort_uploads("lake/", older_than_s=3600, now_s=began_s + 3599) == 0
    assert bucket.abort_uploads("lake/", older_than_s=3600, now_s=began_s + 3600) == 1
    assert "Uploads" not in bucket.client.list_multipart_uploads(Bucket=bucket.name)


def quick(budget: backoff.Budget | None = None) -> backoff.Retries:
    return backoff.Retries(budget=budget or backoff.Budget(), sleep=lambda _: None)

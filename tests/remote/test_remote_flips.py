"""Bits that change between this machine and the storage: each is noticed and transferred again, none is given out, none
is stored."""

from __future__ import annotations

import io
import random
from dataclasses import replace

import pytest

from mmlake import sources
from mmlake.errors import BlobCorrupt, RemoteUnavailable
from mmlake.landing import S3Landing
from mmlake.remote import backoff
from mmlake.remote.bucket import SINGLE_PUT_BYTES, Bucket
from mmlake.remote.s3 import Damaged
from mmlake.remote.settings import RemoteSettings
from mmlake.sources import SourceSettings
from mmlake.store.s3 import S3Store
from tests import make
from tests.remote.servers import Fault, Proxy

SMALL = [random.Random(number).randbytes(2000 + number) for number in range(20)]
LARGE = random.Random(99).randbytes(300_000)
HUGE = random.Random(3).randbytes(SINGLE_PUT_BYTES + 5000)


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _: None)
    monkeypatch.setattr(backoff, "PROCESS_BUDGET", backoff.Budget(ceiling=1e6))
    monkeypatch.setattr(backoff.Retries, "pause_s", lambda *_, **__: 0.0)


def store_of(client, name: str, remote: RemoteSettings, tmp_path, machine: str) -> S3Store:
    own = replace(remote, cache_dir=str(tmp_path / machine), block_bytes=1 << 14)
    one = S3Store(f"s3://{name}/lake", client=client, remote=own)
    one.bucket._retries = backoff.Retries(budget=backoff.Budget(ceiling=1e6))
    return one


@pytest.fixture
def store(client, name: str, remote: RemoteSettings, tmp_path) -> S3Store:
    return store_of(client, name, remote, tmp_path, "one")


@pytest.fixture
def other(client, name: str, remote: RemoteSettings, tmp_path) -> S3Store:
    """Another machine's, whose cache is empty."""
    return store_of(client, name, remote, tmp_path, "other")


def put_all(store: S3Store) -> list[str]:
    with store.batch():
        return [store.put(data) for data in (*SMALL, LARGE)]


def flips(method: str, key: str, *, times: int = 1, is_stored_so: bool = False) -> list[Fault]:
    """One each at the beginning, in the middle and at the end of the bodies that come next."""
    return [
        Fault(method=method, key=key, times=times, flipped_byte=at, is_stored_so=is_stored_so) for at in (0, 40_001, -1)
    ]


@pytest.mark.parametrize("at", [0, 1000, 40_001, -1])
def test_no_read_gives_out_a_bit_that_changed_on_the_way(store, other, proxy: Proxy, at: int) -> None:
    digests = put_all(store)
    proxy.faults = [Fault(key=key, flipped_byte=at) for key in (".pack", ".idx", "lake/blobs/")]
    assert [other.read(digest) for digest in digests[:-1]] == SMALL
    with other.local(digests[-1]) as path:
        assert path.read_bytes() == LARGE
    assert not any(fault.times for fault in proxy.faults)
    assert other.read(digests[-1]) == LARGE


def test_a_large_blob_is_checked_as_it_is_read_to_its_end(store, other, proxy: Proxy) -> None:
    digest = put_all(store)[-1]
    proxy.faults = [Fault(key="lake/blobs/", flipped_byte=7)]
    with other.open(digest) as file, pytest.raises(Damaged, match="changed between the storage"):
        file.read()
    with other.open(digest) as file:
        assert file.read() == LARGE


def test_no_check_takes_a_bit_that_changed_on_the_way_for_damage(store, other, proxy: Proxy, monkeypatch) -> None:
    digests = put_all(store)
    for most_alone in (500, 1):  # by ranges, and front to back
        monkeypatch.setattr("mmlake.store.s3._ONE_BY_ONE", most_alone)
        proxy.faults = [Fault(key=key, flipped_byte=1000) for key in (".pack", "lake/blobs/")]
        assert dict(other.verify_all(digests)) == {}
        assert not any(fault.times for fault in proxy.faults)
    proxy.faults = [Fault(key="lake/blobs/", flipped_byte=1000)]
    assert (other.verify(digests[-1]), other.quarantine(digests[-1])) == (None, 0)


def test_what_is_damaged_in_the_storage_is_still_reported(store, other) -> None:
    digest, bucket = put_all(store)[-1], store.bucket
    bucket.client.put_object(Bucket=bucket.name, Key=f"lake/blobs/{digest}", Body=b"!" + LARGE[1:])
    with pytest.raises(BlobCorrupt):
        other.read(digest)
    assert other.verify(digest) == "corrupt"


def test_packs_that_are_rewritten_keep_what_they_hold(store, other, proxy: Proxy) -> None:
    """The old packs are deleted: a bit that changed on the way into the new one would be the only copy."""
    digests = []
    for number, at in enumerate((9, 50, 500, -1)):  # magic and header of the first record, bytes of it, of the last
        for data in SMALL[2 * number : 2 * number + 2]:
            with store.batch():
                digests.append(store.put(data))
        proxy.faults = [Fault(key=".pack", flipped_byte=at)]
        assert other.compact(max_small=1) > 0
        assert dict(store.verify_all(digests)) == {}, at


def test_an_index_that_is_built_again_has_every_blob(store, other, proxy: Proxy) -> None:
    digests = put_all(store)
    index = next(found.key for found in store.bucket.objects("lake/packs/") if found.key.endswith(".idx"))
    store.bucket.delete([index])
    proxy.faults = [Fault(key=".pack", flipped_byte=8)]  # the first header
    assert other.rebuild_indexes() == 1
    assert [other.read(digest) for digest in digests] == [*SMALL, LARGE]


@pytest.mark.parametrize("key", [".pack", ".idx", "lake/blobs/"])
@pytest.mark.parametrize("is_stored_so", [False, True], ids=["on the way", "in the storage"])
def test_a_bit_that_changes_in_a_write_is_sent_again(store, other, proxy: Proxy, key: str, is_stored_so: bool) -> None:
    proxy.faults = flips("PUT", key, is_stored_so=is_stored_so)
    digests = put_all(store)
    assert all(not fault.times for fault in proxy.faults)
    assert [other.read(digest) for digest in digests] == [*SMALL, LARGE]
    assert list(other.verify_all(digests)) == []


@pytest.mark.parametrize("is_stored_so", [False, True], ids=["on the way", "in the storage"])
def test_a_bit_that_changes_in_one_part_of_an_upload_is_sent_again(
    bucket: Bucket, proxy: Proxy, is_stored_so: bool
) -> None:
    bucket._retries = backoff.Retries(budget=backoff.Budget(ceiling=1e6))
    proxy.faults = [Fault(method="PUT", key="partNumber=2", flipped_byte=77, is_stored_so=is_stored_so)]
    bucket.upload("large", io.BytesIO(HUGE), size_bytes=len(HUGE))
    found = bucket.head("large")
    assert found is not None and not proxy.faults[0].times
    assert bucket.read_range("large", etag=found.etag, offset=0, size=len(HUGE)) == HUGE


def test_a_storage_that_damages_every_write_is_given_up(store, proxy: Proxy) -> None:
    proxy.faults = flips("PUT", "lake/blobs/", times=99, is_stored_so=True)
    with pytest.raises(RemoteUnavailable, match="6 tries .* changed on the way"):
        store.put(LARGE)
    proxy.faults = []
    assert store.bucket.head(f"lake/blobs/{put_all(store)[-1]}") is not None


def test_etags_that_are_no_hashes_are_no_damage(store, other, proxy: Proxy) -> None:
    """Those of a bucket that KMS encrypts: each first transfer is made twice, until two agree."""
    own = {"times": 999, "etag": f'"{"0" * 32}"'}
    proxy.faults = [
        Fault(method="PUT", **own),
        Fault(method="HEAD", **own),
        Fault(key="/lake/", drop_headers=("if-match",), **own),
    ]
    digests = put_all(store)
    assert [store.read(digest) for digest in digests] == [*SMALL, LARGE]
    proxy.faults = []
    assert [other.read(digest) for digest in digests] == [*SMALL, LARGE]


@pytest.mark.parametrize("at", [700, -1])
@pytest.mark.parametrize("shard", ["text/a.tar", "text/a.jsonl", "text/loose.txt"])
def test_no_row_is_made_of_a_bit_that_changed_on_the_way(
    client, name: str, store, proxy: Proxy, remote: RemoteSettings, tmp_path, shard: str, at: int
) -> None:
    texts = [make.prose(number) * 20 for number in range(12)]
    files = {
        "text/a.tar": make.tar({f"{number}.txt": text.encode() for number, text in enumerate(texts)}),
        "text/a.jsonl": make.jsonl(texts),
        "text/loose.txt": "\n".join(texts).encode(),
    }
    client.put_object(Bucket=name, Key=f"zone/{shard}", Body=files[shard])
    settings, found = SourceSettings(), []
    for number, faults in enumerate(([], [Fault(key=shard, flipped_byte=at)])):
        own = replace(remote, cache_dir=str(tmp_path / f"reader{number}"), block_bytes=1 << 12)
        landing = S3Landing(f"s3://{name}/zone", client=client, remote=own)
        (one,) = sources.scan(landing, settings=settings)
        landing = S3Landing(f"s3://{name}/zone", client=client, remote=replace(own, cache_dir=f"{own.cache_dir}again"))
        proxy.faults = faults
        try:
            rows = sources.ingest(one, "text", landing=landing, store=store, settings=settings)
        except RemoteUnavailable:  # of a loose file: the run ends, and the next one reads it anew
            rows = sources.ingest(one, "text", landing=landing, store=store, settings=settings)
        assert all(not fault.times for fault in faults)
        found.append(rows)
    assert found[0].equals(found[1])

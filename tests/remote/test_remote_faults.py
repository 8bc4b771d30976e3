"""Faults of a storage that are no fault of the data: every promise is kept, and none of them becomes a row."""

from __future__ import annotations

import io
import random
import threading
from collections.abc import Callable
from dataclasses import replace

import dagster as dg
import pytest

from mmlake import sources
from mmlake.errors import RemoteUnavailable, UnreadableItem
from mmlake.landing import S3Landing
from mmlake.remote import backoff
from mmlake.remote.bucket import SINGLE_PUT_BYTES, Bucket
from mmlake.remote.settings import RemoteSettings
from mmlake.sources import SourceSettings
from mmlake.store.s3 import S3Store
from mmlake_resources import LakeResource
from tests import make
from tests.remote.servers import Fault, Proxy

SMALL = [random.Random(number).randbytes(2000 + number) for number in range(20)]
LARGE = random.Random(99).randbytes(600_000)
BUSY = [Fault(method=method, times=4, status=503, code="SlowDown") for method in ("GET", "HEAD", "PUT", "POST")]
CLOCK = [
    Fault(method="HEAD", times=99, status=403),
    Fault(method="GET", key="blobs", times=99, status=403, code="RequestTimeTooSkewed"),
]
DENIED = [
    Fault(method="HEAD", times=99, status=403),
    Fault(method="GET", key="blobs", times=99, status=403, code="AccessDenied"),
]
CONFLICT = Fault(method="PUT", status=409, code="ConditionalRequestConflict")


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """botocore's waits between tries, without the waiting."""
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _: None)


@pytest.fixture
def stores(client, name: str, remote: RemoteSettings, tmp_path) -> list[S3Store]:
    """Of two machines: one bucket, a cache of its own each."""
    found = [
        S3Store(f"s3://{name}/lake", client=client, remote=replace(remote, cache_dir=str(tmp_path / machine)))
        for machine in ("one", "other")
    ]
    for store in found:
        store.bucket._retries = backoff.Retries(sleep=lambda _: None, budget=backoff.Budget())
    return found


def put_small(store: S3Store) -> list[str]:
    with store.batch():
        return [store.put(data) for data in SMALL]


def test_a_storm_of_slow_downs_is_sat_out(stores, proxy: Proxy) -> None:
    proxy.faults = [replace(fault) for fault in BUSY]
    digests = [*put_small(stores[0]), stores[0].put(LARGE)]
    proxy.faults = [replace(fault) for fault in BUSY]
    assert [stores[1].read(digest) for digest in digests] == [*SMALL, LARGE]


@pytest.mark.parametrize("length_off", [-700, -1, 1, 5000])
def test_a_wrong_length_never_makes_wrong_bytes(bucket: Bucket, proxy: Proxy, length_off: int) -> None:
    bucket.put("one", LARGE)
    found = bucket.head("one")
    proxy.faults = [Fault(key="/one", times=2, length_off=length_off)]
    assert found is not None
    assert bucket.read_range("one", etag=found.etag, offset=100, size=50_000) == LARGE[100:50_100]


@pytest.mark.parametrize(
    "fault",
    [
        Fault(method="PUT", key="partNumber=2", is_reset=True, times=2),
        Fault(method="PUT", key="partNumber=1", lost_answer=True),
        Fault(method="POST", key="uploads", is_reset=True),
        Fault(method="POST", key="uploadId=", is_reset=True),
        Fault(method="POST", key="uploadId=", lost_answer=True),
    ],
)
def test_an_upload_in_parts_outlives_broken_connections(bucket: Bucket, proxy: Proxy, fault: Fault) -> None:
    data = random.Random(3).randbytes(SINGLE_PUT_BYTES + 5000)
    proxy.faults = [replace(fault)]
    bucket.upload("large", io.BytesIO(data), size_bytes=len(data))
    found = bucket.head("large")
    assert found is not None and bucket.read_range("large", etag=found.etag, offset=0, size=len(data)) == data


def test_a_write_that_met_another_one_is_made_again(stores, proxy: Proxy) -> None:
    """A 409 leaves open whether there is an object; a pack whose index was taken for written holds blobs that nobody
    finds."""
    proxy.faults = [replace(CONFLICT, key=".idx", times=3), replace(CONFLICT, key="blobs/", times=2)]
    digests = [*put_small(stores[0]), stores[0].put(LARGE)]
    assert [stores[1].read(digest) for digest in digests] == [*SMALL, LARGE]


def test_a_write_that_never_comes_through_is_reported_and_nothing_is_promised(stores, proxy: Proxy) -> None:
    proxy.faults = [replace(CONFLICT, key=".idx", times=99)]
    with pytest.raises(RemoteUnavailable, match="another write of the same key"):
        put_small(stores[0])
    proxy.faults = []
    assert [stores[1].read(digest) for digest in put_small(stores[0])] == SMALL


def test_a_write_that_met_another_one_which_won_is_done(bucket: Bucket, proxy: Proxy) -> None:
    bucket.put("one", b"first")
    proxy.faults, proxy.seen = [replace(CONFLICT, key="/one", times=99)], []
    assert bucket.put("one", b"second") is None
    assert proxy.count("PUT") == 1


@pytest.mark.parametrize(
    "put", [put_small, lambda store: [store.put(data) for data in (*SMALL, LARGE)]], ids=["pack", "objects"]
)
def test_two_machines_that_put_the_same_at_once_both_have_it(stores, put: Callable[[S3Store], list[str]]) -> None:
    together, digests = threading.Barrier(2), {}

    def write(at: int) -> None:
        together.wait()
        digests[at] = put(stores[at])

    writers = [threading.Thread(target=write, args=(at,)) for at in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert digests[0] == digests[1]
    assert [stores[0].verify(digest) for digest in digests[0]] == [None] * len(digests[0])
    assert stores[1].stats().num_spare == 0


def test_a_sound_copy_outlives_a_quarantine_that_dies_in_the_middle(stores, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes out of its pack together with the damaged one, and is an object by then."""
    bucket = stores[0].bucket
    assert stores[1].stats().num_packs == 0  # so that it trusts its listing, and stores the blob a second time
    digest = put_small(stores[0])[0]
    key = next(found.key for found in bucket.objects("lake/packs/") if found.key.endswith(".pack"))
    with stores[1].batch():
        stores[1].put(SMALL[0])
    data = bucket.client.get_object(Bucket=bucket.name, Key=key)["Body"].read()
    bucket.client.put_object(Bucket=bucket.name, Key=key, Body=data.replace(SMALL[0], bytes(len(SMALL[0]))))

    def die(*arguments: object) -> None:
        raise KeyboardInterrupt

    fresh = S3Store(stores[0].location, client=bucket.client, remote=bucket.settings)
    assert fresh.verify(digest) == "corrupt"
    monkeypatch.setattr(fresh._packs, "drop", die)
    with pytest.raises(KeyboardInterrupt):
        fresh.quarantine(digest)
    monkeypatch.undo()
    for found in bucket.objects("lake/packs/"):
        bucket.client.delete_object(Bucket=bucket.name, Key=found.key)  # as the call would have gone on
    assert S3Store(stores[0].location, client=bucket.client, remote=bucket.settings).read(digest) == SMALL[0]


def test_a_pack_that_is_written_anew_under_its_name_is_read_in_its_new_version(stores) -> None:
    """The same bytes sent in other parts have another ETag."""
    digests = put_small(stores[0])
    assert stores[1].read(digests[0]) == SMALL[0]
    bucket = stores[0].bucket
    key = next(found.key for found in bucket.objects("lake/packs/") if found.key.endswith(".pack"))
    data = bucket.client.get_object(Bucket=bucket.name, Key=key)["Body"].read()
    bucket.client.put_object(Bucket=bucket.name, Key=key, Body=data + b"\0")
    assert [stores[1].read(digest) for digest in digests] == SMALL


@pytest.mark.parametrize("faults", [CLOCK, DENIED], ids=["clock", "denied"])
def test_a_store_that_refuses_is_no_fault_of_an_item(stores, proxy: Proxy, faults: list[Fault]) -> None:
    """Else an outage of the lake's own storage would be written down as damage of the data."""
    proxy.faults = [replace(fault) for fault in faults]
    with pytest.raises(RemoteUnavailable):
        stores[0].put(LARGE)


def test_a_wrong_clock_stops_the_run_with_its_remedy(
    client, bucket: Bucket, proxy: Proxy, remote: RemoteSettings
) -> None:
    """HEAD is answered without a body, and so without the reason: 403 alone would be one row after the other."""
    bucket.put("blobs", LARGE)
    landing = S3Landing(f"s3://{bucket.name}", client=client, remote=remote)
    proxy.faults = [replace(fault) for fault in CLOCK]
    for ask in (landing.open, landing.stat, landing.has):
        with pytest.raises(RemoteUnavailable, match=r"clock is not the storage's \(RequestTimeTooSkewed\); set it"):
            ask("blobs")


def test_what_head_refuses_and_get_gives_is_there(client, bucket: Bucket, proxy: Proxy, remote: RemoteSettings) -> None:
    bucket.put("blobs", LARGE, metadata={"extension": "jpg"})
    found = bucket.head("blobs")
    proxy.faults = [Fault(method="HEAD", status=403)]
    assert bucket.head("blobs") == found
    assert found is not None and found.size_bytes == len(LARGE)


def test_one_object_that_head_is_refused_is_one_row(
    client, bucket: Bucket, proxy: Proxy, remote: RemoteSettings
) -> None:
    bucket.put("blobs", LARGE)
    proxy.faults = [replace(fault) for fault in DENIED]
    with pytest.raises(UnreadableItem, match="refuses to give the object"):
        S3Landing(f"s3://{bucket.name}", client=client, remote=remote).open("blobs")


@pytest.mark.parametrize("code", ["RequestTimeTooSkewed", "InvalidAccessKeyId", "SlowDown"])
def test_an_outage_while_items_are_read_is_no_row(
    client, stores, bucket: Bucket, proxy: Proxy, remote: RemoteSettings, code: str
) -> None:
    """It begins when the shard is known, in the middle of its bytes; afterwards every row is there."""
    members = {f"{at}.txt": random.Random(at).randbytes(3000).hex().encode() for at in range(12)}
    bucket.put("zone/a.tar", make.tar(members))
    settings, spare = SourceSettings(), replace(remote, block_bytes=1 << 14, request_blocks=1, ahead_blocks=0)
    (shard,) = sources.scan(S3Landing(f"s3://{bucket.name}/zone", client=client, remote=remote), settings=settings)
    landing = S3Landing(
        f"s3://{bucket.name}/zone",
        client=client,
        remote=replace(spare, cache_dir=f"{remote.cache_dir}-of-another-machine"),
    )
    proxy.faults = [
        Fault(key="a.tar", times=3),
        Fault(key="a.tar", times=99, status=503 if code == "SlowDown" else 403, code=code),
    ]
    with pytest.raises(RemoteUnavailable):
        sources.ingest(shard, "text", landing=landing, store=stores[0], settings=settings)
    proxy.faults = []
    rows = sources.ingest(shard, "text", landing=landing, store=stores[0], settings=settings)
    assert rows.column("status").to_pylist() == ["ok"] * 12


def test_a_sensor_forgets_nothing_over_an_outage(bucket: Bucket, proxy: Proxy, tmp_path) -> None:
    """Its tick fails and says why; the next one finds what is there, and nothing counts as gone."""
    from mmlake_assets.sensors import landing_zone

    pytest.importorskip("dagster_aws")
    resource = LakeResource(
        root=str(tmp_path / "lake"),
        landing=f"s3://{bucket.name}/zone",
        s3_endpoint=proxy.endpoint,
        s3_region="us-east-1",
        settle_s=0.0,
    )

    def tick(instance: dg.DagsterInstance) -> list[str]:
        with dg.build_sensor_context(instance=instance, resources={"lake": resource}) as context:
            result = landing_zone(context)
        for request in getattr(result, "dynamic_partitions_requests", None) or []:
            instance.add_dynamic_partitions(request.partitions_def_name, list(request.partition_keys))
        return list(instance.get_dynamic_partitions("text_shards"))

    with dg.DagsterInstance.ephemeral(tempdir=str(tmp_path)) as instance:
        bucket.put("zone/text/a.jsonl", make.jsonl([make.prose(1)]))
        assert tick(instance) == ["text/a.jsonl"]
        bucket.put("zone/text/b.jsonl", make.jsonl([make.prose(2)]))
        for fault in (
            Fault(times=99, status=503, code="SlowDown"),
            Fault(times=99, status=403, code="RequestTimeTooSkewed"),
        ):
            proxy.faults = [fault]
            with pytest.raises(RemoteUnavailable):
                tick(instance)
        proxy.faults = []
        assert tick(instance) == ["text/a.jsonl", "text/b.jsonl"]

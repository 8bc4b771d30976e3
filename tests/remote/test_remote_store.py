"""The store on S3: what every store promises, over a network that breaks."""

from __future__ import annotations

import hashlib
import io
import random

import pytest

from mmlake.errors import BlobCorrupt, BlobMissing, LakeLocked, RemoteUnavailable, SettingsError
from mmlake.remote.settings import RemoteSettings
from mmlake.store import Blobs, S3Store, open_store, s3
from tests.remote.servers import Fault

SMALL = [random.Random(number).randbytes(2000 + number) for number in range(20)]
LARGE = random.Random(99).randbytes(600_000)


@pytest.fixture
def store(client, name: str, remote: RemoteSettings) -> S3Store:
    return S3Store(f"s3://{name}/lake", client=client, remote=remote)


@pytest.fixture
def other(client, name: str, tmp_path) -> S3Store:
    """Another machine's: the same bucket, its own cache."""
    return S3Store(
        f"s3://{name}/lake",
        client=client,
        remote=RemoteSettings(cache_dir=str(tmp_path / "elsewhere"), block_bytes=4096),
    )


def keys(store: S3Store) -> list[str]:
    return [found.key.removeprefix("lake/") for found in store.bucket.objects("")]


def put_small(store: Blobs) -> list[str]:
    with store.batch():
        return [store.put(data, extension="txt") for data in SMALL]


def test_a_blob_comes_back_under_the_hash_of_its_bytes(store, other) -> None:
    digest = store.put(LARGE, extension="JPG")
    assert digest == hashlib.sha256(LARGE).hexdigest()
    assert (other.read(digest), other.size(digest), other.extension(digest), digest in other) == (
        LARGE,
        len(LARGE),
        "jpg",
        True,
    )


def test_a_stream_comes_back_whole(store, other) -> None:
    assert store.put_stream(io.BytesIO(LARGE), extension="bin") == (hashlib.sha256(LARGE).hexdigest(), len(LARGE))
    assert other.read(hashlib.sha256(LARGE).hexdigest()) == LARGE


def test_what_was_taken_from_a_stream_before_belongs_to_its_blob(store, other) -> None:
    assert store.put_stream(io.BytesIO(LARGE[1000:]), head=LARGE[:1000]) == (
        hashlib.sha256(LARGE).hexdigest(),
        len(LARGE),
    )
    assert other.read(hashlib.sha256(LARGE).hexdigest()) == LARGE


@pytest.mark.parametrize("data", [b"", b"x"])
def test_the_smallest_blobs_are_blobs(store, other, data) -> None:
    assert other.read(store.put(data)) == data


def test_small_blobs_of_a_batch_are_two_objects(store, other) -> None:
    digests = put_small(store)
    assert [key.rpartition(".")[2] for key in keys(store)] == ["idx", "pack"]
    assert [other.read(digest) for digest in digests] == SMALL
    assert sorted(digests) == list(other.digests())


def test_a_batch_is_readable_before_it_ends(store) -> None:
    with store.batch():
        digest = store.put(SMALL[0])
        assert (store.read(digest), store.size(digest), digest in store) == (SMALL[0], len(SMALL[0]), True)
        assert keys(store) == []


def test_bytes_that_are_there_are_not_sent_again(store, other, proxy) -> None:
    put_small(store), store.put(LARGE)
    proxy.seen.clear()
    put_small(other), other.put(LARGE), other.put_stream(io.BytesIO(LARGE))
    assert proxy.count("PUT", "blobs/") == proxy.count("PUT", ".pack") == 0


def test_a_part_of_a_large_blob_costs_its_blocks(store, other, proxy) -> None:
    digest = store.put(LARGE)
    proxy.seen.clear()
    assert other.read_range(digest, 400_000, 100) == LARGE[400_000:400_100]
    assert other.read_range(digest, 400_000, 100) == LARGE[400_000:400_100]
    assert proxy.count("GET", "blobs/") == 1


def test_a_blob_that_is_not_there_is_missing(store) -> None:
    with pytest.raises(BlobMissing):
        store.read("0" * 64)
    assert ("0" * 64 in store, "../x" in store, store.verify("0" * 64)) == (False, False, "missing")


def test_a_pack_without_its_index_holds_nothing_until_the_index_is_built(store, other, proxy) -> None:
    """A writer that dies between the two: the blobs were never promised, and nothing is lost."""
    digests = put_small(store)
    index = next(key for key in keys(store) if key.endswith(".idx"))
    store.bucket.delete([f"lake/{index}"])
    assert digests[0] not in other
    assert other.rebuild_indexes() == 1
    assert [other.read(digest) for digest in digests] == SMALL


def test_a_batch_whose_upload_fails_promises_nothing(store, other, proxy, monkeypatch) -> None:
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _: None)
    store.put(LARGE)
    proxy.faults = [Fault(method="PUT", key=".pack", times=99, status=503)]
    with pytest.raises(RemoteUnavailable, match="PUT s3://"):
        put_small(store)
    proxy.faults = []
    assert hashlib.sha256(SMALL[0]).hexdigest() not in store
    assert [other.read(digest) for digest in put_small(store)] == SMALL


@pytest.mark.parametrize(
    "fault",
    [
        Fault(method="PUT", key="lake/", times=2, status=503),
        Fault(method="PUT", key="lake/blobs", lost_answer=True),
        Fault(method="PUT", key=".idx", lost_answer=True),
    ],
)
def test_writes_through_a_bad_network_converge(store, other, proxy, fault) -> None:
    proxy.faults = [fault]
    digests = [*put_small(store), store.put(LARGE)]
    assert [other.read(digest) for digest in digests] == [*SMALL, LARGE]


def test_reads_through_a_bad_network_converge(store, other, proxy) -> None:
    digests = [*put_small(store), store.put(LARGE)]
    proxy.faults = [
        Fault(key="lake/blobs", times=2, status=503),
        Fault(key="lake/blobs", cut_after=300),
        Fault(key=".pack", cut_after=100),
        Fault(key=".idx", cut_after=100),
    ]
    assert [other.read(digest) for digest in digests] == [*SMALL, LARGE]


def test_damage_in_the_bucket_is_reported_and_repaired(store, other) -> None:
    digest = store.put(LARGE, extension="jpg")
    store.bucket.client.put_object(Bucket=store.bucket.name, Key=f"lake/blobs/{digest}", Body=b"!" + LARGE[1:])
    assert other.verify(digest) == "corrupt"
    with pytest.raises(BlobCorrupt):
        other.read(digest)
    assert other.quarantine(digest, reason="test") == 1
    assert digest not in other
    assert [key.rpartition(".")[2] for key in keys(store)] == ["damaged", "json"]
    assert other.put(LARGE) == digest and other.verify(digest) is None


def test_damage_in_a_pack_is_reported_and_repaired(store, other) -> None:
    digests = put_small(store)
    key = next(f"lake/{key}" for key in keys(store) if key.endswith(".pack"))
    pack = store.bucket.client.get_object(Bucket=store.bucket.name, Key=key)["Body"].read()
    store.bucket.client.put_object(Bucket=store.bucket.name, Key=key, Body=pack.replace(SMALL[3], bytes(len(SMALL[3]))))
    assert [other.verify(digest) for digest in digests[2:5]] == [None, "corrupt", None]
    assert other.quarantine(digests[3], reason="test") == 1
    assert [other.verify(digest) for digest in digests[2:5]] == [None, "missing", None]


def test_what_is_removed_is_gone_from_packs_too(store, other) -> None:
    digests = [*put_small(store), store.put(LARGE)]
    assert other.remove_all([digests[0], digests[-1], "0" * 64]) == len(SMALL[0]) + len(LARGE)
    fresh = S3Store(
        store.location, client=store.bucket.client, remote=RemoteSettings(cache_dir=str(other._spool / "third"))
    )
    assert [digest in fresh for digest in digests] == [False, *[True] * 19, False]
    assert [store.read(digest) for digest in digests[1:-1]] == SMALL[1:]


def test_many_small_packs_become_one(store, other) -> None:
    for data in SMALL[:4]:
        with store.batch():
            store.put(data)
    assert (store.compact(max_small=4), store.compact(max_small=3)) == (0, 3)
    assert [other.read(hashlib.sha256(data).hexdigest()) for data in SMALL[:4]] == SMALL[:4]


def test_statistics_count_what_lies_there(store) -> None:
    put_small(store), store.put(LARGE)
    stats = store.stats()
    assert (stats.num_loose, stats.loose_bytes, stats.num_packed, stats.packed_bytes, stats.num_packs) == (
        1,
        len(LARGE),
        20,
        sum(map(len, SMALL)),
        1,
    )


def test_unfinished_uploads_are_swept(store) -> None:
    store.bucket.client.create_multipart_upload(Bucket=store.bucket.name, Key="lake/blobs/x")
    began_s = store.bucket.client.list_multipart_uploads(Bucket=store.bucket.name)["Uploads"][0][
        "Initiated"
    ].timestamp()
    assert store.sweep(older_than_s=3600, now_s=began_s + 3600) == 1


def test_a_storage_without_conditions_takes_one_writer_at_a_time(store, proxy) -> None:
    """Two processes are two here: what the first holds is put out of the second's sight."""
    proxy.faults = [Fault(method="PUT", key="probe-", times=99, drop_headers=("if-none-match",))]
    store.put(LARGE)
    held = s3._WRITERS.pop(store.location)
    second = S3Store(store.location, client=store.bucket.client, remote=store.bucket.settings)
    with pytest.raises(LakeLocked, match="one writer at a time"):
        second.put(SMALL[0])
    held.close()
    assert second.read(second.put(SMALL[0])) == SMALL[0]
    s3._WRITERS.pop(store.location).close()


@pytest.mark.parametrize(
    "location",
    [
        "s3://key:hidden@bucket/x",
        "s3://bucket/x?secret=hidden",
        "gs://hidden/x",
        "https://key:hidden@host/x",
        "s3://B/hidden",
    ],
)
def test_a_wrong_location_is_refused_and_never_repeated(tmp_path, location) -> None:
    with pytest.raises(SettingsError) as raised:
        open_store(location, tmp_path)
    assert "hidden" not in str(raised.value)


def test_packs_are_verified_in_few_requests(store, other, proxy, monkeypatch) -> None:
    digests = [*put_small(store), store.put(LARGE)]
    monkeypatch.setattr(s3, "_ONE_BY_ONE", 10)
    proxy.seen.clear()
    assert dict(other.verify_all([*digests, "../x"])) == {"../x": "missing"}
    assert proxy.count("GET", ".pack") == proxy.count("GET", f"blobs/{digests[-1]}") == 1
    assert proxy.count("HEAD", "blobs/") == 0


def test_a_sample_is_verified_by_ranges(store, other, proxy) -> None:
    digests = put_small(store)
    proxy.seen.clear()
    assert dict(other.verify_all([digests[0]])) == {}
    assert proxy.count("GET", ".pack") == proxy.count("HEAD", "blobs/") == 1


@pytest.mark.parametrize("most_alone", [10, 500])
def test_damage_is_found_in_packs_and_objects_at_once(store, other, most_alone, monkeypatch) -> None:
    monkeypatch.setattr(s3, "_ONE_BY_ONE", most_alone)
    digests = [*put_small(store), store.put(LARGE)]
    key = next(f"lake/{key}" for key in keys(store) if key.endswith(".pack"))
    pack = store.bucket.client.get_object(Bucket=store.bucket.name, Key=key)["Body"].read()
    store.bucket.client.put_object(Bucket=store.bucket.name, Key=key, Body=pack.replace(SMALL[3], bytes(len(SMALL[3]))))
    store.bucket.client.put_object(Bucket=store.bucket.name, Key=f"lake/blobs/{digests[-1]}", Body=b"!" + LARGE[1:])
    assert dict(other.verify_all([*digests, "0" * 64])) == {
        digests[3]: "corrupt",
        digests[-1]: "corrupt",
        "0" * 64: "missing",
    }

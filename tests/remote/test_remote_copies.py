"""Copies of a blob in several packs on S3: one stays, whichever process is at work and whenever the process dies."""

from __future__ import annotations

import hashlib
import threading
from contextlib import suppress
from typing import Any

import pytest

from mmlake.remote.settings import RemoteSettings
from mmlake.store import s3_copies
from mmlake.store.s3 import S3Store
from tests.remote.servers import Fault, Proxy
from tests.thorough import drawn

COMMON, ALSO, FIRST, SECOND = b"common" * 20, b"a blob of both" * 9, b"of the first" * 30, b"of the second" * 40
CONTENTS = (COMMON, ALSO, FIRST, SECOND)


class Killed(BaseException):
    """Stands for a kill -9: nothing behind it is done any more."""


@pytest.fixture
def stores(client: Any, name: str, tmp_path) -> list[S3Store]:
    """Three machines' views of one store, in which two packs share two blobs, as two leave it that put at once."""
    found = [
        S3Store(
            f"s3://{name}/lake",
            client=client,
            remote=RemoteSettings(cache_dir=str(tmp_path / machine), block_bytes=4096),
        )
        for machine in "abc"
    ]
    assert found[1].stats().num_packs == 0
    for store, own in zip(found, (FIRST, SECOND), strict=False):
        with store.batch():
            for data in (COMMON, own, ALSO):
                store.put(data, extension="txt")
    assert found[2].stats().num_spare == 2
    return found


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def keys(store: S3Store) -> list[str]:
    return [found.key for found in store.bucket.objects("lake/")]


def damage(store: S3Store, data: bytes, *, which: int) -> None:
    """Make the blob's copy in that pack, counted from the largest, another one."""
    bucket = store.bucket
    key = sorted(
        (found for found in bucket.objects("lake/packs/") if found.key.endswith(".pack")),
        key=lambda found: -found.size_bytes,
    )[which].key
    content = bucket.client.get_object(Bucket=bucket.name, Key=key)["Body"].read()
    bucket.client.put_object(Bucket=bucket.name, Key=key, Body=content.replace(data, bytes(len(data))))


def assert_whole(store: S3Store) -> None:
    assert [store.read(sha256(data)) for data in CONTENTS] == [*CONTENTS]


def test_of_two_copies_one_stays(stores) -> None:
    assert_whole(stores[2])
    assert (stores[0].thin(), stores[0].thin(), stores[1].stats().num_spare) == (2, 0, 0)
    assert stores[0].extension(sha256(COMMON)) == "txt"
    for store in stores:  # also who knew the old packs alone
        assert_whole(store)
    assert not [key for key in keys(stores[0]) if "thinning" in key]


def test_the_sound_copy_is_the_one_that_stays(stores) -> None:
    damage(stores[0], COMMON, which=0)
    assert stores[2].thin() == 2
    assert [stores[2].verify(sha256(data)) for data in CONTENTS] == [None] * 4


def test_where_no_copy_is_sound_all_stay_to_be_reported(stores) -> None:
    for which in range(2):
        damage(stores[0], COMMON, which=which)
    assert (stores[2].thin(), stores[2].verify(sha256(COMMON)), stores[2].stats().num_spare) == (1, "corrupt", 1)


def test_an_object_stays_and_packed_copies_of_it_go(stores) -> None:
    stores[0].bucket.put(f"lake/blobs/{sha256(COMMON)}", COMMON)
    assert (stores[2].thin(), stores[2].stats().num_spare) == (3, 0)
    assert_whole(stores[1])


def killed_at(monkeypatch: pytest.MonkeyPatch, client: Any, number: int) -> list[int]:
    """From now on the request with this number, and each behind it, is never sent; grows with every request."""
    sent: list[int] = []
    send = client._endpoint.make_request

    def dying(*arguments: Any) -> Any:
        sent.append(1)
        if len(sent) >= number:
            raise Killed
        return send(*arguments)

    monkeypatch.setattr(client._endpoint, "make_request", dying)
    return sent


@pytest.mark.slow
def test_a_thinning_killed_before_any_request_loses_nothing(stores, monkeypatch: pytest.MonkeyPatch) -> None:
    """By default before every third. Others read everything at once; a day later the same call ends what was begun."""
    bucket, number, is_whole_run = stores[0].bucket, 0, False
    before = {key: bucket.client.get_object(Bucket=bucket.name, Key=key)["Body"].read() for key in keys(stores[0])}
    while not is_whole_run:
        bucket.delete(keys(stores[0]))
        for key, data in before.items():
            bucket.put(key, data)
        number += drawn(3, 1)
        with monkeypatch.context() as patch:
            sent = killed_at(patch, bucket.client, number)
            with suppress(Killed):
                admitted(stores[0]).thin()
        is_whole_run = len(sent) < number
        assert_whole(stores[1])
        monkeypatch.setattr(s3_copies, "_ABANDONED_S", -1.0)
        admitted(stores[2]).thin()
        monkeypatch.undo()
        assert stores[1].stats().num_spare == 0
        assert_whole(stores[1])
    assert number > 15


def admitted(like: S3Store) -> S3Store:
    """A store object as a new process has it that knows that the storage honours conditions."""
    store = S3Store(like.location, client=like.bucket.client, remote=like.bucket.settings)
    store._is_admitted = True
    return store


def test_while_one_has_its_turn_another_removes_nothing(stores) -> None:
    with s3_copies._turn(stores[0].bucket, "lake/thinning/") as has_turn:
        assert has_turn()
        assert (stores[1].thin(), has_turn()) == (0, True)
    assert stores[1].thin() == 2


def test_who_was_taken_for_dead_deletes_nothing_any_more(stores, monkeypatch: pytest.MonkeyPatch) -> None:
    with s3_copies._turn(stores[0].bucket, "lake/thinning/") as first:
        monkeypatch.setattr(s3_copies, "_ABANDONED_S", -1.0)
        with s3_copies._turn(stores[1].bucket, "lake/thinning/") as second:
            assert (first(), second()) == (False, True)
    with s3_copies._turn(stores[0].bucket, "lake/thinning/") as first:
        monkeypatch.setattr(s3_copies, "_TURN_S", -1.0)
        assert not first()


def test_a_mark_whose_answer_was_lost_is_known_again(stores, proxy: Proxy) -> None:
    proxy.faults = [Fault(method="PUT", key="thinning/", lost_answer=True)]
    assert stores[0].thin() == 2


def test_two_that_thin_at_once_leave_one_copy_at_least(stores) -> None:
    together, removed = threading.Barrier(2), []

    def work(store: S3Store) -> None:
        together.wait()
        removed.append(store.thin())

    threads = [threading.Thread(target=work, args=(store,)) for store in stores[:2]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert_whole(stores[2])
    assert sum(removed) in (0, 2)

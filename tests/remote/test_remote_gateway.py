"""What rests on a storage's own promises, on a Ceph object gateway that this test starts: conditional writes of many at
once, signatures that hold against changed bodies, listings, uploads in parts. `MMLAKE_TEST_S3=ceph pytest tests/remote`
runs every other test on one, too."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from mmlake.remote import s3
from mmlake.remote.bucket import Bucket
from tests.remote.ceph import ceph_gateway, missing
from tests.remote.conftest import KEY_ID, SECRET
from tests.remote.servers import Proxy, proxy_before
from tests.remote.test_remote_flips import (  # noqa: F401
    hurried,
    other,
    store,
    test_a_bit_that_changes_in_a_write_is_sent_again,
    test_a_bit_that_changes_in_one_part_of_an_upload_is_sent_again,
)
from tests.remote.test_remote_store import (  # noqa: F401
    test_a_pack_without_its_index_holds_nothing_until_the_index_is_built,
    test_a_storage_without_conditions_takes_one_writer_at_a_time,
    test_many_small_packs_become_one,
    test_unfinished_uploads_are_swept,
    test_what_is_removed_is_gone_from_packs_too,
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def gateway(surroundings: pytest.MonkeyPatch) -> Iterator[tuple[Proxy, Any]]:
    """(a proxy before the gateway, a client of it)."""
    pytest.importorskip("boto3")
    if programs := missing():
        pytest.skip(f"no Ceph on this machine: {', '.join(programs)} cannot be found")
    with ceph_gateway(KEY_ID, SECRET) as endpoint, proxy_before(endpoint) as one, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
        patch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        patch.setenv("MMLAKE_S3_ENDPOINT", one.endpoint)
        made = s3.new_client()
        yield one, made
        made.close()


@pytest.fixture
def proxy(gateway: tuple[Proxy, Any]) -> Iterator[Proxy]:
    gateway[0].faults, gateway[0].seen = [], []
    yield gateway[0]
    gateway[0].faults = []


@pytest.fixture
def client(gateway: tuple[Proxy, Any], proxy: Proxy) -> Any:
    return gateway[1]


def test_of_many_writers_of_one_key_one_wins_and_the_object_is_its(bucket: Bucket) -> None:
    assert bucket.is_conditional("lake/")
    together = threading.Barrier(8)
    won = dict[str, list[bytes]]()

    def write(number: int) -> None:
        for at in range(20):
            together.wait()
            if bucket.put(f"key{at}", b"%d" % number) is not None:
                won.setdefault(f"key{at}", []).append(b"%d" % number)

    writers = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    there = {key: [bucket.client.get_object(Bucket=bucket.name, Key=key)["Body"].read()] for key in won}
    assert len(won) == 20
    assert won == there

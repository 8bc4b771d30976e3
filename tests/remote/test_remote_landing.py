"""A landing zone in a bucket: what a directory gives, listed by pages and read by ranges."""

from __future__ import annotations

import io
import json
import logging
import random
import time

import pytest

from mmlake import sources
from mmlake.errors import RemoteUnavailable, SettingsError, UnreadableItem
from mmlake.lake import Lake
from mmlake.landing import S3Landing, as_landing, portable
from mmlake.pipeline import refresh, run_tables
from mmlake.remote import bucket
from mmlake.remote.s3 import Address
from mmlake.settings import Settings
from mmlake.sources import SourceSettings
from mmlake.store import BlobStore, S3Store
from tests import make
from tests.remote.conftest import KEY_ID, SECRET
from tests.remote.servers import Fault


def upload(client, name: str, files: dict[str, bytes]) -> None:
    for key, data in files.items():
        client.put_object(Bucket=name, Key=key, Body=data)


@pytest.fixture
def landing(client, name, remote) -> S3Landing:
    return S3Landing(f"s3://{name}/zone", client=client, remote=remote)


def listed(landing) -> dict[str, list[str]]:
    return {
        directory: [entry.path for entry in entries if entry.refused is None]
        for directory, entries in landing.directories()
    }


def test_a_prefix_is_listed_like_a_directory(client, name, landing, tmp_path) -> None:
    files = {
        "b.tar": b"1",
        "a/c.bin": b"2",
        "a/b/d.bin": b"3",
        "ab/e.bin": b"4",
        ".hidden": b"5",
        "a/.git/f": b"6",
        "a/g.part": b"7",
        "a/_SUCCESS": b"",
        "_source.json": b"{}",
    }
    upload(client, name, {f"zone/{key}": data for key, data in files.items()} | {"zonebeside/x": b"8", "y": b"9"})
    assert list(listed(landing).items()) == list(listed(as_landing(make.land(tmp_path / "zone", files))).items())
    assert [one for one, _ in landing.directories_below("a")] == ["a", "a/b"]
    assert not list(landing.directories_below("none")) and not list(landing.directories_below("../zone"))


def test_an_entry_has_size_time_and_etag(client, name, landing) -> None:
    upload(client, name, {"zone/a": b"12345"})
    (entry,) = landing.files(".")
    written = client.head_object(Bucket=name, Key="zone/a")
    assert (entry.size_bytes, f'"{entry.version}"', entry.modified_ns) == (
        5,
        written["ETag"],
        written["LastModified"].timestamp() * 1e9,
    )
    assert landing.stat("a") == entry


@pytest.mark.parametrize(
    "key",
    [
        "a b.bin",
        "ä/ö 100%.bin",
        "a%2Fb.bin",
        "a+b&c=d?e#f.bin",
        "日本/語.bin",
        "fsencoded:x.bin",
        "back\\slash.bin",
        "\"quoted'.bin",
    ],
)
def test_an_odd_name_is_listed_and_read(client, name, landing, key) -> None:
    upload(client, name, {f"zone/{key}": key.encode()})
    ((entry,),) = (entries for _, entries in landing.directories())
    assert (entry.path, entry.refused) == (portable(key), None)
    with landing.open(entry.path) as file:
        assert file.read() == key.encode()


@pytest.mark.parametrize(
    "key", ["a//b.bin", "a/../b.bin", "../b.bin", "./b.bin", "a/.", "/b.bin", "a/b/../../../../etc/passwd"]
)
def test_a_key_that_is_no_path_is_reported_and_never_opened(client, name, landing, key) -> None:
    upload(client, name, {f"zone/{key}": b"x", "zone/a/good.bin": b"y"})
    entries = [entry for _, found in landing.directories() for entry in found]
    (refused,) = (entry for entry in entries if entry.refused is not None)
    assert [entry.path for entry in entries if entry.refused is None] == ["a/good.bin"]
    assert "//" not in refused.path and ".." not in refused.path
    with pytest.raises(UnreadableItem, match="1007"):
        landing.open(refused.path)
    with pytest.raises(UnreadableItem, match="1007"):
        landing.open(portable(key))


def test_marks_of_empty_directories_are_no_files(client, name, landing) -> None:
    upload(client, name, {"zone/": b"", "zone/a/": b"", "zone/a/b.bin": b"1"})
    assert listed(landing) == {"a": ["a/b.bin"]}


def test_an_object_that_is_also_a_directory_is_reported(client, name, landing) -> None:
    """Their shards would have one key, and one of the two would be lost."""
    upload(client, name, {"zone/a": b"1", "zone/a/b.bin": b"2"})
    found = {entry.path: entry.refused for _, entries in landing.directories() for entry in entries}
    assert found == {"a": "an object whose name is also a directory's", "a/b.bin": None}


def test_many_objects_come_by_pages(client, name, landing, proxy, monkeypatch) -> None:
    monkeypatch.setattr(bucket, "_PAGE_KEYS", 4)
    upload(client, name, {f"zone/{number:02d}": b"" for number in range(10)})
    proxy.seen.clear()
    assert len(landing.files(".")) == 10
    assert proxy.count("GET", "list-type=2") == 3


def test_reading_and_seeking_is_that_of_a_file(client, name, landing) -> None:
    data = random.Random(5).randbytes(20_000)
    upload(client, name, {"zone/a": data})
    rng, local = random.Random(6), io.BytesIO(data)
    with landing.open("a") as file:
        for _ in range(200):
            offset, size = rng.randrange(0, 21_000), rng.randrange(0, 5000)
            assert (file.seek(offset), file.read(size)) == (local.seek(offset), local.read(size))
        assert (file.seek(-5, 2), file.read()) == (19_995, data[-5:])


@pytest.mark.parametrize("path", ["none", "zone", "a"])
def test_what_is_not_there_is_an_item_that_cannot_be_read(client, name, landing, path) -> None:
    upload(client, name, {"zone/a/b": b"1"})
    assert landing.stat(path) is None
    with pytest.raises(UnreadableItem, match="1001.*missing"):
        landing.open(path)


def test_an_empty_object_is_an_empty_file(client, name, landing) -> None:
    upload(client, name, {"zone/a": b""})
    with landing.open("a") as file:
        assert file.read() == b""


def test_an_object_that_changes_while_it_is_read_is_never_mixed(client, name, landing) -> None:
    upload(client, name, {"zone/a": b"1" * 20_000})
    with landing.open("a") as file:
        assert file.read(10) == b"1" * 10
        upload(client, name, {"zone/a": b"2" * 20_000})
        with pytest.raises(UnreadableItem, match="changed while it was read"):
            file.read()
    with landing.open("a") as file:
        assert file.read() == b"2" * 20_000


@pytest.mark.parametrize(
    "address",
    [
        "s3://key:hidden@bucket/p",
        "s3://bucket/p?X-Amz-Signature=hidden",
        "s3://bucket:9000/p",
        "s3://bucket/a//b",
        "s3://bucket/../b",
        "s3://UP/p",
        "s3:///p",
    ],
)
def test_a_wrong_address_is_refused_and_never_repeated(address) -> None:
    with pytest.raises(SettingsError) as raised:
        as_landing(address)
    assert "hidden" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("s3://bucket", ("bucket", "")),
        ("S3://bucket/", ("bucket", "")),
        ("s3://my.bucket-1/a/b c/", ("my.bucket-1", "a/b c")),
    ],
)
def test_an_address_is_bucket_and_prefix(text, meant) -> None:
    address = Address.parse(text)
    assert (address.bucket, address.prefix) == meant


def test_a_scan_of_what_is_known_opens_nothing(client, name, landing, proxy) -> None:
    upload(
        client,
        name,
        {f"zone/text/{number}.jsonl": make.jsonl([make.prose(number)]) for number in range(3)}
        | {"zone/_source.json": b'{"licence": "CC0-1.0"}'},
    )
    known = {shard.key: shard for shard in sources.scan(landing, settings=SourceSettings())}
    proxy.seen.clear()
    assert {shard.key: shard for shard in sources.scan(landing, settings=SourceSettings(), known=known)} == known
    assert proxy.count("HEAD") == 0
    assert proxy.count("GET", "list-type=2") == len(proxy.seen) == 2


@pytest.mark.parametrize("per_directory", [30, 2, 1])
def test_a_scan_and_an_ingest_ask_for_each_loose_object_once(
    client, name, landing, proxy, tmp_path, per_directory
) -> None:
    pictures = {f"zone/{at // per_directory:02}/{at:02}.png": make.picture(at, width=24, height=18) for at in range(30)}
    upload(client, name, pictures)
    proxy.seen.clear()
    proxy.faults = [Fault(delay_s=0.01, times=10**6)]
    settings, store = SourceSettings(gather_above=20), BlobStore(tmp_path / "store")
    shards = sources.scan(landing, settings=settings)
    tables = [sources.ingest(one, "image", landing=landing, store=store, settings=settings) for one in shards]
    assert sum(table.num_rows for table in tables) == 30
    assert {path: proxy.count("GET", path) for path in pictures} == dict.fromkeys(pictures, 1)
    assert not [path for method, path in proxy.seen if method == "HEAD" and path.endswith(".png")]
    # what corpora have next to their pictures is not asked for below a directory in which it is not
    assert not [path for _, path in proxy.seen if "annotations" in path]
    assert proxy.most_at_once > (1 if per_directory == 30 else 3)


def test_new_changed_and_gone_objects_are_noticed(client, name, landing, tmp_path) -> None:
    lake = Lake(tmp_path / "lake", landing=landing)
    upload(
        client,
        name,
        {"zone/text/a.jsonl": make.jsonl([make.prose(1)]), "zone/text/b.jsonl": make.jsonl([make.prose(2)])},
    )
    assert [shard.key for shard in refresh(lake).new] == ["text/a.jsonl", "text/b.jsonl"]
    upload(client, name, {"zone/text/a.jsonl": make.jsonl([make.prose(3)])})
    client.delete_object(Bucket=name, Key="zone/text/b.jsonl")
    listing = refresh(lake)
    assert ([shard.key for shard in listing.changed], list(listing.gone)) == (["text/a.jsonl"], ["text/b.jsonl"])


def test_a_fresh_object_waits_for_its_time_or_its_marker(client, name, landing, tmp_path) -> None:
    lake = Lake(tmp_path / "lake", landing=landing)
    upload(client, name, {"zone/text/a.jsonl": make.jsonl([make.prose(1)])})
    assert refresh(lake, settled_before_s=time.time() - 3600).new == ()
    upload(client, name, {"zone/text/_SUCCESS": b""})
    assert [shard.key for shard in refresh(lake, settled_before_s=time.time() - 3600).new] == ["text/a.jsonl"]


def test_an_outage_stops_the_scan_and_is_no_row(client, name, landing, proxy, monkeypatch) -> None:
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _: None)
    upload(client, name, {"zone/text/a.jsonl": make.jsonl([make.prose(1)])})
    proxy.faults = [Fault(key="a.jsonl", times=99, status=503)]
    with pytest.raises(RemoteUnavailable):
        sources.scan(landing, settings=SourceSettings())


@pytest.mark.slow
def test_a_whole_run_on_a_bucket_gives_what_a_directory_gives_and_reports_no_secret(
    client, name, remote, proxy, tmp_path, caplog
) -> None:
    """Landing zone and blobs on S3, through a network with 503s and cut connections; then every file of the lake and
    the log is searched."""
    caplog.set_level(logging.DEBUG, logger="mmlake")
    local = make.small_landing(tmp_path / "zone")
    files = {path.relative_to(local).as_posix(): path.read_bytes() for path in local.rglob("*") if path.is_file()}
    upload(client, name, {f"zone/{key}": data for key, data in files.items()})
    settings = Settings.of(
        {"store": {"location": f"s3://{name}/lake"}, "remote": {"cache_dir": remote.cache_dir, "block_bytes": 4096}}
    )
    lake = Lake(tmp_path / "lake", landing=f"s3://{name}/zone", settings=settings)
    proxy.faults = [
        Fault(key="zone/", times=3, status=503),
        Fault(key="zone/image", times=2, cut_after=1000),
        Fault(method="PUT", key="lake/", times=2, status=503),
    ]
    refresh(lake)
    run_tables(lake, modalities=("text", "image"))
    lake.remember_landing()
    direct = Lake(tmp_path / "direct", landing=local)
    refresh(direct)
    run_tables(direct, modalities=("text", "image"))
    assert isinstance(lake.store, S3Store)
    assert sorted(lake.store.digests()) == sorted(direct.store.digests())
    assert not (lake.root / "blobs").exists()
    assert json.loads((lake.root / "lake.json").read_text())["store"] == f"s3://{name}/lake"
    again = Lake(tmp_path / "lake", settings=Settings.of({"remote": {"cache_dir": remote.cache_dir}}))
    assert (again.store.location, again.landing.location) == (f"s3://{name}/lake", f"s3://{name}/zone")
    written = [
        path.read_bytes() for root in (lake.root, tmp_path / "cache") for path in root.rglob("*") if path.is_file()
    ] + [caplog.text.encode()]
    assert not any(secret.encode() in text for text in written for secret in (KEY_ID, SECRET))


def test_a_sparing_reader_fetches_nothing_ahead(client, name, remote, landing) -> None:
    upload(client, name, {"zone/a.bin": bytes(20 * 1024)})
    with landing.sparing().open("a.bin") as file:
        while file.read(1024) and file.tell() < 3 * 1024:
            pass
    blocks = [
        path for path in (remote.directory() / "blocks").rglob("*") if path.is_file() and not path.name.startswith(".")
    ]
    assert len(blocks) <= 4

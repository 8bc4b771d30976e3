"""Shards of short texts in Parquet: fewer bytes, the same samples."""

from __future__ import annotations

import json
import pickle
import random
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from mmlake.errors import SettingsError, ShardCorrupt
from mmlake.loader import ShardStream
from mmlake.shards import ShardIndex, ShardSettings, verify_shards
from mmlake.store import BlobStore
from tests.made_samples import part, sample, shards_of, text

WORDS = [f"word{number:04d}"[: 3 + number % 6] for number in range(4000)]
PARQUET = ShardSettings(small="parquet")


@pytest.fixture
def store(tmp_path) -> BlobStore:
    return BlobStore(tmp_path / "blobs")


def short_texts(store: BlobStore, count: int, *, size_bytes: int = 200) -> list[dict]:
    """Samples of a text each, over a few source shards, with fields of their own."""
    rng, rows = random.Random(0), []
    for number in range(count):
        words = " ".join(rng.choices(WORDS, k=size_bytes // 3))[:size_bytes]
        title = "half of a pair: \\ud83d" if number % 3 else "é"
        facts = {"fields_json": f'{{"number":{number},"title":"{title}"}}', "weight": 0.5 + number % 2}
        rows.append(sample([text(store, words, fields={"line": number})], shard=f"text/{number % 3}.jsonl", **facts))
    return rows


def write(rows: list[dict], store: BlobStore, out: Path, settings: ShardSettings = PARQUET) -> ShardIndex:
    return shards_of(
        rows, store, out, manifest_id="ab" * 32, settings=settings, texts=lambda digest: store.read(digest).decode()
    )


def bytes_on_disk(index: ShardIndex) -> int:
    return sum((index.directory / name).stat().st_size for shard in index.shards for name in shard.files)


@pytest.mark.parametrize("settings", [PARQUET, ShardSettings()], ids=["parquet", "default"])
def test_texts_of_200_bytes_take_at_most_three_times_their_bytes(store, tmp_path, settings) -> None:
    """By default too: until now they took eleven times their bytes."""
    rows = short_texts(store, 3000)
    assert bytes_on_disk(write(rows, store, tmp_path, settings)) <= 3 * 3000 * 200


@pytest.mark.parametrize(
    ("count", "size_bytes", "form"),
    [(256, 300, "parquet"), (255, 300, "tar"), (256, 1000, "parquet"), (256, 1001, "tar")],
)
def test_texts_that_are_many_and_short_are_rows_by_default_and_others_members_of_tars(
    store, tmp_path, count: int, size_bytes: int, form: str
) -> None:
    rows = [
        sample([text(store, f"{number:05d}" + "x" * (size_bytes - 5))], shard="text/a.jsonl") for number in range(count)
    ]
    rows.append(sample([part(store, b"picture"), text(store, "a caption", "caption")], shard="text/a.jsonl"))
    index = write(rows, store, tmp_path, ShardSettings())
    assert [shard.format for shard in index.shards] == [form, "tar"]
    assert verify_shards(index.directory) == []
    assert len(list(ShardStream(index.directory, seed=1))) == count + 1


def test_each_source_shard_has_the_form_of_its_own_texts(store, tmp_path) -> None:
    """So that new shards of long texts leave those of short ones as they are."""
    short = [sample([text(store, f"{number:05d} short")], shard="text/a.jsonl") for number in range(300)]
    long = [sample([text(store, f"{number:05d} long " * 150)], shard="text/b.jsonl") for number in range(300)]
    both = write(short + long, store, tmp_path / "both", ShardSettings())
    alone = write(short, store, tmp_path / "alone", ShardSettings())
    assert [shard.format for shard in both.shards] == ["parquet", "tar"]
    assert both.shards[0].sha256 == alone.shards[0].sha256


def test_the_loader_gives_the_same_samples_in_the_same_order_from_both_formats(store, tmp_path) -> None:
    picture = sample([part(store, b"picture"), text(store, "a caption", "caption")])
    rows = [
        *short_texts(store, 1500),
        picture,
        sample([text(store, "before"), part(store, b"in"), text(store, "after")]),
    ]
    indexes = [write(rows, store, tmp_path / small, ShardSettings(small=small)) for small in ("tar", "parquet")]
    assert [shard.format for shard in indexes[1].shards] == ["parquet"] * 3 + ["tar"] * 2
    for verify in ("fast", "members", "full"):
        tars, parquet = (list(ShardStream(one.directory, seed=3, verify=verify)) for one in indexes)
        assert len(tars) == 1502
        assert tars == parquet


def test_a_stream_of_one_format_goes_on_in_the_other(store, tmp_path) -> None:
    rows = short_texts(store, 40)
    tar, parquet = (
        ShardStream(write(rows, store, tmp_path / small, ShardSettings(small=small)).directory, seed=5)
        for small in ("tar", "parquet")
    )
    whole, samples = list(tar), iter(tar)
    for _ in range(15):
        next(samples)
    parquet.load_state_dict(tar.state_dict())
    assert list(pickle.loads(pickle.dumps(parquet))) == whole[15:]


def test_row_groups_are_kept_in_bounded_memory(store, tmp_path) -> None:
    stream = ShardStream(write(short_texts(store, 4000), store, tmp_path).directory, seed=1)
    stream._groups._max_bytes = 600_000
    assert sum(1 for _ in stream) == 4000
    assert stream._groups.size_bytes <= 600_000


def test_facts_are_columns(store, tmp_path) -> None:
    rows = short_texts(store, 10)
    index = write(rows, store, tmp_path)
    found = {
        row["key"]: row for shard in index.shards for row in pq.read_table(index.directory / shard.files[0]).to_pylist()
    }
    for row in rows:
        one = found[row["sample"]]
        assert one["text"].encode() == store.read(row["parts"][0]["digest"])
        assert (one["weight"], one["sources"], one["licences"]) == (row["weight"], ["news"], ["MIT"])
        assert json.loads(one["fields"])["number"] == json.loads(row["fields_json"])["number"]


def test_datasets_reads_the_rows(store, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets = pytest.importorskip("datasets")
    index = write(rows := short_texts(store, 10), store, tmp_path)
    files = [str(index.directory / shard.files[0]) for shard in index.shards]
    loaded = datasets.load_dataset("parquet", data_files=files, split="train", cache_dir=str(tmp_path / "cache"))
    assert {row["key"] for row in loaded} == {row["sample"] for row in rows}


def test_duckdb_reads_the_rows(store, tmp_path) -> None:
    duckdb = pytest.importorskip("duckdb")
    index = write(short_texts(store, 10), store, tmp_path)
    query = f"select count(*), sum(weight) from '{index.directory}/text-*.parquet' where licences[1] = 'MIT'"
    assert duckdb.sql(query).fetchall() == [(10, 10.0)]


def test_every_flipped_bit_and_every_truncation_is_found(store, tmp_path) -> None:
    index = write(short_texts(store, 5), store, tmp_path)
    path, rng = index.directory / index.shards[0].files[0], random.Random(1)
    whole = path.read_bytes()
    for _ in range(60):
        data = bytearray(whole)
        data[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        for damaged in (bytes(data), whole[: rng.randrange(len(whole))]):
            path.write_bytes(damaged)
            assert len(verify_shards(index.directory)) == 1
            with pytest.raises(ShardCorrupt):
                list(ShardStream(index.directory, verify="full"))
    path.unlink()
    assert ["missing" in problem for problem in verify_shards(index.directory)] == [True]
    with pytest.raises(ShardCorrupt, match="missing"):
        list(ShardStream(index.directory))


def test_a_page_that_changed_is_found_when_its_members_are_checked(store, tmp_path) -> None:
    """Whatever byte it is: the sample is refused, or it is as it was written."""
    index = write(short_texts(store, 60), store, tmp_path)
    path, rng = index.directory / index.shards[0].files[0], random.Random(2)
    whole, expected = path.read_bytes(), list(ShardStream(index.directory))
    for _ in range(60):
        data = bytearray(whole)
        data[rng.randrange(4, len(whole))] ^= 1 << rng.randrange(8)
        path.write_bytes(bytes(data))
        stream = ShardStream(index.directory, verify="members", on_corrupt="skip")
        for one in stream:
            assert one in expected


def test_a_second_run_writes_nothing_and_another_format_replaces_the_files(store, tmp_path) -> None:
    index = write(rows := short_texts(store, 10), store, tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")}
    assert write(rows, store, tmp_path) == index
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")} == before
    write(rows, store, tmp_path, ShardSettings())
    assert list(index.directory.glob("*.parquet")) == []
    assert verify_shards(index.directory) == []


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(SettingsError, match="'mds', expected one of auto, tar, parquet"):
        ShardSettings(small="mds")

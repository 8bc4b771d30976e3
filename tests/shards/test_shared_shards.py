"""Shards by what they hold: versions share them, and new data leaves those of old data as they are."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

import mmlake.shards.write as write_module
from mmlake import checked_json
from mmlake.shards import ShardIndex, ShardSettings, name_again, remove_unnamed, verify_shards
from mmlake.store import BlobStore
from tests.made_samples import part, sample, shards_of, text

FIRST, SECOND = "ab" * 32, "cd" * 32


@pytest.fixture
def store(tmp_path) -> BlobStore:
    return BlobStore(tmp_path / "blobs")


def write(rows: list[dict], store: BlobStore, out: Path, version: str = FIRST, **arguments) -> ShardIndex:
    return shards_of(rows, store, out, manifest_id=version, **arguments)


def pictures(
    store: BlobStore, count: int, *, seed: int = 0, num_shards: int = 4, size_bytes: int = 20_000
) -> list[dict]:
    """Samples of a picture each, spread over source shards."""
    rng = random.Random(seed)
    shards = [f"image/{seed}-{number:03d}.tar" for number in range(num_shards)]
    return [sample([part(store, rng.randbytes(size_bytes))], shard=shards[n % num_shards]) for n in range(count)]


def objects(out: Path) -> dict[Path, int]:
    """Every object with its inode."""
    return {path: path.stat().st_ino for path in sorted((out / "objects").glob("??/*"))}


def size_bytes(paths) -> int:
    return sum(path.stat().st_size for path in paths)


def test_equal_samples_are_one_file_in_all_versions(store, tmp_path) -> None:
    rows = pictures(store, 12)
    first, second = write(rows, store, tmp_path), write(rows, store, tmp_path, SECOND)
    assert len(first.shards) == 4
    for shard in first.shards:
        for ending in (".tar", ".idx"):
            assert os.path.samefile(
                first.directory / f"{shard.name}{ending}", second.directory / f"{shard.name}{ending}"
            )
    assert first.shards == second.shards


def test_more_items_by_a_hundredth_write_at_most_three_hundredths_of_the_bytes(store, tmp_path) -> None:
    old = pictures(store, 1000, num_shards=100, size_bytes=4000)
    write(old, store, tmp_path)
    before = objects(tmp_path)
    write([*old, *pictures(store, 10, seed=1, num_shards=1, size_bytes=4000)], store, tmp_path, SECOND)
    after = objects(tmp_path)
    assert {path: after[path] for path in before} == before
    assert size_bytes(after.keys() - before.keys()) <= 0.03 * size_bytes(after)


def test_new_data_writes_only_the_shards_that_it_is_in(store, tmp_path) -> None:
    old = pictures(store, 12)
    write(old, store, tmp_path)
    before = objects(tmp_path)
    (late,) = pictures(store, 1, seed=1)
    write([*old, late | {"shard": old[0]["shard"]}], store, tmp_path, SECOND)
    assert len(objects(tmp_path).keys() - before.keys()) == 2


def test_versions_with_other_weights_share_their_tars(store, tmp_path) -> None:
    rows = pictures(store, 4, num_shards=1)
    first = write(rows, store, tmp_path)
    second = write([row | {"weight": 0.5} for row in rows], store, tmp_path, SECOND)
    (one,), (other,) = first.shards, second.shards
    assert (one.sha256, one.plan) == (other.sha256, other.plan)
    assert one.idx_sha256 != other.idx_sha256
    assert verify_shards(first.directory) == verify_shards(second.directory) == []


def test_what_is_apart_leaves_the_rest_to_be_shared(store, tmp_path) -> None:
    """Of two recipes one leaves out what the other keeps: the bytes of every picture are there once."""
    rows = pictures(store, 40)
    out = {row["sample"] for row in rows[::7]}
    write(rows, store, tmp_path, apart=out)
    write([row for row in rows if row["sample"] not in out], store, tmp_path, SECOND, apart=out)
    assert size_bytes(objects(tmp_path)) <= 1.2 * 40 * 20_000


def test_a_changed_text_is_another_shard_and_its_neighbours_stay(store, tmp_path) -> None:
    rows = [sample([text(store, f"words {n}")], shard=f"text/{n % 2}.jsonl") for n in range(6)]
    said = {row["parts"][0]["digest"]: f"words {n}" for n, row in enumerate(rows)}
    first = write(rows, store, tmp_path, texts=said.get)
    said[rows[0]["parts"][0]["digest"]] = "other words"
    second = write(rows, store, tmp_path, SECOND, texts=said.get)
    assert [one.plan == other.plan for one, other in zip(first.shards, second.shards, strict=True)] == [False, True]


@pytest.fixture
def side_by_side(monkeypatch) -> None:
    """Small samples, too, have as many writers as are asked for."""
    monkeypatch.setattr(write_module, "_BYTES_OF_A_THREAD", 1)


@pytest.mark.usefixtures("side_by_side")
@pytest.mark.parametrize("workers", [1, 3, 16])
def test_the_number_of_writers_changes_nothing(store, tmp_path, workers: int) -> None:
    rows = pictures(store, 30, num_shards=7)
    expected = write(rows, store, tmp_path / "one").to_json()
    assert write(rows, store, tmp_path / "many", workers=workers).to_json() == expected


@pytest.mark.parametrize(("sample_bytes", "writers"), [(3_000, 1), (30_000, 1), (110_000, 2), (400_000, 4)])
def test_samples_have_as_many_writers_as_hash_more_than_they_wait(
    store, tmp_path, monkeypatch, sample_bytes: int, writers: int
) -> None:
    """At 3 kB two writers take longer than one, since all but hashing and writing waits for the interpreter."""
    pool, seen = write_module.ThreadPoolExecutor, []
    monkeypatch.setattr(write_module, "ThreadPoolExecutor", lambda count: seen.append(count) or pool(count))
    rows = [sample([part(store, os.urandom(sample_bytes))], shard=f"image/{n}.tar") for n in range(6)]
    write(sorted(rows, key=lambda row: row["sample"]), store, tmp_path, workers=4)
    assert seen[-1] == writers


@pytest.mark.usefixtures("side_by_side")
def test_progress_counts_every_sample_once(store, tmp_path) -> None:
    rows, counted = pictures(store, 30, num_shards=7), []
    write(rows[:10], store, tmp_path, workers=2, advance=counted.append)
    write(rows, store, tmp_path, workers=2, advance=counted.append)
    assert sum(counted) == 40


@pytest.mark.usefixtures("side_by_side")
def test_a_failing_writer_ends_the_others_and_leaves_nothing_unfinished(store, tmp_path) -> None:
    rows = pictures(store, 60, num_shards=6)
    for row in rows[:6]:
        store.remove(row["parts"][0]["digest"])
    with pytest.raises(Exception, match="blob"):
        write(rows, store, tmp_path, workers=3)
    assert list(tmp_path.rglob("*.part")) == []
    assert not (tmp_path / FIRST / "index.json").exists()


@pytest.mark.usefixtures("side_by_side")
def test_an_interrupt_ends_all_writers_and_the_next_run_goes_on(store, tmp_path) -> None:
    rows = pictures(store, 60, num_shards=12)

    def interrupt(count: int) -> None:
        if count:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(rows, store, tmp_path, workers=3, advance=interrupt)
    assert list(tmp_path.rglob("*.part")) == []
    assert not (tmp_path / FIRST / "index.json").exists()
    before = objects(tmp_path)
    write(rows, store, tmp_path)
    assert before
    assert {path: objects(tmp_path)[path] for path in before} == before


def test_where_links_are_refused_the_folder_has_relative_symbolic_ones(store, tmp_path, monkeypatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "link", refused)
    index = write(pictures(store, 6), store, tmp_path / "shards")
    names = sorted(path for path in index.directory.iterdir() if path.suffix in (".tar", ".idx"))
    assert all(path.is_symlink() and not os.readlink(path).startswith("/") for path in names)
    (tmp_path / "shards").rename(tmp_path / "moved")
    assert verify_shards(tmp_path / "moved" / FIRST) == []


def test_a_damaged_object_is_written_again_and_found_through_both_versions(store, tmp_path) -> None:
    rows = pictures(store, 6, num_shards=1)
    first, second = write(rows, store, tmp_path), write(rows, store, tmp_path, SECOND)
    path = first.directory / f"{first.shards[0].name}.tar"
    data = bytearray(path.read_bytes())
    data[700] ^= 1
    path.write_bytes(data)
    assert [len(verify_shards(one.directory)) for one in (first, second)] == [1, 1]
    for version in (FIRST, SECOND):
        write(rows, store, tmp_path, version)
    assert verify_shards(first.directory) == verify_shards(second.directory) == []


def test_objects_that_no_living_version_names_are_removed(store, tmp_path) -> None:
    rows = pictures(store, 12)
    first = write([row | {"weight": 0.5} for row in rows], store, tmp_path)
    write(rows, store, tmp_path, SECOND, settings=ShardSettings(max_samples=2))
    (tmp_path / "objects" / "ab").mkdir(exist_ok=True)
    (tmp_path / "objects" / "ab" / "left.part").write_bytes(b"by a killed writer")
    before = objects(tmp_path)
    counted = remove_unnamed(tmp_path, [FIRST], dry_run=True)
    assert objects(tmp_path) == before
    assert remove_unnamed(tmp_path, [FIRST]) == counted > 0
    kept = {path.name[:64] for path in objects(tmp_path)}
    assert kept == {shard.plan for shard in first.shards}
    assert verify_shards(first.directory) == []
    assert remove_unnamed(tmp_path, []) > 0
    assert objects(tmp_path) == {}


def test_a_folder_of_plain_tars_becomes_links_when_it_is_written_anew(store, tmp_path) -> None:
    """As lakes of earlier releases have them: read as they are until then."""
    index = write(pictures(store, 6), store, tmp_path)
    for path in index.directory.glob("*.tar"):
        data = path.read_bytes()
        path.unlink()
        path.write_bytes(data)
    path = index.directory / "index.json"
    path.write_text(json.dumps(checked_json.loads(path.read_bytes()) | {"schema": "mmlake.shards/2"}))
    assert verify_shards(index.directory) == []
    write(pictures(store, 6), store, tmp_path)
    assert all(path.stat().st_nlink == 2 for path in index.directory.glob("*.tar"))


def test_what_others_keep_in_the_index_stays_while_the_shards_do(store, tmp_path) -> None:
    """The mixture of a recipe stands there."""
    path = write(rows := pictures(store, 6), store, tmp_path).directory / "index.json"
    path.write_bytes(checked_json.dumps(checked_json.loads(path.read_bytes()) | {"group": [1]}))
    before = path.read_bytes()
    write(rows, store, tmp_path)
    assert path.read_bytes() == before
    write(rows[:5], store, tmp_path)
    assert b'"group"' not in path.read_bytes()


@pytest.mark.parametrize("can_link", [True, False])
def test_shards_of_a_version_whose_index_is_damaged_are_kept(store, tmp_path, monkeypatch, can_link: bool) -> None:
    def refused(*_: object) -> None:
        raise PermissionError

    if not can_link:
        monkeypatch.setattr(os, "link", refused)
    index = write(pictures(store, 6), store, tmp_path)
    (index.directory / "index.json").write_text("{")
    before = {path for path in objects(tmp_path) if path.suffix == ".tar"}
    remove_unnamed(tmp_path, [FIRST])
    assert objects(tmp_path).keys() >= before


def test_the_shards_of_a_version_whose_id_changed_are_found_by_either_id(store, tmp_path) -> None:
    write(rows := pictures(store, 6), store, tmp_path)
    ids = {FIRST: SECOND, "12" * 32: "34" * 32}
    assert (name_again(tmp_path, ids), name_again(tmp_path, ids)) == (1, 0)
    assert verify_shards(tmp_path / FIRST) == verify_shards(tmp_path / SECOND) == []
    before = objects(tmp_path)
    assert remove_unnamed(tmp_path, [SECOND]) == 0
    assert write(rows, store, tmp_path, SECOND).manifest_id == SECOND
    assert objects(tmp_path) == before

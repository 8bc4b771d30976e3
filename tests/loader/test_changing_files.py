"""Shards that change or become shorter while they are read: an error of the sample or shard, never of the process,
and no changed bytes are given out."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from mmlake.errors import ShardCorrupt
from mmlake.loader import ShardStream
from mmlake.shards import ShardSettings
from mmlake.store import BlobStore
from tests.made_samples import part, sample, shards_of, text

COUNT = 40


@pytest.fixture
def folder(tmp_path) -> Path:
    """Four shards of ten pictures of 20 kB each, one for each source shard."""
    store, rng = BlobStore(tmp_path / "blobs"), random.Random(0)
    rows = [sample([part(store, rng.randbytes(20_000))], shard=f"{at % 4}.tar") for at in range(COUNT)]
    return written(tmp_path, store, rows, ShardSettings())


def written(root: Path, store: BlobStore, rows: list[dict], settings: ShardSettings) -> Path:
    return shards_of(rows, store, root, settings=settings).directory


# opens every shard, shortens or changes all of them, and goes on to the end of the epoch
READER = """
import json, os, sys
from pathlib import Path
from mmlake.errors import ShardCorrupt
from mmlake.loader import ShardStream
folder, verify, on_corrupt, change = Path(sys.argv[1]), *sys.argv[2:]
stream = ShardStream(folder, verify=verify, on_corrupt=on_corrupt, shuffle=False)
whole = {sample["__key__"]: sample["jpg"] for sample in stream}
for path in folder.glob("*.tar"):
    if change == "cut":
        os.truncate(path, path.stat().st_size // 2)
    else:
        with path.open("r+b") as file:
            file.seek(512 + 100)
            file.write(b"changed")
given, error = {}, None
try:
    for sample in stream:
        given[sample["__key__"]] = sample["jpg"]
except ShardCorrupt as raised:
    error = str(raised)
changed = [key for key, data in given.items() if whole[key] != data]
print(json.dumps([len(whole), len(given), changed, sorted(stream.skipped), error]))
"""


def read_while(folder: Path, verify: str, on_corrupt: str, change: str) -> list:
    run = subprocess.run(
        [sys.executable, "-c", READER, str(folder), verify, on_corrupt, change],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert run.returncode == 0, (run.returncode, run.stderr)
    return json.loads(run.stdout)


@pytest.mark.parametrize("verify", ["fast", "members", "full"])
@pytest.mark.parametrize("change", ["cut", "write"])
def test_a_tar_that_changes_while_it_is_read_is_an_error_and_not_the_end_of_the_process(
    folder, verify: str, change: str
) -> None:
    num_whole, _, changed, _, error = read_while(folder, verify, "error", change)
    assert num_whole == COUNT
    assert changed == []
    assert error is not None
    assert "image-000000" in error


@pytest.mark.parametrize("verify", ["members", "full"])
@pytest.mark.parametrize(("change", "num_left"), [("cut", 20), ("write", 36)])
def test_skipping_leaves_out_the_damaged_samples_of_an_open_shard_and_no_others(
    folder, verify: str, change: str, num_left: int
) -> None:
    """Of the ten samples of each shard five lie in the half that is left; one was written to."""
    _, num_given, changed, skipped, error = read_while(folder, verify, "skip", change)
    assert (num_given, changed, error) == (num_left, [], None)
    assert len(skipped) == COUNT - num_left
    assert all("/" in name for name in skipped)


def test_a_flipped_member_is_skipped_alone_and_the_rest_of_its_shard_is_given_out(folder) -> None:
    data = bytearray((folder / "image-000001.tar").read_bytes())
    data[600] ^= 4
    (folder / "image-000001.tar").write_bytes(data)
    stream = ShardStream(folder, on_corrupt="skip", verify="members")
    assert sum(1 for _ in stream) == COUNT - 1
    assert list(stream.skipped) == ["image-000001/10"]


def test_a_shard_that_changed_while_it_was_closed_is_hashed_again(folder) -> None:
    stream = ShardStream(folder, shuffle=False)
    assert sum(1 for _ in stream) == COUNT
    stream.close()
    with (folder / "image-000002.tar").open("r+b") as file:
        file.seek(700)
        file.write(b"changed")
    with pytest.raises(ShardCorrupt, match=r"image-000002\.tar does not hash"):
        list(stream)


@pytest.mark.parametrize("verify", ["fast", "members", "full"])
def test_a_parquet_shard_that_changes_while_it_is_read_is_an_error(tmp_path, verify: str) -> None:
    store = BlobStore(tmp_path / "blobs")
    rows = [sample([text(store, f"number {at} of the short texts")]) for at in range(300)]
    folder = written(tmp_path, store, rows, ShardSettings())
    path = next(folder.glob("*.parquet"))
    stream = ShardStream(folder, shuffle=False, verify=verify)
    samples = iter(stream)
    next(samples)
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(ShardCorrupt, match="changed while it was read"):
        list(samples)

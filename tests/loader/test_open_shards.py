"""What is open while samples are read: its memory, and its use by several threads."""

from __future__ import annotations

import errno
import io
import os
import random
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mmlake.loader import DECODERS, ShardStream
from mmlake.shards import ShardSettings
from mmlake.store import BlobStore
from tests.made_samples import sample, shards_of, text

COUNT = 2000


def folder(root: Path, *, form: str) -> Path:
    store = BlobStore(root / "blobs")
    return shards_of(
        [sample([text(store, f"words {number}")]) for number in range(COUNT)],
        store,
        root,
        settings=ShardSettings(max_samples=200, small=form),
    ).directory


@pytest.mark.parametrize("form", ["tar", "parquet"])
def test_threads_share_the_open_shards(tmp_path, form: str) -> None:
    """With more shards than may be open, a thread closed the file that another one was reading."""
    stream = ShardStream(folder(tmp_path, form=form), verify="members")
    expected = [stream.sample(number) for number in range(COUNT)]
    stream.close()
    stream._max_open = 2
    wanted = random.Random(0).choices(range(COUNT), k=3000)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(stream.sample, wanted))
    assert found == [expected[number] for number in wanted]
    assert len(stream._open) <= 2
    assert stream._num_open_samples == sum(shard.num_indexed for shard in stream._open.values())


def test_an_open_shard_holds_no_object_for_a_sample(tmp_path) -> None:
    """A million short texts took 440 MB in each worker; a key alone is 113 bytes as a Python string."""
    stream = ShardStream(folder(tmp_path, form="tar"), verify="fast")
    stream.sample(0)  # what is loaded with the first
    tracemalloc.start()
    stream.weights()  # opens every shard
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert held / COUNT < 250  # the index file, and what is open for a shard


@pytest.mark.parametrize("where", ["open", "pread"])
@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE])
def test_a_disk_that_fails_is_a_damaged_shard_and_a_process_out_of_files_is_none(
    tmp_path, monkeypatch, where: str, number: int
) -> None:
    """A sector that could not be read ended the training, `on_corrupt="skip"` or not."""
    directory = folder(tmp_path, form="tar")
    stream, original = ShardStream(directory, verify="fast", on_corrupt="skip", shuffle=False), getattr(os, where)
    calls = []

    def fails(*given, **named):
        calls.append(given)
        if len(calls) == 3:
            raise OSError(number, os.strerror(number))
        return original(*given, **named)

    whole = set(ShardStream(directory, verify="fast").keys())
    monkeypatch.setattr(os, where, fails)
    if where == "open" and number == errno.EMFILE:
        with pytest.raises(OSError, match="Too many open files"):
            list(stream)
        return
    lost = len(whole - {one["__key__"] for one in stream})
    assert lost == 1 if where == "pread" else 50 < lost <= 200  # a shard
    assert len(stream.skipped) == 1 and os.strerror(number) in next(iter(stream.skipped.values()))


def test_decoded_pictures_can_be_written_to() -> None:
    """Torch warns of what cannot, and augmentation in place failed."""
    Image.new("RGB", (4, 3), 7).save(sink := io.BytesIO(), "PNG")
    picture = DECODERS["image"](sink.getvalue())
    picture += 1
    assert np.array_equal(picture, np.full((3, 4, 3), [8, 1, 1]))

"""Passes over the samples: what has begun is not changed by what is set for the next one, and states lose no sample."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from mmlake.errors import SettingsError, ShardCorrupt
from mmlake.loader import ShardStream
from mmlake.shards import ShardIndex, ShardSettings
from mmlake.store import BlobStore
from tests.made_samples import sample, shards_of, text

COUNT = 1300  # more than the positions that are computed at a time


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("passes")
    store = BlobStore(root / "blobs")
    return shards_of(
        [sample([text(store, f"words {number}")]) for number in range(COUNT)],
        store,
        root,
        settings=ShardSettings(max_samples=100, small="tar"),
    ).directory


def stream_of(folder: Path, **fields) -> ShardStream:
    return ShardStream(folder, verify="fast", **fields)


def keys(samples) -> list[str]:
    return [one["__key__"] for one in samples]


def taken(samples: Iterator[dict], count: int) -> list[str]:
    return [next(samples)["__key__"] for _ in range(count)]


@pytest.mark.parametrize("change", ["epoch", "state"])
def test_what_is_set_during_a_pass_is_for_the_next_one(folder, change: str) -> None:
    """The rest of the pass was of the other epoch: a quarter of the samples came twice or never."""
    stream, whole = stream_of(folder, seed=3), keys(stream_of(folder, seed=3))
    running = iter(stream)
    first = taken(running, 5)
    if change == "epoch":
        stream.set_epoch(1)
    else:
        stream.load_state_dict(stream_of(folder, seed=4).state_dict(7))
    assert first + keys(running) == whole
    expected = keys(stream_of(folder, seed=3, epoch=1)) if change == "epoch" else keys(stream_of(folder, seed=4))[7:]
    assert stream.state_dict()["position"] == (0 if change == "epoch" else 7)
    assert keys(stream) == expected


def test_a_loop_that_names_each_epoch_goes_on_at_the_loaded_position(folder) -> None:
    """It began the epoch anew, and every sample before the stop came twice."""
    whole = keys(stream_of(folder, seed=3, epoch=2))
    stream = stream_of(folder)
    stream.load_state_dict(stream_of(folder, seed=3, epoch=2).state_dict(40))
    given = []
    for epoch in (2, 3):
        stream.set_epoch(epoch)
        given.append(keys(stream))
    assert given == [whole[40:], keys(stream_of(folder, seed=3, epoch=3))]


def test_the_pass_behind_a_resumed_one_is_whole(folder) -> None:
    stream = stream_of(folder, seed=3)
    stream.load_state_dict(stream.state_dict(40))
    assert [len(keys(stream)), stream.state_dict()["position"], len(keys(stream))] == [COUNT - 40, COUNT, COUNT]


@pytest.mark.parametrize("stop", [40, COUNT])
def test_a_loop_that_stops_behind_the_last_sample_has_used_up_the_loaded_position(folder, stop: int) -> None:
    """It asked for no more, as torchdata's StatefulDataLoader does not, and the next pass began there once more: behind
    the last sample it was empty."""
    stream = stream_of(folder, seed=3)
    stream.load_state_dict(stream.state_dict(stop))
    assert len(taken(iter(stream), COUNT - stop)) == COUNT - stop
    assert len(keys(stream)) == COUNT


def test_a_loop_that_stops_before_begins_at_the_loaded_position_again(folder) -> None:
    stream = stream_of(folder, seed=3)
    stream.load_state_dict(stream.state_dict(40))
    taken(iter(stream), COUNT - 41)
    assert len(keys(stream)) == COUNT - 40


def test_a_state_counts_the_pass_that_began_last(folder) -> None:
    """Before its first sample it was at the end of the pass before."""
    stream = stream_of(folder)
    first = iter(stream)
    taken(first, 30)
    second = iter(stream)
    assert stream.state_dict()["position"] == 0
    taken(second, 3)
    taken(first, 10)
    assert stream.state_dict()["position"] == 3


def test_a_state_goes_on_with_the_sample_that_raised(folder, tmp_path) -> None:
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    damaged = tmp_path / "text-000001.tar"
    sound = damaged.read_bytes()
    damaged.write_bytes(sound[:600].replace(b"words", b"WORDS") + sound[600:])
    first = ShardIndex.read(tmp_path).shards[0].num_samples
    stream, given = ShardStream(tmp_path, verify="members", shuffle=False), []
    with pytest.raises(ShardCorrupt):
        given.extend(one["__key__"] for one in stream)
    assert stream.state_dict()["position"] == first
    damaged.write_bytes(sound)
    stream.load_state_dict(stream.state_dict())
    assert keys(stream) == keys(stream_of(folder, shuffle=False))[first:]


def test_numbers_of_numpy_are_those_of_python(folder) -> None:
    """A state is JSON, and the order depends on how a seed is written."""
    stream = stream_of(folder, seed=np.int64(3), epoch=np.int32(1), rank=np.int64(0), world_size=np.int64(2))
    state = json.loads(json.dumps(stream.state_dict(np.int64(4))))
    assert state["position"] == 8
    assert keys(stream) == keys(stream_of(folder, seed=3, epoch=1, world_size=2))


@pytest.mark.parametrize("name", ["seed", "epoch", "rank", "world_size", "batch_size"])
def test_numbers_that_are_not_whole_are_refused(folder, name: str) -> None:
    """A seed of 3.0 gave another order than 3, which its state says: samples came twice after a stop."""
    with pytest.raises(SettingsError, match=f"{name} is 3.0"):
        stream_of(folder, **{name: 3.0})
    with pytest.raises(SettingsError, match="epoch is 1.0"):
        stream_of(folder).set_epoch(1.0)
    with pytest.raises(SettingsError, match="num_samples is -1"):
        stream_of(folder).state_dict(-1)


@pytest.mark.parametrize("name", ["seed", "epoch", "position"])
@pytest.mark.parametrize("value", [None, "3", 1.5])
def test_a_state_that_lacks_a_number_is_refused(folder, name: str, value: object) -> None:
    stream = stream_of(folder)
    with pytest.raises(SettingsError, match=f"{name} of the loader state is"):
        stream.load_state_dict(stream.state_dict() | {name: value})
    with pytest.raises(SettingsError, match="loader state is of schema"):
        stream.load_state_dict([stream.state_dict()])


def test_a_state_survives_a_pickle_in_mid_pass(folder) -> None:
    stream = stream_of(folder, seed=3)
    running = iter(stream)
    first = taken(running, 30)
    copy = pickle.loads(pickle.dumps(stream))
    copy.load_state_dict(copy.state_dict())
    assert first + keys(copy) == keys(stream_of(folder, seed=3))

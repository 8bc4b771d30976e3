"""Workers of a DataLoader: what the training process sets reaches those that live on, and their own states go on."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader, get_worker_info

from mmlake.errors import SettingsError
from mmlake.loader import LengthBatchDataset, ShardDataset, ShardStream
from mmlake.shards import ShardSettings
from mmlake.store import BlobStore
from tests.made_samples import part, sample, shards_of

COUNT = 53


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("workers")
    store = BlobStore(root / "blobs")
    return shards_of(
        [sample([part(store, b"%04d" % number)]) for number in range(COUNT)],
        store,
        root,
        settings=ShardSettings(max_samples=10),
    ).directory


def keys(samples: Any) -> list[str]:
    return [one["__key__"] for one in samples]


def batches_of(dataset: ShardDataset, **how: Any) -> DataLoader:
    return DataLoader(dataset, batch_size=4, num_workers=2, **{"collate_fn": keys} | how)


def given(loader: DataLoader) -> list[str]:
    return [key for batch in loader for key in batch]


def test_workers_that_live_on_begin_the_epoch_that_was_set(folder) -> None:
    """Each epoch had the order of the first, and a state that was loaded changed nothing."""
    dataset = ShardDataset(folder, seed=3, batch_size=4)
    loader = batches_of(dataset, persistent_workers=True)
    epochs = [given(loader)]
    dataset.set_epoch(1)
    epochs.append(given(loader))
    dataset.load_state_dict(ShardStream(folder, seed=9).state_dict(20))
    epochs.append(given(loader))
    expected = [ShardStream(folder, seed=3), ShardStream(folder, seed=3, epoch=1), ShardStream(folder, seed=9)]
    assert epochs == [keys(expected[0]), keys(expected[1]), keys(expected[2])[20:]]


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_a_copy_has_workers_of_its_own(folder, context: str) -> None:
    dataset = ShardDataset(folder, seed=3, batch_size=4)
    copy = pickle.loads(pickle.dumps(dataset))
    loader = batches_of(copy, persistent_workers=True, multiprocessing_context=context)
    first = given(loader)
    dataset.set_epoch(1)
    assert given(loader) == first == keys(ShardStream(folder, seed=3))
    copy.set_epoch(2)
    assert given(loader) == keys(ShardStream(folder, seed=3, epoch=2))


def test_an_epoch_that_is_set_while_workers_begin_is_an_error(folder) -> None:
    dataset = ShardDataset(folder)
    dataset._shared._bytes[40] += 1  # half of what was there, half of what comes
    with pytest.raises(SettingsError, match="between two passes"):
        dataset._shared.read()


def with_state(samples: Any) -> tuple[list[str], int, dict]:
    """What torchdata's StatefulDataLoader asks a worker for, behind each batch."""
    info = get_worker_info()
    assert info is not None
    return keys(samples), info.id, info.dataset.state_dict()


@pytest.mark.parametrize("stop", [1, 2, 5])
def test_each_worker_goes_on_from_its_own_state(folder, stop: int) -> None:
    """StatefulDataLoader asks each worker for its state, which was refused."""
    dataset = ShardDataset(folder, seed=3, batch_size=4, rank=1, world_size=2)
    running = iter(batches_of(dataset, collate_fn=with_state))
    used, states = list[str](), dict[int, dict]()
    for _ in range(stop):
        found, worker, states[worker] = next(running)
        used += found
    again = ShardDataset(folder, batch_size=4, rank=1, world_size=2, seed=3)

    def resume(worker: int) -> None:
        if worker in states:
            get_worker_info().dataset.load_state_dict(states[worker])

    resumed = batches_of(again, worker_init_fn=resume, persistent_workers=True)
    whole = keys(ShardStream(folder, seed=3, rank=1, world_size=2))
    assert sorted(used + given(resumed)) == sorted(whole)
    assert given(resumed) == whole  # the state was for one pass


@pytest.mark.parametrize("stop", [1, 2, 5])
def test_each_worker_goes_on_from_its_own_state_with_batches_of_like_length(folder, stop: int) -> None:
    """The first batch was an error: StatefulDataLoader asks for a state behind each, wanted or not."""

    def dataset() -> LengthBatchDataset:
        stream = ShardStream(folder, seed=3, rank=1, world_size=2)
        return LengthBatchDataset(stream, [number % 9 + 1 for number in range(COUNT)], max_padded=20)

    def loader(**how: Any) -> DataLoader:
        return DataLoader(dataset(), batch_size=None, num_workers=2, **{"collate_fn": keys} | how)

    running = iter(loader(collate_fn=with_state))
    used, states = list[list[str]](), dict[int, dict]()
    for _ in range(stop):
        found, worker, states[worker] = next(running)
        used.append(found)

    def resume(worker: int) -> None:
        if worker in states:
            get_worker_info().dataset.load_state_dict(states[worker])

    resumed = loader(worker_init_fn=resume, persistent_workers=True)
    whole = [keys(batch) for batch in dataset()]
    assert sorted(used + list(resumed)) == sorted(whole)
    assert list(resumed) == whole  # the state was for one pass
    with pytest.raises(SettingsError, match="that of a DataLoader's worker"):
        dataset().load_state_dict(states[0])


def test_the_state_of_a_worker_is_refused_elsewhere(folder) -> None:
    dataset = ShardDataset(folder, batch_size=4)
    _, _, state = next(iter(batches_of(dataset, collate_fn=with_state)))
    with pytest.raises(SettingsError, match="that of a DataLoader's worker"):
        ShardDataset(folder, batch_size=4).load_state_dict(state)

    def resume(_: int) -> None:
        get_worker_info().dataset.load_state_dict(state)

    with pytest.raises(SettingsError, match="batch_size"):
        given(batches_of(ShardDataset(folder, batch_size=2), worker_init_fn=resume))
